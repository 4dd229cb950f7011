"""Do a few exported layers rank accelerators as the whole suite does?

    python benchmarks/presilicon.py [--mixes MIX ...] [--modes inference,training] [--macs N] [--quantum 8]
                                    [--scalesim PYTHON] [--zigzag PYTHON] [--genz PYTHON] [-o FILE]
    python benchmarks/presilicon.py --kept FILE ...

Arrays of 16, 32 and 128 squared with three dataflows; scaled layers were chosen without them. Cycles are SCALE-Sim's
without stalls, in closed form (statsnet/exports/systolic.py): simulating a suite itself would take days. With
--scalesim, the Python of an environment with SCALE-Sim, the scaled layers are simulated for real and compared with it.
Distinct layers are exact, sampled ones are some of them. Beside StatsNet's layers stand every dim halved, as many
layers drawn at random, and as many of the most expensive.

With --zigzag or --genz, the Python of an environment with ZigZag or GenZ, rows follow that these analytical models
give: ZigZag on five accelerators that come with it, GenZ on systems of several rates. They compare scaled layers with
all distinct ones, which stand for the suite.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, start
from benchmarks.simulators import GENZ_SYSTEMS, ZIGZAG_HARDWARE, genz_times, scalesim_cycles, zigzag_cycles
from benchmarks.suites import MIXES, mix_name, mix_text, spelled_out
from benchmarks.ways.small_layers import Layers, halved, layers_of, most_expensive, randomly_chosen, ranking
from statsnet.errors import UsageError
from statsnet.exports.build_manifest import manifest_of_mix
from statsnet.exports.manifest import Manifest
from statsnet.exports.onnx_model import OnnxShapes
from statsnet.exports.registry import export, write
from statsnet.exports.sampling import sampled
from statsnet.exports.scalesim import ScaleSim, rows_of
from statsnet.exports.scaling import USUAL_QUANTUM, scaled
from statsnet.exports.systolic import DATAFLOWS, Design, cycles
from statsnet.reporting.pictures import COLOURS, GREY, figure
from statsnet.signatures.database import MODES, ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.units import format_quantity, parse_count

UNSIGNED = "scaled, unsigned"
SCALED = {"scaled": True, UNSIGNED: False}
"""Way -> whether layers may count negatively."""

ARRAYS, ZIGZAG, GENZ = "systolic arrays", "ZigZag", "GenZ"
DESIGNS = tuple(Design(size, size, dataflow) for size in (16, 32, 128) for dataflow in DATAFLOWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresiliconRow:
    """One way to stand for one mix, on the designs of one `model`: arrays as SCALE-Sim counts them, ZigZag's
    accelerators, or GenZ's systems. `macs` are multiply-adds to simulate, `suite_macs` those of one step of each
    member; the rest is of `ranking`. `simulated_error` is the largest relative difference between SCALE-Sim's cycles of
    a layer and the closed form; None where nothing was simulated."""

    mix: str
    mode: str
    model: str = ARRAYS
    way: str
    layers: int
    macs: float
    suite_macs: float
    pairs: int
    misordered: int
    relative_error: float
    factor: float
    simulated_error: float | None


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--mixes", nargs="+", default=list(MIXES), metavar="MIX")
    options.add_argument("--modes", default="inference", help="inference, training or both, with a comma")
    options.add_argument("--macs", help="of scaled layers (default: as statsnet export chooses)")
    options.add_argument("--quantum", type=int, default=USUAL_QUANTUM)
    options.add_argument("--scalesim", metavar="PYTHON")
    options.add_argument("--zigzag", metavar="PYTHON")
    options.add_argument("--genz", metavar="PYTHON")
    options.add_argument("-o", "--output", type=Path)
    options.add_argument("--kept", type=Path, nargs="+", default=[])
    given = options.parse_args()
    rows = [row for path in given.kept for row in csv_tables.read(path, PresiliconRow)]
    if not given.kept:
        database = ProfilesDB()
        for mode in given.modes.split(","):
            if mode not in MODES:
                raise UsageError(f"'{mode}' is not a mode", hint=f"--modes takes {' and '.join(MODES)}, with a comma")
            for text in given.mixes:
                mix = resolve_mix(spelled_out(mix_text(text)), mode, database)
                macs = parse_count(given.macs) if given.macs else None
                rows += rows_of_mix(mix_name(text), mix, macs, given.quantum, given.scalesim, given.zigzag, given.genz)
    if given.output:
        csv_tables.write(given.output, PresiliconRow, rows, one_machine=False)
    print(table(rows))
    return 0


def rows_of_mix(
    name: str,
    mix: Mix,
    macs: int | None,
    quantum: int,
    scalesim: str | None = None,
    zigzag: str | None = None,
    genz: str | None = None,
) -> list[PresiliconRow]:
    """All ways for one mix."""
    manifest = manifest_of_mix(mix)
    smaller = {way: scaled(manifest, macs=macs, quantum=quantum, signed=signed) for way, signed in SCALED.items()}
    distinct, few = layers_of(manifest), layers_of(smaller[UNSIGNED])
    count = len(few.products)
    ways: dict[str, Layers] = {
        "distinct": distinct,
        "sampled": layers_of(sampled(manifest)),
        **{way: layers_of(made) for way, made in smaller.items()},
        "every dim halved": halved(distinct),
        "random layers": randomly_chosen(distinct, count, DESIGNS),
        "most expensive layers": most_expensive(distinct, count),
    }
    suite = suite_cycles(manifest)
    errors = {way: simulated_error(made, scalesim) for way, made in smaller.items()} if scalesim else {}
    rows = [
        PresiliconRow(
            mix=name, mode=mix.mode, model=ARRAYS, way=way, layers=len(layers.products), macs=float(layers.macs),
            suite_macs=manifest.suite_macs, simulated_error=errors.get(way),
            **asdict(ranking(suite, layers.cycles(DESIGNS))),
        )
        for way, layers in ways.items()
    ]  # fmt: skip
    others: dict[str, dict[str, np.ndarray]] = {}
    if zigzag:
        others[ZIGZAG] = {way: zigzag_totals(made, zigzag) for way, made in {"distinct": manifest, **smaller}.items()}
    if genz:
        others[GENZ] = {way: genz_totals(ways[way], genz) for way in ("distinct", *smaller)}
    for model, totals in others.items():
        rows += [
            PresiliconRow(
                mix=name, mode=mix.mode, model=model, way=way, layers=len(ways[way].products),
                macs=float(ways[way].macs), suite_macs=manifest.suite_macs, simulated_error=None,
                **asdict(ranking(totals["distinct"], found)),
            )
            for way, found in totals.items()
        ]  # fmt: skip
    return rows


def zigzag_totals(manifest: Manifest, python: str) -> np.ndarray:
    """Weighted cycles of a manifest's products on each of ZigZag's accelerators."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(export(OnnxShapes(), manifest.only(layer for layer in manifest.layers if layer.products)), folder)
        return np.array([zigzag_cycles(python, folder, hardware) for hardware in ZIGZAG_HARDWARE])


