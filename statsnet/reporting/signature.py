"""A signature as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from rich.table import Table

from statsnet.reporting.collectives import collectives_report
from statsnet.reporting.gpu import gpu_report
from statsnet.reporting.tables import (
    MISSING,
    Report,
    environment_line,
    line,
    notes,
    pairs,
    percent,
    signed_percent,
    table,
)
from statsnet.signatures.collectives import sent_bytes
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, InputSample, Signature
from statsnet.signatures.statistics import shares
from statsnet.units import format_bytes, format_duration, format_quantity, plural

PRIVACY_NOTES = {
    "full": "level full: exact dims are in the file, and much of an architecture can be told from them.",
    "statistical": "level statistical: exact dims are in the file, and much of an architecture can be told from them; "
    "the order of layers is not.",
    "coarse": "level coarse: sizes and counts are rounded; work, times and memory are those of such a step.",
}
NOT_KNOWN = "not known of any operator"
SHOWN_UNCOVERED, SHOWN_OTHER = 8, 4
NOTABLE_OTHER = 0.05
"""If the category `other` has this share of operator time or more, its operators are named."""
_HOW = {"profile": "", "replay": " (replayed from its operators)", "recording": " (from a recording)"}
_COVERED = {"profile": "has a cost formula", "replay": "has a cost formula", "recording": "has known FLOPs and bytes"}


def signature_report(signature: Signature) -> Report:
    """What a signature holds, its first measurement's times first, and what no formula covers."""
    measurement = next(iter(signature.measurements), None)
    report: Report = [pairs(title_of(signature), _figures(signature, measurement))]
    report.append(_by_category(signature, measurement))
    report += gpu_report(signature, measurement) if measurement else []
    report += collectives_report(signature, measurement)
    report += notes("what is of no category:", _other_lines(signature, measurement))
    report += notes("FLOPs and bytes not known:", _uncovered_lines(signature, measurement))
    others = signature.measurements[1:]
    report += notes(
        "measured elsewhere too:",
        (f"{environment_line(m.environment)}: {format_duration(m.latency_s)}" for m in others),
    )
    return [*report, line(PRIVACY_NOTES[signature.level])]


def uncovered(signature: Signature, measurement: Measurement | None) -> dict[str, float]:
    """Operators that no formula covers, with their share of operator time (of calls if not timed), largest first."""
    return _shares_of(signature, measurement, lambda c: c.flops is None or c.bytes_moved is None)


def _shares_of(
    signature: Signature, measurement: Measurement | None, is_wanted: Callable[[Cluster], bool]
) -> dict[str, float]:
    is_timed = measurement is not None and any(measurement.cluster_time_s)
    times = measurement.cluster_time_s if measurement and is_timed else [c.calls for c in signature.clusters]
    total = sum(t or 0.0 for t in times) or 1.0
    by_operator: dict[str, float] = defaultdict(float)
    for cluster, time in zip(signature.clusters, times, strict=True):
        if is_wanted(cluster):
            by_operator[cluster.op] += (time or 0.0) / total
    return dict(sorted(by_operator.items(), key=lambda item: -item[1]))


def title_of(signature: Signature) -> str:
    """`cv/resnet50, inference, float32, preset small, batch 4`"""
    preset = signature.workload.preset if signature.workload else None
    unnamed = (
        f"a mean step of {signature.aggregated} signatures"
        if signature.aggregated
        else "a workload without a public name"
    )
    parts = [signature.name or unnamed, signature.mode, signature.dtype]
    if preset:
        parts.append(f"preset {preset}")
    if signature.batch is not None:
        parts.append(f"batch {signature.batch}")
    if signature.optimizer:
        parts.append(signature.optimizer)
    return ", ".join(parts)


def _figures(signature: Signature, measurement: Measurement | None) -> list[tuple[str, str]]:
    flops, moved, memory = signature.flops_per_step, signature.bytes_per_step, signature.memory
    known, intensity = _has_cost(signature.clusters), flops / moved if moved else 0.0
    rows = [
        ("id", signature.id),
        *_processes(signature),
        ("operators", f"{signature.calls_per_step:.4g} calls a step in {plural(len(signature.clusters), 'cluster')}"),
        ("FLOPs", f"{format_quantity(flops, 'FLOP')} a step (2 per multiply-add)" if known else NOT_KNOWN),
        ("bytes", f"{format_quantity(moved, 'B')} a step, {intensity:.3g} FLOP/B" if known else NOT_KNOWN),
        *_inputs(signature.inputs),
        (
            "parameters",
            f"{format_quantity(memory.parameter_count)}, {format_bytes(memory.parameter_bytes)}",
        ),
        (
            "memory",
            f"activations {format_bytes(memory.activation_bytes)}, peak {format_bytes(memory.peak_bytes)}, "
            f"inputs {format_bytes(memory.input_bytes)}",
        ),
    ]
    return rows + (_measured(signature, measurement) if measurement else [("measured", "no: counts only")])


def _processes(signature: Signature) -> list[tuple[str, str]]:
    if signature.processes is None:
        return []
    rows = [("processes", f"{signature.processes:,} run the step together; counts are of the first one")]
    if sent := sum(c.calls * (sent_bytes(c) or 0.0) for c in signature.clusters):
        what = "sent by each process in collectives among all of a group"
        rows.append(("network", f"at least {format_quantity(sent, 'B')} {what}"))
    return rows


