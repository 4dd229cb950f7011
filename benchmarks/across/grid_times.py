"""An operator's time on a device of the tables: its own row if there is one, else a plane through the nearest rows.

Rows of one kind (source, operator, dtype, variant, direction) stand on a grid of dims. Between its points the logarithm
of time is taken as linear in the logarithms of the dims (local linear regression: Cleveland 1979).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from statsnet.devices.tables.row import TableRow

NEAREST = (24, 96, 384)
"""How many of the nearest rows the plane is fitted to. The next number is tried if these rows do not vary in every size
in which they differ from the operator, or are too few."""

RIDGE = 1e-3
FARTHEST = math.log(8.0)
"""A row is no neighbour if one of its sizes differs by more than eightfold."""

Kind = tuple[str, str, str, str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TableTime:
    """Seconds of one call; `exact` if they are a row's own."""

    time_s: float
    exact: bool


class GridTimes:
    """Times of operators on the devices of some rows. Several rows of one operator count as one."""

    def __init__(self, rows: Iterable[TableRow]) -> None:
        self._exact: dict[object, dict[str, float]] = defaultdict(dict)
        self._kinds: dict[Kind, list[TableRow]] = defaultdict(list)
        for row in rows:
            known = self._exact[row.key]
            for device, time_s in row.time_s.items():
                known.setdefault(device, time_s)
            self._kinds[_kind(row)].append(row)
        self._dims: dict[Kind, np.ndarray] = {}

    def time(self, operator: TableRow, device: str) -> TableTime | None:
        """None if the device has neither this operator nor enough of its kind near it. The operator's own times are
        not looked at."""
        exact = self._exact.get(operator.key, {}).get(device)
        if exact is not None:
            return TableTime(exact, True)
        modelled = self._modelled(operator, device)
        return None if modelled is None else TableTime(modelled, False)

    def _modelled(self, operator: TableRow, device: str) -> float | None:
        kind = _kind(operator)
        rows = self._kinds.get(kind)
        if not rows:
            return None
        if kind not in self._dims:
            self._dims[kind] = np.array([_log_dims(row) for row in rows])
        away = self._dims[kind] - _log_dims(operator)
        near = np.flatnonzero((np.abs(away) <= FARTHEST).all(axis=1))
        near = near[np.argsort((away[near] ** 2).sum(axis=1), kind="stable")]
        timed_there = [int(i) for i in near if device in rows[i].time_s]
        for count in NEAREST:
            timed = timed_there[:count]
            at = away[timed]
            varied = [int(c) for c in np.flatnonzero(np.ptp(at, axis=0) > 0)] if timed else []
            alike = not (np.abs(np.delete(at, varied, axis=1)) > 0).any()
            if alike and len(timed) >= len(varied) + 2:
                break
        else:
            return None  # too few rows, or all have one size that the operator has not: nothing says what it does
        distance = np.sqrt((at**2).sum(axis=1))
        root = np.sqrt(1.0 / (distance + 0.05) ** 2)
        plane = np.column_stack([np.ones(len(timed)), at[:, varied]]) * root[:, None]
        logs = np.log([rows[i].time_s[device] for i in timed])
        level = float(logs.mean())
        penalty = np.diag([0.0, *([RIDGE * float(root @ root)] * len(varied))])
        solved = np.linalg.solve(plane.T @ plane + penalty, plane.T @ ((logs - level) * root))
        return math.exp(level + float(solved[0]))


def _kind(row: TableRow) -> Kind:
    return (row.source, row.operator, row.dtype, row.variant, row.direction, tuple(name for name, _ in row.dims))


def _log_dims(row: TableRow) -> np.ndarray:
    return np.log(np.maximum(np.array([size for _, size in row.dims], dtype=float), 0.5))
