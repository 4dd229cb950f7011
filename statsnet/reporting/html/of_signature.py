"""A signature as pictures: roofline, time by category, phase and kernel class, shapes, memory, the step's parts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from statsnet.exports.lowering import products_of
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.of_gpu import gpu_pictures
from statsnet.reporting.html.of_timeline import signature_timeline
from statsnet.reporting.html.pictures import (
    MOST_POINTS,
    SHOWN_ROWS,
    Picture,
    Point,
    Series,
    bars,
    cloud,
    clouds,
    line_trace,
)
from statsnet.reporting.signature import signature_report
from statsnet.reporting.tables import environment_line, percent, table
from statsnet.signatures.categories import base_name
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.units import format_bytes, format_duration, format_quantity, plural

NOTABLE = 0.005
"""Operators with a smaller share of the time say nothing of the rates that can be reached: their times are too
short."""

MOST_BARS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """An operator's calls in one step, their time in seconds, and their share of operator time."""

    cluster: Cluster
    kernel: str
    time_s: float
    share: float


def signature_section(name: str, signature: Signature, command: str = "") -> Section:
    """Pictures of the first measurement; of a signature without one, of counts alone."""
    measurement = next(iter(signature.measurements), None)
    where = environment_line(measurement.environment) if measurement else "counted, measured nowhere"
    pictures: list[Picture | None] = []
    if measurement is not None:
        timed = _timed(signature, measurement)
        pictures += [
            roofline(timed, where),
            _shares("Time by operator category", where, timed, lambda t: t.cluster.category),
            _shares("Time by phase", where, timed, lambda t: t.cluster.phase),
            _shares("Time by kernel class", where, timed, lambda t: t.kernel),
            _parts(measurement, where),
            signature_timeline(signature, measurement, where),
            _products(timed, where),
            _convolutions(timed, where),
            *gpu_pictures(signature, measurement, where),
        ]
    pictures.append(_memory(signature))
    return Section(
        title=f"{name}: {signature.mode}, {signature.dtype}",
        pictures=[picture for picture in pictures if picture is not None],
        tables=signature_report(signature),
        command=command,
    )


def _timed(signature: Signature, measurement: Measurement) -> list[_Timed]:
    """The longest first; what took no measurable time is left out."""
    total = measurement.operator_time_s or 1.0
    rows = zip(signature.clusters, measurement.cluster_time_s, measurement.kernel_class, strict=True)
    made = [_Timed(cluster=c, kernel=k or c.op, time_s=t, share=t / total) for c, t, k in rows if t]
    return sorted(made, key=lambda each: -each.time_s)


def roofline(timed: Sequence[_Timed], where: str) -> Picture | None:
    """FLOP/s against FLOP/byte, a point for each cluster. The lines are the highest rates that operators here reached,
    as nothing in a signature tells the device's own."""
    points = [(each, *_rates(each)) for each in timed]
    shown = [(each, flops, moved) for each, flops, moved in points if flops and moved][:MOST_POINTS]
    if not shown:
        return None
    series = clouds(
        Point(
            each.cluster.category,
            flops / moved,
            flops,
            f"{_described(each)}\n{_rate_words(flops, moved)}\n{where}",
            _diameter(each.share),
        )
        for each, flops, moved in shown
    )
    notable = [point for point in shown if point[0].share >= NOTABLE] or shown
    most_flops, most_bytes = max(flops for _, flops, _ in notable), max(moved for _, _, moved in notable)
    left, right = min(f / m for _, f, m in shown), max(f / m for _, f, m in shown)
    ridge = most_flops / most_bytes
    lines = []
    if left < ridge:
        name = f"{format_quantity(most_bytes, 'B/s')} reached"
        lines.append(line_trace(name, [left, ridge], [left * most_bytes, most_flops], colour=8))
    name = f"{format_quantity(most_flops, 'FLOP/s')} reached"
    lines.append(line_trace(name, [min(ridge, right), max(ridge, right)], [most_flops] * 2, dash="dash", colour=8))
    rows = [
        (
            e.cluster.op,
            e.cluster.category,
            percent(e.share),
            f"{f / m:.3g}",
            format_quantity(f, "FLOP/s"),
            format_quantity(m, "B/s"),
        )
        for e, f, m in shown[:SHOWN_ROWS]
    ]
    columns = ("operator", "category", "share of time", "FLOP/B", "FLOP/s", "B/s")
    note = (
        f"A point is an operator with equal arguments, as large as its share of the time. {where}. Lines: the highest "
        f"rates that an operator with {NOTABLE:.1%} of the time or more reached here; they are not the device's limits."
    )
    return cloud("Roofline", note, series, table("", columns, rows, left=2), x="FLOP per byte", y="FLOP/s", lines=lines)


def _rates(each: _Timed) -> tuple[float | None, float | None]:
    cluster = each.cluster
    if not cluster.flops or not cluster.bytes_moved:
        return None, None
    return cluster.calls * cluster.flops / each.time_s, cluster.calls * cluster.bytes_moved / each.time_s


def _rate_words(flops: float, moved: float) -> str:
    return f"{format_quantity(flops, 'FLOP/s')}, {format_quantity(moved, 'B/s')}, {flops / moved:.3g} FLOP/B"


def _diameter(share: float) -> float:
    return round(5 + 45 * math.sqrt(share), 1)


def _described(each: _Timed) -> str:
    cluster = each.cluster
    spent = f"{format_duration(each.time_s)} a step, {each.share:.1%}"
    return f"{cluster.op}, {cluster.phase}\n{cluster.calls:.4g} calls, {spent}"


