"""The table of benchmarks/unseen.py: one row per seed, mix, way and setting; and what it says of all rows together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import csv_tables
from benchmarks.console import markdown_table, percent
from benchmarks.fidelity_table import FidelityRow, factors_cell
from benchmarks.ways.comparisons import PROXY
from statsnet.signatures.coverage import COVERAGE_BAR
from statsnet.signatures.documents import Fit

MEDIAN, PERCENTILE_95, KERNEL_POINTS, COVERAGE, MIXES = 0.03, 0.10, 5.0, COVERAGE_BAR, 0.9
"""Goals: of the absolute errors; of a mix's kernel classes and coverage; and the share of mixes that reach these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenRow:
    """`members` names workloads and weights; no proxy ever saw the names. `floor_s` is the step's least length if one
    was asked for. Points are percentage points by which shares of time miss the target's, `coverage` the share of the
    target's time in kernel classes that the proxy has; None for other ways. Step times are those at the baseline, the
    suite's for one step of each member. Bounds are those of 95 % intervals. Rounds count groups of processes."""

    seed: str
    mode: str
    mix: int
    members: str
    floor_s: float | None = None
    way: str
    setting: str
    suite_factor: float
    proxy_factor: float
    error: float
    error_low: float | None = None
    error_high: float | None = None
    kernel_class_points: float | None = None
    category_points: float | None = None
    coverage: float | None = None
    suite_step_s: float | None = None
    proxy_step_s: float | None = None
    suite_rounds: int
    proxy_rounds: int
    machine: str
    date: str

    @property
    def key(self) -> tuple[object, ...]:
        """What a later measurement replaces."""
        return self.seed, self.mode, self.mix, self.floor_s, self.way, self.setting, self.machine

    @property
    def of_mix(self) -> tuple[object, ...]:
        return self.seed, self.mode, self.mix, self.floor_s, self.machine


AS_MEASURED = (
    "mode", "way", "setting", "suite_factor", "proxy_factor", "error", "error_low", "error_high", "suite_rounds",
    "proxy_rounds",
)  # fmt: skip


def unseen_row(measured: FidelityRow, fit: Fit | None, **known: Any) -> UnseenRow:
    """A row from what was measured; `fit` is the proxy's, None for other ways. `known` are the fields that say of what
    it is."""
    assert measured.suite_rounds is not None and measured.proxy_rounds is not None
    summary = fit.summary if fit else None
    return UnseenRow(
        **{name: getattr(measured, name) for name in AS_MEASURED},
        kernel_class_points=_in_points(summary.kernel_class_total_variation if summary else None),
        category_points=_in_points(summary.category_total_variation if summary else None),
        coverage=summary.proxy_coverage if summary else None,
        suite_step_s=None if measured.compression is None else measured.compression * (measured.step_latency_s or 0.0),
        proxy_step_s=measured.step_latency_s,
        **known,
    )


def _in_points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def read(path: Path) -> list[UnseenRow]:
    """The rows of a file; none if it does not exist. Raises FileFormatError if it holds another table."""
    return csv_tables.read_kept(path, UnseenRow)


def add(path: Path, rows: Iterable[UnseenRow]) -> None:
    """Append the rows to a file; a row that is measured again takes the older one's place."""
    csv_tables.write(path, UnseenRow, latest([*read(path), *rows]), one_machine=False)


def latest(rows: Iterable[UnseenRow]) -> list[UnseenRow]:
    """Of rows of the same measurement, the last."""
    return list({row.key: row for row in rows}.values())


def markdown(rows: Sequence[UnseenRow]) -> str:
    """A line per mix, with its errors; then, for each way, mode and floor, what all rows together say."""
    if not rows:
        return "There are no rows yet."
    proxies = [row for row in rows if row.way == PROXY]
    return f"{_mixes(proxies)}\n\n{_summary(rows)}"


def _mixes(rows: Sequence[UnseenRow]) -> str:
    settings = list(dict.fromkeys(row.setting for row in rows))
    header = ("seed, mix", "members", "step", "kernel classes", "categories", "coverage", *settings)
    lines = []
    for key in dict.fromkeys(row.of_mix for row in rows):
        of_mix = [row for row in rows if row.of_mix == key]
        first = of_mix[0]
        errors = {
            r.setting: factors_cell(r.suite_factor, r.proxy_factor, r.error, r.error_low, r.error_high) for r in of_mix
        }
        lines.append([
            f"{first.seed} {first.mode}, {first.mix}{_floor(first.floor_s)}",
            first.members,
            _step(first),
            _points(first.kernel_class_points),
            _points(first.category_points),
            "–" if first.coverage is None else f"{first.coverage:.1%}",
            *(errors.get(setting, "–") for setting in settings),
        ])  # fmt: skip
    return markdown_table(header, lines)


def _summary(rows: Sequence[UnseenRow]) -> str:
    header = ("", "errors", "median", "95th percentile", "worst", "mean", "positive", "kernel classes ≤ 5 points",
              "coverage ≥ 95 %")  # fmt: skip
    by_mode, by_way = defaultdict[str, list[UnseenRow]](list), defaultdict[str, list[UnseenRow]](list)
    for row in rows:
        way = f"{row.way}{_floor(row.floor_s)}"
        by_mode[f"{way}, {row.mode}"].append(row)
        by_way[f"{way}, both modes"].append(row)
    both = {title: own for title, own in by_way.items() if len({row.mode for row in own}) > 1}
    of_mixes = f"{MIXES:.0%} of the mixes"
    goals = ["goal", "", f"{MEDIAN:.0%}", f"{PERCENTILE_95:.0%}", "", "", "", of_mixes, of_mixes]
    return markdown_table(header, [*(_line(*group) for group in [*by_mode.items(), *both.items()]), goals])


def _line(title: str, rows: Sequence[UnseenRow]) -> list[str]:
    errors = np.array([row.error for row in rows])
    size = np.abs(errors)
    mixes = {row.of_mix: row for row in rows}.values()
    kernel = [row.kernel_class_points <= KERNEL_POINTS for row in mixes if row.kernel_class_points is not None]
    covered = [row.coverage >= COVERAGE for row in mixes if row.coverage is not None]
    figures = (np.median(size), np.percentile(size, 95), size.max())
    return [
        title,
        str(len(rows)),
        *(f"{100 * figure:.1f} %" for figure in figures),
        percent(float(errors.mean())),
        f"{(errors > 0).mean():.0%}",
        *(f"{sum(reached)} of {len(reached)}" if reached else "–" for reached in (kernel, covered)),
    ]


def _step(row: UnseenRow) -> str:
    if row.suite_step_s is None or row.proxy_step_s is None:
        return "–"
    return f"{1e3 * row.suite_step_s:.0f} → {1e3 * row.proxy_step_s:.1f} ms"


def _points(points: float | None) -> str:
    return "–" if points is None else f"{points:.1f}"


def _floor(floor_s: float | None) -> str:
    return "" if floor_s is None else f", floor {1e3 * floor_s:g} ms"
