"""A network of chosen blocks: built, measured, and learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from statsnet.errors import MeasurementError
from statsnet.measure.network_file import digest
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, build_towers, shuffled
from statsnet.signatures.target import target_of
from statsnet.synthesis.bench.disturbances import FIT_SAYS_LITTLE
from statsnet.synthesis.confirming import last_line, measured_at_pace, usual_pace
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.costs.loads import load_of_target
from statsnet.synthesis.earlier_networks import keep_sums
from statsnet.synthesis.failing_blocks import without_operators, without_untried
from statsnet.synthesis.next_network import Choice, too_short
from statsnet.synthesis.phases import with_phases
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.trials import Knowledge, Trial


def build_and_measure(problem: Problem, choice: Choice, known: Knowledge, *, processes: int) -> Knowledge:
    """Build a network of the chosen blocks and measure it in so many processes; returns what is known afterwards.

    If it does not run, blocks in other sizes may be the cause: they were never tried. It is built once more without
    them; and if that does not run, without operators by themselves. Raises StatsNetError if there are no blocks,
    MeasurementError if the network does not run.
    """
    if not choice.counts:
        raise too_short(problem.budget_s)
    setup, design, costs = problem.bench.setup, problem.design, choice.costs
    blocks = [(b, choice.counts[b.key]) for b in costs.named(choice.counts)]
    towers = _towers(blocks, costs, problem)
    title = "A network on the way to a proxy."
    source = network_source(towers, title=title, spec_id="", mode=setup.mode, dtype=setup.dtype, seed=design.seed)
    try:
        measurement = measured_at_pace(source, towers, range(processes), costs, problem, earlier=known.paces)
    except MeasurementError as error:
        what, (costs, counts) = "blocks that had never run", without_untried(choice.costs, choice.counts)
        if counts == choice.counts:
            what, (costs, counts) = "operators by themselves", without_operators(choice.costs, choice.counts)
        if counts == choice.counts or not counts or setup.deadline.passed:
            raise
        setup.note(f"a network was built once more, without {what}: {last_line(error)}")
        return build_and_measure(problem, replace(choice, counts=counts, costs=costs), known, processes=processes)
    trial = Trial(counts=choice.counts, towers=towers, source=source, measurement=measurement, solution=choice.solution)
    step = load_of_target(target_of(measurement.signature)).scale_times(trial.latency_s)
    profiled_s = measurement.signature.measurements[0].operator_time_s
    factor = sum(group.time_s for group in step.groups) / profiled_s if profiled_s else 1.0
    in_place = [tuple(tuple(p.scale_times(factor) for p in tower) for tower in run) for run in measurement.blocks]
    paces = (*known.paces, *measurement.paces)
    known = replace(known, costs=costs).at_pace(usual_pace(paces) / usual_pace(known.paces))
    costs = known.costs.learn(towers, in_place)
    costs = costs.learn_optimizers(choice.counts, (g for g in step.groups if g.phase == "optimizer"))
    if measurement.signature.measurements[0].explained_share <= FIT_SAYS_LITTLE:
        keep_sums(problem.bench, digest(source), costs.changes(towers))
    return Knowledge(costs=costs, trials=(*known.trials, trial))


def _towers(blocks: Sequence[tuple[Placed, int]], costs: BlockCosts, problem: Problem) -> list[Tower]:
    """The blocks in towers, each operator by itself in the phase that lacks its time. On a GPU, launch-bound ones are
    in towers of their own, which come first: at the beginning of a step a GPU waits for the host; behind long kernels
    the host would run ahead, and the time between small ones, which the suite pays, would vanish."""
    setup = problem.bench.setup
    first = [costs.is_launch_bound(b) for b, _ in blocks] if setup.device.startswith("cuda") else [False] * len(blocks)
    towers: list[Tower] = []
    for wanted in (True, False):
        some = [entry for entry, is_first in zip(blocks, first, strict=True) if is_first == wanted]
        towers += shuffled(build_towers(some, training=setup.mode == "training"), problem.design.order)
    return with_phases(towers, costs.groups(b for b, _ in blocks), problem.target)
