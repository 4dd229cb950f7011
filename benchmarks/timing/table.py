"""The table of synthesis_time.py: stages from what a command shows, rows, and how they are printed in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.console import markdown_table
from benchmarks.timing.watched_command import Watched
from statsnet.signatures.documents import FitSummary

STAGES = {
    "profiling": r"\b(profiling|re-timing)\b",
    "timing again": r"\btiming\b.*\b(once more|again)\b|\breference network\b",
    "blocks": r"\bblocks?\b",
    "solving": r"\bsolving\b",
    "whole network": r"\bwhole network\b",
    "starting": r"\bstarting\b",
}
"""Stage -> how what is shown meanwhile can be told. The first that fits counts."""

STARTING, OTHER = "starting", "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRow:
    """One `statsnet synthesize`. Stages add up to `total_s`. Memory includes pages that processes share."""

    run: str
    mix: str
    mode: str
    effort: str | None
    repeat: int
    total_s: float
    starting_s: float
    profiling_s: float
    timing_again_s: float
    blocks_s: float
    solving_s: float
    whole_network_s: float
    other_s: float
    parent_peak_bytes: int
    child_peak_bytes: int
    category_total_variation: float | None
    kernel_class_total_variation: float | None
    flops_per_s_error: float | None
    bytes_per_s_error: float | None


PARTS = ("total", STARTING, "profiling", "timing again", "blocks", "solving", "whole network", OTHER)
"""The columns of seconds, in the order of the work."""

FIGURES = {
    "category_total_variation": "categories, points",
    "kernel_class_total_variation": "kernel classes, points",
    "flops_per_s_error": "FLOP/s, %",
    "bytes_per_s_error": "bytes/s, %",
}
"""Figure of a fit's summary, and column -> its title. Each is a share."""


def stage_of(text: str) -> str:
    return next((name for name, words in STAGES.items() if re.search(words, text)), OTHER)


def stage_seconds(shown: Iterable[tuple[float, str]], took_s: float) -> dict[str, float]:
    """How long each stage took: what is shown lasts until the next text. Before the first, the program starts."""
    seconds = dict.fromkeys((*STAGES, OTHER), 0.0)
    stage, since_s = STARTING, 0.0
    for at_s, text in [*shown, (took_s, "")]:
        seconds[stage] += min(at_s, took_s) - since_s
        stage, since_s = stage_of(text), min(at_s, took_s)
    return seconds


def synthesis_row(watched: Watched, summary: FitSummary, **known: Any) -> SynthesisRow:
    """From a command and its fit's summary. `known` are the fields that say what was timed."""
    seconds = stage_seconds(watched.shown, watched.took_s)
    return SynthesisRow(
        total_s=watched.took_s,
        **{_column(name): stage_s for name, stage_s in seconds.items()},
        parent_peak_bytes=watched.parent_peak_bytes,
        child_peak_bytes=watched.child_peak_bytes,
        **{name: getattr(summary, name) for name in FIGURES},
        **known,
    )


def markdown(rows: Sequence[SynthesisRow]) -> str:
    """Each run's seconds and memory, then its fit."""
    return f"{_durations(rows)}\n\n{_fit(rows)}"


def _durations(rows: Sequence[SynthesisRow]) -> str:
    header = ["seconds", *PARTS, "parent, MB", "largest child, MB"]
    lines = []
    for name, of_run in _groups(rows).items():
        seconds = [_middle([_seconds_of(r, part) for r in of_run]) for part in PARTS]
        memory = [max(r.parent_peak_bytes for r in of_run), max(r.child_peak_bytes for r in of_run)]
        lines.append([name, *seconds, *(f"{peak / 1e6:.0f}" for peak in memory)])
    return markdown_table(header, lines)


def _fit(rows: Sequence[SynthesisRow]) -> str:
    lines = []
    for name, of_run in _groups(rows).items():
        figures = [[100 * value for r in of_run if (value := getattr(r, name)) is not None] for name in FIGURES]
        lines.append([name, *(_middle(known, ".1f") if known else "–" for known in figures)])
    return markdown_table(["fit", *FIGURES.values()], lines)


def _column(part: str) -> str:
    return f"{part.replace(' ', '_')}_s"


def _seconds_of(row: SynthesisRow, part: str) -> float:
    seconds: float = getattr(row, _column(part))
    return seconds


def _groups(rows: Sequence[SynthesisRow]) -> dict[str, list[SynthesisRow]]:
    """The repeats of a run, by its name."""
    groups: dict[str, list[SynthesisRow]] = {}
    for row in rows:
        groups.setdefault(_run_name(row), []).append(row)
    return groups


def _run_name(row: SynthesisRow) -> str:
    mode = "" if row.mode == "inference" else f", {row.mode}"
    return f"{row.run}{mode}{f', {row.effort} effort' if row.effort else ''}"


def _middle(values: Sequence[float], form: str = ".0f") -> str:
    """The median, and the range if there are several."""
    text = format(median(values), form)
    return text if len(values) == 1 else f"{text} ({min(values):{form}} to {max(values):{form}})"
