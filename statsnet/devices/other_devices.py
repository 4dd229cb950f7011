"""What the other recorded devices say of an operator, for a proxy that is made for one of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from statsnet.devices.cut_risk import FILE, POINTWISE, CutRisk, load_risk
from statsnet.devices.device_record import load_record
from statsnet.devices.kernel_model import KernelModel
from statsnet.devices.operator_mapping import Mapped, mapped
from statsnet.devices.record_folder import FOLDER, record_paths
from statsnet.devices.recorded_bench import RecordedDevice
from statsnet.devices.table_times import TableTimes
from statsnet.devices.tables.words import ATTENTIONS
from statsnet.profiling.coarse_scalars import call_key
from statsnet.signatures.categories import base_name
from statsnet.signatures.mix import Mix
from statsnet.signatures.operators import bytes_of, dtype_of
from statsnet.synthesis.program.elsewhere import Fate

LEAST_KNOWN = 0.3
"""A device is a row if its record knows operators that take this share of the target's time. Of others it would say
little more than a ratio of rates."""

NEAREST = 6
"""An operator's risk is the least over this many of the target's operators, those nearest in size."""

Times = TableTimes | KernelModel
"""What a record says of operators, from tables or measured."""

Call = tuple[str, str, Sequence[Any], Sequence[Any]]
"""Operator, phase, arguments, outputs, as encoded in a signature."""


class OtherDevices:
    """Factors and risks of operators. `known` are records by their devices; `wanted` are the target's operators.
    `shares`: by device, which share of the target's time its record knows.

    An operator's factor is its time in the other record ÷ that in this device's. If the other record does not know its
    kind, its own time changes like the rooflines of the two devices: two guesses of one kind have the same error.
    """

    def __init__(
        self, here: Times, known: Mapping[str, Times], risk: CutRisk | None, wanted: Iterable[Call],
        shares: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.names, self.shares = tuple(sorted(known)), shares or {}
        self._here, self._others = here, [known[name] for name in self.names]
        self._risks = _Risks(risk, wanted) if risk else None
        self._fates: dict[str, Fate] = {}

    def fate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Fate:
        """Of one call."""
        key = call_key(op, phase, args, outputs)
        if key not in self._fates:
            self._fates[key] = Fate(
                factors=tuple(self._factor(there, (op, phase, args, outputs)) for there in self._others),
                risk=self._risks.least(op, args, outputs) if self._risks else 0.0,
            )
        return self._fates[key]

    def _factor(self, there: Times, call: Call) -> float:
        ours, theirs = self._here.estimate(*call), there.estimate(*call)
        if theirs.evidence == "roofline" != ours.evidence:
            op, _, args, outputs = call
            return there.roofline_s(op, args, outputs) / self._here.roofline_s(op, args, outputs)
        return theirs.time_s / ours.time_s


def other_devices(here: RecordedDevice, mix: Mix, profiles: Path, without: Collection[str] = ()) -> OtherDevices | None:
    """The devices of a database whose records know much of the mix, except `without`; None if `here` was not recorded
    by tables. Raises FileFormatError if a record is damaged."""
    if not isinstance(here.model, TableTimes):
        return None
    others = {name: path for name, path in record_paths(profiles).items() if name not in without}
    others.pop(here.model.record.device, None)
    known = {name: TableTimes(load_record(path)) for name, path in others.items()}
    shares = {name: known_share(times, here.model, mix) for name, times in known.items()}
    shares = {name: share for name, share in shares.items() if share >= LEAST_KNOWN}
    calls = [(c.op, c.phase, c.args, c.outputs) for m in mix.members for c in m.signature.clusters]
    path = profiles / FOLDER / FILE
    risk = load_risk(path) if path.exists() else None
    return OtherDevices(here.model, {name: known[name] for name in shares}, risk, calls, shares)


def known_share(times: Times, here: Times, mix: Mix) -> float:
    """Which share of the mix's operator time on the device `here` is spent in operators that a record knows."""
    known = 0.0
    for member in mix.members:
        spent_s = known_s = 0.0
        for c in member.signature.clusters:
            call = (c.op, c.phase, c.args, c.outputs)
            time_s = c.calls * here.estimate(*call).time_s
            spent_s += time_s
            known_s += time_s if times.estimate(*call).evidence != "roofline" else 0.0
        known += member.weight * known_s / spent_s if spent_s else 0.0
    return known


class _Risks:
    """The least risk with which an operator stands for one of the target's operators of its kind."""

    def __init__(self, risk: CutRisk, wanted: Iterable[Call]) -> None:
        self._risk = risk
        self._wanted: dict[tuple[str, ...], dict[str, tuple[dict[str, int], tuple[float, ...]]]] = defaultdict(dict)
        for op, _, args, outputs in wanted:
            for part in _parts(op, args, outputs):
                self._wanted[_kind(part)][str(part.dims)] = (dict(part.dims), _logs(part))

    def least(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> float:
        parts = _parts(op, args, outputs)
        return sum(self._of(part) for part in parts) / len(parts)

    def _of(self, part: Mapped) -> float:
        wanted = self._wanted.get(_kind(part), {})
        if str(part.dims) in wanted:
            return 0.0
        logs = _logs(part)
        near = sorted(wanted.values(), key=lambda w: sum(abs(a - b) for a, b in zip(w[1], logs, strict=True)))
        dims = dict(part.dims)
        risks = [self._risk.between(part.operator, dims, other, part.dtype) for other, _ in near[:NEAREST]]
        return min(risks, default=self._risk.worst)


def _parts(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[Mapped, ...]:
    """Operators of the tables; anything else, and what is point-wise, by the bytes that it moves."""
    found = mapped(op, args, outputs)
    if found and all(part.operator in _PRODUCTS for part in found):
        return found
    dims = (("bytes", max(bytes_of(args, outputs), 1)),)
    dtype = dtype_of(args, outputs)
    return (Mapped(operator=POINTWISE, dtype=dtype, dims=dims, variant=base_name(op).rstrip("_")),)


_PRODUCTS = frozenset({"gemm", "convolution", *ATTENTIONS})


def _kind(part: Mapped) -> tuple[str, ...]:
    """Operators of equal kind may stand for each other; a product's bias costs little, its transposition much."""
    return (part.operator, part.dtype, part.direction, part.variant.removesuffix(" bias"), str(len(part.dims)))


def _logs(part: Mapped) -> tuple[float, ...]:
    return tuple(math.log2(max(size, 1)) for _, size in part.dims)
