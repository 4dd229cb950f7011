"""Is a proxy nearer to AlexNet, VGG-16 and GoogLeNet than the network that the 2018 StatsNet published for them?

    python benchmarks/diagnostics/statsnet_2018.py [--budgets 1ms,10ms] [-o FILE]
    python benchmarks/diagnostics/statsnet_2018.py --kept FILE

Prints a table in Markdown: the three models (from their signatures), StatsNet-3c (worked out from its published
layers), and a proxy for each budget, made here. Multiply-accumulates (MACs), output activations, FLOPs and bytes are
those of convolutions in one step; their shares over map sizes and kernel sizes are compared by the earth mover's
distance, in steps of a factor of two of the size. Weights are such that each model sees as many images. Proxies of
other machines that FILE holds stay.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, start
from statsnet.devices.make_proxy import MakeOptions, synthesize
from statsnet.environment import slug
from statsnet.measure.process import measuring_environment
from statsnet.signatures import statistics
from statsnet.signatures.categories import base_name
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Cluster
from statsnet.signatures.shapes import weight_bytes
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.problem import ProxyRequest
from statsnet.units import parse_duration_s

MODELS = ("cv/alexnet", "cv/vgg16", "cv/googlenet")
MAPS = (224, 112, 56, 28, 14, 7)
KERNELS = (1, 3, 5, 7, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """All convolutions of one step: MACs by size of the map and by kernel size; output activations by size of the map,
    None where not known."""

    macs_by_map: Mapping[int, float]
    macs_by_kernel: Mapping[int, float]
    activations_by_map: Mapping[int, float] | None
    conv_activations: float
    conv_parameters: float
    parameters: float
    flops_per_byte: float

    @property
    def macs(self) -> float:
        return sum(self.macs_by_map.values())


STATSNET_3C = Layers(
    macs_by_map=dict(zip(MAPS, (0.07e9, 4.27e9, 5.57e9, 5.28e9, 2.20e9, 0.11e9), strict=True)),
    macs_by_kernel=dict(zip(KERNELS, (0.62e9, 9.90e9, 4.90e9, 1.50e9, 0.58e9), strict=True)),
    activations_by_map=None,
    conv_activations=25.1e6,
    conv_parameters=22.3e6,
    parameters=25.6e6,
    flops_per_byte=123.0,
)
"""Worked out from its published layers, for one image of 224 x 224, in float32."""


def layers_of(clusters: Iterable[tuple[Cluster, float]]) -> Layers:
    """Of forward clusters, each with how often it runs."""
    maps: dict[int, float] = defaultdict(float)
    kernels: dict[int, float] = defaultdict(float)
    activations: dict[int, float] = defaultdict(float)
    weights, others, moved = 0.0, 0.0, 0.0
    for cluster, calls in clusters:
        name = base_name(cluster.op)
        if name != "convolution":
            others += calls * weight_bytes(cluster.op, cluster.phase, cluster.args) / 4
            continue
        weight, shape = cluster.args[1]["shape"], cluster.outputs[0]["shape"]
        macs, written = (cluster.flops or 0.0) / 2 * calls, math.prod(shape) * calls
        size = _nearest(math.sqrt(math.prod(shape[2:])), MAPS)
        maps[size] += macs
        activations[size] += written
        kernels[_nearest(max(weight[2:]), KERNELS)] += macs
        weights += math.prod(weight) * calls
        moved += (cluster.bytes_moved or 0.0) * calls
    return Layers(
        macs_by_map=maps,
        macs_by_kernel=kernels,
        activations_by_map=activations,
        conv_activations=sum(activations.values()),
        conv_parameters=weights,
        parameters=weights + others,
        flops_per_byte=2 * sum(maps.values()) / moved,
    )


def earth_movers_distance(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Between two histograms over sizes, each taken as shares. Moving a share to twice the size costs 1."""
    return statistics.earth_movers_distance(*({math.log2(size): held for size, held in x.items()} for x in (a, b)))


