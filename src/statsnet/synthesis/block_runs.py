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


def fastest_columns(wanted: Sequence[Candidate], job: Job) -> tuple[dict[str, Column], dict[str, str]]:
    """By candidate's key: the fastest column of several processes, one after the other, for where two threads share a
    core for a while, a block takes a scheduler's slice; and of each that ended its process, as a library's fault does,
    how it ended.

    Raises ProcessError where more than MOST_FAULTS do, where all do, and where none was being measured.
    """
    faults: dict[str, str] = {}
    runs: list[dict[str, Column]] = []
    while len(runs) < PROCESSES:
        sound = [c for c in wanted if c.key not in faults]
        begun: list[int] = []
        try:
            columns = job(sound, begun.append)
        except ProcessError as error:
            if not begun:
                raise
            culprit = sound[begun[-1]]
            faults[culprit.key] = error.message
            if len(faults) > MOST_FAULTS or len(sound) == 1:
                raise _blamed(error, culprit, len(faults)) from error
        else:
            runs.append({c.key: column for c, column in zip(sound, columns, strict=True)})
    fastest = {key: min((run[key] for run in runs), key=_column_s) for key in runs[-1]}
    return fastest, faults


def _blamed(error: ProcessError, culprit: Candidate, count: int) -> ProcessError:
    return ProcessError(
        f"{error.message}, the last of {count} that were ended so",
        cause=f"it was measuring the block {culprit.named}\n{error.cause}",
        hint=error.hint,
    )


def _column_s(column: Column) -> float:
    return sum(row["time_s"] for part in ("block", "optimizer") for row in column[part]["operators"])
