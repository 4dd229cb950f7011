"""How far do times of nearly equal operators differ in the tables? No model of sizes can be much nearer to them.

    python benchmarks/diagnostics/table_scatter.py TABLES... [--device NAME ...] [--above 0.1]

For each kind of operator of the records that ship whose median error is above --above: the error of left-out rows
beside the scatter of near rows. Two rows are near if each of their sizes differs by at most an eighth. Of each row and
the nearest other one, ln(time ÷ what the work alone takes) is compared; the median difference ÷ √2 is the scatter. It
includes what near sizes explain, such as alignment and tiles, so it is an estimate and no strict bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.console import markdown_table, parser, report, start
from statsnet.devices.device_record import DeviceRecord
from statsnet.devices.operator_work import work_of
from statsnet.devices.performance_model import KindModel, kind_of, ordered
from statsnet.devices.record_folder import load_records
from statsnet.devices.tables.provenance import doubt_of
from statsnet.devices.tables.reading import read_all
from statsnet.devices.tables.row import TableRow
from statsnet.progress import Progress
from statsnet.signatures.database import default_profiles_dir

NEAR = math.log(1.125)
FEWEST_ROWS, FEWEST_PAIRS = 50, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """`share`: of a row's time, None with too few near pairs."""

    device: str
    model: KindModel
    pairs: int
    share: float | None


def scatters(records: Sequence[DeviceRecord], rows: Sequence[TableRow], above: float) -> Iterator[Scatter]:
    """Of the kinds whose median error is above `above`."""
    for record in records:
        of_kind = defaultdict(list)
        for row in rows:
            if record.device in row.time_s and not doubt_of(row, record.device):
                of_kind[row.source, kind_of(row)].append(row)
        for model in record.models:
            if model.rows >= FEWEST_ROWS and model.held_out.median_error > above:
                kind = (model.operator, model.dtype, model.direction, model.names)
                yield _scatter(record.device, model, of_kind[model.source, kind])


def _scatter(device: str, model: KindModel, rows: Sequence[TableRow]) -> Scatter:
    off = [d for alike in _by_variant(rows) for d in _differences(device, model, alike)]
    share = float(np.median(off)) / math.sqrt(2.0) if len(off) >= FEWEST_PAIRS else None
    return Scatter(device=device, model=model, pairs=len(off), share=share)


def _by_variant(rows: Sequence[TableRow]) -> Iterator[list[TableRow]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row.variant].append(row)
    yield from groups.values()


def _differences(device: str, model: KindModel, rows: Sequence[TableRow]) -> list[float]:
    """|ln(time ÷ floor)| apart, of each row and the nearest other one of other sizes, if that is near."""
    from scipy.spatial import cKDTree

    if len(rows) < 2:
        return []
    sizes = np.log([[size + 1.0 for size in ordered(row.dims, model.names) or ()] for row in rows])
    work = np.array([work_of(row.operator, row.dtype, dict(row.dims), row.variant) for row in rows])
    rest = np.log([row.time_s[device] for row in rows]) - np.log(model.floor.seconds(work[:, 0], work[:, 1]))
    distances, places = cKDTree(sizes).query(sizes, k=2, p=np.inf)
    near = (distances[:, 1] > 0) & (distances[:, 1] <= NEAR)
    return [float(d) for d in np.abs(rest - rest[places[:, 1]])[near]]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("tables", nargs="+", type=Path)
    options.add_argument("--device", action="append", default=[], metavar="NAME")
    options.add_argument("--above", type=float, default=0.1)
    given = options.parse_args()
    records = [r for r in load_records(default_profiles_dir()) if not given.device or r.device in given.device]
    report(Progress(stage="reading tables"))
    rows = read_all(given.tables, keep=lambda row: not row.source.startswith("llmservingsim")).rows
    lines = []
    for found in scatters(records, rows, given.above):
        m, share = found.model, "–" if found.share is None else f"{100 * found.share:.1f} %"
        lines.append([found.device, m.source, m.operator, m.dtype, m.direction, str(m.rows),
                      f"{100 * m.held_out.median_error:.1f} %", share, str(found.pairs)])  # fmt: skip
    header = ("device", "source", "operator", "dtype", "direction", "rows", "median error", "near rows", "pairs")
    print(markdown_table(header, lines))


if __name__ == "__main__":
    start(main)
