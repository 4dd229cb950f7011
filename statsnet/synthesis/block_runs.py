"""Candidates measured in several processes, without those that end theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from statsnet.errors import ProcessError
from statsnet.synthesis.candidates import Candidate

Column = dict[str, Any]
Job = Callable[[Sequence[Candidate], Callable[[int], None]], list[Column]]
"""Measures these candidates in one process; it says of each, by its place, when it begins with it."""

PROCESSES = 2

MOST_FAULTS = 8
"""A library fails with a few of a mix's blocks, which others of other sizes replace. Where more fail, the cause is
another, and what is left is another mix."""


def fastest_columns(
    wanted: Sequence[Candidate], job: Job
) -> tuple[dict[str, Column], dict[str, ProcessError]]:
    """By candidate's key: the fastest column of several processes, one after the other, for where two threads share a
    core for a while, a block takes a scheduler's slice; and of each that ended its process, as a library's fault does,
    how it ended.

    Raises ProcessError where more than MOST_FAULTS do, and where none was being measured.
    """
    faults: dict[str, ProcessError] = {}
    runs: list[dict[str, Column]] = []
    while len(runs) < PROCESSES and (sound := [c for c in wanted if c.key not in faults]):
        begun: list[int] = []
        try:
            columns = job(sound, begun.append)
        except ProcessError as error:
            if not begun:
                raise
            culprit = sound[begun[-1]]
            faults[culprit.key] = _blamed(error, culprit)
            if len(faults) > MOST_FAULTS:
                raise faults[culprit.key] from error
        else:
            runs.append({c.key: column for c, column in zip(sound, columns, strict=True)})
    sound_keys = [c.key for c in wanted if c.key not in faults]
    return {key: min((run[key] for run in runs), key=_column_s) for key in sound_keys}, faults


def _blamed(error: ProcessError, culprit: Candidate) -> ProcessError:
    """The same, with the block's name."""
    return ProcessError(
        f"{error.message} while it measured {culprit.named}", cause=error.cause, hint=error.hint
    )


def _column_s(column: Column) -> float:
    return sum(row["time_s"] for part in ("block", "optimizer") for row in column[part]["operators"])
