"""Subjects measured under settings, in rounds, until every factor is known. Groups are logged to a file, so that a long
measurement can be resumed."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from statsnet.environment import fingerprint
from statsnet.errors import FileFormatError, MeasurementError, StatsNetError
from statsnet.measure.control import Failure, Job
from statsnet.measure.engine import Pool
from statsnet.measure.errand import RunJobs
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds import measuring_failed, remaining_s
from statsnet.measure.side_by_side import side_by_side
from statsnet.measure.task import to_json
from statsnet.measure.timing_tasks import StepOutcome
from statsnet.progress import Progress, Report, silent
from statsnet.signatures.canonical import cannot_write
from statsnet.signatures.gzipped import check_ends
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import BASELINE, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that is timed. `identity` tells it from all others, even from a new proxy with the same name. `job`
    gives the job that times it under a setting."""

    identity: str
    label: str
    job: Callable[[Setting], Job[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What is kept of one process: its times and environment, or why it failed."""

    timing: Timing | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    failed: str | None = None

    def __post_init__(self) -> None:
        if self.timing is None and self.failed is None:
            raise ValueError("a process has neither times nor a failure")


Group = Mapping[str, Logged]
"""Processes that took turns, by their setting's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    subject: str
    environment: str
    began: int
    processes: dict[str, Logged]


@dataclass(slots=True)
class RoundsLog:
    """Groups by subject. With a `path`, each group is a line in that file. Groups from another environment than `here`
    (this machine's CPU) stay in the file but are not used, nor are lines that are unfinished or have another form.

    Raises FileFormatError for a file that cannot be read or holds something else.
    """

    path: Path | None = None
    here: str = field(default_factory=lambda: fingerprint(measuring_environment()))
    groups: dict[str, list[Group]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = _text(self.path) if self.path.exists() else ""
        lines = []
        for line in text.splitlines():
            with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                lines.append(msgspec.json.decode(line, type=_Line))
        if "\n" in text and not lines:
            raise _no_log(self.path, "none of its lines is a round")
        for known in lines:
            self._take(known)
        if text and not text.endswith("\n"):
            self._append("\n")

    def failed(self, subject: Subject, setting: Setting) -> str | None:
        """Why the subject does not run in the setting; None if it does, or was not tried."""
        return next((p.failed for p in self._processes(subject, setting) if p.failed is not None), None)

    def of(self, subject: Subject, setting: Setting) -> list[Timing]:
        """The times measured so far, in their order."""
        return [p.timing for p in self._processes(subject, setting) if p.timing is not None]

    def tried(self, subject: Subject, setting: Setting) -> int:
        """How many processes have run, or failed."""
        return len(self._processes(subject, setting))

    def environments(self, subject: Subject, setting: Setting) -> list[Mapping[str, Any]]:
        """Where the times were measured."""
        return [p.environment for p in self._processes(subject, setting) if p.timing is not None]

    def pairs(
        self, subject: Subject, setting: Setting, rounds: slice = slice(None)
    ) -> tuple[list[Timing], list[Timing]]:
        """The times at the baseline and under the setting, from the groups that hold both."""
        groups = [g for g in self.groups[subject.identity] if setting.name in g][rounds]
        pairs = [(g[BASELINE.name].timing, g[setting.name].timing) for g in groups]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        return [a for a, _ in known], [b for _, b in known]

    def measure(self, subject: Subject, settings: Sequence[Setting]) -> None:
        """One more group: a process for the baseline and one for each setting. If a subject does not run in a setting,
        that is logged too."""
        began = round(time.time())
        self._keep(subject, settings, map(_logged, side_by_side(_jobs(subject, settings))), began)

    def measure_on(self, pool: Pool, groups: Sequence[tuple[Subject, Sequence[Setting]]], report: Report) -> None:
        """One more group of each of these subjects, on the places of a pool. If one fails, the others are logged
        before its error is raised."""
        began, failed = round(time.time()), list[MeasurementError]()
        errands = [(subject.label, TimeGroup.of(_jobs(subject, settings))) for subject, settings in groups]
        with closing(pool.run(errands, report=report)) as ended:
            for done in ended:
                subject, settings = groups[done.index]
                if done.result is not None:
                    self._keep(subject, settings, done.result, began)
                elif done.error is not None:
                    failed.append(measuring_failed(subject.label, done.error))
        if len(failed) > 1:
            also = [f"also: {error.message}" for error in failed[1:]]
            cause = "\n".join([failed[0].cause or "", *also])
            raise MeasurementError(failed[0].message, cause=cause, hint=failed[0].hint)
        if failed:
            raise failed[0]

    def _keep(self, subject: Subject, settings: Sequence[Setting], logged: Iterable[Logged], began: int) -> None:
        sweep = [BASELINE, *settings]
        self.keep(subject.identity, {s.name: each for s, each in zip(sweep, logged, strict=True)}, began)

    def keep(self, identity: str, processes: dict[str, Logged], began: int) -> None:
        """Add a group that was measured, by the names of settings or of whatever else tells its processes apart."""
        line = _Line(subject=identity, environment=self.here, began=began, processes=processes)
        if self.path is not None:
            self._append(to_json(line) + "\n")
        self._take(line)

    def _processes(self, subject: Subject, setting: Setting) -> list[Logged]:
        return [g[setting.name] for g in self.groups[subject.identity] if setting.name in g]

    def _take(self, line: _Line) -> None:
        if line.environment == self.here:
            self.groups[line.subject].append(line.processes)

    def _append(self, text: str) -> None:
        assert self.path is not None
        try:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(text)
        except OSError as error:
            raise cannot_write(self.path, error) from error


def _text(path: Path) -> str:
    try:
        check_ends(path)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _no_log(path, str(error)) from error


def _no_log(path: Path, cause: str) -> FileFormatError:
    return FileFormatError(
        f"'{path}' is no log of rounds", cause=cause, hint="name another file: it is made if there is none"
    )


@dataclass(frozen=True, kw_only=True)
class TimeGroup(RunJobs[tuple[Logged, ...]]):
    """Processes that take turns, on one machine."""

    def run(self, report: Report = silent) -> tuple[Logged, ...]:
        with self.here() as jobs:
            return tuple(map(_logged, side_by_side(jobs)))

    def environments(self, result: tuple[Logged, ...]) -> Sequence[Mapping[str, Any]]:
        return [each.environment for each in result if each.timing is not None]


def _jobs(subject: Subject, settings: Sequence[Setting]) -> list[Job[Any]]:
    """Only the one for the baseline may not fail."""
    jobs = [(subject.job(setting), setting != BASELINE) for setting in (BASELINE, *settings)]
    return [replace(job, control=replace(job.control, may_fail=may_fail)) for job, may_fail in jobs]


def _logged(outcome: StepOutcome | Failure) -> Logged:
    if isinstance(outcome, Failure):
        return Logged(failed=outcome.why)
    return Logged(timing=outcome.timing, environment=outcome.environment)


def _in_round(report: Report, number: int, rounds: int, progress: Progress) -> None:
    """Report the progress of one of several rounds."""
    report(replace(progress, done=(number + progress.done) / rounds))


def measure_until_known(
    log: RoundsLog,
    subjects: Sequence[Subject],
    settings: Sequence[Setting],
    *,
    fewest: int,
    most: int,
    uncertain: Callable[[], set[tuple[str, str]]],
    skip: Callable[[Setting], bool] = lambda _: False,
    pool: Pool | None = None,
    report: Report = silent,
) -> None:
    """Measure every subject in every setting, beside the baseline, for `fewest` rounds. Then, up to `most` rounds,
    measure those pairs (identity, setting's name) that `uncertain` gives. What is in the log already counts. Without
    settings, only the baseline is measured. As soon as `skip` is true for a setting, it is left out. With a `pool`, its
    places measure the subjects of a round at once.

    Raises MeasurementError if a subject fails at the baseline.
    """
    spent_s: dict[str, list[float]] = {s.identity: [] for s in subjects}
    for number in range(most):
        wanted = uncertain() if number >= fewest else None
        due = [s for s in subjects if _due(log, s, settings, number, wanted)]
        rounds = max(fewest, number + 1)
        if pool is not None:
            under = [[e for e in _due(log, s, settings, number, wanted) if not skip(e)] for s in due]
            groups = [(s, _changed(chosen)) for s, chosen in zip(due, under, strict=True) if chosen]
            log.measure_on(pool, groups, partial(_in_round, report, number, rounds))
            continue
        for place, subject in enumerate(due):
            chosen = [s for s in _due(log, subject, settings, number, wanted) if not skip(s)]
            if not chosen:
                continue
            done = (number + place / len(due)) / rounds
            runs_left = [rounds - number - (index < place) for index in range(len(due))]
            left_s = remaining_s([spent_s[s.identity] for s in due], runs_left)
            stage = f"{subject.label}, round {number + 1} of {rounds}"
            report(Progress(stage=stage, done=done, remaining_s=left_s))
            begin = time.monotonic()
            try:
                log.measure(subject, _changed(chosen))
            except StatsNetError as error:
                raise measuring_failed(subject.label, error) from error
            spent_s[subject.identity].append(time.monotonic() - begin)


def _changed(settings: Sequence[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting != BASELINE]


def _due(
    log: RoundsLog,
    subject: Subject,
    settings: Sequence[Setting],
    number: int,
    wanted: set[tuple[str, str]] | None,
) -> list[Setting]:
    """The settings in which the subject is to run in round `number`."""
    chosen = [s for s in settings or [BASELINE] if log.tried(subject, s) <= number]
    return [s for s in chosen if wanted is None or (subject.identity, s.name) in wanted]
