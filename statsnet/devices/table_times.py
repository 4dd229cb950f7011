"""Times of captured calls on a device that published tables recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from statsnet.devices.device_record import DeviceRecord
from statsnet.devices.hardware import UNKNOWN, chip_of
from statsnet.devices.kernel_model import Estimate, Evidence
from statsnet.devices.operator_mapping import Mapped, by_work, mapped
from statsnet.devices.operator_work import SCALAR
from statsnet.devices.stand_ins import stand_ins
from statsnet.devices.tables.row import TableRow
from statsnet.profiling.coarse_scalars import coarse_arguments
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
        key = json.dumps([op, phase, coarse_arguments(op, args), list(outputs)], sort_keys=True)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(op, args, outputs)
        return self._estimates[key]

    def _estimate(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        named = kernel_class(op, list(args), list(outputs), UNKNOWN_KERNEL)
        if parts := self._parts(op, args, outputs):
            predictions = self.record.predict([_row(part) for part in parts])
            evidence: Evidence = "exact" if all(p.evidence == "exact" for p in predictions) else "model"
            time_s = sum(p.time_s for p in predictions)
            return Estimate(time_s=time_s, kernel=UNKNOWN_KERNEL, kernel_class=named, evidence=evidence)
        cost = cost_of(op, list(args), list(outputs))
        flops, nbytes = (
            (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, float(bytes_of(args, outputs)))
        )
        rough = self.record.reached.estimate(dtype_of(args, outputs), flops, nbytes)
        return Estimate(time_s=rough.time_s, kernel=UNKNOWN_KERNEL, kernel_class=named, evidence="roofline")

    def _parts(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> list[Mapped]:
        """Operators of the record that the call is; empty if the record lacks one."""
        for parts in (mapped(op, args, outputs), (by_work(op, args, outputs),)):
            if parts and all(self.record.exact_s(_row(part)) is not None for part in parts):
                return [*parts]
            known = [self._known(part) for part in parts or ()]
            if known and None not in known:
                return [part for part in known if part is not None]
        return []

    def _known(self, part: Mapped) -> Mapped | None:
        """The operator, or what stands for it; None if the tables have neither."""
        return next((choice for choice in stand_ins(part) if self._has(choice)), None)

    def _has(self, part: Mapped) -> bool:
        names = [name for name, _ in part.dims]
        model = self.record.model_for(part.operator, part.dtype, part.direction, names=names, variant=part.variant)
        return model is not None and (part.variant != SCALAR or SCALAR in model.variants)


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
