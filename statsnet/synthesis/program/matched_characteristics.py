"""The characteristics to match as rows of the integer program, for targets and for candidates alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from statsnet.signatures.categories import FUSABLE
from statsnet.signatures.gpu import RATE_COUNTERS
from statsnet.signatures.statistics import HIGHEST_INTENSITY_BIN, LOWEST_INTENSITY_BIN, intensity_bin
from statsnet.signatures.target import Target
from statsnet.synthesis.costs.loads import MATCHED_COUNTERS, OperatorGroup, OperatorTable, StepLoad, load_of_target
from statsnet.synthesis.costs.overhead import NONE, Overheads
from statsnet.synthesis.program.elsewhere import Elsewhere
from statsnet.synthesis.program.modelled_devices import RecordedDevices, modelled_devices
from statsnet.synthesis.program.nearest_blocks import nearest_classes, with_nearest

Key = tuple[str, str]

WEIGHTS = {
    "total": 3.0,
    "category": 1.2,
    "kernel_class": 3.0,
    "kernel_shape": 1.0,
    "intensity": 0.8,
    "flops": 1.0,
    "bytes": 0.5,
    "class_flops": 1.0,
    "shape_flops": 0.7,
    "class_bytes": 0.5,
    "framework": 2.5,
    "overhead": 6.0,
    "weights": 6.0,
    "launches": 0.5,
    "loops": 0.3,
    "fused": 1.0,
    "joined": 3.0,
    "device": 1.0,
    "recorded": 6.0,
    "risk": 3.0,
    "counter": 1.0,
}
"""Weight of each group of rows in the objective. Shares and relative errors have the same unit. `intensity` is a
cumulative share per bin: the sum over bins is the earth mover's distance. `class_flops` and the like: see AMOUNTS.
`overhead` and `weights` (by category) are the shares of time that depend on calls and on weights, whatever the batch
(overhead.py): settings hardly change them. They weigh much because a category's share counts in several groups. `fused`
is the share of time by category in operators that a compiler would merge with the one before; `joined`, for
inference on a CPU, in those that other runtimes join to their neighbours (motifs.py). The weights of `device`,
`recorded` and `counter` are spread over all devices and all known counters. `recorded` is the time on a real device
that was recorded; such devices take the place of the modelled ones. `flops` and `bytes` are totals, and weigh little:
many of a suite's small operators find their operands in the caches, which no proxy's do so often, and to reach their
bytes it would take more operators of other classes. With 2 for both, `make demo` missed kernel classes by 6.8 points
and categories by 3.1; with these weights, in three runs, by 2.0 to 3.0 and 1.8 to 2.2. `risk` is the time × the risk of
operators that stand for larger or smaller ones (elsewhere.py). `launches` are calls per second ÷ the target's, times
the target's framework time: a short step makes several times as many, and that should matter as much as this time.
`loops` are bytes per second ÷ the target's in kernel classes of LOOPS, in inference."""

JOINED = frozenset({"convolution", "gemm", "normalization", "activation", "elementwise"})
"""Categories whose operators other runtimes may join to their neighbours."""

SPREAD = ("device", "recorded", "counter", "loops")

LOOPS = ("_embedding_bag|", "_embedding_bag_forward_only|")
"""Begins of kernel classes that torch exports to ONNX as a loop, because ONNX has no such operator: one pass for each
bag, tens of times as long as in torch. However little time they take here, there they may take most of it. Not under
`runtime=` (measure/onnx_bags.py)."""

SHARES = ("category", "kernel_class", "kernel_shape")
"""Groups that split the time of all operators; classes that the target lacks go to `elsewhere`."""

AMOUNTS = {
    "class_flops": ("kernel_class", "flops", "flops"),
    "shape_flops": ("kernel_shape", "flops", "flops"),
    "class_bytes": ("kernel_class", "bytes", "bytes"),
}
"""Group -> (how operators are classed, what counts, the target's amount that it is divided by). A row is the target's
share of time in the class, times the load's FLOPs or bytes ÷ the target's in that class. Why: a device that runs all
operators of a class at one rate takes time by their FLOPs or bytes, however long each took here. For instance, a
suite's products reach a half to all of a core's FLOP/s; if the library may only use shorter vectors, this difference
goes. The same holds for convolutions of one kernel class: each window and stride has a rate of its own."""

MOST_FASTER = 2.0
"""A row of AMOUNTS counts FLOPs and bytes for at most this many times the time that they took. What is beyond, the
target's calls spent on something else: of an addition of two numbers, nearly all is the call; and where a mask left
numbers near minus infinity, MKL takes their exponential one by one. Then a class's time matters more than its amounts.
"""


