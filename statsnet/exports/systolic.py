"""Cycles of a systolic array without stalls, in closed form: what SCALE-Sim 3.0.0 counts when its memories keep up.

An array of R x C multipliers computes a product in folds, each of which fills the array once. With S_r and S_c the
sizes that lie on the array's rows and columns, and T the one that streams through:

    folds = ceil(S_r / R) * ceil(S_c / C)
    output stationary             cycles = folds * (R + C + T - 2) - 1       S_r rows,  S_c columns, T depth
    weight stationary             cycles = folds * (2 R + C + T - 2) - 1     S_r depth, S_c columns, T rows
    input stationary              cycles = folds * (2 R + C + T - 2) - 1     S_r depth, S_c rows,    T columns

(Samajdar et al., "A Systematic Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim", 2020).
tests/exports/test_scalesim.py compares them with SCALE-Sim itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from statsnet.exports.products import Product

Dataflow = Literal["os", "ws", "is"]
DATAFLOWS: tuple[Dataflow, ...] = ("os", "ws", "is")


@dataclass(frozen=True, slots=True, order=True)
class Design:
    """An array of `rows` x `columns` multipliers and what stays in it."""

    rows: int
    columns: int
    dataflow: Dataflow

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns} {self.dataflow}"


SPREAD = tuple(
    Design(rows, columns, dataflow)
    for rows, columns in (
        (8, 8), (12, 12), (24, 24), (48, 48), (64, 64), (96, 96), (192, 192), (256, 256),
        (8, 64), (64, 8), (24, 96), (96, 24), (64, 256), (256, 64),
    )
    for dataflow in DATAFLOWS
)  # fmt: skip
"""Designs over which scaled layers are chosen. Those of benchmarks/presilicon.py are not among them."""


def cycles(product: Product, design: Design) -> int:
    """Stall-free cycles of one of the dense products."""
    across, down, streamed = _mapped(product, design.dataflow)
    folds = math.ceil(across / design.rows) * math.ceil(down / design.columns)
    fill = design.rows if design.dataflow == "os" else 2 * design.rows
    return folds * (fill + design.columns + streamed - 2) - 1


def total_cycles(products: Iterable[tuple[Product, float]], design: Design) -> float:
    """Of products, each with how often it runs (in dense products)."""
    return math.fsum(repeats * cycles(product, design) for product, repeats in products)


def utilisation(product: Product, design: Design) -> float:
    """Multiply-adds per multiplier and cycle, of one of the dense products."""
    return product.dense_macs / (cycles(product, design) * design.rows * design.columns)


def _mapped(product: Product, dataflow: Dataflow) -> tuple[int, int, int]:
    """The sizes on the array's rows, on its columns, and in time."""
    if dataflow == "os":
        return product.rows, product.columns, product.depth
    if dataflow == "ws":
        return product.depth, product.columns, product.rows
    return product.depth, product.rows, product.columns
