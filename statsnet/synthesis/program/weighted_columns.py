"""A program's columns in the form in which many changes of the counts are tried at once."""

from __future__ import annotations

import numpy as np

from statsnet.synthesis.program.integer_program import Program

USUAL_ROW = 0.1
"""A row in which more than this share of the columns has a value is stored in full."""

SIMILAR = 24
"""How many similar columns of each are looked up."""


class WeightedColumns:
    """A program's columns times the rows' weights.

    Blocks have values in all rows that stand for a whole step, but only in those few rows of kernels that stand for
    their own. So the former are stored in full; of the latter, each column lists the values that are not zero. Rows
    without any value are left out. What is only compared is in single precision, which is several times faster.
    """

    def __init__(self, program: Program) -> None:
        weighted = (program.matrix * program.weight[:, None]).T
        share = (weighted != 0).mean(axis=0)
        usual, rare = np.flatnonzero(share > USUAL_ROW), np.flatnonzero((share > 0) & (share <= USUAL_ROW))
        rows = np.concatenate([usual, rare])
        self.values = np.ascontiguousarray(weighted[:, rows])
        """Columns × rows."""
        self._target = (program.target * program.weight)[rows]
        self.left_out = float(program.weight[share == 0] @ np.abs(program.target[share == 0]))
        """The error of the rows without values."""
        self._usual = len(usual)
        self._full = self.values[:, : self._usual].astype(np.float32)
        self._rows, self._listed = _lists(self.values, self._usual)
        self.similar, self.times = _similar(self.values)
        """For each column those that are most like it, and how many of them come nearest to one of it."""

    def residual(self, counts: np.ndarray, used: np.ndarray) -> np.ndarray:
        residual: np.ndarray = counts[used] @ self.values[used] - self._target
        return residual

    def growth(self, residuals: np.ndarray, columns: np.ndarray | slice, times: np.ndarray | None = None) -> np.ndarray:
        """How much the error of each residual grows with one more of each column, or with so many: residuals × columns.
        All residuals have the same columns, or each its own."""
        residuals = residuals.astype(np.float32)
        full, rows, listed = self._full[columns], self._rows[columns], self._listed[columns]
        if times is not None:
            factor = times.astype(np.float32)[..., None]
            full, listed = full * factor, listed * factor
        usual = residuals[:, : self._usual]
        touched = residuals[:, rows] if rows.ndim == 2 else residuals[np.arange(len(rows))[:, None, None], rows]
        after = _size(usual[:, None] + full) + _size(touched + listed)
        before = np.abs(usual).sum(axis=1)[:, None] + _size(touched)
        grown: np.ndarray = after - before
        return grown


def _size(values: np.ndarray) -> np.ndarray:
    """Sums of magnitudes along the last axis. The values are overwritten, because memory for others takes longer."""
    np.abs(values, out=values)
    sums: np.ndarray = values @ np.ones(values.shape[-1], dtype=values.dtype)
    return sums


def _lists(values: np.ndarray, begin: int) -> tuple[np.ndarray, np.ndarray]:
    """For each column the rows from `begin` on in which it has a value, and these. All lists are as long as the longest
    one, with zeros."""
    rare = values[:, begin:]
    has_value = rare != 0
    longest = int(has_value.sum(axis=1).max(initial=0))
    rows = np.argsort(~has_value, axis=1, kind="stable")[:, :longest]
    return rows + begin, np.take_along_axis(rare, rows, axis=1).astype(np.float32)


def _similar(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By the angle between columns."""
    length = np.maximum(np.linalg.norm(values, axis=1), np.finfo(float).tiny)
    directions = (values / length[:, None]).astype(np.float32)
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -np.inf)
    similar = np.argsort(-cosines, axis=1, kind="stable")[:, : min(SIMILAR, len(values) - 1)]
    times = np.take_along_axis(cosines, similar, axis=1) * length[:, None] / length[similar]
    return similar, times