LAST_BIN = str(HIGHEST_INTENSITY_BIN - 1)
"""The highest bin has no row: with it, every load's sum is its whole time."""


class MatchedCharacteristics:
    """Row keys, weights and scale of one target. `vector(load, seconds)` gives the rows of a load that should fill
    `seconds`: shares of the time, relative rates, modelled factors. If `candidates` are given, what none of them has is
    asked for as what is nearest to it."""

    def __init__(
        self,
        target: Target,
        overheads: Overheads | None = None,
        elsewhere: Elsewhere | None = None,
        candidates: Sequence[StepLoad] = (),
    ) -> None:
        self.overheads = overheads or {}
        self.elsewhere = elsewhere
        self.suite_s = sum(m.latency_s for m in target.members)
        self.load = self.load_of(target)
        self.load = with_nearest(self.load, nearest_classes(self.load, candidates))
        groups = self.load.groups
        self.flops = sum(g.flops for g in groups)
        self.bytes = sum(g.bytes for g in groups)
        self.calls = sum(g.calls for g in groups)
        looped = _sums_by_class(groups, "kernel_class", "bytes") if target.mode == "inference" else {}
        self.looped = {name: nbytes for name, nbytes in looped.items() if name.startswith(LOOPS) and nbytes > 0}
        self.recorded = RecordedDevices(elsewhere.names, self.load) if elsewhere else None
        self.devices = modelled_devices(groups) if self.recorded is None or not self.recorded.names else []
        single = ("total", "framework", "overhead", "flops", "bytes", "launches")
        self.keys: list[Key] = [(group, "") for group in single]
        for group in SHARES:
            self.keys += [(group, name) for name in sorted({getattr(g, group) for g in groups})]
        self._unit_s = {group: _seconds_per_unit(groups, by, of) for group, (by, _, of) in AMOUNTS.items()}
        for group, (by, what, _) in AMOUNTS.items():
            amounts = _sums_by_class(groups, by, what)
            known = self._unit_s[group]
            self.keys += [(group, name) for name in sorted(amounts) if amounts[name] > 0 and name in known]
        _, of_weights_s = self._fixed_s(OperatorTable([groups]))
        of_weights = {g.category for g, time_s in zip(groups, of_weights_s, strict=True) if g.distinct * time_s > 0}
        self.keys += [("weights", name) for name in sorted(of_weights)]
        self.keys += [("intensity", str(b)) for b in range(LOWEST_INTENSITY_BIN, HIGHEST_INTENSITY_BIN)]
        fusable = sorted(FUSABLE & {g.category for g in groups})
        self.keys += [("fused", name) for name in fusable]
        if target.may_leave_torch:
            self.keys += [("joined", name) for name in sorted(JOINED & {g.category for g in groups})]
        self.keys += [("loops", name) for name in sorted(self.looped)]
        self.keys += [("device", str(i)) for i in range(len(self.devices))]
        if self.recorded is not None:
            self.keys += [("recorded", name) for name in self.recorded.names] + [("risk", "")]
        self.counters = {n: value for n, value in target.counters.items() if n in MATCHED_COUNTERS and value > 0}
        self.keys += [("counter", name) for name in self.counters]
        for group in SHARES:
            self.keys.append((group, "elsewhere"))
        self._index = {key: i for i, key in enumerate(self.keys)}
        sizes = Counter(group for group, _ in self.keys)
        spread = {group: sizes[group] for group in SPREAD}
        self.weights = np.array([WEIGHTS[group] / spread.get(group, 1) for group, _ in self.keys])
        self.target = self.vector(self.load)

    def load_of(self, target: Target) -> StepLoad:
        """One second of a target, or of a measured network."""
        return load_of_target(target, self.elsewhere)

    def vector(self, load: StepLoad, seconds: float = 1.0) -> np.ndarray:
        column: np.ndarray = self.matrix([load], seconds)[:, 0]
        return column

    def matrix(self, loads: Sequence[StepLoad], seconds: float = 1.0) -> np.ndarray:
        """A column for each load."""
        table = OperatorTable([load.groups for load in loads])
        framework_s = np.array([load.framework_s for load in loads])
        rows = _Rows(self._index, table)
        for group in SHARES:
            elsewhere = self._index[group, "elsewhere"]
            rows.add([self._index.get((group, getattr(g, group)), elsewhere) for g in table.groups], table.time_s)
        of_category = [g.category for g in table.groups]
        rows.add_known("fused", of_category, table.fused * table.time_s)
        rows.add_known("joined", of_category, table.joined * table.time_s)
        names = [g.kernel_class for g in table.groups]
        rows.add_known("loops", names, table.bytes / np.array([self.looped.get(name, np.inf) for name in names]))
        for group, (by, what, _) in AMOUNTS.items():
            names = [getattr(g, by) for g in table.groups]
            unit_s = np.array([self._unit_s[group].get(name, 0.0) for name in names])
            amounts_s = np.minimum(unit_s * getattr(table, what), MOST_FASTER * table.time_s)
            rows.add_known(group, names, amounts_s)
        of_calls_s, of_weights_s = self._fixed_s(table)
        rows.add_known("weights", [g.category for g in table.groups], table.distinct * of_weights_s)
        rows.add_known("intensity", [str(intensity_bin(g.flops, g.bytes)) for g in table.groups], table.time_s)
        bins = slice(self._index["intensity", str(LOWEST_INTENSITY_BIN)], self._index["intensity", LAST_BIN] + 1)
        out = rows.values
        out[bins] = np.cumsum(out[bins], axis=0)
        out[self.index("total")] = table.sums(table.time_s) + framework_s
        out[self.index("framework")] = framework_s
        out[self.index("overhead")] = table.sums(of_calls_s)
        out[self.index("flops")] = _ratio(table.sums(table.flops), self.flops)
        out[self.index("bytes")] = _ratio(table.sums(table.bytes), self.bytes)
        out[self.index("launches")] = self.load.framework_s * _ratio(table.sums(table.calls), self.calls)
        for i, device in enumerate(self.devices):
            out[self._index["device", str(i)]] = (table.sums(device.time_s(table)) + framework_s) / device.target_s
        if self.recorded is not None:
            for name, times_s in zip(self.recorded.names, self.recorded.times_s(table, framework_s), strict=True):
                out[self._index["recorded", name]] = times_s
            out[self.index("risk")] = table.sums(table.time_s * table.each(lambda g: g.fate.risk if g.fate else 0.0))
        for name, usual in self.counters.items():
            unit = usual if name in RATE_COUNTERS else 1.0
            known = np.array([dict(g.counters).get(name, usual) for g in table.groups])
            out[self._index["counter", name]] = table.sums(table.time_s * known) / unit
        return out / seconds

    def index(self, group: str) -> int:
        """Index of a group that is one row."""
        return self._index[group, ""]

    def foreign_share(self, load: StepLoad) -> float:
        """Share of a load's operator time in kernel classes that the target lacks."""
        spent = sum(g.time_s for g in load.groups)
        known = sum(g.time_s for g in load.groups if ("kernel_class", g.kernel_class) in self._index)
        return 1.0 - known / spent if spent > 0 else 0.0

    def _fixed_s(self, table: OperatorTable) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of each group's calls and of its weights, whatever the batch."""
        call_s = table.each(lambda g: self.overheads.get(g.kernel_class, NONE).call_s)
        weight_byte_s = table.each(lambda g: self.overheads.get(g.kernel_class, NONE).weight_byte_s)
        of_calls_s = np.minimum(table.calls * call_s, table.time_s)
        return of_calls_s, np.minimum(table.weights * weight_byte_s, table.time_s - of_calls_s)


