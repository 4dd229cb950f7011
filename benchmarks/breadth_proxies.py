"""Do proxies come near to whatever a library holds?

    python benchmarks/breadth_proxies.py FILE --signatures FOLDER [--sample N --seed S]
    python benchmarks/breadth_proxies.py --kept FILE

Draws signatures at random from a folder that breadth.py kept, and makes a quick proxy of each (`--effort quick`). FILE,
a CSV table, gets a line for each: the distances of its fit, or why there is no proxy. What FILE holds is not made
again. --kept prints a summary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from benchmarks import csv_tables
from benchmarks.console import parser, start
from statsnet.devices.make_proxy import MakeOptions, synthesize
from statsnet.errors import StatsNetError
from statsnet.signatures.documents import FitSummary
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.problem import ProxyRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRow:
    """One proxy: a case of breadth.py ("family.name.mode"), and some of its fit's summary; or the reason that there is
    none."""

    case: str
    category_total_variation: float | None = None
    kernel_class_total_variation: float | None = None
    candidate_coverage: float | None = None
    proxy_coverage: float | None = None
    step_latency_s: float | None = None
    step_latency_error: float | None = None
    reason: str | None = None
    time_s: float = 0.0


FIGURES = (
    "category_total_variation", "kernel_class_total_variation", "candidate_coverage", "proxy_coverage",
    "step_latency_s", "step_latency_error",
)  # fmt: skip
"""Of a fit's summary."""


def made(path: Path) -> ProxyRow:
    """Make a proxy of a signature's file, whose name ends with its mode."""
    begin = time.monotonic()
    figures, reason = {}, None
    options = MakeOptions(mode=path.stem.rpartition(".")[2], effort=QUICK)
    try:
        figures = figures_of(synthesize(ProxyRequest(mix_text=f"{path}:1"), options).fit().summary)
    except StatsNetError as error:
        reason = " | ".join(str(error).splitlines())[:400]
    return ProxyRow(case=path.stem, reason=reason, time_s=round(time.monotonic() - begin, 1), **figures)


def figures_of(summary: FitSummary) -> dict[str, float | None]:
    return {name: getattr(summary, name) for name in FIGURES}


def summary(rows: Sequence[ProxyRow]) -> list[str]:
    """How many proxies there are and their medians, then every case without one."""
    proxies = [row for row in rows if row.reason is None]
    lines = [f"{len(proxies)} of {len(rows)} signatures became proxies"]
    for name in FIGURES:
        known = [value for row in proxies if (value := getattr(row, name)) is not None]
        if known:
            lines.append(f"{name}: median {median(known):.3g}, from {min(known):.3g} to {max(known):.3g}")
    return [*lines, *(f"{row.case}: {row.reason}" for row in rows if row.reason is not None)]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("file", type=Path, metavar="FILE")
    arguments.add_argument("--signatures", type=Path, metavar="FOLDER", help="what breadth.py kept")
    arguments.add_argument("--sample", type=int, default=20, metavar="N", help="so many, drawn at random (default: 20)")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--kept", action="store_true", help="print what FILE holds")
    options = arguments.parse_args()
    rows = csv_tables.read_kept(options.file, ProxyRow)
    if options.signatures and not options.kept:
        paths = sorted(options.signatures.glob("*.json"))
        for path in Random(options.seed).sample(paths, min(options.sample, len(paths))):
            if path.stem not in {row.case for row in rows}:
                rows.append(made(path))
                csv_tables.write(options.file, ProxyRow, rows)
                print(summary(rows[-1:])[-1], flush=True)
    print("\n".join(summary(rows)))
    return 1 if any(row.reason is not None for row in rows) else 0


if __name__ == "__main__":
    start(main)
