"""The format `c`: one C99 file without a framework, for instruction-set simulators, emulators and cache simulators.

A table holds the layers and three loops run them: a direct convolution, a matrix product, and a stream that reads and
writes an operator's bytes. Data come from a fixed generator; the checksum is over the bits of every result, and floats
are never contracted or reordered, so it is the same on every IEEE 754 machine. Each distinct row runs once: the table
says how often it counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, fields
from importlib import resources
from typing import cast

from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.registry import Exporter
from statsnet.signatures.canonical import number_text
from statsnet.signatures.products import Product, Window

STREAMED = frozenset({"activation", "elementwise", "normalization", "softmax", "pooling", "reduction",
                      "data_arrangement", "optimizer"})  # fmt: skip
"""Categories whose operators pass over their operands in order."""

LOOKED_UP = frozenset({"embedding", "sort"})
"""Those whose operators read or write at places that depend on data."""

LARGEST_ELEMENTS = 2**31 - 1
ELEMENT_BYTES = 4
PRODUCT, CONVOLUTION, STREAM = range(3)

Axes = tuple[int, int, int]
NO_AXES = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the loops of a row need, in the order of the program's `struct layer`. A convolution's dilation is alike on
    all axes; a stream has the elements that it reads and writes in rows and columns."""

    kind: int
    rows: int
    columns: int
    depth: int = 0
    groups: int = 0
    images: int = 0
    channels: int = 0
    filters: int = 0
    out: Axes = NO_AXES
    kernel: Axes = NO_AXES
    stride: Axes = NO_AXES
    dilation: int = 0

    @property
    def elements(self) -> tuple[int, int, int]:
        """Number of elements of input, weight and output."""
        if self.kind == STREAM:
            return self.rows, 0, self.columns
        if self.kind == PRODUCT:
            return self.rows * self.depth, self.depth * self.columns, self.rows * self.columns
        axes = zip(self.out, self.kernel, self.stride, strict=True)
        covered = math.prod((o - 1) * s + (k - 1) * self.dilation + 1 for o, k, s in axes)
        return (
            self.images * self.channels * covered,
            self.filters * (self.channels // self.groups) * math.prod(self.kernel),
            self.images * self.filters * math.prod(self.out),
        )


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    sizes: Sizes
    macs: int
    repeats: float


class CSource(Exporter):
    """proxy.c alone."""

    name = "c"
    title = "a C program"

    def reason_against(self, layer: Layer) -> str | None:
        if runs := _runs_of(layer):
            largest = max(max(sizes.elements) for sizes, _, _ in runs)
            return "an operand has more than 2^31 elements" if largest > LARGEST_ELEMENTS else None
        if layer.macs is None:
            return "its products are not known"
        if layer.communication is not None:
            return "it is a collective, and the program runs on one processor"
        if layer.category in LOOKED_UP:
            return "it reads or writes at places that depend on data"
        if not _is_streamed(layer):
            return "it is neither products nor one pass over its operands"
        return "its bytes are not known, or none"

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        return {"proxy.c": source(rows_of(manifest)).encode("ascii")}

    def notes(self, manifest: Manifest) -> list[str]:
        made = ["everything is computed in float32, whatever the layers' element types"]
        if any(not layer.products for layer in manifest.layers):
            made.append("operators without products are streams of their bytes: their arithmetic is one addition")
        return made


def _runs_of(layer: Layer) -> list[tuple[Sizes, int, float]]:
    """Sizes of a row, multiply-adds, and how often one call runs it."""
    if layer.products:
        return [(_product_sizes(p), p.dense_macs * _groups(p), p.repeats / _groups(p)) for p in layer.products]
    if _is_streamed(layer) and layer.bytes_read is not None and layer.bytes_written is not None:
        read, written = (math.ceil(b / ELEMENT_BYTES) for b in (layer.bytes_read, layer.bytes_written))
        return [(Sizes(STREAM, read, written), 0, 1.0)] if read + written else []
    return []


def _is_streamed(layer: Layer) -> bool:
    return layer.category in STREAMED or (layer.category == "recurrent" and layer.macs == 0)


def _groups(product: Product) -> int:
    """A convolution runs with all of its groups, any other product alone."""
    return product.window.groups if _is_direct(product.window) and product.window else 1


def _is_direct(window: Window | None) -> bool:
    return window is not None and not window.transposed and len(set(window.dilation)) == 1 and len(window.kernel) <= 3


def _product_sizes(product: Product) -> Sizes:
    rows, columns, depth, window = product.rows, product.columns, product.depth, product.window
    if window is None or not _is_direct(window):
        return Sizes(PRODUCT, rows, columns, depth)

    def three(sizes: tuple[int, ...]) -> Axes:
        return cast(Axes, (1,) * (3 - len(sizes)) + sizes)

    return Sizes(
        CONVOLUTION, rows, columns, depth, window.groups, window.images, window.in_channels, window.out_channels,
        three(window.out_size), three(window.kernel), three(window.stride), window.dilation[0],
    )  # fmt: skip


def rows_of(manifest: Manifest) -> list[Row]:
    """Each distinct row once, in the order of the layers, named by the first of them."""
    repeats: dict[Sizes, list[float]] = defaultdict(list)
    first: dict[Sizes, tuple[str, int]] = {}
    for layer in manifest.layers:
        for sizes, macs, times in _runs_of(layer):
            first.setdefault(sizes, (layer.name, macs))
            repeats[sizes].append(layer.repeats * times)
    return [Row(first[s][0], s, first[s][1], math.fsum(found)) for s, found in repeats.items()]


def source(rows: list[Row]) -> str:
    """Text of proxy.c: the file beside this one, with its sizes and its table."""
    template = resources.files(__package__).joinpath("proxy.c").read_text(encoding="ascii")
    largest = [max(counts) for counts in zip(*(row.sizes.elements for row in rows), strict=True)]
    table = "\n".join(
        f'    {{{_in_c(row.sizes)}, {row.macs}.0, {number_text(row.repeats)}, "{row.name}"}},' for row in rows
    )
    sizes = "\n".join(
        f"#define {name}_ELEMENTS {max(1, count)}ul"
        for name, count in zip(("INPUT", "WEIGHT", "OUTPUT"), largest, strict=True)
    )
    return template.replace("@SIZES@", sizes).replace("@TABLE@", table)


def _in_c(sizes: Sizes) -> str:
    values = (getattr(sizes, field.name) for field in fields(Sizes))
    return ", ".join(f"{{{', '.join(map(str, v))}}}" if isinstance(v, tuple) else str(v) for v in values)
