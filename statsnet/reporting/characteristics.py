"""The analysis of many workloads, and their groups, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.table import Table

from statsnet.analysis.characteristics import (
    HOTSPOT,
    MOST_OF_IT,
    Characteristics,
    categories_of,
    hotspots_by_category,
)
from statsnet.analysis.database import NamedSignature
from statsnet.analysis.similarity import Similarity
from statsnet.analysis.sizes import Size
from statsnet.reporting.tables import MISSING, Report, line, percent, points, table, times
from statsnet.units import format_bytes, format_duration, format_quantity

MOST_COLUMNS = 8
"""Categories that have a column; the others are added up."""

SHOWN_FUNCTIONS = 20


def characteristics_report(
    workloads: Sequence[Characteristics],
    measured: Sequence[NamedSignature],
    sizes: Mapping[str, Sequence[Size]],
    environment: str,
    mode: str,
) -> Report:
    return [
        line(f"{len(workloads)} workloads, {mode}, profiled on {environment}"),
        _costs(workloads),
        _categories(workloads),
        _phases(workloads),
        _memory(workloads),
        _sizes(sizes),
        _repeatability(workloads),
        _functions(workloads),
        _hotspots(workloads, measured),
    ]


def _costs(workloads: Sequence[Characteristics]) -> Table:
    return table(
        "Costs of a step (2 FLOPs per multiply-add)",
        ("workload", "parameters", "FLOPs", "FLOPs a sample", "bytes", "FLOP/B", "step", "FLOP/s"),
        (
            (
                c.name,
                format_quantity(c.parameters),
                format_quantity(c.flops),
                format_quantity(c.flops / c.batch if c.batch else None),
                format_quantity(c.bytes, "B"),
                f"{c.flops / c.bytes:.3g}" if c.bytes else MISSING,
                format_duration(c.latency_s),
                format_quantity(c.flops / c.latency_s, "FLOP/s"),
            )
            for c in workloads
        ),
    )


def _categories(workloads: Sequence[Characteristics]) -> Table:
    ordered = categories_of(workloads)
    shown, rest = ordered[:MOST_COLUMNS], ordered[MOST_COLUMNS:]
    return table(
        "Time by operator category",
        ("workload", *shown, *(["others"] if rest else [])),
        (
            (
                c.name,
                *(percent(c.categories.get(name, 0.0)) for name in shown),
                *([percent(sum(c.categories.get(name, 0.0) for name in rest))] if rest else []),
            )
            for c in workloads
        ),
    )


def _phases(workloads: Sequence[Characteristics]) -> Table:
    phases = [p for p in ("forward", "backward", "optimizer") if any(p in c.phases for c in workloads)]
    return table(
        "Time by phase",
        ("workload", *phases, "framework", "idle"),
        (
            (c.name, *(percent(c.phases.get(p, 0.0)) for p in phases), percent(c.framework), percent(c.idle))
            for c in workloads
        ),
    )


def _memory(workloads: Sequence[Characteristics]) -> Table:
    """What comes and goes within a step holds activations, gradients and the libraries' workspace; its share is of the
    peak."""
    return table(
        "Memory of a step",
        ("workload", "parameters", "buffers", "inputs", "optimizer", "within a step", "peak", "share"),
        (
            (
                c.name,
                format_bytes(c.parameter_bytes),
                format_bytes(c.buffer_bytes),
                format_bytes(c.input_bytes),
                format_bytes(c.optimizer_bytes),
                format_bytes(c.activation_bytes),
                format_bytes(c.peak_bytes),
                percent(c.activation_bytes / c.peak_bytes if c.activation_bytes and c.peak_bytes else None),
            )
            for c in workloads
        ),
    )


def _sizes(by_workload: Mapping[str, Sequence[Size]]) -> Table:
    """Those known in one size only are left out: a single point shows no growth."""
    return table(
        "Memory against input size (c: counted on fake tensors, without libraries' workspace)",
        ("workload", "preset", "batch", "inputs", "within a step", "per byte of input", "peak", ""),
        (
            (
                size.name,
                size.preset,
                MISSING if size.batch is None else str(size.batch),
                format_bytes(size.input_bytes),
                format_bytes(size.activation_bytes),
                f"{size.activation_bytes / size.input_bytes:.3g}" if size.input_bytes else MISSING,
                format_bytes(size.peak_bytes),
                "c" if size.counted else "",
            )
            for sizes in by_workload.values()
            if len(sizes) > 1
            for size in sizes
        ),
    )


def _repeatability(workloads: Sequence[Characteristics]) -> Table:
    return table(
        "Repeatability of a step, in one process",
        ("workload", "steps", "coefficient of variation", "middle half", "first step", "unexplained"),
        (
            (
                c.name,
                str(c.steps),
                percent(c.coefficient_of_variation),
                percent(c.spread),
                times(c.first_step),
                percent(c.unexplained),
            )
            for c in workloads
        ),
    )


def _functions(workloads: Sequence[Characteristics]) -> Table:
    """Functions of all workloads together, in equal shares."""
    total: dict[str, float] = defaultdict(float)
    hot: dict[str, int] = defaultdict(int)
    for c in workloads:
        for name, share in c.functions.items():
            total[name] += share / len(workloads)
            hot[name] += share > HOTSPOT
    ordered = sorted(total, key=lambda name: (-total[name], name))[:SHOWN_FUNCTIONS]
    return table(
        "Functions that hold most of the operators' time (workloads in equal shares)",
        ("function", "share", f"workloads where it holds over {HOTSPOT:.0%}"),
        ((name, percent(total[name]), str(hot[name])) for name in ordered),
    )


def _hotspots(workloads: Sequence[Characteristics], measured: Sequence[NamedSignature]) -> Table:
    counts = hotspots_by_category(workloads, measured)
    leading = sorted(c.leading for c in workloads)
    median = leading[len(leading) // 2]
    title = (
        f"Hotspots: {sum(counts.values())} functions over {HOTSPOT:.0%} of their workload's time; "
        f"{median} functions hold {MOST_OF_IT:.0%} of a workload's (median)"
    )
    return table(title, ("category", "hotspots"), ((name, str(n)) for name, n in counts.items()))


def similarity_report(similarity: Similarity, environment: str, mode: str) -> Report:
    rows = [
        (cluster.representative, str(len(cluster.members)), ", ".join(cluster.members))
        for cluster in sorted(similarity.clusters, key=lambda c: (-len(c.members), c.representative))
    ]
    groups, missed = len(similarity.clusters), similarity.missed
    return [
        line(f"{len(similarity.names)} workloads, {mode}, profiled on {environment}"),
        table("Groups by where the time goes", ("stands for all", "of", "workloads"), rows, left=3),
        line(
            f"{groups} groups, silhouette {similarity.silhouette:.2f}. Running the {groups} alone costs "
            f"{percent(similarity.cost)} of the time of all. Weighted by their groups, their shares of time are "
            f"{points(missed['category'])} (categories) and {points(missed['kernel_class'])} (kernel classes) away "
            "from those of all workloads in equal shares."
        ),
    ]