def _nearest(value: float, sizes: Iterable[int]) -> int:
    return min(sizes, key=lambda s: abs(math.log(value / s)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One of ROWS of one network. `machine` is where a proxy was made; None for what depends on no machine."""

    machine: str | None
    network: str
    characteristic: str
    value: float | None


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, make nothing")
    options.add_argument("--budgets", default="1ms,10ms")
    options.add_argument("-o", "--output", type=Path, default=Path("build/statsnet_2018/statsnet_2018.csv"))
    chosen = options.parse_args()
    if chosen.kept:
        print(markdown(csv_tables.read(chosen.kept, Figure)))
        return
    mix, suite = one_image_each()
    figures = [*_figures(None, "three models", suite, suite), *_figures(None, "StatsNet-3c", STATSNET_3C, suite)]
    here = slug(measuring_environment())
    for text in chosen.budgets.split(","):
        proxy = synthesize(ProxyRequest(mix_text=mix, budget_s=parse_duration_s(text)), MakeOptions())
        name, layers = f"proxy, {text}", layers_of((c, c.calls) for c in proxy.signature.clusters)
        moved = proxy.fit().summary.category_total_variation
        categories = None if moved is None else 100 * moved
        figures += _figures(here, name, layers, suite)
        figures.append(Figure(machine=here, network=name, characteristic=CATEGORIES, value=categories))
    kept = csv_tables.read(chosen.output, Figure) if chosen.output.exists() else []
    figures += [f for f in kept if f.machine not in (None, here)]
    csv_tables.write(chosen.output, Figure, figures, one_machine=False)
    print(markdown(figures))


def _figures(machine: str | None, network: str, layers: Layers, suite: Layers) -> list[Figure]:
    return [
        Figure(machine=machine, network=network, characteristic=name, value=value(layers, suite))
        for name, value in ROWS.items()
    ]


def markdown(figures: Sequence[Figure]) -> str:
    """A column for each network."""
    columns = dict.fromkeys((f.network, f.machine) for f in figures)
    titles = [network if machine is None else f"{network} ({machine})" for network, machine in columns]
    lines = []
    for name in dict.fromkeys(f.characteristic for f in figures):
        values = {(f.network, f.machine): f.value for f in figures if f.characteristic == name}
        cells = ("–" if (value := values.get(column)) is None else f"{value:.3g}" for column in columns)
        lines.append((name, *cells))
    return markdown_table(("", *titles), lines)


def one_image_each() -> tuple[str, Layers]:
    """The mix in which each model sees as many images, and the layers of its three steps for one image."""
    equal = target_of_mix(resolve_mix(",".join(f"{name}:1" for name in MODELS), "inference", ProfilesDB()))
    per_image = {m.name: m.latency_s / (m.signature.batch or 1) for m in equal.members}
    mix = ",".join(f"{name}:{1e3 * per_image[name]:.4g}" for name in per_image)
    return mix, _one_image(equal)


def _one_image(target: Target) -> Layers:
    """Weights are read once for each image, as at batch 1."""
    return layers_of(
        (_at_batch_one(cluster, member.signature.batch or 1), cluster.calls)
        for member in target.members
        for cluster in member.signature.clusters
    )


def _at_batch_one(cluster: Cluster, batch: int) -> Cluster:
    if base_name(cluster.op) != "convolution":
        return cluster
    weights = 4.0 * math.prod(cluster.args[1]["shape"])
    shape = [1, *cluster.outputs[0]["shape"][1:]]
    read = ((cluster.bytes_read or 0.0) - weights) / batch + weights
    return replace(
        cluster,
        outputs=({**cluster.outputs[0], "shape": shape},),
        flops=(cluster.flops or 0.0) / batch,
        bytes_read=read,
        bytes_written=(cluster.bytes_written or 0.0) / batch,
    )


CATEGORIES = "time shares by category, total variation in points"

ROWS: dict[str, Callable[[Layers, Layers], float | None]] = {
    "convolutions' GMAC in a step": lambda c, _: c.macs / 1e9,
    "MACs by map size, earth mover's distance": lambda c, s: earth_movers_distance(c.macs_by_map, s.macs_by_map),
    "MACs by kernel size, earth mover's distance": lambda c, s: earth_movers_distance(
        c.macs_by_kernel, s.macs_by_kernel
    ),
    "activations by map size, earth mover's distance": lambda c, s: (
        earth_movers_distance(c.activations_by_map, s.activations_by_map or {}) if c.activations_by_map else None
    ),
    "activations ÷ MACs": lambda c, _: c.conv_activations / c.macs,
    "convolutions' FLOP/byte": lambda c, _: c.flops_per_byte,
    "convolutions' parameters read ÷ MACs": lambda c, _: c.conv_parameters / c.macs,
    "all parameters read ÷ MACs": lambda c, _: c.parameters / c.macs,
}


if __name__ == "__main__":
    start(main)
