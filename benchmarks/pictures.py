"""What do the results look like? Draws the pictures of the README and the docs.

    python benchmarks/pictures.py [--results FOLDER] [--mix MIX] [--mode inference] [-o docs/pictures]

Needs matplotlib (`pip install 'statsnet[pictures]'`). The same results and the same versions of the libraries give the
same bytes.

hero.svg         one mix: times of the suite and of its proxy, at the baseline and under each setting
factors.svg      every mix and setting: the proxy's factor against the suite's
flow.svg         how data flow, and what leaves the customer's site
workloads.svg    which of the profiled reference workloads are alike
across_gpus.svg  every suite and pair of GPUs: the proxy's factor against the suite's
presilicon.svg   layers for simulators: how far relative speeds of accelerators are off
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.across.figures import AcrossRow, across_svg
from benchmarks.console import parser, start
from benchmarks.factor_pictures import factors_svg, hero_svg
from benchmarks.fidelity_table import FidelityRow
from benchmarks.flow_picture import flow_svg
from benchmarks.presilicon import PresiliconRow, presilicon_svg
from benchmarks.suites import MACHINES, MIXES, compression_of, compression_text, mix_text
from statsnet.analysis.database import measured_signatures
from statsnet.analysis.similarity import similarity
from statsnet.errors import UsageError
from statsnet.reporting.map_picture import map_svg
from statsnet.signatures.canonical import write_text_atomically

MODES = ("inference", "training")


def main() -> None:
    options = _options()
    rows = proxies(options.results, options.compression)
    _, signatures = measured_signatures(["*"], options.mode)
    machine = options.results.name
    pictures = {
        "hero.svg": hero_svg(of_one_mix(rows, options.mix, options.mode), machine),
        "factors.svg": factors_svg(rows, machine),
        "flow.svg": flow_svg(),
        "workloads.svg": map_svg(similarity(signatures)),
        "across_gpus.svg": across_svg(csv_tables.read(options.across, AcrossRow)),
        "presilicon.svg": presilicon_svg(csv_tables.read(options.presilicon, PresiliconRow)),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    for name, text in pictures.items():
        write_text_atomically(options.output / name, text)
        print(options.output / name)


def proxies(results: Path, compression: float | None) -> list[FidelityRow]:
    """What is known of proxies that were made for this compression, and of no other way to stand for a suite."""
    tables = [csv_tables.read(results / f"fidelity_{mode}.csv", FidelityRow) for mode in MODES]
    rows = [row for table in tables for row in table if (row.way, row.wanted_compression) == ("statsnet", compression)]
    if not rows:
        raise UsageError(
            f"'{results}' has no proxy with the compression {compression_text(compression)}",
            hint="another --compression",
        )
    return rows


def of_one_mix(rows: list[FidelityRow], mix: str, mode: str) -> list[FidelityRow]:
    """Rows that also hold the proxy's time."""
    found = [row for row in rows if (row.mix, row.mode) == (mix_text(mix), mode) and row.step_latency_s is not None]
    if not found:
        raise UsageError(f"the results hold no times of '{mix}' in {mode}", hint=f"a mix is one of {', '.join(MIXES)}")
    return found


def _options() -> argparse.Namespace:
    known = parser(__doc__)
    results = Path("benchmarks/results", next(iter(MACHINES)))
    known.add_argument("--results", type=Path, default=results, help="a folder with fidelity_<mode>.csv")
    known.add_argument(
        "--across", type=Path, default=Path("benchmarks/results/across_gpus.csv"), help="of across_gpus.svg"
    )
    known.add_argument(
        "--presilicon", type=Path, default=Path("benchmarks/results/presilicon.csv"), help="of presilicon.svg"
    )
    known.add_argument(
        "--compression",
        type=compression_of,
        default=100.0,
        metavar="N",
        help="draw proxies that were made for this one; or usual (default: 100, as in the stored tables)",
    )
    known.add_argument("--mix", default=next(iter(MIXES)), help="of hero.svg")
    known.add_argument("--mode", choices=MODES, default=MODES[0], help="of hero.svg and workloads.svg")
    known.add_argument("-o", "--output", type=Path, default=Path("docs/pictures"))
    return known.parse_args()


if __name__ == "__main__":
    start(main)
