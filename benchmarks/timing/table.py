"""The table of synthesis_time.py: rows from the stages that a command tells of, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.console import markdown_table
from statsnet.synthesis.expected_time import BLOCKS, CONFIRMING, NETWORKS, PROFILING, SOLVING, TIMING

COLUMN_OF = {
    PROFILING: "profiling_s", TIMING: "timing_again_s", BLOCKS: "blocks_s", SOLVING: "solving_s",
    NETWORKS: "whole_network_s", CONFIRMING: "whole_network_s",
}  # fmt: skip
"""A stage of `statsnet synthesize` -> the column that it adds to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRow:
    """One `statsnet synthesize`. Stages add up to `total_s`: `starting_s` is what Python and its imports took before
    the command itself began. `peak_bytes` is of the largest process, pages that it shares included."""

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
    peak_bytes: int
    category_total_variation: float | None
    kernel_class_total_variation: float | None
    flops_per_s_error: float | None
    bytes_per_s_error: float | None


PARTS = ("total", "starting", "profiling", "timing again", "blocks", "solving", "whole network", "other")
"""The columns of seconds, in the order of the work."""

FIGURES = {
    "category_total_variation": "categories, points",
    "kernel_class_total_variation": "kernel classes, points",
    "flops_per_s_error": "FLOP/s, %",
    "bytes_per_s_error": "bytes/s, %",
}
"""Figure of a fit's summary, and column -> its title. Each is a share."""


def synthesis_row(took_s: float, told: Mapping[str, Any], **known: Any) -> SynthesisRow:
    """From how long a command took, and from what it told with --json. `known` are the other fields."""
    seconds = dict.fromkeys(COLUMN_OF.values(), 0.0)
    for stage, stage_s in told["stages_s"].items():
        seconds[COLUMN_OF[stage]] += stage_s
    return SynthesisRow(
        total_s=took_s,
        starting_s=took_s - told["total_s"],
        other_s=told["total_s"] - sum(seconds.values()),
        **seconds,
        **{name: told["fit"]["summary"].get(name) for name in FIGURES},
        **known,
    )


def markdown(rows: Sequence[SynthesisRow]) -> str:
    """Each run's seconds and memory, then its fit."""
    groups: dict[str, list[SynthesisRow]] = {}
    for row in rows:
        groups.setdefault(_run_name(row), []).append(row)
    times, fits = [], []
    for name, of_run in groups.items():
        seconds = [_middle([getattr(r, f"{part.replace(' ', '_')}_s") for r in of_run]) for part in PARTS]
        times.append([name, *seconds, f"{max(r.peak_bytes for r in of_run) / 1e6:.0f}"])
        figures = [[100 * value for r in of_run if (value := getattr(r, name)) is not None] for name in FIGURES]
        fits.append([name, *(_middle(known, ".1f") if known else "–" for known in figures)])
    durations = markdown_table(["seconds", *PARTS, "largest process, MB"], times)
    return f"{durations}\n\n{markdown_table(['fit', *FIGURES.values()], fits)}"


def _run_name(row: SynthesisRow) -> str:
    mode = "" if row.mode == "inference" else f", {row.mode}"
    return f"{row.run}{mode}{f', {row.effort} effort' if row.effort else ''}"


def _middle(values: Sequence[float], form: str = ".0f") -> str:
    """The median, and the range if there are several."""
    text = format(median(values), form)
    return text if len(values) == 1 else f"{text} ({min(values):{form}} to {max(values):{form}})"
