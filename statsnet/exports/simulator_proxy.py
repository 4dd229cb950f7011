"""A proxy for simulators: the folder of a proxy whose towers are scaled layers. Nothing is measured for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from statsnet.blocks.base import with_tuples
from statsnet.blocks.conv import output_map
from statsnet.errors import FileFormatError, UsageError
from statsnet.exports.lowering import lowered
from statsnet.exports.manifest import Layer, Manifest, ManifestMember
from statsnet.exports.scaled_layers import scaled_layer
from statsnet.measure.network_file import digest
from statsnet.proxy.private_fit import without_fingerprints, without_sizes
from statsnet.proxy.spec import level_of, pinned, source_of, spec_member
from statsnet.signatures.conversion import plain, typed
from statsnet.signatures.documents import Characteristic, Fit, FitSummary, ProxySpec, SpecBlock, SpecTower
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Mode
from statsnet.signatures.products import Product, Window
from statsnet.signatures.rounding import PRIVATE_DIGITS, rounded
from statsnet.signatures.simulation import SimulatedLayer, Simulation, SimulationFit

RUNNABLE = ("float32", "bfloat16", "float16", "float64")
"""Dtypes that the network of all layers may have; in another one, such as int8, torch has no products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorProxy:
    """Content of spec.json and fit.json."""

    spec: ProxySpec
    fit: Fit


def simulator_proxy(
    mix: Mix, whole: Manifest, scaled: Manifest, *, title: str = "", notes: str = "", seed: int = 0,
    environment: Mapping[str, Any] | None = None,
) -> SimulatorProxy:  # fmt: skip
    """From a mix, its distinct layers and the scaled ones that stand for them. `environment` describes the reference
    device, if it is one that was recorded. The same arguments give the same bytes. Where a member is private,
    sizes of the mix's layers are told in bins, and figures with few digits.

    Raises UsageError for a member whose time on the reference device is not known.
    """
    times = {m.name: m.latency_s for m in whole.members}
    if unknown := [name for name, latency_s in times.items() if not latency_s]:
        raise UsageError(f"the time of '{unknown[0]}' on the reference device is not known", hint="leave it out")
    level = level_of([m.signature for m in mix.members])
    if level is not None:
        scaled = replace(scaled, layers=tuple(map(_without_sizes, scaled.layers)))
    mode: Mode = "training" if mix.mode == "training" else "inference"
    spec = pinned(ProxySpec(
        id="",
        title=title or mix.title,
        notes=notes,
        mode=mode,
        dtype=_dtype(scaled),
        seed=seed,
        budget_s=None,
        reference_environment=environment or {},
        mix=tuple(spec_member(m.name, m.weight, times[m.name] or 0.0, m.signature, m.keyed_id) for m in mix.members),
        towers=tuple(SpecTower(blocks=(_block(layer.products[0]),)) for layer in scaled.layers),
        level=level,
        simulation=Simulation(
            unit=scaled.unit,
            reference=scaled.reference,
            layers=tuple(map(_counted, scaled.layers)),
        ),
    ))  # fmt: skip
    fit = _fit(spec, whole, scaled)
    return SimulatorProxy(spec=spec, fit=fit if level is None else without_fingerprints(fit))


def manifest_of_simulation(spec: ProxySpec, fit: Fit | None) -> Manifest:
    """The scaled layers of such a proxy, as `statsnet export` would choose them. What its fit says of them is added
    where there is one. Raises FileFormatError if a block is no such layer."""
    assert spec.simulation is not None
    simulation, predicted = spec.simulation, fit.simulation if fit else None
    pairs = enumerate(zip(spec.towers, simulation.layers, strict=True))
    return Manifest(
        title=spec.title,
        unit=simulation.unit,
        layer_mode="scaled",
        reference=simulation.reference,
        members=tuple(
            ManifestMember(name=m.name, weight=m.weight, signature=m.signature, mode=spec.mode, batch=m.batch,
                           latency_s=m.latency_s, steps=m.weight / m.latency_s)
            for m in spec.mix
        ),
        layers=tuple(_layer(index, tower.blocks[0], counted) for index, (tower, counted) in pairs),
        not_preserved=predicted.not_preserved if predicted else (),
        left_out=predicted.left_out if predicted else (),
    )  # fmt: skip