class _Rows:
    """Rows × loads, to which amounts of operator groups are added."""

    def __init__(self, index: Mapping[Key, int], table: OperatorTable) -> None:
        self._index, self._table = index, table
        self.values = np.zeros((len(index), table.loads))

    def add(self, rows: Sequence[int], amounts: np.ndarray) -> None:
        """Each group's amount to its row; none to rows below 0."""
        chosen = np.array(rows, dtype=int)
        known = chosen >= 0
        np.add.at(self.values, (chosen[known], self._table.load[known]), amounts[known])

    def add_known(self, group: str, names: Sequence[str], amounts: np.ndarray) -> None:
        """To the rows of these names, where the target has them."""
        self.add([self._index.get((group, name), -1) for name in names], amounts)


def _sums_by_class(groups: Iterable[OperatorGroup], by: str, what: str) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for operators in groups:
        sums[getattr(operators, by)] += getattr(operators, what)
    return sums


def _seconds_per_unit(groups: Sequence[OperatorGroup], by: str, of: str) -> dict[str, float]:
    """Seconds that a class of the target spends on each FLOP or byte."""
    spent_s, amounts = _sums_by_class(groups, by, "time_s"), _sums_by_class(groups, by, of)
    return {name: spent_s[name] / amount for name, amount in amounts.items() if amount > 0}


def _ratio(values: np.ndarray, reference: float) -> np.ndarray:
    return values / reference if reference > 0 else np.zeros_like(values)
