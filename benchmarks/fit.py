"""Fit: how near does a proxy come to its target where it was made, and how long does it take to make one?

    python benchmarks/fit.py [--modes inference,training] [--mixes MIX ...] [--compression 53] [--proxies DIR] [--kept]
                             [-o FILE]

Every proxy is made with an empty cache of measurements and kept in DIR. What FILE holds already is not made again. With
--kept, the proxies that fidelity.py has left in DIR are read instead. Prints a table in Markdown. Run nothing else
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core import MIXES, report, results_file, spelled_out

from statsnet.devices.make_proxy import MakeOptions, synthesize
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import measuring_environment
from statsnet.progress import Progress
from statsnet.proxy.spec import write_proxy
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.mix import mix_slug
from statsnet.signatures.storage import load_document
from statsnet.synthesis.problem import DEFAULT_COMPRESSION, ProxyRequest

Row = dict[str, Any]

LINES: dict[str, tuple[str, Callable[[Row], str]]] = {
    "operator categories, points": ("≤ 3", lambda r: f"{100 * r['category_total_variation']:.1f}"),
    "kernel classes, points": ("≤ 5", lambda r: f"{100 * r['kernel_class_total_variation']:.1f}"),
    "FLOP/s": ("± 5 %", lambda r: f"{100 * r['flops_per_s_error']:+.1f} %"),
    "bytes/s": ("± 5 %", lambda r: f"{100 * r['bytes_per_s_error']:+.1f} %"),
    "intensity, earth mover's distance, log2": (
        "≤ 0.25",
        lambda r: f"{r['intensity_earth_movers_distance_log2']:.2f}",
    ),
    "step against its budget": ("± 10 %", lambda r: f"{100 * r['step_latency_error']:+.1f} %"),
    "compression": ("≥ 50", lambda r: f"{r['compression']:.1f}"),
    "launches/s against the suite's": ("reported", lambda r: f"× {r['launches_per_s_ratio']:.1f}"),
    "framework and launch cost of the suite": (
        "matched over 5 %",
        lambda r: f"{100 * r['framework_share_target']:.1f} %",
    ),
    "and of the proxy": ("as the suite's", lambda r: f"{100 * r['framework_share_achieved']:.1f} %"),
    "synthesis from nothing, s": (
        "≤ 300",
        lambda r: f"{r['synthesis_s']:.0f}" if "synthesis_s" in r else "–",
    ),
}
"""Name of each line of the table -> the goal, and how its figure is printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES))
    parser.add_argument("--compression", type=float, default=DEFAULT_COMPRESSION)
    parser.add_argument("--kept", action="store_true", help="read the fits of proxies that are there")
    parser.add_argument("--proxies", type=Path, default=Path("build/fidelity"))
    parser.add_argument("-o", "--output", type=Path, help="benchmarks/results/<environment>/fit.json")
    options = parser.parse_args()
    output = options.output or results_file("fit.json")
    rows: list[Row] = json.loads(output.read_text())["rows"] if output.exists() else []
    for mode in options.modes.split(","):
        for mix in options.mixes:
            wanted = {"mix": mix, "mode": mode, "wanted_compression": options.compression}
            if any(wanted.items() <= row.items() for row in rows):
                continue
            report(Progress(stage=f"{mode} {mix}"))
            folder = options.proxies / f"{mix_slug(mix)}.{mode}.{options.compression:g}"
            fit = _read(folder) if options.kept else _made(mix, mode, options.compression, folder)
            rows.append({**wanted, **fit})
            output.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomically(output, {"environment": measuring_environment(), "rows": rows})
    _print(rows)


def _read(folder: Path) -> Row:
    return dict(load_document(folder / "fit.json", "statsnet.fit")["summary"])


def _made(mix: str, mode: str, compression: float, folder: Path) -> Row:
    request = ProxyRequest(mix_text=spelled_out(mix), compression=compression)
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        proxy = synthesize(request, MakeOptions(mode=mode, cache=MeasurementCache(Path(cache))))
        synthesis_s = time.perf_counter() - begin
    write_proxy(proxy, folder)
    return {"synthesis_s": synthesis_s, **asdict(proxy.fit().summary)}


def _print(rows: list[Row]) -> None:
    print("| | wanted | " + " | ".join(f"{row['mix']} {row['mode']}" for row in rows) + " |")
    print("|---|---|" + "---|" * len(rows))
    for name, (wanted, text) in LINES.items():
        print(f"| {name} | {wanted} | " + " | ".join(text(row) for row in rows) + " |")


if __name__ == "__main__":
    main()