def _shares(title: str, where: str, timed: Sequence[_Timed], key: Callable[[_Timed], str]) -> Picture | None:
    time_s: dict[str, float] = defaultdict(float)
    calls: dict[str, float] = defaultdict(float)
    for each in timed:
        time_s[key(each)] += each.time_s
        calls[key(each)] += each.cluster.calls
    total, order = sum(time_s.values()), sorted(time_s, key=lambda name: -time_s[name])
    if not total or len(order) < 2:  # such as the only phase
        return None
    shown = order[:MOST_BARS]
    words = [
        f"{n}: {time_s[n] / total:.1%}, {format_duration(time_s[n])}, {calls[n]:.4g} calls\n{where}" for n in shown
    ]
    rows = [
        (n, percent(time_s[n] / total), format_duration(time_s[n]), f"{calls[n]:.4g}") for n in order[: 2 * SHOWN_ROWS]
    ]
    left_out = f" In the table alone: {plural(left, 'shorter one')}." if (left := len(order) - MOST_BARS) > 0 else ""
    return bars(
        title,
        f"Share of operator time in a step, {where}.{left_out}",
        shown,
        [Series(name="share", x=[100 * time_s[n] / total for n in shown], shown=words)],
        table("", ("", "share", "time a step", "calls a step"), rows),
        axis="% of operator time",
    )


def _parts(measurement: Measurement, where: str) -> Picture:
    """What the step consists of: operators, framework, idle time, and what is unexplained."""
    step_s = measurement.latency_s
    parts = {
        "operators": measurement.operator_time_s,
        "framework": measurement.framework_time_s,
        "idle": measurement.idle_time_s,
        "unexplained": max(0.0, (measurement.unexplained_share or 0.0) * step_s),
    }
    known = {name: time_s for name, time_s in parts.items() if time_s}
    words = {
        name: f"{name}: {format_duration(t)}, {t / step_s:.1%} of a step of {format_duration(step_s)}"
        for name, t in known.items()
    }
    note = f"{where}. {measurement.launches:.4g} launches a step. "
    note += "Framework: what lies between operators; idle: no kernel runs."
    return bars(
        "The step's time and launches",
        note,
        ["step"],
        [Series(name=name, x=[1e3 * t], shown=[f"{words[name]}\n{where}"]) for name, t in known.items()],
        table("", ("part", "time", "share"), [(n, format_duration(t), percent(t / step_s)) for n, t in known.items()]),
        axis="ms",
        stacked=True,
    )


def _products(timed: Sequence[_Timed], where: str) -> Picture | None:
    """Matrix products by depth and columns."""
    made = (
        (each, product)
        for each in timed
        if each.cluster.category == "gemm"
        for product in products_of(each.cluster.op, each.cluster.args, each.cluster.outputs)
    )
    found = [
        (each, f"{p.batch} of " * (p.batch > 1) + f"{p.rows} × {p.columns} × {p.depth}", p.depth, p.columns)
        for each, p in islice(made, MOST_POINTS)
    ]
    return _shapes("Shapes of matrix products", where, found, "rows × columns × depth", x="depth", y="columns")


def _convolutions(timed: Sequence[_Timed], where: str) -> Picture | None:
    found = []
    for each in timed:
        specs = [TensorSpec.from_dict(a) for a in each.cluster.args if is_tensor(a)]
        if "convolution" not in base_name(each.cluster.op) or len(specs) < 2:
            continue
        image, weight = (
            (specs[1], specs[2]) if "backward" in each.cluster.op and len(specs) > 2 else (specs[0], specs[1])
        )
        if len(weight.shape) > 2 and all((*weight.shape, *image.shape)):
            words = f"{_by(image.shape)} with {_by(weight.shape)}"
            found.append((each, words, weight.shape[1], weight.shape[0]))
    return _shapes(
        "Shapes of convolutions", where, found[:MOST_POINTS], "input with weights",
        x="input channels of a group", y="output channels",
    )  # fmt: skip


def _shapes(
    title: str, where: str, found: Sequence[tuple[_Timed, str, int, int]], column: str, *, x: str, y: str
) -> Picture | None:
    if not found:
        return None
    series = clouds(
        Point(each.cluster.phase, a, b, f"{words}\n{_described(each)}\n{where}", _diameter(each.share))
        for each, words, a, b in found
    )
    lines = [
        (each.cluster.op, each.cluster.phase, words, f"{each.cluster.calls:.4g}", percent(each.share))
        for each, words, _, _ in found[:SHOWN_ROWS]
    ]
    columns = ("operator", "phase", column, "calls", "share of time")
    note = f"A point is as large as its share of the time, {where}."
    return cloud(title, note, series, table("", columns, lines, left=3), x=x, y=y)


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _memory(signature: Signature) -> Picture | None:
    memory = signature.memory
    kinds = {
        "parameters": memory.parameter_bytes,
        "buffers": memory.buffer_bytes,
        "inputs": memory.input_bytes,
        "optimizer": memory.optimizer_bytes,
        "comes and goes in a step": memory.activation_bytes,
        "peak": memory.peak_bytes,
    }
    known = {name: size for name, size in kinds.items() if size}
    if not known:
        return None
    return bars(
        "Memory by kind",
        "Counted, on no device.",
        list(known),
        [
            Series(
                name="memory",
                x=[size / 2**20 for size in known.values()],
                shown=[f"{name}: {format_bytes(size)} (counted)" for name, size in known.items()],
            )
        ],
        table("", ("kind", "bytes"), [(name, format_bytes(size)) for name, size in known.items()]),
        axis="MiB",
    )
