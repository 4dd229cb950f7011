"""One scaled layer: the product at its new size as an operator with arguments, and what an array is predicted to do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from statsnet.exports.manifest import Cut, Layer, Scaling
from statsnet.exports.systolic import SPREAD, dims_of, utilisations
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.signatures.products import Product, Window
from statsnet.signatures.simulation import Prediction

Axis = Literal["batch", "rows", "columns", "depth"]


def scaled_product(original: Product, size: tuple[int, int, int], quantum: int) -> Product:
    """`size` is its rows, columns and depth. A convolution stays one, of one image without groups."""
    rows, columns, depth = size
    return Product(rows=rows, columns=columns, depth=depth,
                   window=_window(original.window, rows, columns, depth, quantum))  # fmt: skip


def scaled_layer(
    product: Product, original: Product, operator: str, dtype: str, *, index: int, repeats: float, macs_share: float,
) -> Layer:  # fmt: skip
    """A layer of one product, which came from an `original` one of `operator`."""
    window = product.window
    of_bytes = dtype in ("int8", "uint8")  # sums of their products take more bits
    written = "int32" if of_bytes else dtype
    args, outputs = _arguments(product, dtype, written)
    item = ITEM_SIZE.get(dtype, 4)
    elements = _elements(product)
    macs, category = float(product.dense_macs), "gemm" if window is None else "convolution"
    return Layer(
        index=index,
        name=f"s{index:04}_{category}",
        operator="aten.convolution.default" if window else "aten._int_mm.default" if of_bytes else "aten.mm.default",
        phase="forward",
        category=category,
        args=args,
        outputs=outputs,
        dtype=dtype,
        dtype_bits=8 * item,
        uses=(),
        repeats=repeats,
        products=(product,),
        macs=macs,
        flops=2 * macs,
        bytes_input=float(item * elements[0]),
        bytes_weight=float(item * elements[1]),
        bytes_written=float(ITEM_SIZE.get(written, 4) * elements[2]),
        time_s=None,
        scaling=Scaling(
            of_operator=operator,
            unscaled=original,
            cuts=_cuts(original, product),
            prediction=_prediction(original, product, item),
            macs_share=macs_share,
        ),
    )


def _window(window: Window | None, rows: int, columns: int, depth: int, quantum: int) -> Window | None:
    """The same kernel over a map of so many positions, as many wide as the quantum if they divide; None for what is a
    plain product."""
    if window is None or window.transposed or math.prod(window.kernel) == 1:
        return None
    width = quantum if rows % quantum == 0 else rows
    axes = len(window.kernel)
    out = (rows,) if axes == 1 else (*(1,) * (axes - 2), rows // width, width)
    made = replace(
        window, images=1, groups=1, in_channels=depth // math.prod(window.kernel), out_channels=columns, out_size=out,
        padding=(0,) * axes,
    )  # fmt: skip
    return replace(made, in_size=made.covered)


def _elements(product: Product) -> tuple[int, int, int]:
    """Number of elements of input, weight and output; of a convolution, those of one group."""
    w = product.window
    if w is None:
        return product.operand_elements
    channels, filters = w.in_channels // w.groups, w.out_channels // w.groups
    maps = w.images * channels * math.prod(w.in_size), w.images * filters * math.prod(w.out_size)
    return maps[0], channels * filters * math.prod(w.kernel), maps[1]


def _arguments(product: Product, dtype: str, written: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Encoded as signatures/operators.py says."""

    def tensor(*shape: int, dtype: str = dtype) -> dict[str, Any]:
        return {"shape": list(shape), "dtype": dtype}

    window = product.window
    if window is None:
        operands = tensor(product.rows, product.depth), tensor(product.depth, product.columns)
        return operands, (tensor(product.rows, product.columns, dtype=written),)
    axes = len(window.kernel)
    args = (
        tensor(1, window.in_channels, *window.in_size), tensor(window.out_channels, window.in_channels, *window.kernel),
        None, list(window.stride), [0] * axes, list(window.dilation), False, [0] * axes, 1,
    )  # fmt: skip
    return args, (tensor(1, window.out_channels, *window.out_size, dtype=written),)


def _cuts(original: Product, product: Product) -> tuple[Cut, ...]:
    axes: tuple[Axis, ...] = ("batch", "rows", "columns", "depth")
    pairs = ((axis, getattr(original, axis), getattr(product, axis)) for axis in axes)
    return tuple(Cut(axis=axis, unscaled=a, size=b, factor=a / b) for axis, a, b in pairs if a != b)


def _prediction(original: Product, product: Product, item_bytes: int) -> Prediction:
    before, after = (utilisations(dims_of([p]), SPREAD)[0] for p in (original, product))
    change = after / before - 1
    sets = [item_bytes * sum(_elements(p)) for p in (original, product)]
    return Prediction(
        utilisation_unscaled=float(np.mean(before)),
        utilisation=float(np.mean(after)),
        largest_change=float(change[np.argmax(np.abs(change))]),
        intensity_unscaled=2 * original.dense_macs / sets[0],
        intensity=2 * product.dense_macs / sets[1],
        working_set_bytes_unscaled=float(sets[0]),
        working_set_bytes=float(sets[1]),
    )
