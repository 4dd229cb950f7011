"""Candidates measured in several processes, without those that crash their process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statsnet.errors import MeasurementError
from statsnet.synthesis.block_measurement import BlockMeasurement
from statsnet.synthesis.candidates import Candidate

Measure = Callable[[Sequence[Candidate], Callable[[int], None]], list[BlockMeasurement]]
"""Measures these candidates in one process; its second argument is told the index of each candidate as it begins."""

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