def genz_totals(layers: Layers, python: str) -> np.ndarray:
    """Weighted time of all products on each of GENZ_SYSTEMS."""
    times = genz_times(python, [product for product, _ in layers.products], GENZ_SYSTEMS)
    return np.asarray(np.array([repeats for _, repeats in layers.products]) @ times)


def suite_cycles(manifest: Manifest) -> np.ndarray:
    """Of every call of every member, one by one: not from the distinct rows."""
    steps = {m.name: m.steps for m in manifest.members}
    calls = [
        (p, use.calls * steps[use.member] * p.repeats)
        for layer in manifest.layers for use in layer.uses for p in layer.products
    ]  # fmt: skip
    return Layers(tuple(calls)).cycles(DESIGNS)


def simulated_error(manifest: Manifest, python: str) -> float:
    """Of the scaled layers, on all designs."""
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(export(ScaleSim(), manifest), folder)
        for kind in ("conv", "gemm"):
            rows = [row for row in rows_of(manifest) if row.is_convolution == (kind == "conv")]
            for design in DESIGNS if rows else ():
                found = scalesim_cycles(python, folder, kind, design)
                for row, counted in zip(rows, found, strict=True):
                    worst = max(worst, abs(counted / cycles(row.product, design) - 1))
    return worst


def table(rows: Sequence[PresiliconRow]) -> str:
    """Markdown."""
    head = ("mix", "mode", "model", "way", "layers", "MACs to simulate", "times fewer", "misordered pairs",
            "relative speeds within", "cycles", "SCALE-Sim itself")  # fmt: skip
    lines = []
    for r in rows:
        simulated = "" if r.simulated_error is None else f"{100 * r.simulated_error:.2g} % off"
        lines.append((
            r.mix, r.mode, r.model, r.way, str(r.layers), format_quantity(r.macs), f"{r.suite_macs / r.macs:,.3g}",
            f"{r.misordered} of {r.pairs}", f"{100 * r.relative_error:.2g} %", f"{r.factor:.2f} times", simulated,
        ))  # fmt: skip
    return markdown_table(head, lines)


WAYS = ("scaled", UNSIGNED, "every dim halved", "random layers", "most expensive layers")
WIDTH = 0.16


def presilicon_svg(rows: Sequence[PresiliconRow]) -> str:
    """Bars on a logarithmic axis, inference alone. Distinct layers are exact and have none."""
    shown = [r for r in rows if r.mode == "inference" and r.model == ARRAYS]
    mixes = list(dict.fromkeys(r.mix for r in shown))
    with figure(7.6, 3.6) as (made, text):
        axes = made.add_subplot()
        for number, way in enumerate(WAYS):
            error = {r.mix: 100 * r.relative_error for r in shown if r.way == way}
            places = [place + (number - 2) * WIDTH for place in range(len(mixes))]
            axes.bar(places, [error[mix] for mix in mixes], WIDTH, color=COLOURS[number], label=way)
        axes.axhline(10.0, color=GREY, linewidth=0.8, linestyle="--")
        axes.set(yscale="log", ylim=(0.5, 2000.0), ylabel="largest error of a relative speed")
        axes.yaxis.set_ticks([1, 10, 100, 1000])
        axes.yaxis.set_ticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g} %")
        axes.set_xticks(range(len(mixes)), [mix.replace(" + ", " +\n") for mix in mixes], fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False, fontsize=8, ncols=3, handletextpad=0.4, columnspacing=1.0)
    return text.getvalue()


if __name__ == "__main__":
    start(main)
