"""Times of single processes, kept line by line in a file: a long benchmark goes on where it was stopped."""

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
from statsnet.running.child import measuring_environment, run_job
from statsnet.running.settings import Setting

Process = dict[str, Any]


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
    """Lines of `path`: one process each. Those of another environment are kept and not used; nor is a line that was not
    finished."""

    path: Path
    here: str = field(default_factory=lambda: fingerprint(measuring_environment()))
    found: dict[tuple[str, str], list[Process]] = field(default_factory=lambda: defaultdict(list))

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
            kept = {"latency_s": [row["latency_s"]], "generated_share": row.get("generated_share")}
            self.found[row["subject"], row["setting"]].append(kept)

    def of(self, subject: Subject, setting: Setting) -> list[Process]:
        """The processes measured so far, in their order."""
        return self.found[subject.identity, setting.name]

    def measure(self, subject: Subject, setting: Setting) -> None:
        """One more process."""
        began = time.time()
        result = run_job(subject.job(setting))
        row = {
            "subject": subject.identity,
            "setting": setting.name,
            "environment": self.here,
            "began": round(began),
            "latency_s": median(result["latency_s"]),
            "steps": len(result["latency_s"]),
            "stable": result["stable"],
        }
        if "generated_share" in result:
            row["generated_share"] = result["generated_share"]
        self._append(json.dumps(row) + "\n")
        self._take(row)

    def _append(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(text)


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
    """Every subject in every setting, `fewest` rounds; then, up to `most`, those pairs (identity, setting) that
    `uncertain` names. What the file holds already counts."""
    for number in range(most):
        wanted = uncertain() if number >= fewest else None
        due = [
            (subject, setting)
            for subject in subjects
            for setting in settings
            if len(timings.of(subject, setting)) <= number
            and (wanted is None or (subject.identity, setting.name) in wanted)
        ]
        begin = time.monotonic()
        for done, (subject, setting) in enumerate(due):
            left_s = (time.monotonic() - begin) / done * (len(due) - done) if done else 0.0
            place = f"round {number + 1}, {done + 1} of {len(due)}"
            say(f"{place}: {subject.label} ({setting.name}), {left_s / 60:.0f} min left")
            timings.measure(subject, setting)
