"""Times of processes that took turns, kept group by group in a file: a long benchmark goes on where it was stopped."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from statsnet.environment import fingerprint, slug
from statsnet.measure.process import measuring_environment
from statsnet.measure.side_by_side import side_by_side
from statsnet.workloads.settings import BASELINE, Setting

Process = dict[str, Any]
Group = dict[str, Process]
"""Processes by their setting's name."""
Pairs = tuple[list[Process], list[Process]]


def results_file(name: str) -> Path:
    """Where a benchmark's results of this environment are kept."""
    return Path("benchmarks/results") / slug(measuring_environment()) / name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that is timed. `identity` tells it from all others, also from a proxy made anew under the same name."""

    identity: str
    label: str
    job: Callable[[Setting], dict[str, Any]]


@dataclass(slots=True)
class Timings:
    """Lines of `path`: a group each, one subject's processes that took turns, the baseline's and those of settings.
    Groups of another environment are kept and not used; nor is a line that was not finished."""

    path: Path
    here: str = field(default_factory=lambda: fingerprint(measuring_environment()))
    found: dict[str, list[Group]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                self._take(json.loads(line))
        if text and not text.endswith("\n"):
            self._append("\n")

    def _take(self, row: dict[str, Any]) -> None:
        if row["environment"] == self.here:
            self.found[row["subject"]].append(row["processes"])

    def failed(self, subject: Subject, setting: Setting) -> str | None:
        """Why the subject does not run in the setting, where it was tried."""
        return next((p["failed"] for p in self.of(subject, setting) if "failed" in p), None)

    def of(self, subject: Subject, setting: Setting) -> list[Process]:
        """The processes measured so far, in their order; of one that failed, why alone."""
        return [group[setting.name] for group in self.found[subject.identity] if setting.name in group]

    def pairs(self, subject: Subject, setting: Setting, rounds: slice = slice(None)) -> Pairs:
        """The baseline's processes and the setting's, of the groups that hold the setting."""
        groups = [group for group in self.found[subject.identity] if setting.name in group][rounds]
        return [group[BASELINE.name] for group in groups], [group[setting.name] for group in groups]

    def measure(self, subject: Subject, settings: Sequence[Setting]) -> None:
        """One more group: a process for the baseline and one for each setting. That a subject does not run in a
        setting is kept, too."""
        began = time.time()
        sweep = [BASELINE, *settings]
        jobs = [{**subject.job(setting), "may_fail": setting != BASELINE} for setting in sweep]
        outcomes = side_by_side({"jobs": jobs})["outcomes"]
        row = {
            "subject": subject.identity,
            "environment": self.here,
            "began": round(began),
            "processes": {setting.name: _kept(o) for setting, o in zip(sweep, outcomes, strict=True)},
        }
        self._append(json.dumps(row) + "\n")
        self._take(row)

    def _append(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(text)


def _kept(outcome: dict[str, Any]) -> Process:
    if "failed" in outcome:
        return {"failed": outcome["failed"]}
    kept = {key: outcome[key] for key in ("window_latency_s", "generated_share") if key in outcome}
    return {"latency_s": [median(outcome["latency_s"])], "steps": len(outcome["latency_s"]), **kept}


def run_rounds(
    timings: Timings,
    subjects: Sequence[Subject],
    settings: Sequence[Setting],
    *,
    fewest: int,
    most: int,
    uncertain: Callable[[], set[tuple[str, str]]],
    say: Callable[[str], None],
) -> None:
    """Every subject in every setting, beside the baseline, `fewest` rounds; then, up to `most`, those pairs (identity,
    setting) that `uncertain` names. What the file holds already counts. Without settings, the baseline alone."""
    for number in range(most):
        wanted = uncertain() if number >= fewest else None
        due = []
        for subject in subjects:
            chosen = [s for s in settings or [BASELINE] if len(timings.of(subject, s)) <= number]
            chosen = [s for s in chosen if wanted is None or (subject.identity, s.name) in wanted]
            if chosen:
                due.append((subject, chosen))
        begin = time.monotonic()
        for done, (subject, chosen) in enumerate(due):
            left_s = (time.monotonic() - begin) / done * (len(due) - done) if done else 0.0
            place = f"round {number + 1}, {done + 1} of {len(due)}"
            say(f"{place}: {subject.label} ({len(chosen)} settings), {left_s / 60:.0f} min left")
            timings.measure(subject, [setting for setting in chosen if setting != BASELINE])
