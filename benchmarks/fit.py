"""How near does a proxy come to its target where it was made, and how long does it take to make one?

    python benchmarks/fit.py [--modes inference,training] [--mixes MIX ...] [--compression N] [--proxies DIR] [-o FILE]
    python benchmarks/fit.py --kept FILE ...

A proxy that is not in --proxies yet is made there, with an empty cache of measurements, and timed. Of one that is there
already, for instance from fidelity.py, the fit is read. Rows that the output holds already stay. Run nothing else
meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, report, start
from benchmarks.suites import (
    MIXES,
    USUAL,
    compression_of,
    compression_text,
    mix_name,
    mix_text,
    spelled_out,
    step_named,
)
from statsnet.devices.make_proxy import MakeOptions, synthesize
from statsnet.measure.cache import MeasurementCache
from statsnet.progress import Progress
from statsnet.proxy.spec import write_proxy
from statsnet.signatures.documents import FitSummary
from statsnet.signatures.mix_request import mix_slug
from statsnet.signatures.storage import load_fit
from statsnet.synthesis.problem import ProxyRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """Of one proxy: what was asked for, and some of its fit's summary. `wanted_compression` is None for
    the usual step, `synthesis_s` if it was not timed."""

    mix: str
    mode: str
    wanted_compression: float | None
    compression: float
    category_total_variation: float
    kernel_class_total_variation: float
    intensity_earth_movers_distance_log2: float | None
    flops_per_s_error: float
    bytes_per_s_error: float
    step_latency_s: float
    step_latency_error: float
    framework_share_target: float
    framework_share_achieved: float
    launches_per_s_ratio: float | None
    synthesis_s: float | None


COLUMNS: dict[str, tuple[str, Callable[[FitRow], str]]] = {
    "categories, points": ("≤ 3", lambda r: f"{100 * r.category_total_variation:.1f}"),
    "kernel classes, points": ("≤ 5", lambda r: f"{100 * r.kernel_class_total_variation:.1f}"),
    "intensity, log2": ("≤ 0.25", lambda r: _known(r.intensity_earth_movers_distance_log2, "{:.2f}")),
    "FLOP/s": ("± 5 %", lambda r: f"{100 * r.flops_per_s_error:+.1f} %"),
    "bytes/s": ("± 5 %", lambda r: f"{100 * r.bytes_per_s_error:+.1f} %"),
    "step": ("± 10 %", lambda r: f"{100 * r.step_latency_error:+.1f} %"),
    "framework (suite)": (
        "as the suite's",
        lambda r: f"{100 * r.framework_share_achieved:.1f} % ({100 * r.framework_share_target:.1f})",
    ),
    "launches/s": ("reported", lambda r: _known(r.launches_per_s_ratio, "× {:.1f}")),
    "compression": ("as wanted", lambda r: f"{r.compression:.0f}"),
    "made in": ("≤ 300 s", lambda r: _known(r.synthesis_s, "{:.0f} s")),
}
"""Title of each column -> the goal, and how its figure is printed. Intensity is an earth mover's distance."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, make nothing")
    options.add_argument("--modes", default="inference,training")
    options.add_argument("--mixes", nargs="+", type=mix_text, default=list(MIXES.values()), metavar="MIX")
    options.add_argument("--compression", type=compression_of, metavar="N", help=f"default: {USUAL}")
    options.add_argument("--proxies", type=Path, default=Path("build/fidelity"))
    options.add_argument("-o", "--output", type=Path, default=Path("build/fidelity/fit.csv"))
    chosen = options.parse_args()
    if chosen.kept:
        print(markdown([row for path in chosen.kept for row in csv_tables.read(path, FitRow)]))
        return
    rows = csv_tables.read(chosen.output, FitRow) if chosen.output.exists() else []
    for mode in chosen.modes.split(","):
        for mix in chosen.mixes:
            if (mix, mode, chosen.compression) in {(r.mix, r.mode, r.wanted_compression) for r in rows}:
                continue
            report(Progress(stage=f"{mode} {mix}"))
            folder = chosen.proxies / f"{mix_slug(mix)}.{mode}.{compression_text(chosen.compression)}"
            synthesis_s = None if (folder / "fit.json").exists() else _make(mix, mode, chosen.compression, folder)
            summary = load_fit(folder / "fit.json").summary
            rows.append(row_of(mix, mode, chosen.compression, summary, synthesis_s))
            csv_tables.write(chosen.output, FitRow, rows)
    print(markdown(rows))


def row_of(
    mix: str, mode: str, wanted_compression: float | None, summary: FitSummary, synthesis_s: float | None = None
) -> FitRow:
    named = {f.name for f in fields(FitRow)} & {f.name for f in fields(FitSummary)}
    figures = {name: getattr(summary, name) for name in named}
    return FitRow(mix=mix, mode=mode, wanted_compression=wanted_compression, synthesis_s=synthesis_s, **figures)


def _make(mix: str, mode: str, compression: float | None, folder: Path) -> float:
    """Write the proxy. How long it took to make, in seconds."""
    request = ProxyRequest(mix_text=spelled_out(mix), compression=compression)
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        proxy = synthesize(request, MakeOptions(mode=mode, cache=MeasurementCache(Path(cache))))
        synthesis_s = time.perf_counter() - begin
    write_proxy(proxy, folder)
    return synthesis_s


def markdown(rows: Sequence[FitRow]) -> str:
    lines = []
    for row in rows:
        name = f"{mix_name(row.mix)}, {row.mode}{step_named(row.wanted_compression)}"
        lines.append([name, *(text(row) for _, text in COLUMNS.values())])
    lines.append(["goal", *(goal for goal, _ in COLUMNS.values())])
    return markdown_table(["", *COLUMNS], lines)


def _known(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


if __name__ == "__main__":
    start(main)
