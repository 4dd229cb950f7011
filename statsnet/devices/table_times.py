<<<<<<< HEAD
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
"""So many rows a plane is laid through: of the numbers the first with which they surround the operator well enough."""

RIDGE = 1e-3
FARTHEST = math.log(8.0)
"""A row is no neighbour if one of its sizes differs by more than eightfold."""

Kind = tuple[str, str, str, str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TableTime:
    """Seconds of one call; `exact` if they are a row's own."""

    time_s: float
    exact: bool


class TableTimes:
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
            return None  # too few rows, or all of them differ from it in one size and nothing says what that does
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
=======
"""Times of captured calls on a device that published tables recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from statsnet.devices.device_record import DeviceRecord
from statsnet.devices.hardware import UNKNOWN, chip_of
from statsnet.devices.kernel_model import Estimate
from statsnet.devices.operator_mapping import Mapped, mapped
from statsnet.devices.tables.row import TableRow
from statsnet.profiling.build_signature import coarse_arguments
from statsnet.profiling.costs import cost_of
from statsnet.profiling.kernels import kernel_class
from statsnet.signatures.model import Environment
from statsnet.signatures.operators import bytes_of, dtype_of

UNKNOWN_KERNEL = "unknown"
NO_GPUS = ("intel-", "cpu-", "raspberry-", "apple-")


class TableTimes:
    """Times from a record. What no table has is a roofline estimate."""

    def __init__(self, record: DeviceRecord) -> None:
        self.record = record
        self._estimates: dict[str, Estimate] = {}

    @property
    def operators(self) -> int:
        """How many operators were measured."""
        return self.record.measured

    def estimate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        """The estimate for one call."""
        key = json.dumps([op, phase, coarse_arguments(list(args)), list(outputs)], sort_keys=True)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(op, args, outputs)
        return self._estimates[key]

    def _estimate(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        parts = mapped(op, args, outputs)
        named = kernel_class(op, list(args), list(outputs), UNKNOWN_KERNEL)
        if parts and all(self._knows(part) for part in parts):
            predictions = self.record.predict([_row(part) for part in parts])
            time_s = sum(p.time_s for p in predictions)
            return Estimate(time_s=time_s, kernel=UNKNOWN_KERNEL, kernel_class=named, evidence="model")
        cost = cost_of(op, list(args), list(outputs))
        flops, nbytes = (
            (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, float(bytes_of(args, outputs)))
        )
        rough = self.record.reached.estimate(dtype_of(args, outputs), flops, nbytes)
        return Estimate(time_s=rough.time_s, kernel=UNKNOWN_KERNEL, kernel_class=named, evidence="roofline")

    def _knows(self, part: Mapped) -> bool:
        names = [name for name, _ in part.dims]
        known = self.record.model_for(part.operator, part.dtype, part.direction, names=names, variant=part.variant)
        return known is not None


def _row(part: Mapped) -> TableRow:
    return TableRow(
        source="", operator=part.operator, dtype=part.dtype, dims=part.dims, variant=part.variant,
        direction=part.direction, time_s={},
    )  # fmt: skip


def environment_of(record: DeviceRecord) -> Environment:
    """What the record knows of where its operators ran."""
    chip = chip_of(record.device)
    kind: Literal["cpu", "cuda"] = "cpu" if record.device.startswith(NO_GPUS) else "cuda"
    environment: Environment = {
        "device": kind, "device_name": record.device, "cpu_model": None, "cpu_capability": None, "isa": [],
        "threads": None, "interop_threads": None, "cores": None, "memory_bytes": None, "torch": None, "python": None,
        "os": None, "mkl": None, "onednn": None, "cuda": None, "driver": None, "settings": {}, "allocator": {},
    }  # type: ignore[typeddict-item]  # fmt: skip
    if chip is not UNKNOWN and kind == "cuda":
        environment["gpu"] = {"multiprocessors": chip.cores}
    return environment
>>>>>>> w-b
