"""What processes that made a step together did for each other, as tables."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from statsnet.reporting.tables import MISSING, Report, pairs, percent, table
from statsnet.signatures.collectives import (
    Collectives,
    CollectiveTime,
    group_size,
    group_stride,
    is_collective,
    kind_of,
    message_bytes,
)
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import dtype_of
from statsnet.units import format_bytes, format_duration

COLUMNS = (
    "collective",
    "phase",
    "dtype",
    "group",
    "calls",
    "bytes a call",
    "bytes a step",
    "time",
    "exposed",
    "overlap",
)


def collectives_report(signature: Signature, measurement: Measurement | None) -> Report:
    """Operations with their bytes, groups and times, and how the processes wait; nothing of a step without any."""
    known = measurement.collectives if measurement else None
    clusters = {i: c for i, c in enumerate(signature.clusters) if is_collective(c.op)}
    report: Report = []
    if known is not None and measurement is not None:
        report.append(pairs("Several processes", _figures(known, measurement, by_rank=signature.level != "coarse")))
    if clusters:
        times = {t.cluster: t for t in known.calls} if known else {}
        latency_s = measurement.latency_s if measurement and measurement.step_latency_s else None
        report.append(table("Collectives", COLUMNS, _rows(clusters, times, latency_s, _counted_once(known)), left=3))
    return report


def _rows(
    clusters: dict[int, Cluster], times: dict[int, CollectiveTime], latency_s: float | None, counted_once: float
) -> list[tuple[str, ...]]:
    """One for each operation, phase, dtype and group, the one with most bytes first."""
    groups: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for i, cluster in clusters.items():
        dtype = dtype_of(cluster.args, cluster.outputs)
        dtype = MISSING if dtype == "none" else dtype
        groups[kind_of(cluster.op), cluster.phase, dtype, _group(cluster)].append(i)
    rows = []
    for key, members in groups.items():
        calls = sum(clusters[i].calls for i in members)
        moved = sum(clusters[i].calls * message_bytes(clusters[i]) for i in members)
        known = [times[i] for i in members if i in times]
        time_s = sum(t.time_s for t in known)
        exposed_s = sum(t.exposed_time_s for t in known)
        rows.append(
            (
                moved,
                (
                    *key,
                    f"{calls:.4g}",
                    *(format_bytes(n if moved or key[0] == "barrier" else None) for n in (moved / calls, moved)),
                    format_duration(time_s) if known else MISSING,
                    percent(counted_once * exposed_s / latency_s) if known and latency_s else MISSING,
                    percent(1 - exposed_s / time_s) if time_s else MISSING,
                ),
            )
        )
    return [row for _, row in sorted(rows, key=lambda r: (-r[0], r[1]))]


def _counted_once(known: Collectives | None) -> float:
    """Seconds of waiting ÷ those of all calls: less than 1 where several were waited for at once."""
    exposed_s = sum(c.exposed_time_s for c in known.calls) if known else 0.0
    return min(known.exposed_time_s / exposed_s, 1.0) if known and exposed_s else 1.0


def _group(cluster: Cluster) -> str:
    size, stride = group_size(cluster), group_stride(cluster)
    if size is None:
        return MISSING
    return str(size) if stride is None else f"{size}, stride {stride}"


def _figures(known: Collectives, measurement: Measurement, *, by_rank: bool) -> list[tuple[str, str]]:
    """`by_rank`: the processes' times stand in the order of their ranks."""
    steps, waiting = known.rank_step_latency_s, known.rank_waiting_s
    rows = [
        ("processes", f"{known.processes}, {known.backend}"),
        ("exposed", f"{percent(known.exposed_time_s / measurement.latency_s)} of the step in collectives alone"),
    ]
    if steps and waiting:
        spread = f"{format_duration(min(steps))} to {format_duration(max(steps))}, spread {percent(known.step_spread)}"
        who = f" (process {known.slowest_rank})" if by_rank else ""
        range_ = f"{format_duration(min(waiting))}{who} to {format_duration(max(waiting))}"
        rows += [
            ("steps of the processes", spread),
            ("waiting", f"{range_}, median {format_duration(median(waiting))}"),
        ]
    return rows
