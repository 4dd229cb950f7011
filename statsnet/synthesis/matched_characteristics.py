"""The characteristics to match as rows of the integer program, for targets and for candidates alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from statsnet.signatures.categories import FUSABLE
from statsnet.signatures.gpu import RATE_COUNTERS
from statsnet.signatures.statistics import HIGHEST_INTENSITY_BIN, LOWEST_INTENSITY_BIN, intensity_bin
from statsnet.signatures.target import Target
from statsnet.synthesis.loads import MATCHED_COUNTERS, OperatorGroup, StepLoad, load_of_target
from statsnet.synthesis.modelled_devices import Device, modelled_devices
from statsnet.synthesis.overhead import NONE, Overheads

Key = tuple[str, str]

WEIGHTS = {
    "total": 3.0,
    "category": 1.2,
    "kernel_class": 1.5,
    "kernel_shape": 1.0,
    "intensity": 0.8,
    "flops": 2.0,
    "bytes": 2.0,
    "class_flops": 1.0,
    "shape_flops": 0.7,
    "class_bytes": 0.5,
    "framework": 2.5,
    "overhead": 6.0,
    "weights": 6.0,
    "launches": 0.5,
    "fused": 1.0,
    "device": 1.0,
    "counter": 1.0,
}
"""Weight of each group in the objective. Shares and relative errors are of the same unit; `intensity` is a
cumulative share per bin, of which the earth mover's distance is the sum; `class_flops` and the like: see AMOUNTS;
`overhead` and `weights`, the latter by category, are the shares of time that go by calls and by weights, whatever the
batch (overhead.py): what a setting hardly changes, where a category's share counts in several groups; `fused` is the
share of time by category in operators that a compiler would run in one pass with the one before them; `device` and
`counter` are spread over all devices and all counters that are known; `launches` are calls per second as multiples of
the target's, in units of its framework time: a short step makes several times as many, and that is to matter as much
as this time does."""

SHARES = ("category", "kernel_class", "kernel_shape")
"""Groups that split the time of all operators; what a target's have no class for goes `elsewhere`."""

AMOUNTS = {
    "class_flops": ("kernel_class", "flops", "flops"),
    "shape_flops": ("kernel_shape", "flops", "flops"),
    "class_bytes": ("kernel_class", "bytes", "bytes"),
}
"""Group -> (how operators are classed, what counts, over which amount of the target's). What the operators of a class
do besides taking time: a row is the class's share of time, times what is found over all of the class's FLOPs or bytes.
Where another device levels a class's operators, all at one rate, it is their FLOPs or bytes that its time goes by,
whatever each took here: products of a suite reach a half to all of a core's FLOP/s, and lose the difference where the
library may only use shorter vectors; so do convolutions of one kernel class, of each window and stride at a rate of its
own."""


