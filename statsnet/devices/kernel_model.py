"""How long an operator takes on a device that is not at hand, from what was measured there.

If the same arguments were measured, their time is used. Otherwise the model of performance_model.py predicts it from
the entries of this kind of operator. If these are too few, a regressor for its category (extremely randomised trees,
Geurts, Ernst and Wehenkel 2006) predicts an operator's time ÷ its roofline time from its work and its tensors' dims:
this ratio changes less from size to size than the time itself. If these are too few too, the roofline times the usual
ratio.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from statsnet.devices.fit_performance import fit_kind, is_enough
from statsnet.devices.operator_mapping import table_operator
from statsnet.devices.performance_model import Evidence, Kind, KindModel, kind_of, predict_rows
from statsnet.devices.tables.row import Merged, TableRow
from statsnet.devices.tables.words import ATTENTIONS
from statsnet.errors import UsageError
from statsnet.profiling.coarse_scalars import call_key
from statsnet.profiling.costs import work_of_call
from statsnet.signatures.categories import base_name, categorize
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.operators import TensorSpec, dtype_of, tensors_of

FEWEST = 8
"""A model needs entries of at least this many different sizes."""

TENSORS, AXES = 4, 5
"""The features hold this many tensors of each operator, and this many of their last dims."""

REACHED = 0.95
"""This quantile of all entries' rates is taken as the device's peak, and (from below) of times as its shortest call."""

CATEGORY = "category "


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One measured operator: its arguments as encoded by signatures/operators.py, and the seconds of one call."""

    op: str
    phase: str
    args: Sequence[Any]
    outputs: Sequence[Any]
    time_s: float
    kernel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds of one call, and the kernel that runs it, taken from the most similar entry."""

    time_s: float
    kernel: str
    kernel_class: str
    evidence: Evidence


@dataclass(slots=True, kw_only=True)
class _Group:
    """Entries of one kind of operator or of one category."""

    features: np.ndarray
    residuals: np.ndarray
    """ln(time over roofline time)."""
    kernels: list[str]
    trees: Any = None

    def predict(self, features: np.ndarray) -> float:
        if self.trees is None:
            self.trees = _trees().fit(self.features, self.residuals)
        return float(self.trees.predict(features[None])[0])

    def nearest(self, features: np.ndarray) -> str:
        return self.kernels[int(np.abs(self.features - features).sum(axis=1).argmin())]


class KernelModel:
    """Times of operators on `device` (a canonical name), where `known` were measured. Raises ValueError if there are
    none, UsageError if nothing tells their sizes."""

    def __init__(self, known: Iterable[Known], device: str = "unknown") -> None:
        entries = [k for k in known if k.time_s > 0]
        if not entries:
            raise ValueError("a device without measured operators")
        self.device = device
        self.operators = len(entries)
        self._estimates: dict[str, Estimate] = {}
        self._exact: dict[str, list[Known]] = defaultdict(list)
        for entry in entries:
            self._exact[call_key(entry.op, entry.phase, entry.args, entry.outputs)].append(entry)
        work = [work_of_call(e.op, e.args, e.outputs) for e in entries]
        times = np.array([e.time_s for e in entries])
        self.flops_per_s = _reached([f / t for (f, _), t in zip(work, times, strict=True) if f > 0], REACHED)
        self.bytes_per_s = _reached([b / t for (_, b), t in zip(work, times, strict=True) if b > 0], REACHED)
        self.shortest_s = _reached(times, 1 - REACHED)
        if not math.isfinite(self.bytes_per_s):
            raise UsageError(
                "the device's record tells no operator's sizes",
                cause="it was recorded without shapes",
                hint="record with record_shapes=True, or use another record",
            )
        features = [_features(e.op, e.args, e.outputs) for e in entries]
        residuals = [math.log(e.time_s / self._roofline_s(*w)) for e, w in zip(entries, work, strict=True)]
        self._usual = median(residuals)
        rows = _rows_by_kind(entries, device)
        self._kinds = {kind: of_kind for kind, of_kind in rows.items() if is_enough(of_kind, FEWEST)}
        self._models: dict[_Kind, KindModel] = {}
        self._groups: dict[str, _Group] = {}
        members: dict[str, list[int]] = defaultdict(list)
        for i, entry in enumerate(entries):
            for name in _groups_of(entry.op, entry.phase, entry.args, entry.outputs):
                members[name].append(i)
        for name, places in members.items():
            self._groups[name] = _Group(
                features=np.stack([features[i] for i in places]),
                residuals=np.array([residuals[i] for i in places]),
                kernels=[entries[i].kernel for i in places],
            )

    def estimate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        """The estimate for one call."""
        key = call_key(op, phase, args, outputs)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(key, op, phase, args, outputs)
        return self._estimates[key]

    def _estimate(self, key: str, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        evidence: Evidence = "exact"
        if entries := self._exact.get(key):
            time_s, kernel = median(entry.time_s for entry in entries), entries[0].kernel
        else:
            time_s, kernel, evidence = self._modelled(op, phase, args, outputs)
        named = kernel_class(op, list(args), list(outputs), kernel)
        return Estimate(time_s=time_s, kernel=kernel, kernel_class=named, evidence=evidence)

    def _modelled(
        self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[float, str, Evidence]:
        features = _features(op, args, outputs)
        names = _groups_of(op, phase, args, outputs)
        groups = [self._groups[name] for name in names if name in self._groups]
        kernel = groups[0].nearest(features) if groups else "unknown"
        roofline_s = self.roofline_s(op, args, outputs)
        time_s = self._of_kind(op, args, outputs)
        if time_s is not None:
            return time_s, kernel, "model"
        for group in groups:
            if len(group.residuals) >= FEWEST:
                return roofline_s * math.exp(group.predict(features)), kernel, "model"
        return roofline_s * math.exp(self._usual), kernel, "roofline"

    def roofline_s(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> float:
        """Seconds of one call by the rates that the device reached."""
        return self._roofline_s(*work_of_call(op, args, outputs))

    def _roofline_s(self, flops: float, nbytes: float) -> float:
        return max(flops / self.flops_per_s, nbytes / self.bytes_per_s, self.shortest_s)

    def _of_kind(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> float | None:
        """Seconds by the model of this kind of operator; None if it has too few entries."""
        row = table_operator(op, args, outputs).row()
        kind = _kind(op, row)
        if kind not in self._kinds:
            return None
        return float(predict_rows(self._model(kind), self.device, [row])[0])

    def _model(self, kind: _Kind) -> KindModel:
        if kind not in self._models:
            self._models[kind] = fit_kind(self._kinds[kind], self.device)
        return self._models[kind]

    def errors(self) -> dict[str, tuple[int, float]]:
        """By kind of operator: the number of entries with different arguments, and the median of |predicted ÷ measured
        − 1| of entries that the fit had not seen."""
        found = {kind: self._model(kind).held_out for kind in sorted(self._kinds)}
        return {_title(kind): (len(self._kinds[kind]), held_out.median_error) for kind, held_out in found.items()}


_Kind = tuple[str, Kind]
"""ATen's name, and the kind of its rows: on a CPU operators differ that a GPU runs alike."""


