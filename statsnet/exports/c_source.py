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
    """Text of proxy.c."""
    largest = [max(counts) for counts in zip(*(row.sizes.elements for row in rows), strict=True)]
    table = "\n".join(
        f'    {{{_in_c(row.sizes)}, {row.macs}.0, {number_text(row.repeats)}, "{row.name}"}},' for row in rows
    )
    sizes = "\n".join(
        f"#define {name}_ELEMENTS {max(1, count)}ul"
        for name, count in zip(("INPUT", "WEIGHT", "OUTPUT"), largest, strict=True)
    )
    return _TEMPLATE.replace("@SIZES@", sizes).replace("@TABLE@", table)


def _in_c(sizes: Sizes) -> str:
    values = (getattr(sizes, field.name) for field in fields(Sizes))
    return ", ".join(f"{{{', '.join(map(str, v))}}}" if isinstance(v, tuple) else str(v) for v in values)


_TEMPLATE = """\
/* Layers of a manifest as loops, generated by StatsNet. It needs a C99 compiler and nothing else:

       cc -O2 -ffp-contract=off proxy.c -lm && ./a.out

   The checksum is the same on every machine with IEEE 754 floats, if the compiler neither contracts nor reorders
   them (no -ffast-math). `./a.out N` runs the table N times. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCT, CONVOLUTION, STREAM };

struct layer {
    long kind, rows, columns, depth;               /* a stream reads `rows` elements and writes `columns` */
    long groups, images, channels, filters;
    long out[3], kernel[3], stride[3], dilation;
    double macs, repeats;                          /* of one run; how often it counts in the manifest's unit */
    const char *name;
};

@SIZES@

static const struct layer layers[] = {
@TABLE@
};

static float *inputs, *weights, *outputs;

static float *filled(size_t count, uint32_t state) {
    float *data = count > SIZE_MAX / sizeof *data ? NULL : malloc(count * sizeof *data);
    if (!data) { fprintf(stderr, "not enough memory for %lu floats\\n", (unsigned long)count); exit(1); }
    for (size_t i = 0; i < count; i++) {           /* Numerical Recipes' generator; multiples of 2^-23 in [-1, 1) */
        state = state * 1664525u + 1013904223u;
        data[i] = (float)((int32_t)state >> 8) * (1.0f / 8388608.0f);
    }
    return data;
}

static size_t product(const struct layer *l) {
    for (long i = 0; i < l->rows; i++) {
        float *out = outputs + i * l->columns;
        memset(out, 0, l->columns * sizeof *out);
        for (long k = 0; k < l->depth; k++) {
            const float left = inputs[i * l->depth + k], *right = weights + k * l->columns;
            for (long j = 0; j < l->columns; j++) out[j] += left * right[j];
        }
    }
    return (size_t)l->rows * l->columns;
}

static size_t convolution(const struct layer *l) {
    const long per_group = l->channels / l->groups, filters = l->filters / l->groups;
    const long *o = l->out, *k = l->kernel, *s = l->stride, d = l->dilation;
    long in[3];                                    /* what the windows cover: there is no padding */
    for (int a = 0; a < 3; a++) in[a] = (o[a] - 1) * s[a] + (k[a] - 1) * d + 1;
    const long map = o[0] * o[1] * o[2], in_map = in[0] * in[1] * in[2];
    for (long n = 0; n < l->images; n++)
        for (long f = 0; f < l->filters; f++) {
            float *out = outputs + (n * l->filters + f) * map;
            memset(out, 0, map * sizeof *out);
            for (long c = 0; c < per_group; c++) {
                const float *x = inputs + (n * l->channels + f / filters * per_group + c) * in_map;
                const float *w = weights + (f * per_group + c) * k[0] * k[1] * k[2];
                for (long kz = 0; kz < k[0]; kz++)
                    for (long ky = 0; ky < k[1]; ky++)
                        for (long kx = 0; kx < k[2]; kx++) {
                            const float weight = *w++;
                            for (long z = 0; z < o[0]; z++)
                                for (long y = 0; y < o[1]; y++) {
                                    const float *row = x + ((z * s[0] + kz * d) * in[1] + y * s[1] + ky * d) * in[2]
                                                       + kx * d;
                                    float *to = out + (z * o[1] + y) * o[2];
                                    for (long i = 0; i < o[2]; i++) to[i] += weight * row[i * s[2]];
                                }
                        }
            }
        }
    return (size_t)l->images * l->filters * map;
}

static size_t stream(const struct layer *l) {
    float rest = 0.0f;
    for (long i = 0; i < l->columns; i++) outputs[i] = (i < l->rows ? inputs[i] : 0.0f) + 0.5f;
    for (long i = l->columns; i < l->rows; i++) rest += inputs[i];
    outputs[0] = rest;
    return l->columns > 0 ? (size_t)l->columns : 1;
}

int main(int argc, char **argv) {
    const int passes = argc > 1 ? atoi(argv[1]) : 1, count = sizeof layers / sizeof *layers;
    uint64_t checksum = 14695981039346656037u;     /* FNV-1a over the bits of every result */
    double macs = 0.0, weighted = 0.0;
    inputs = filled(INPUT_ELEMENTS, 1), weights = filled(WEIGHT_ELEMENTS, 2), outputs = filled(OUTPUT_ELEMENTS, 3);
    for (int pass = 0; pass < passes; pass++)
        for (int i = 0; i < count; i++) {
            const struct layer *l = layers + i;
            const size_t made = l->kind == PRODUCT ? product(l) : l->kind == CONVOLUTION ? convolution(l) : stream(l);
            for (size_t j = 0; j < made; j++) {
                uint32_t bits;
                memcpy(&bits, outputs + j, sizeof bits);
                checksum = (checksum ^ bits) * 1099511628211u;
            }
            macs += l->macs;
            if (pass == 0) weighted += l->macs * l->repeats;
        }
    printf("checksum %016llx\\nlayers %d\\nmacs %.0f\\nweighted_macs %.9g\\n",
           (unsigned long long)checksum, count, macs, weighted);
    return 0;
}
"""
