"""The format `manifest`: every layer as JSON and as two tables, with nothing left out."""

from __future__ import annotations

import json
from typing import Any

from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.registry import Exporter
from statsnet.signatures.canonical import canonical_csv
from statsnet.signatures.products import Product


class ManifestFiles(Exporter):
    """manifest.json, layers.csv (a row for each layer) and products.csv (a row for each matrix product)."""

    name = "manifest"
    title = "the manifest"

    def reason_against(self, layer: Layer) -> str | None:
        return None

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        return {"layers.csv": layers_csv(manifest), "products.csv": products_csv(manifest)}


LAYER_COLUMNS = (
    "layer", "name", "operator", "phase", "category", "dtype", "dtype_bits", "repeats", "macs", "flops", "bytes_input",
    "bytes_weight", "bytes_written", "density", "time_s", "products", "shapes_read", "shapes_written", "depends_on",
    "members", "scaled_from", "cuts",
)  # fmt: skip


def layers_csv(manifest: Manifest) -> bytes:
    """Amounts are of one call; lists stand in one cell, apart by blanks."""
    return canonical_csv(LAYER_COLUMNS, map(_layer_row, manifest.layers)).encode()


def _layer_row(layer: Layer) -> list[Any]:
    cuts = " ".join(f"{c.axis}:{c.unscaled}->{c.size}" for c in layer.scaling.cuts) if layer.scaling else ""
    return [
        layer.index, layer.name, layer.operator, layer.phase, layer.category, layer.dtype, layer.dtype_bits,
        layer.repeats, layer.macs, layer.flops, layer.bytes_input, layer.bytes_weight, layer.bytes_written,
        layer.density, layer.time_s, len(layer.products), _shapes(layer.args), _shapes(layer.outputs),
        " ".join(map(str, layer.depends_on)), " ".join(f"{u.member}:{u.calls:g}" for u in layer.uses),
        layer.scaling.of_operator if layer.scaling else "", cuts,
    ]  # fmt: skip


def _shapes(args: Any) -> str:
    """`8x64x56x56 64x64x3x3`; of a list of tensors, each distinct one."""
    found = []
    for arg in args:
        inside = arg["tensors"] if isinstance(arg, dict) and "tensors" in arg else [arg]
        found += ["x".join(map(str, t["shape"])) or "scalar" for t in inside if isinstance(t, dict) and "shape" in t]
    return " ".join(found)


PRODUCT_COLUMNS = (
    "layer", "product", "repeats", "rows", "columns", "depth", "batch", "times", "density", "macs", "images", "groups",
    "in_channels", "out_channels", "in_size", "out_size", "kernel", "stride", "padding", "dilation", "transposed",
)  # fmt: skip


def products_csv(manifest: Manifest) -> bytes:
    """`repeats` is how often the dense product runs in the manifest's unit; `macs` is one of them."""
    rows = ((layer, i, p) for layer in manifest.layers for i, p in enumerate(layer.products))
    return canonical_csv(PRODUCT_COLUMNS, (_product_row(*row) for row in rows)).encode()


def _product_row(layer: Layer, number: int, product: Product) -> list[Any]:
    p, w = product, product.window
    row = [layer.index, number, layer.repeats * p.repeats, p.rows, p.columns, p.depth, p.batch, p.times, p.density,
           p.dense_macs]  # fmt: skip
    if w is None:
        return row + [None] * (len(PRODUCT_COLUMNS) - len(row))
    sizes = ("x".join(map(str, s)) for s in (w.in_size, w.out_size, w.kernel, w.stride, w.padding, w.dilation))
    return [*row, w.images, w.groups, w.in_channels, w.out_channels, *sizes, json.dumps(w.transposed)]
