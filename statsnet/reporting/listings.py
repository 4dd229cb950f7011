"""Listings as tables: workloads, profiles, proxies, kept measurements, recorded devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from statsnet.devices.device_record import DeviceRecord
from statsnet.measure.cache import CacheContents
from statsnet.reporting.tables import MISSING, Report, notes, pairs, percent, table
from statsnet.signatures.database import ProfileEntry
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.units import format_bytes, format_duration, format_quantity
from statsnet.workloads.registry import Workload

Row = dict[str, Any]


def workload_row(entry: Workload) -> Row:
    return {
        "name": entry.full_name,
        "domain": entry.domain,
        "title": entry.title,
        "suites": list(entry.suites),
        "parameters": entry.parameters,
        "flops": entry.flops,
        "flops_sample": dict(entry.sample),
        "presets": {name: dict(sizes) for name, sizes in entry.presets.items()},
        "optimizer": entry.optimizer,
        "tags": list(entry.tags),
        "source": entry.source,
    }


def workload_table(rows: Sequence[Row]) -> Table:
    """FLOPs are of one forward pass of the sample in the source, 2 per multiply-add."""
    return table(
        "Workloads",
        ("name", "title", "suites", "presets", "source", "parameters", "FLOPs"),
        (
            (
                row["name"],
                row["title"],
                ", ".join(row["suites"]) or MISSING,
                ", ".join(row["presets"]) or MISSING,
                row["source"],
                format_quantity(row["parameters"]),
                format_quantity(row["flops"]),
            )
            for row in rows
        ),
        left=5,
    )


def profile_row(entry: ProfileEntry) -> Row:
    return {
        "name": entry.name,
        "domain": entry.domain,
        "mode": entry.mode,
        "environment": entry.environment,
        "file": str(entry.path),
    }


def profile_table(rows: Sequence[Row]) -> Table:
    return table(
        "Profiles",
        ("name", "mode", "environment"),
        ((row["name"], row["mode"], row["environment"]) for row in rows),
        left=3,
    )


def proxy_row(folder: str, spec: ProxySpec, fit: Fit | None) -> Row:
    return {
        "folder": folder,
        "id": spec.id,
        "mode": spec.mode,
        "mix": {member.name: member.weight for member in spec.mix},
        "budget_s": spec.budget_s,
        "step_latency_s": fit.summary.step_latency_s if fit else None,
        "compression": fit.summary.compression if fit else None,
        "problem": None,
    }


def damaged_proxy_row(folder: str, problem: str) -> Row:
    empty = dict.fromkeys(("id", "mode", "budget_s", "step_latency_s", "compression"))
    return {"folder": folder, **empty, "mix": {}, "problem": problem}


def proxy_table(rows: Sequence[Row]) -> Table:
    return table(
        "Proxies",
        ("folder", "mode", "mix", "step", "compression"),
        (
            (
                row["folder"],
                row["mode"] or MISSING,
                row["problem"] or _mix(row["mix"]),
                format_duration(row["step_latency_s"]),
                f"{row['compression']:.3g}×" if row["compression"] else MISSING,
            )
            for row in rows
        ),
        left=3,
    )


def _mix(mix: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {percent(weight)}" for name, weight in mix.items())


def cache_table(contents: CacheContents) -> Table:
    age = MISSING if contents.oldest_s is None else f"{contents.oldest_s / 86400:.1f} days ago"
    rows = [
        ("folder", contents.folder),
        ("measurements", str(contents.entries)),
        ("size", format_bytes(contents.bytes)),
        ("oldest", age),
    ]
    return pairs("Kept measurements", rows)


def device_row(record: DeviceRecord) -> Row:
    return {
        "device": record.device,
        "sources": [source.source for source in record.sources],
        "operators": _operators(record),
        "measured": record.measured,
    }


def devices_report(rows: Sequence[Row], folders: Sequence[str]) -> Report:
    """Devices with a record made from tables, and the environments that have profiles or a record of their own."""
    made = ((r["device"], ", ".join(r["sources"]), ", ".join(r["operators"]), str(r["measured"])) for r in rows)
    columns = ("device", "from", "operators", "measured")
    report = [table("Devices recorded by tables", columns, made, left=3)] if rows else []
    return [*report, *notes("\nDevices with profiles, or a record, of their own", folders)]


def _operators(record: DeviceRecord) -> list[str]:
    """Operators of a record; all kinds of attention are one."""
    words = {m.operator for m in record.models} | {e.operator for e in record.exact}
    return sorted({"attention" if w.startswith("attention_") else w for w in words})