def _rows_by_kind(entries: Iterable[Known], device: str) -> dict[_Kind, list[TableRow]]:
    """The entries as rows; those with equal arguments are one."""
    merged: dict[_Kind, Merged] = defaultdict(Merged)
    for e in entries:
        row = table_operator(e.op, e.args, e.outputs).row(time_s={device: e.time_s})
        merged[_kind(e.op, row)].add(row)
    return {kind: list(rows.rows()) for kind, rows in merged.items()}


def _kind(op: str, row: TableRow) -> _Kind:
    return base_name(op), kind_of(row)


def _title(kind: _Kind) -> str:
    """`mm float32`, with what tells kinds of one ATen operator apart: `by work` if no word of the tables describes its
    calls, the direction of a part of a backward, which attention."""
    name, (operator, dtype, direction, _) = kind
    more = [] if direction == "forward" else [direction]
    if operator.startswith("aten."):
        more.append("by work")
    elif operator in ATTENTIONS:
        more.append(operator.removeprefix("attention_"))
    return " ".join((name, dtype, *more))


def _trees() -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(n_estimators=50, random_state=0)


def _groups_of(op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[str, str]:
    """The kind of operator and dtype, then the category and dtype."""
    dtype = dtype_of(args, outputs)
    return f"{base_name(op)} {dtype}", f"{CATEGORY}{categorize(op, phase)} {dtype}"


def _features(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> np.ndarray:
    flops, nbytes = work_of_call(op, args, outputs)
    row = [math.log2(flops + 1), math.log2(nbytes + 1)]
    tensors: list[TensorSpec | None] = [*tensors_of(args), *tensors_of(outputs)]
    for tensor in (tensors + [None] * TENSORS)[:TENSORS]:
        dims = [] if tensor is None else [math.log2(n + 1) for n in tensor.shape[-AXES:]]
        row += [0.0] * (AXES - len(dims)) + dims
        row.append(float(tensor is not None and tensor.strides is not None))
    return np.array(row)


def _reached(rates: Iterable[float], quantile: float) -> float:
    known = list(rates)
    return float(np.quantile(known, quantile)) if known else math.inf
