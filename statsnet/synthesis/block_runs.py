"""Candidates measured in several processes, without those that crash their process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statsnet.errors import ProcessError
from statsnet.synthesis.block_measurement import BlockMeasurement
from statsnet.synthesis.candidates import Candidate

Measure = Callable[[Sequence[Candidate], Callable[[int], None]], list[BlockMeasurement]]
"""Measures these candidates in one process; its second argument is told the index of each candidate as it begins."""

MOST_FAULTS = 8
"""A library may fail on a few of a mix's blocks; blocks of other sizes replace them. If more fail, something else is
wrong, and the remaining blocks would no longer represent the mix."""


def fastest_measurements(
    wanted: Sequence[Candidate], measure: Measure, processes: int = 1
) -> tuple[dict[str, BlockMeasurement], dict[str, ProcessError]]:
    """By candidate's key: its fastest measurement from so many processes, which run one after the other; and, for each
    candidate that crashed its process, how the process ended. Why the fastest: if two threads share a core for a while,
    a block takes a scheduler's time slice longer.

    Raises ProcessError if more than MOST_FAULTS crash, or if a process crashes before it measures one.
    """
    faults: dict[str, ProcessError] = {}
    runs: list[dict[str, BlockMeasurement]] = []
    while len(runs) < processes and (sound := [c for c in wanted if c.key not in faults]):
        begun: list[int] = []
        try:
            measured = measure(sound, begun.append)
        except ProcessError as error:
            if not begun:
                raise
            culprit = sound[begun[-1]]
            faults[culprit.key] = _blamed(error, culprit)
            if len(faults) > MOST_FAULTS:
                raise faults[culprit.key] from error
        else:
            runs.append({c.key: m for c, m in zip(sound, measured, strict=True)})
    sound_keys = [c.key for c in wanted if c.key not in faults]
    return {key: min((run[key] for run in runs), key=_relative_time) for key in sound_keys}, faults


def _relative_time(measurement: BlockMeasurement) -> float:
    """Beside the reference network's, because the machine may have been faster in one of the processes."""
    return measurement.operator_time_s / (measurement.reference_latency_s or 1.0)


def _blamed(error: ProcessError, culprit: Candidate) -> ProcessError:
    """The same error with the block's name."""
    return ProcessError(f"{error.message} while it measured {culprit.named}", cause=error.cause, hint=error.hint)