class MatchedCharacteristics:
    """Row keys, weights and scale of one target. `vector(load, seconds)` gives the rows of a load that is to fill
    `seconds`: shares of the time, relative rates, modelled factors."""

    def __init__(self, target: Target, overheads: Overheads | None = None) -> None:
        self.overheads = overheads or {}
        self.load = load_of_target(target)
        works = self.load.works
        self.flops = sum(w.flops for w in works)
        self.bytes = sum(w.bytes for w in works)
        self.calls = sum(w.calls for w in works)
        self.devices = modelled_devices(works)
        self.keys: list[Key] = [
            (g, "") for g in ("total", "framework", "overhead", "flops", "bytes", "launches")
        ]
        for group in SHARES:
            self.keys += [(group, name) for name in sorted({getattr(w, group) for w in works})]
        self._units = {g: _units(works, by, of) for g, (by, _, of) in AMOUNTS.items()}
        for group, (by, what, _) in AMOUNTS.items():
            amounts = _sums(works, by, what)
            known = self._units[group]
            self.keys += [(group, name) for name in sorted(amounts) if amounts[name] > 0 and name in known]
        of_weights = self._weights_s(self.load)
        self.keys += [("weights", name) for name in sorted(of_weights) if of_weights[name] > 0]
        self.keys += [("intensity", str(b)) for b in range(LOWEST_INTENSITY_BIN, HIGHEST_INTENSITY_BIN)]
        self.keys += [("fused", name) for name in sorted(FUSABLE & {w.category for w in works})]
        self.keys += [("device", str(i)) for i in range(len(self.devices))]
        self.counters = {
            n: value for n, value in target.counters.items() if n in MATCHED_COUNTERS and value > 0
        }
        self.keys += [("counter", name) for name in self.counters]
        for group in SHARES:
            self.keys.append((group, "elsewhere"))
        self._index = {key: i for i, key in enumerate(self.keys)}
        sizes = {"device": len(self.devices), "counter": len(self.counters)}
        self.weights = np.array([WEIGHTS[g] / sizes.get(g, 1) for g, _ in self.keys])
        self.target = self.vector(self.load)

    def vector(self, load: StepLoad, seconds: float = 1.0) -> np.ndarray:
        out = np.zeros(len(self.keys))
        cumulative: dict[int, float] = defaultdict(float)
        for work in load.works:
            for group in SHARES:
                out[self._row(group, getattr(work, group))] += work.time_s / seconds
            cumulative[intensity_bin(work.flops, work.bytes)] += work.time_s / seconds
            if ("fused", work.category) in self._index:
                out[self._index["fused", work.category]] += work.fused * work.time_s / seconds
        for group, (by, what, _) in AMOUNTS.items():
            for name, found in _sums(load.works, by, what).items():
                if (group, name) in self._index:
                    out[self._index[group, name]] = self._units[group][name] * found / seconds
        out[self.index("total")] = load.time_s / seconds
        out[self.index("framework")] = load.framework_s / seconds
        out[self.index("overhead")] = self._overhead_s(load) / seconds
        for name, time_s in self._weights_s(load).items():
            if ("weights", name) in self._index:
                out[self._index["weights", name]] = time_s / seconds
        out[self.index("flops")] = _ratio(sum(w.flops for w in load.works), self.flops * seconds)
        out[self.index("bytes")] = _ratio(sum(w.bytes for w in load.works), self.bytes * seconds)
        calls = _ratio(sum(w.calls for w in load.works), self.calls * seconds)
        out[self.index("launches")] = self.load.framework_s * calls
        running = 0.0
        for bin_ in range(LOWEST_INTENSITY_BIN, HIGHEST_INTENSITY_BIN):
            running += cumulative[bin_]
            out[self._index["intensity", str(bin_)]] = running
        for i, device in enumerate(self.devices):
            out[self._index["device", str(i)]] = _device_time(device, load) / seconds
        for name, usual in self.counters.items():
            unit = usual if name in RATE_COUNTERS else 1.0
            held = sum(w.time_s * dict(w.counters).get(name, usual) for w in load.works)
            out[self._index["counter", name]] = held / unit / seconds
        return out

    def index(self, group: str) -> int:
        """Place of a group that is one row."""
        return self._index[group, ""]

    def foreign_share(self, load: StepLoad) -> float:
        """Share of a load's operator time in kernel classes that the target lacks."""
        spent = sum(w.time_s for w in load.works)
        known = sum(w.time_s for w in load.works if ("kernel_class", w.kernel_class) in self._index)
        return 1.0 - known / spent if spent > 0 else 0.0

    def _overhead_s(self, load: StepLoad) -> float:
        return sum(self.overheads.get(w.kernel_class, NONE).of_calls_s(w) for w in load.works)

    def _weights_s(self, load: StepLoad) -> dict[str, float]:
        """Seconds by category, as if each weight were read once a step."""
        found: dict[str, float] = defaultdict(float)
        for work in load.works:
            overhead = self.overheads.get(work.kernel_class, NONE)
            found[work.category] += work.distinct * overhead.of_weights_s(work)
        return found

    def _row(self, group: str, name: str) -> int:
        return self._index.get((group, name), self._index[group, "elsewhere"])


def _device_time(device: Device, load: StepLoad) -> float:
    """Modelled time, in units in which the target's is 1."""
    return (sum(device.time_s(w) for w in load.works) + load.framework_s) / device.target_s


def _sums(works: Iterable[OperatorGroup], by: str, what: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for work in works:
        found[getattr(work, by)] += getattr(work, what)
    return found


def _units(works: Sequence[OperatorGroup], by: str, of: str) -> dict[str, float]:
    """Seconds that a class of the target spends on each FLOP or byte."""
    spent_s, amounts = _sums(works, by, "time_s"), _sums(works, by, of)
    return {name: spent_s[name] / amount for name, amount in amounts.items() if amount > 0}


def _ratio(value: float, reference: float) -> float:
    return value / reference if reference > 0 else 0.0
