"""Candidates measured in several processes, without those that crash their process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure import process
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.engine import Pool
from statsnet.measure.errand import Errand, RunJob
from statsnet.measure.task import decode_error, encode_error
from statsnet.progress import Report, silent
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.tasks import MeasureBlocks
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.units import plural

Measure = Callable[[Sequence[Candidate], Callable[[int], None]], list[BlockMeasurement]]
"""Measures these candidates in one process; its second argument is told the index of each candidate as it begins."""

BLOCK_LIMIT_S, BLOCK_RUNS = 600.0, 200
"""A block hangs if its process says nothing for so long, and so many runs of all its blocks, which take turns."""

PARTS = 2
"""Each place of a pool measures so many parts of the blocks: the last to end is waited for by the others."""

MOST_FAULTS = 8
"""A library may end the process on a few of a mix's blocks, or hang; blocks of other sizes replace them. If more do,
something else is wrong, and the remaining blocks would no longer represent the mix. A block that raises an exception
does not count: it takes no other measurement with it."""


def fastest_measurements(
    wanted: Sequence[Candidate], measure: Measure, processes: int = 1
) -> tuple[dict[str, BlockMeasurement], dict[str, MeasurementError]]:
    """By candidate's key: its fastest measurement from so many processes, which run one after the other; and, for each
    candidate that ended its process, took all memory or hung, how the process ended. With an operator by itself that
    does so, its other sizes are left out unmeasured. Why the fastest: if two threads share a core for a while, a block
    takes a scheduler's time slice longer.

    Raises MeasurementError if more than MOST_FAULTS fail so, or if a process fails before it measures one.
    """
    faults: dict[str, MeasurementError] = {}
    left_out: set[str] = set()
    runs: list[dict[str, BlockMeasurement]] = []
    while len(runs) < processes and (sound := [c for c in wanted if c.key not in left_out]):
        begun: list[int] = []
        try:
            measured = measure(sound, begun.append)
        except MeasurementError as error:
            if not begun:
                raise
            culprit = sound[begun[-1]]
            faults[culprit.key] = _blamed(error, culprit)
            left_out |= {c.key for c in sound if c is culprit or _same_operator(c, culprit)}
            if len(faults) > MOST_FAULTS:
                raise faults[culprit.key] from error
        else:
            runs.append({c.key: m for c, m in zip(sound, measured, strict=True)})
    sound_keys = [c.key for c in wanted if c.key not in left_out]
    return {key: min((run[key] for run in runs), key=_relative_time) for key in sound_keys}, faults


def silence_s(some: Sequence[Candidate]) -> float:
    """How long a process may say nothing while it measures these."""
    return BLOCK_LIMIT_S + BLOCK_RUNS * math.fsum(c.time_s for c in some)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksFound:
    """What `fastest_measurements` gives, as data."""

    measured: dict[str, BlockMeasurement]
    faults: dict[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class FastestMeasurements(Errand[BlocksFound]):
    """`fastest_measurements` on one machine. `job` is the task without its blocks."""

    wanted: tuple[Candidate, ...]
    job: RunJob
    processes: int

    def run(self, report: Report = silent) -> BlocksFound:
        with self.job.here() as job:

            def measure(some: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
                task = replace(job.task, blocks=tuple(c.placed for c in some))  # type: ignore[type-var]
                control = replace(job.control, silent_s=silence_s(some))
                measured: list[BlockMeasurement] = process.run(task, control, report=report, begun=begun)
                return measured

            measured, faults = fastest_measurements(self.wanted, measure, self.processes)
        return BlocksFound(measured=measured, faults={key: encode_error(error) for key, error in faults.items()})


def measure_on_pool(
    pool: Pool,
    wanted: Sequence[Candidate],
    task: MeasureBlocks,
    processes: int,
    keep: Callable[[dict[str, BlockMeasurement]], None],
    *,
    report: Report,
) -> dict[str, StatsNetError]:
    """`fastest_measurements` of parts of the candidates, on the places of a pool. `keep` is given each part's as soon
    as it is there. Returns the faults: a part that could not be measured at all has one. Raises the last one if there
    are more than MOST_FAULTS."""
    number = min(len(wanted), PARTS * len(pool.places))
    parts = [tuple(wanted[first::number]) for first in range(number)]  # the longest are at the beginning
    job = RunJob.of(Job(replace(task, blocks=()), Control(timeout_s=JOB_LIMIT_S)))
    errands = [
        (f"blocks, part {place} of {number}", FastestMeasurements(wanted=part, job=job, processes=processes))
        for place, part in enumerate(parts, 1)
    ]
    faults: dict[str, StatsNetError] = {}
    with closing(pool.run(errands, report=report)) as ended:
        for done in ended:
            if done.result is not None:
                keep(done.result.measured)
                faults |= {key: decode_error(error) for key, error in done.result.faults.items()}
            elif done.error is not None:
                part, error = parts[done.index], done.error
                text = f"{plural(len(part), 'block')} could not be measured: {error.message}"
                faults[part[0].key] = type(error)(text, cause=error.cause, hint=error.hint)
            if len(faults) > MOST_FAULTS:
                raise [*faults.values()][-1]
    return faults


def _same_operator(candidate: Candidate, other: Candidate) -> bool:
    """Whether both are the same operator by itself. Other kinds run different libraries' code at different sizes."""
    names = [c.config.get("operator") for c in (candidate, other)]
    return candidate.kind == other.kind and names[0] is not None and names[0] == names[1]


def _relative_time(measurement: BlockMeasurement) -> tuple[bool, float]:
    """Beside the reference network's, because the machine may have been faster in one of the processes. A process in
    which the block did not run comes last."""
    return measurement.refused is not None, measurement.operator_time_s / (measurement.reference_latency_s or 1.0)


def _blamed(error: MeasurementError, culprit: Candidate) -> MeasurementError:
    """The same error with the block's name."""
    return type(error)(f"{error.message} while it measured {culprit.named}", cause=error.cause, hint=error.hint)
