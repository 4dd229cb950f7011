"""Times of captured calls on a device that published tables recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from statsnet.devices.device_record import DeviceRecord
from statsnet.devices.hardware import UNKNOWN, chip_of
from statsnet.devices.kernel_model import Estimate
from statsnet.devices.names import is_cpu
from statsnet.devices.operator_mapping import Mapped, by_work, mapped
from statsnet.devices.operator_work import SCALAR, item_bytes
from statsnet.devices.performance_model import Evidence
from statsnet.devices.tables.words import ITEM_BYTES
from statsnet.profiling.coarse_scalars import call_key
from statsnet.profiling.costs import work_of_call
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.measurement import Environment, environment_without_details
from statsnet.signatures.operators import dtype_of

UNKNOWN_KERNEL = "unknown"


class TableTimes:
    """Times from a record. What no table has is a roofline estimate."""

    def __init__(self, record: DeviceRecord) -> None:
        self.record = record
        self._estimates: dict[str, Estimate] = {}

    def estimate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        """The estimate for one call."""
        key = call_key(op, phase, args, outputs)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(op, args, outputs)
        return self._estimates[key]

    def _estimate(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Estimate:
        parts, evidence = self._parts(op, args, outputs)
        if parts:
            time_s = sum(p.time_s for p in self.record.predict([part.row() for part in parts]))
        else:
            time_s = self.roofline_s(op, args, outputs)
        named = kernel_class(op, list(args), list(outputs), UNKNOWN_KERNEL)
        return Estimate(time_s=time_s, kernel=UNKNOWN_KERNEL, kernel_class=named, evidence=evidence)

    def roofline_s(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> float:
        """Seconds of one call by the rates that the device reached."""
        return self.record.roofline(dtype_of(args, outputs), *work_of_call(op, args, outputs)).time_s

    def _parts(self, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Mapped], Evidence]:
        """Operators of the record that the call is, or that stand for it; none if the record lacks one. What was
        recorded comes first, whether as operators of tables or by its work."""
        forms = [form for form in (mapped(op, args, outputs), (by_work(op, args, outputs),)) if form]
        for form in forms:
            if all(self._is_exact(part) for part in form):
                return [*form], "exact"
        for form in forms:
            known = [self.known(part) for part in form]
            if None not in known:
                return [part for part in known if part is not None], "model"
        return [], "roofline"

    def known(self, part: Mapped) -> Mapped | None:
        """The operator, or what stands for it; None if the record has neither."""
        return next((choice for choice in stand_ins(part) if self._is_exact(choice) or self._is_modelled(choice)), None)

    def _is_exact(self, part: Mapped) -> bool:
        return self.record.exact_s(part.row()) is not None

    def _is_modelled(self, part: Mapped) -> bool:
        model = self.record.model_for(part.row())
        return model is not None and (part.variant != SCALAR or SCALAR in model.variants)


def environment_of(record: DeviceRecord) -> Environment:
    """What the record knows of where its operators ran."""
    chip = chip_of(record.device)
    kind: Literal["cpu", "cuda"] = "cpu" if is_cpu(record.device) else "cuda"
    environment = environment_without_details(kind, record.device)
    if chip is not UNKNOWN and kind == "cuda":
        environment["gpu"] = {"multiprocessors": chip.cores}
    return environment


BINARY = ("add", "mul", "div", "sub")
UNARY = ("relu", "gelu", "tanh")
DTYPES = ("float32", "float16", "bfloat16")


def stand_ins(part: Mapped) -> Iterator[Mapped]:
    """The operator itself, then others with the same bytes, nearest first: what may stand for a point-wise one.

    On a GPU the time of a point-wise operator is that of its bytes: in NeuSight's tables mul and div of equal sizes
    take as long as add, and gelu about as long as relu.
    """
    yield part
    if part.operator not in (*BINARY, *UNARY, "pow") or part.dtype not in ITEM_BYTES or part.direction != "forward":
        return
    scalar = part.operator in UNARY or part.variant == SCALAR
    if part.operator == "pow" and not scalar:
        return  # computes for longer than its bytes take
    like = dict.fromkeys((part.operator, *(UNARY if scalar else BINARY)))
    for dtype in dict.fromkeys((part.dtype, *DTYPES)):
        dims = _of_dtype(part, dtype)
        if dims is None:
            continue
        for operator in like:
            variant = "" if operator in UNARY else part.variant
            yield replace(part, operator=operator, dtype=dtype, dims=dims, variant=variant)


def _of_dtype(part: Mapped, dtype: str) -> tuple[tuple[str, int], ...] | None:
    """Dims with as many bytes in another dtype; None if there are none."""
    wide = dict(part.dims)
    columns, rest = divmod(wide["columns"] * item_bytes(part.dtype), item_bytes(dtype))
    return None if rest or not columns else (("rows", wide["rows"]), ("columns", int(columns)))
