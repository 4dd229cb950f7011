"""The table of synthesis_time.py: stages from what a command shows, rows, and how they are printed in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.console import markdown_table
from benchmarks.timing.sides import HERE
from benchmarks.timing.watched_command import Watched
from statsnet.signatures.intervals import geometric_mean

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
    """One `statsnet synthesize`. `effort` was asked for; a commit that knows none ran without. `code`: `here`, or the
    commit that took turns with these files. Stages add up to `total_s`. Memory includes pages that processes share.
    """

    run: str
    mix: str
    mode: str
    effort: str | None
    code: str
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


def synthesis_row(watched: Watched, summary: Mapping[str, Any], **known: Any) -> SynthesisRow:
    """From a command and its fit's summary. `known` are the fields that say what was timed."""
    seconds = stage_seconds(watched.shown, watched.took_s)
    return SynthesisRow(
        total_s=watched.took_s,
        **{_column(name): stage_s for name, stage_s in seconds.items()},
        parent_peak_bytes=watched.parent_peak_bytes,
        child_peak_bytes=watched.child_peak_bytes,
        **{name: summary.get(name) for name in FIGURES},
        **known,
    )


def markdown(rows: Sequence[SynthesisRow]) -> str:
    """Each run's seconds and memory, then its fit, then, if there is another code, both side by side."""
    parts = [_durations(rows), _fit(rows)]
    if others := dict.fromkeys(r.code for r in rows if r.code != HERE):
        parts += [_against(rows, code) for code in others]
    return "\n\n".join(parts)


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


def _against(rows: Sequence[SynthesisRow], code: str) -> str:
    """The ratio is the mean over pairs of runs that took turns."""
    lines = []
    for name, (now, before) in _pairs(rows, code).items():
        for part in PARTS:
            pairs = [(_seconds_of(a, part), _seconds_of(b, part)) for a, b in zip(now, before, strict=True)]
            ratios = [a / b for a, b in pairs if a > 0 and b > 0]
            both = [_middle([pair[side] for pair in pairs]) for side in (0, 1)]
            lines.append([name, part, *both, f"{geometric_mean(ratios):.2f}" if ratios else "–"])
    return markdown_table(["", "seconds", HERE, code, "ratio"], lines)


def _column(part: str) -> str:
    return f"{part.replace(' ', '_')}_s"


def _seconds_of(row: SynthesisRow, part: str) -> float:
    seconds: float = getattr(row, _column(part))
    return seconds


def _pairs(rows: Sequence[SynthesisRow], code: str) -> dict[str, tuple[list[SynthesisRow], list[SynthesisRow]]]:
    """Run -> what was timed of it with this code and with the other, in the same repeats. Failed ones have no row."""
    timed = {(r.code, _run_name(r), r.repeat): r for r in rows}
    pairs: dict[str, tuple[list[SynthesisRow], list[SynthesisRow]]] = {}
    for (side, name, repeat), row in timed.items():
        if side == HERE and (before := timed.get((code, name, repeat))) is not None:
            now_and_before = pairs.setdefault(name, ([], []))
            now_and_before[0].append(row)
            now_and_before[1].append(before)
    return pairs


def _groups(rows: Sequence[SynthesisRow]) -> dict[str, list[SynthesisRow]]:
    """The repeats of a run, by its name."""
    groups: dict[str, list[SynthesisRow]] = {}
    for row in rows:
        name = _run_name(row) if row.code == HERE else f"{_run_name(row)}, {row.code}"
        groups.setdefault(name, []).append(row)
    return groups


def _run_name(row: SynthesisRow) -> str:
    mode = "" if row.mode == "inference" else f", {row.mode}"
    return f"{row.run}{mode}{f', {row.effort} effort' if row.effort else ''}"


def _middle(values: Sequence[float], form: str = ".0f") -> str:
    """The median, and the range if there are several."""
    text = format(median(values), form)
    return text if len(values) == 1 else f"{text} ({min(values):{form}} to {max(values):{form}})"