def _dtype(scaled: Manifest) -> str:
    """That of the most multiply-adds, of those in which torch can run all layers."""
    macs: Counter[str] = Counter()
    for layer in scaled.layers:
        macs[layer.dtype] += abs(layer.repeats * layer.assumed_macs)  # type: ignore[assignment]
    return next((name for name, _ in macs.most_common() if name in RUNNABLE), RUNNABLE[0])


def _block(product: Product) -> SpecBlock:
    window = product.window
    if window is None:
        config: dict[str, Any] = {"rows": product.rows, "inputs": product.depth, "outputs": product.columns,
                                  "bias": False, "weight_first_axis_in": True}  # fmt: skip
        return SpecBlock(kind="linear", config=config, optimizer=None)
    config = {"batch": window.images, "channels": window.in_channels, "size": window.in_size,
              "filters": window.out_channels, "kernel": window.kernel, "stride": window.stride,
              "padding": window.padding, "dilation": window.dilation}  # fmt: skip
    return SpecBlock(kind="conv", config=config, optimizer=None)


def _without_sizes(layer: Layer) -> Layer:
    """With what is told of the private layer that it came from, and with predictions for that."""
    scaling, product = layer.scaling, layer.products[0]
    assert scaling is not None
    return scaled_layer(
        product, without_sizes(scaling.unscaled, product), scaling.of_operator, layer.dtype, index=layer.index,
        repeats=layer.repeats, macs_share=rounded(scaling.macs_share, PRIVATE_DIGITS),
    )  # fmt: skip


def _counted(layer: Layer) -> SimulatedLayer:
    scaling = layer.scaling
    assert scaling is not None
    return SimulatedLayer(repeats=layer.repeats, macs_share=scaling.macs_share, dtype=layer.dtype,
                          of_operator=scaling.of_operator, unscaled=scaling.unscaled)  # fmt: skip


def _fit(spec: ProxySpec, whole: Manifest, scaled: Manifest) -> Fit:
    before, after = whole.totals, scaled.totals
    rows = (
        ("flops_per_s", "FLOP/s", before.flops, after.flops),
        ("bytes_per_s", "B/s", before.bytes_read + before.bytes_written, after.bytes_read + after.bytes_written),
    )
    latencies = [m.latency_s for m in whole.members if m.latency_s]
    return Fit(
        spec=spec.id,
        network_sha256=digest(source_of(spec)),
        environment=spec.reference_environment,
        characteristics=tuple(
            Characteristic(name=name, group="rate", unit=unit, target=asked, achieved=predicted)
            for name, unit, asked, predicted in rows
        ),
        summary=FitSummary(),
        simulation=SimulationFit(
            simulated_macs=after.simulated_macs,
            suite_macs=whole.suite_macs,
            suite_latency_s=math.fsum(latencies) or None,
            predictions=tuple(layer.scaling.prediction for layer in scaled.layers if layer.scaling),
            not_preserved=scaled.not_preserved,
            left_out=scaled.left_out,
        ),
    )


def _layer(index: int, block: SpecBlock, counted: SimulatedLayer) -> Layer:
    try:
        return scaled_layer(
            _product(block), counted.unscaled, counted.of_operator, counted.dtype, index=index,
            repeats=counted.repeats, macs_share=counted.macs_share,
        )  # fmt: skip
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"block {index} of the proxy is no layer that can be exported", cause=f"{type(error).__name__}: {error}",
            hint="make the proxy anew",
        ) from error  # fmt: skip


def _product(block: SpecBlock) -> Product:
    """Inverse of `_block`. Raises what a configuration with other content raises."""
    config = with_tuples(block.config)
    if block.kind == "linear":
        return _checked(Product(rows=config["rows"], columns=config["outputs"], depth=config["inputs"]))
    if block.kind != "conv":
        raise ValueError(f"a block of the kind '{block.kind}'")
    window = Window(
        images=config["batch"], groups=1, in_channels=config["channels"], out_channels=config["filters"],
        in_size=config["size"], out_size=tuple(output_map(config)), kernel=config["kernel"], stride=config["stride"],
        padding=config["padding"], dilation=config["dilation"],
    )  # fmt: skip
    product = lowered(window)
    return _checked(Product(rows=product.rows, columns=product.columns, depth=product.depth, window=window))


def _checked(product: Product) -> Product:
    """Raises ValueError for sizes that no product has, as a file may hold any."""
    return typed(plain(product), Product)  # type: ignore[no-any-return]
