"""The format `c`: one C99 file without a framework, for instruction-set simulators, emulators and cache simulators.

A table holds the layers and three loops run them: a direct convolution, a matrix product, and a stream that reads and
writes an operator's bytes. Data come from a fixed generator; the checksum is over the bits of every result, and floats
are never contracted or reordered, so it is the same on every IEEE 754 machine. Each distinct row runs once: the table
says how often it counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.registry import Exporter
from statsnet.signatures.canonical import number_text
from statsnet.signatures.products import Product, Window

STREAMED = frozenset({"activation", "elementwise", "normalization", "softmax", "pooling", "reduction",
                      "data_arrangement", "optimizer"})  # fmt: skip
"""Categories whose operators pass over their operands in order."""

LARGEST_ELEMENTS = 2**31 - 1
ELEMENT_BYTES = 4
FIELDS = 18
"""Numbers of a row: kind, rows, columns, depth, groups, images, channels, filters, out[3], kernel[3], stride[3], and
the dilation, which is alike on all axes; a stream has the elements that it reads and writes in rows and columns."""

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    numbers: Numbers
    macs: int
    repeats: float


class CSource(Exporter):
    """proxy.c alone."""

    name = "c"
    title = "a C program"

    def reason_against(self, layer: Layer) -> str | None:
        numbers = [n for n, _, _ in _numbers_of(layer)]
        if numbers:
            return "an operand has more than 2^31 elements" if any(map(_is_too_large, numbers)) else None
        if layer.macs is None:
            return "its products are not known"
        if layer.category not in STREAMED:
            return "it reads or writes at places that depend on data"
        return "its bytes are not known, or none"

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        return {"proxy.c": source(rows_of(manifest)).encode("ascii")}

    def notes(self, manifest: Manifest) -> list[str]:
        made = ["everything is computed in float32, whatever the layers' element types"]
        if any(not layer.products for layer in manifest.layers):
            made.append("operators without products are streams of their bytes: their arithmetic is one addition")
        return made


def _numbers_of(layer: Layer) -> list[tuple[Numbers, int, float]]:
    """Numbers of a row, multiply-adds, and how often one call runs it."""
    if layer.products:
        return [(_product_numbers(p), p.dense_macs * _groups(p), p.repeats / _groups(p)) for p in layer.products]
    if layer.category in STREAMED and layer.bytes_read is not None and layer.bytes_written is not None:
        read, written = (math.ceil(b / ELEMENT_BYTES) for b in (layer.bytes_read, layer.bytes_written))
        return [((2, read, written) + (0,) * (FIELDS - 3), 0, 1.0)] if read + written else []
    return []


def _groups(product: Product) -> int:
    """A convolution runs with all of its groups, any other product alone."""
    return product.window.groups if _is_direct(product.window) and product.window else 1


def _is_direct(window: Window | None) -> bool:
    return window is not None and not window.transposed and len(set(window.dilation)) == 1 and len(window.kernel) <= 3


def _product_numbers(product: Product) -> Numbers:
    window = product.window
    if window is None or not _is_direct(window):
        return (0, product.rows, product.columns, product.depth) + (0,) * (FIELDS - 4)

    def three(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * (3 - len(sizes)) + sizes

    return (1, product.rows, product.columns, product.depth, window.groups, window.images, window.in_channels,
            window.out_channels, *three(window.out_size), *three(window.kernel), *three(window.stride),
            window.dilation[0])  # fmt: skip


def _is_too_large(numbers: Numbers) -> bool:
    return max(_elements(numbers)) > LARGEST_ELEMENTS


def _elements(numbers: Numbers) -> tuple[int, int, int]:
    """Of input, weight and output."""
    kind, rows, columns, depth, groups, images, channels, filters, *axes = numbers
    if kind == 2:
        return rows, 0, columns
    if kind == 0:
        return rows * depth, depth * columns, rows * columns
    out, kernel, stride, dilation = axes[:3], axes[3:6], axes[6:9], axes[9]
    covered = math.prod((o - 1) * s + (k - 1) * dilation + 1 for o, k, s in zip(out, kernel, stride, strict=True))
    return (
        images * channels * covered,
        filters * (channels // groups) * math.prod(kernel),
        images * filters * math.prod(out),
    )


def rows_of(manifest: Manifest) -> list[Row]:
    """Each distinct row once, in the order of the layers, named by the first of them."""
    repeats: dict[Numbers, list[float]] = defaultdict(list)
    first: dict[Numbers, tuple[str, int]] = {}
    for layer in manifest.layers:
        for numbers, macs, times in _numbers_of(layer):
            first.setdefault(numbers, (layer.name, macs))
            repeats[numbers].append(layer.repeats * times)
    return [Row(first[n][0], n, first[n][1], math.fsum(found)) for n, found in repeats.items()]


def source(rows: list[Row]) -> str:
    """Text of proxy.c."""
    largest = [max(sizes) for sizes in zip(*(_elements(row.numbers) for row in rows), strict=True)]
    table = "\n".join(
        f'    {{{_braced(row.numbers)}, {row.macs}.0, {number_text(row.repeats)}, "{row.name}"}},' for row in rows
    )
    sizes = "\n".join(
        f"#define {name}_ELEMENTS {max(1, count)}ul"
        for name, count in zip(("INPUT", "WEIGHT", "OUTPUT"), largest, strict=True)
    )
    return _TEMPLATE.replace("@SIZES@", sizes).replace("@TABLE@", table)


def _braced(numbers: Numbers) -> str:
    """The numbers with their arrays of three in braces."""
    parts = [", ".join(map(str, numbers[a:b])) for a, b in ((0, 8), (8, 11), (11, 14), (14, 17))]
    return f"{parts[0]}, {{{parts[1]}}}, {{{parts[2]}}}, {{{parts[3]}}}, {numbers[17]}"


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
    float *data = malloc(count * sizeof *data);
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
