"""How much does an operator's factor between devices change if one of its axes is cut?

    python benchmarks/diagnostics/cut_risk.py TABLES... [--without DEVICE ...] [-o FILE]

TABLES are folders or files that `statsnet device import` reads. Operators that differ in one axis alone are compared on
all pairs of devices that measured both; the result is the mean of |ln(factor when cut ÷ factor)| by kind, axis, size
and cut. Writes the file that synthesis reads (profiles_db/devices/cut_risk.json), and prints a Markdown table.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.console import markdown_table, parser, report, start
from statsnet.devices.cut_risk import AXES, MOST_OCTAVES, POINTWISE, CutRisk, RiskEntry, save_risk
from statsnet.devices.names import measured_device
from statsnet.devices.operator_work import work_of
from statsnet.devices.tables.provenance import doubt_of
from statsnet.devices.tables.reading import read_all
from statsnet.devices.tables.row import TableRow
from statsnet.errors import UsageError
from statsnet.progress import Progress

POINTWISE_OPERATORS = frozenset(
    {"add", "mul", "div", "pow", "relu", "gelu", "tanh", "softmax", "layer_norm", "rms_norm", "silu_mul"}
)
MOST_PAIRS, FEWEST_PAIRS = 4000, 20
"""Of one kind, axis, size and cut."""


def learn(rows: Sequence[TableRow], without: Collection[str] = ()) -> CutRisk:
    """From all rows; `without` names devices whose times are not looked at."""
    found: dict[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for (source, operator), own in _by_source(rows).items():
        devices = sorted({d for r in own for d in r.time_s} - {*without})
        place = {d: i for i, d in enumerate(devices)}
        logs = np.full((len(own), len(devices)), np.nan)
        for i, row in enumerate(own):
            for device, time_s in row.time_s.items():
                if device in place and time_s > 0 and not doubt_of(row, device):
                    logs[i, place[device]] = math.log(time_s)
        for axis in AXES[operator]:
            for (decade, octaves), pairs in _pairs(own, operator, axis, seed=len(source)):
                off = _mean_difference(logs[pairs[:, 0]] - logs[pairs[:, 1]])
                found[operator, axis, decade, octaves] += off[np.isfinite(off)].tolist()
    entries = [
        RiskEntry(operator=o, axis=a, decade=d, octaves=n, risk=round(float(np.mean(off)), 4), pairs=len(off))
        for (o, a, d, n), off in sorted(found.items())
        if len(off) >= FEWEST_PAIRS
    ]
    return CutRisk(entries=tuple(entries))


def _by_source(rows: Sequence[TableRow]) -> dict[tuple[str, str], list[TableRow]]:
    found: dict[tuple[str, str], list[TableRow]] = defaultdict(list)
    for row in rows:
        operator = POINTWISE if row.operator in POINTWISE_OPERATORS else row.operator
        if operator in AXES and len(row.time_s) > 1:
            found[row.source, operator].append(row)
    return found


def _pairs(
    rows: Sequence[TableRow], operator: str, axis: str, seed: int
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """(decade, octaves) with indices (cut, whole) of rows that differ in the axis alone; shape (n, 2)."""
    names = AXES[operator][axis]
    groups: dict[tuple[object, ...], list[tuple[float, int]]] = defaultdict(list)
    work = []
    for i, row in enumerate(rows):
        dims = dict(row.dims)
        flops, nbytes = work_of(row.operator, row.dtype, dims, row.variant)
        work.append(nbytes if operator == POINTWISE else flops)
        size = math.prod(dims.values()) if operator == POINTWISE else dims[names[0]]
        if operator == POINTWISE:
            rest: tuple[object, ...] = (dims.get("columns"),)
        elif len({dims[n] for n in names}) > 1 and len(names) > 1:
            continue  # only square maps, and prompts without a prefix
        else:
            rest = tuple(size for name, size in row.dims if name not in names)
        if size > 0:
            groups[(row.operator, row.dtype, row.direction, row.variant, *rest)].append((math.log2(size), i))
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for members in groups.values():
        for (a, i), (b, j) in combinations(sorted(members), 2):
            octaves = round(b - a)
            if 1 <= octaves <= MOST_OCTAVES and abs(b - a - octaves) < 0.1 and work[j] >= 1:
                found[int(math.log10(work[j])), octaves].append((i, j))
    rng = np.random.default_rng(seed)
    for key, pairs in sorted(found.items()):
        chosen = np.array(pairs)
        yield key, chosen if len(chosen) <= MOST_PAIRS else rng.permutation(chosen)[:MOST_PAIRS]


def _mean_difference(change: np.ndarray) -> np.ndarray:
    """The mean over all pairs of devices of |difference|; shape (n, devices) to (n,), NaN where no two are known."""
    first, second = np.triu_indices(change.shape[1], 1)
    off = np.abs(change[:, first] - change[:, second])
    known = np.isfinite(off)
    return np.asarray(np.where(known, off, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan))


def table(risk: CutRisk) -> str:
    """Risks of half, an eighth and a 32nd, over all sizes."""
    lines = []
    for operator, axis in sorted({(e.operator, e.axis) for e in risk.entries}):
        cells = [operator, axis]
        for octaves in (1, 3, 5):
            own = [e for e in risk.entries if (e.operator, e.axis, e.octaves) == (operator, axis, octaves)]
            weights = [e.pairs for e in own]
            cells.append(f"{100 * np.average([e.risk for e in own], weights=weights):.0f} %" if own else "–")
        lines.append(cells)
    return markdown_table(("operator", "axis", "half", "an eighth", "a 32nd"), lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("tables", nargs="+", type=Path)
    options.add_argument("--without", action="append", default=[], metavar="DEVICE", help="not looked at")
    options.add_argument("-o", "--output", type=Path, default=Path("profiles_db/devices/cut_risk.json"))
    given = options.parse_args()
    report(Progress(stage="reading tables"))
    found = read_all(given.tables)
    rows = found.rows
    there = {device for row in rows for device in row.time_s}
    without = [measured_device(name, there) for name in given.without]
    found.check(sorted(there.difference(without)))
    risk = learn(rows, without)
    if not risk.entries:
        raise UsageError(
            "nothing can be learnt from these tables",
            cause=f"no two devices measured {FEWEST_PAIRS} pairs of operators that differ in one size",
            hint="name tables of the same operators on several devices",
        )
    save_risk(given.output, risk)
    print(table(risk))


if __name__ == "__main__":
    start(main)
