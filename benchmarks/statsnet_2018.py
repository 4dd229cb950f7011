"""AlexNet + VGG-16 + GoogLeNet, one image each: our proxy beside the network that the 2018 StatsNet published for them.

    python benchmarks/statsnet_2018.py [--budgets 1ms,10ms]

Prints a table in Markdown: the three models (from their signatures), StatsNet-3c (worked out from its published
layers), and a proxy for each budget. Multiply-accumulates (MACs), output activations, FLOPs and bytes are those of
convolutions in one step; their shares over map sizes and kernel sizes are compared by the earth mover's distance, in
steps of a factor of two of the size. Weights are such that each model sees as many images.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from core import results_file

from statsnet.devices.make_proxy import MakeOptions, synthesize
from statsnet.measure.process import measuring_environment
from statsnet.signatures.canonical import write_json_atomically
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
    """All convolutions of one step: MACs by size of the map, by length of its rows and by kernel size; output
    activations by size of the map, None where not known."""

    macs_by_map: Mapping[int, float]
    macs_by_row: Mapping[int, float]
    macs_by_kernel: Mapping[int, float]
    activations_by_map: Mapping[int, float] | None
    conv_activations: float
    conv_parameters: float
    parameters: float
    flops_per_byte: float

    @property
    def macs(self) -> float:
        return sum(self.macs_by_map.values())


_PUBLISHED_MACS = dict(zip(MAPS, (0.07e9, 4.27e9, 5.57e9, 5.28e9, 2.20e9, 0.11e9), strict=True))
STATSNET_3C = Layers(
    macs_by_map=_PUBLISHED_MACS,
    macs_by_row=_PUBLISHED_MACS,  # its maps are squares
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
    rows: dict[int, float] = defaultdict(float)
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
        rows[_nearest(shape[-1], MAPS)] += macs
        activations[size] += written
        kernels[_nearest(max(weight[2:]), KERNELS)] += macs
        weights += math.prod(weight) * calls
        moved += (cluster.bytes_moved or 0.0) * calls
    return Layers(
        macs_by_map=maps,
        macs_by_row=rows,
        macs_by_kernel=kernels,
        activations_by_map=activations,
        conv_activations=sum(activations.values()),
        conv_parameters=weights,
        parameters=weights + others,
        flops_per_byte=2 * sum(maps.values()) / moved,
    )


def earth_movers_distance(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Between two histograms over sizes, each taken as shares. Moving a share to twice the size costs 1."""
    sizes = sorted({*a, *b})
    total_a, total_b = sum(a.values()), sum(b.values())
    held, cost = 0.0, 0.0
    for size, following in itertools.pairwise(sizes):
        held += a.get(size, 0.0) / total_a - b.get(size, 0.0) / total_b
        cost += abs(held) * math.log2(following / size)
    return cost


def _nearest(value: float, sizes: Iterable[int]) -> int:
    return min(sizes, key=lambda s: abs(math.log(value / s)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budgets", default="1ms,10ms")
    parser.add_argument("-o", "--output", type=Path, help="benchmarks/results/<environment>/statsnet_2018.json")
    options = parser.parse_args()
    output = options.output or results_file("statsnet_2018.json")
    mix, suite = one_image_each()
    columns = {"three models": suite, "StatsNet-3c": STATSNET_3C}
    time_tv = {}
    for text in options.budgets.split(","):
        proxy = synthesize(ProxyRequest(mix_text=mix, budget_s=parse_duration_s(text)), MakeOptions())
        name = f"our proxy, {text}"
        columns[name] = layers_of((c, c.calls) for c in proxy.signature.clusters)
        time_tv[name] = proxy.fit().summary.category_total_variation
    rows = {label: {n: value(c, suite) for n, c in columns.items()} for label, value in ROWS.items()}
    rows["time shares by category, total variation in points"] = {n: 100 * tv for n, tv in time_tv.items()}
    write_json_atomically(output, {"environment": measuring_environment(), "mix": mix, "rows": rows})
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for label, figures in rows.items():
        cells = (f"{figures[n]:.3g}" if figures.get(n) is not None else "–" for n in columns)
        print(f"| {label} | " + " | ".join(cells) + " |")


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


ROWS: dict[str, Callable[[Layers, Layers], float | None]] = {
    "convolutions' GMAC in a step": lambda c, _: c.macs / 1e9,
    "MACs by map size, earth mover's distance": lambda c, s: earth_movers_distance(c.macs_by_map, s.macs_by_map),
    "MACs by length of a map's rows, earth mover's distance": lambda c, s: earth_movers_distance(
        c.macs_by_row, s.macs_by_row
    ),
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
    main()