def _inputs(sample: InputSample | None) -> list[tuple[str, str]]:
    if sample is None:
        return []
    stands_for = ", ".join(map(str, sample.stands_for))
    return [("inputs", f"{len(sample.stands_for)} of {sample.distinct} shapes profiled, for {stands_for} steps")]


def _measured(signature: Signature, measurement: Measurement) -> list[tuple[str, str]]:
    latency = measurement.latency_s
    rates = [format_quantity(signature.flops_per_step / latency, "FLOP/s"),
             format_quantity(signature.bytes_per_step / latency, "B/s")]  # fmt: skip
    how = _HOW[measurement.source]
    return [
        ("measured on", environment_line(measurement.environment) + how),
        ("step time", ", ".join([format_duration(latency), *(rates if _has_cost(signature.clusters) else [])])),
        ("launches", f"{measurement.launches:.4g} a step"),
        *_seen(measurement),
        (
            "outside operators",
            f"framework {_share_of(measurement.framework_time_s, latency)}, "
            f"idle {_share_of(measurement.idle_time_s, latency)} of the step",
        ),
        ("coverage", f"{percent(signature.coverage(measurement))} of operator time {_COVERED[measurement.source]}"),
        ("repeatability", f"coefficient of variation {percent(measurement.coefficient_of_variation)}"),
        ("unexplained", f"{signed_percent(measurement.unexplained_share)} of the step time"),
    ]


def _seen(measurement: Measurement) -> list[tuple[str, str]]:
    """Calls that no profiled step made, and what steps that vary are."""
    rows = []
    if measurement.unmatched_calls:
        rows.append(("not matched", f"{measurement.unmatched_calls:.4g} calls a step were captured but not profiled"))
    if (variation := measurement.variation) is not None:
        rows.append(
            (
                "steps vary",
                f"mean of {variation.steps}, work ±{percent(variation.work_deviation)}, known to "
                f"±{percent(variation.work_error)}; time known to ±{percent(variation.time_error)}",
            )
        )
    return rows


def _share_of(time_s: float | None, latency_s: float) -> str:
    return percent(None if time_s is None else time_s / latency_s)


def _by_category(signature: Signature, measurement: Measurement | None) -> Table:
    groups: dict[str, list[tuple[Cluster, float | None]]] = defaultdict(list)
    times = measurement.cluster_time_s if measurement else [None] * len(signature.clusters)
    for cluster, time in zip(signature.clusters, times, strict=True):
        groups[cluster.category].append((cluster, time))
    spent = {name: sum(t or 0.0 for _, t in rows) for name, rows in groups.items()}
    share, is_timed = shares(spent), any(spent.values())
    order = sorted(groups, key=lambda name: (-spent[name], -_flops(groups[name]), name))
    rows = [
        (
            name,
            percent(share.get(name, 0.0) if is_timed else None),
            format_duration(spent[name] if is_timed else None),
            f"{sum(c.calls for c, _ in groups[name]):.4g}",
            *_work(groups[name]),
        )
        for name in order
    ]
    title = "Time by category" if is_timed else "Operators by category"
    return table(title, ("category", "share", "time", "calls", "FLOPs", "bytes"), rows)


def _flops(rows: list[tuple[Cluster, float | None]]) -> float:
    return sum(cluster.calls * (cluster.flops or 0.0) for cluster, _ in rows)


def _has_cost(clusters: Iterable[Cluster]) -> bool:
    """Whether the work of any of these is known."""
    return any(cluster.flops is not None for cluster in clusters)


def _work(rows: list[tuple[Cluster, float | None]]) -> tuple[str, str]:
    """FLOPs and bytes, where any of these has a formula."""
    if not _has_cost(cluster for cluster, _ in rows):
        return MISSING, MISSING
    moved = sum(cluster.calls * (cluster.bytes_moved or 0.0) for cluster, _ in rows)
    return format_quantity(_flops(rows), "FLOP"), format_quantity(moved, "B")


def _other_lines(signature: Signature, measurement: Measurement | None) -> list[str]:
    """The operators behind the category `other` whose work is known, where that is a notable share."""
    others = _shares_of(signature, measurement, lambda c: c.category == "other" and c.flops is not None)
    if sum(others.values()) < NOTABLE_OTHER:
        return []
    of = _of_what(measurement)
    return [f"{share:.1%} {of}: {op}" for op, share in list(others.items())[:SHOWN_OTHER]]


def _of_what(measurement: Measurement | None) -> str:
    return "of operator time" if measurement and any(measurement.cluster_time_s) else "of the calls"


def _uncovered_lines(signature: Signature, measurement: Measurement | None) -> list[str]:
    by_operator = uncovered(signature, measurement)
    of = _of_what(measurement)
    lines = [f"{share:.1%} {of}: {op}" for op, share in list(by_operator.items())[:SHOWN_UNCOVERED]]
    rest = list(by_operator.values())[SHOWN_UNCOVERED:]
    return [*lines, f"{sum(rest):.1%} {of}: {len(rest)} more"] if rest else lines
