"""A recorded device as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from statsnet.devices.device_record import DeviceRecord
from statsnet.devices.kernel_model import KernelModel
from statsnet.devices.operator_mapping import Mapped
from statsnet.devices.performance_model import LEAST_FOR_95, HeldOut, KindModel
from statsnet.devices.reached import Spread
from statsnet.devices.recorded_bench import RecordedDevice
from statsnet.devices.table_times import TableTimes
from statsnet.devices.tables.words import OPERATOR_DIMS
from statsnet.reporting.tables import Report, environment_line, pairs, percent, table
from statsnet.signatures.categories import categorize
from statsnet.units import format_duration, format_quantity

UNPUBLISHED = {
    "pooling": "pooling", "normalization": "batch norms", "optimizer": "optimizers", "reduction": "reductions",
    "sort": "sorting", "data_arrangement": "copies",
}  # fmt: skip
"""Categories of operators that no published table has, and recordings may have."""

WANTED = (
    ("products", ("gemm",)), ("convolutions", ("convolution",)), ("attention", ("attention_prefill",)),
    ("decoding attention", ("attention_decode",)), ("softmax", ("softmax",)), ("norms", ("layer_norm", "rms_norm")),
    ("embeddings", ("embedding",)), ("point-wise operators", ("add", "mul", "gelu", "relu", "silu_mul")),
)  # fmt: skip
"""Operators of networks, and the tables' words for them."""

LIKELY = 64
"""A size that any operator may have."""


def device_report(device: RecordedDevice) -> Report:
    """What is known of a device, measured there or published."""
    if isinstance(device.model, TableTimes):
        return record_report(device.model.record)
    return _measured_report(device, device.model)


def _measured_report(device: RecordedDevice, model: KernelModel) -> Report:
    """What was measured, the roofline that it reaches, and how well operators are predicted from each other."""
    errors = model.errors()
    rows = [
        ("device", environment_line(device.environment)),
        ("operators", f"{model.operators} measured"),
        ("peak reached", f"{_rate(model.flops_per_s, 'FLOP/s')}, "
         f"{format_quantity(model.bytes_per_s, 'B/s')}"),
        ("shortest call", format_duration(model.shortest_s)),
        ("between two", format_duration(device.between_s)),
    ]  # fmt: skip
    if errors:
        rows.append(("error of a new size", f"{percent(fmean(e for _, e in errors.values()))} (mean of medians)"))
    operators = sorted(errors.items(), key=lambda e: -e[1][0])
    kinds = table(
        "Predicted from the others",
        ("operator", "measured", "median error"),
        ((name, str(count), percent(error)) for name, (count, error) in operators),
    )
    return [pairs("A recorded device", rows), *([kinds] if errors else [])]


def _rate(rate: float, unit: str) -> str:
    """It is infinite where a record holds no operator that computes."""
    return format_quantity(rate, unit) if math.isfinite(rate) else f"no {unit} known"


def record_report(record: DeviceRecord) -> Report:
    """Which operators a record has, from which tables, and how far off rows were that the fit had not seen."""
    reached = record.reached
    peaks = ", ".join(f"{format_quantity(v, 'FLOP/s')} ({d})" for d, v in sorted(reached.flops_per_s.items()))
    rows = [
        ("device", record.device),
        ("operators", f"{record.measured} measured, {len(record.models)} kinds modelled"),
        ("peak reached", f"{peaks or 'no product measured'}, {format_quantity(reached.bytes_per_s, 'B/s')}"),
        ("shortest call", format_duration(reached.latency_s)),
    ]
    for p in record.sources:
        origin = f", {p.repository} @{p.commit[:12]}, {p.licence}" if p.repository else ""
        rows.append((f"from {p.source}", p.title + origin))
    if record.exact:
        rows.append(("recorded exactly", f"{len(record.exact)} operators of recordings, which have these times"))
    if lacking := "; ".join(_lacking(record)):
        rows += [
            ("no table has", lacking),
            ("these are taken as", f"{_ratio(reached.computing)} if bound by computing, {_ratio(reached.moving)} if "
             "bound by moving bytes"),
        ]  # fmt: skip
    rows += [("left out", text) for text in record.left_out]
    kinds = table(
        "Rows that the fit had not seen",
        ("operator", "dtype", "direction", "from", "rows", "median error", "90 % below", "95 % of times within"),
        (_kind(m) for m in sorted(record.models, key=lambda m: (m.operator, m.dtype, m.direction, m.source))),
        left=4,
    )
    return [pairs("A device recorded by tables", rows), *([kinds] if record.models else [])]


def _kind(m: KindModel) -> tuple[str, ...]:
    h = m.held_out
    return (m.operator, m.dtype, m.direction, m.source, str(m.rows), percent(h.median_error), percent(h.p90_error),
            _within(h))  # fmt: skip


def _ratio(spread: Spread) -> str:
    low, high = math.exp(spread.low_80), math.exp(spread.high_80)
    return f"{math.exp(spread.usual):.2f} times the roofline (four fifths took {low:.2f} to {high:.2f} times)"


def _within(h: HeldOut) -> str:
    """Of few rows, no two enclose 95 %: these are the smallest and the largest."""
    word = "" if h.rows >= LEAST_FOR_95 else " (all)"
    return f"{math.exp(h.low_95):.2f} to {math.exp(h.high_95):.2f} times{word}"


def _lacking(record: DeviceRecord) -> Iterator[str]:
    """Operators whose times are roofline estimates: with the dtypes in which neither they nor a stand-in have a model
    or a recorded time; then those that no table has, unless recordings do."""
    times = TableTimes(record)
    exact = {(e.operator, e.dtype) for e in record.exact}
    there = {(m.operator, m.dtype) for m in record.models} | exact

    def is_known(operator: str, dtype: str) -> bool:
        dims = tuple((name, LIKELY) for name in OPERATOR_DIMS[operator])
        part = Mapped(operator=operator, dtype=dtype, dims=dims)
        return (operator, dtype) in exact or times.known(part) is not None

    dtypes = [d for d in ("float32", "float16", "bfloat16") if any(d == dtype for _, dtype in there)]
    for title, words in WANTED:
        if missing := [d for d in dtypes if not any(is_known(word, d) for word in words)]:
            yield f"{title} ({', '.join(missing)})"
    categories = {_category(operator) for operator, _ in there}
    if never := [title for category, title in UNPUBLISHED.items() if category not in categories]:
        yield ", ".join(never)


def _category(operator: str) -> str:
    """The category of an operator that is known by its work; `other` for words of tables and for norms that tables
    have. Operators over lists are an optimizer's."""
    if not operator.startswith("aten."):
        return "other"
    category = categorize(operator, "optimizer" if operator.startswith("aten._foreach_") else "forward")
    return "other" if category == "normalization" and "batch_norm" not in operator else category
