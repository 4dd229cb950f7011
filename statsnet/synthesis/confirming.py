"""A network measured at its blocks' pace; and the finished one measured once more, in processes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.proxy.towers import Tower
from statsnet.synthesis.bench.disturbances import FIT_SAYS_LITTLE
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement, without_slowed
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.effort import Effort
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.trials import Knowledge, Trial

CONFIRMED = 0.05
"""A step's time may differ from that in its round by this share."""

SLOWED = 0.02
"""So much of the operators' time may be what some took much longer than in their round (see `without_slowed`):
categories may miss their target by 3 points in all."""


def confirmed(best: Trial, problem: Problem, known: Knowledge, effort: Effort, process_s: float) -> NetworkMeasurement:
    """The finished proxy, measured in processes that had no part in its choice: the best of several measured networks
    is also the luckiest. In more of them if its step or some operators took another time than in its round, for
    instance because a neighbour was busy; in none if there is no time left. Operators that took much longer in all of
    them keep the times of the round."""
    setup = problem.bench.setup
    measurement = _confirmed(best, problem, known, effort, process_s)
    times = measurement.signature.measurements[0].explained_share
    if not problem.speed.is_steady and times > FIT_SAYS_LITTLE:
        setup.note(
            f"operators of the finished network and the time between them take {times:.1f} times as long as its step: "
            "the machine did other work meanwhile, so the fit says little. Make the proxy anew while nothing else runs"
        )
    return measurement


def _confirmed(best: Trial, problem: Problem, known: Knowledge, effort: Effort, process_s: float) -> NetworkMeasurement:
    setup, measurement, made = problem.bench.setup, best.measurement, 0
    in_round = measurement
    for processes in effort.confirming:
        if not setup.deadline.leaves((processes - made) * process_s):
            if not made:
                setup.note("the time was over: the fit is that of the processes that chose the network")
            break
        runs = range(effort.round_processes, effort.round_processes + processes)
        try:
            measurement = measured_at_pace(best.source, best.towers, runs, known.costs, problem, earlier=known.paces)
            made = processes
        except MeasurementError as error:
            of_which = "first new processes" if made else "processes that chose it"
            setup.note(f"the fit is that of the {of_which}, for later ones failed: {last_line(error)}")
            break
        in_round = _at_usual_pace(best.measurement, known.paces, measurement.paces)
        is_as_long = abs(measurement.latency_s / in_round.latency_s - 1.0) < CONFIRMED
        if is_as_long and without_slowed(measurement, in_round).slowed_share < SLOWED:
            break
    kept = without_slowed(measurement, in_round)
    if kept.slowed_share < SLOWED:
        return measurement
    setup.note(
        f"operators took longer than in the network's round, by {kept.slowed_share:.0%} of their time: the fit has "
        "their times from that round. The cause is not known"
    )
    return kept


def measured_at_pace(
    source: str, towers: Sequence[Tower], runs: range, costs: BlockCosts, problem: Problem, *, earlier: Sequence[float]
) -> NetworkMeasurement:
    """A network at the usual pace of its blocks, of its own processes and `earlier` ones. In a single process the
    reference network tells the machine's speed only roughly: a neighbour slows it down more than other networks, or
    less. We take it to be right in all together, as for the members: blocks that run faster in a network than alone,
    where nothing of theirs was in the caches, do so in every process. A single process cannot tell the two apart, so a
    pace of 1 counts as one more."""
    measurement = problem.bench.measure_network(source, runs, problem.speed)
    if problem.speed.is_steady:
        return measurement
    paces = tuple(costs.pace(towers, run) for run in measurement.blocks)
    usual = usual_pace((*earlier, *paces))
    return replace(measurement.at_pace([pace / usual for pace in paces]), paces=paces)


def _at_usual_pace(
    measurement: NetworkMeasurement, before: Sequence[float], later: Sequence[float]
) -> NetworkMeasurement:
    """A round's measurement as it would be with what later processes tell of the usual pace."""
    pace = usual_pace((*before, *later)) / usual_pace(before)
    return measurement.at_pace([1 / pace] * len(measurement.blocks))


def usual_pace(paces: Sequence[float]) -> float:
    """Of networks' blocks, from the paces of single processes. It becomes more certain with each."""
    return median((1.0, *paces))


def last_line(error: StatsNetError) -> str:
    """The last line of a process's output names the exception."""
    return (error.cause or error.message).splitlines()[-1]
