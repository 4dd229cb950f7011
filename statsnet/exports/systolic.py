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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from statsnet.signatures.products import Product

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


def _drawn(count: int) -> Iterator[tuple[int, int]]:
    """Rows and columns between 8 and 256, evenly on a logarithmic scale; the same numbers everywhere."""
    exponents = np.random.RandomState(3).uniform(3, 8, size=(count, 2))
    yield from ((int(rows), int(columns)) for rows, columns in np.rint(2**exponents))


def _designs(shapes: Iterable[tuple[int, int]]) -> tuple[Design, ...]:
    return tuple(Design(*shape, dataflow) for shape in shapes if shape not in CHECKED for dataflow in DATAFLOWS)


CHECKED = ((16, 16), (32, 32), (128, 128))
"""Arrays that benchmarks/presilicon.py checks scaled layers on: no others are kept out of the spread."""

_SIDES = (8, 16, 32, 64, 128, 256)
USUAL = _designs((rows, columns) for rows in _SIDES for columns in _SIDES)
"""Arrays as they are built: both sides are powers of two. All pairs but the CHECKED are there: many weights fit a few
of them, and are far off on the others."""

SPREAD = (*USUAL, *_designs(_drawn(80)))
"""Designs over which scaled layers are chosen: the usual ones, and arrays of any size, which most layers do not fill
evenly."""


def cycle_table(dims: np.ndarray, designs: Sequence[Design]) -> np.ndarray:
    """Stall-free cycles [products, designs] of dense products with rows, columns and depth `dims` [products, 3]."""
    rows, columns, depth = dims.astype(np.int64).T
    table = np.empty((len(dims), len(designs)), dtype=np.int64)
    for place, design in enumerate(designs):
        across, down, streamed = _mapped(rows, columns, depth)[design.dataflow]
        folds = -(-across // design.rows) * -(-down // design.columns)
        fill = design.rows if design.dataflow == "os" else 2 * design.rows
        table[:, place] = folds * (fill + design.columns + streamed - 2) - 1
    return table


def cycles(product: Product, design: Design) -> int:
    """Stall-free cycles of one of the dense products."""
    return int(cycle_table(dims_of([product]), [design])[0, 0])


def dims_of(products: Sequence[Product]) -> np.ndarray:
    """Rows, columns and depth [products, 3]."""
    return np.array([(p.rows, p.columns, p.depth) for p in products], dtype=np.int64).reshape(-1, 3)


def total_cycles(products: Sequence[tuple[Product, float]], designs: Sequence[Design]) -> np.ndarray:
    """The cycles of all products, each with how often its dense product runs; one sum for each design."""
    return np.asarray(np.array([r for _, r in products]) @ cycle_table(dims_of([p for p, _ in products]), designs))


def utilisations(dims: np.ndarray, designs: Sequence[Design]) -> np.ndarray:
    """Multiply-adds per multiplier and cycle [products, designs]."""
    multipliers = np.array([d.rows * d.columns for d in designs])
    return np.asarray(np.prod(dims, axis=1, dtype=float)[:, None] / (cycle_table(dims, designs) * multipliers))


def _mapped(rows: np.ndarray, columns: np.ndarray, depth: np.ndarray) -> dict[Dataflow, tuple[np.ndarray, ...]]:
    """The sizes on the array's rows, on its columns, and in time."""
    return {"os": (rows, columns, depth), "ws": (depth, columns, rows), "is": (depth, rows, columns)}
