"""Hardware counters: a task's kernels counted under Nsight Compute, and joined to the clusters that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from statsnet.errors import MeasurementError
from statsnet.measure.control import DEFAULT, Control
from statsnet.measure.ncu import NotCounted, under_ncu
from statsnet.measure.ncu_csv import CountedKernel
from statsnet.measure.task import CountableTask
from statsnet.profiling.gpu_activity import Launch, no_counters
from statsnet.profiling.kernel_families import kernel_family
from statsnet.progress import Report, silent
from statsnet.signatures.gpu import COUNTERS, SUM_COUNTERS, CounterName, Counters, PowerField, Reason
from statsnet.signatures.model import Signature

NOT_ALIKE = "steps that vary are not counted"


def counters_of(
    task: CountableTask[Any],
    launches: Sequence[Launch],
    clusters: int,
    how: str,
    *,
    control: Control = DEFAULT,
    report: Report = silent,
) -> tuple[Counters, str]:
    """The counters of the kernels that the task launches, by the clusters that launched them; and, if there are none,
    a sentence that says why.

    Raises MeasurementError if there are none and `how` is `ncu`.
    """
    if how == "off":
        return no_counters("off"), ""
    try:
        if launches and all(launch.cluster is None for launch in launches):
            raise NotCounted(
                "mismatch",
                "no kernel belongs to an operator",
                cause="the step runs in one piece, as a compiled one does",
                hint="count it without the setting",
            )
        table = under_ncu(task, control, report=report)
        try:
            return assign_to_clusters(launches, table.kernels, clusters=clusters, tool=table.tool), ""
        except MeasurementError as error:
            raise NotCounted("mismatch", error.message, cause=error.cause, hint=error.hint) from error
    except NotCounted as error:
        if how == "ncu":
            raise
        return no_counters(error.why), f"no hardware counters: {error.message} ({error.cause}): {error.hint}"


def counted_signature(
    signature: Signature,
    launches: Sequence[Launch],
    task: CountableTask[Any],
    how: str,
    *,
    control: Control = DEFAULT,
    report: Report = silent,
) -> tuple[Signature, str]:
    """The signature with the counters of the kernels that were timed for it (`launches`); and, if there are none, why.
    Raises as `counters_of`."""
    if signature.measurements[0].gpu is None:
        if how == "ncu":
            raise MeasurementError("there are no hardware counters", cause=NOT_ALIKE)
        return signature, f"no hardware counters: {NOT_ALIKE}"
    counters, why = counters_of(task, launches, len(signature.clusters), how, control=control, report=report)
    return with_counters(signature, counters), why


def assign_to_clusters(
    launches: Sequence[Launch], counted: Sequence[CountedKernel], *, clusters: int, tool: str | None
) -> Counters:
    """The n-th counted kernel is the n-th timed kernel. Its counters are weighted by its time.

    Raises MeasurementError unless both are the same kernels in the same order: nothing is shifted to make them fit.
    """
    check_same(launches, counted)
    kernels: list[list[tuple[Launch, CountedKernel]]] = [[] for _ in range(clusters)]
    for launch, kernel in zip(launches, counted, strict=True):
        if launch.cluster is not None:
            kernels[launch.cluster].append((launch, kernel))
    by_cluster: dict[CounterName, tuple[float | None, ...]] = {}
    for name in COUNTERS:
        values = tuple(
            combine_samples(name, [(launch, kernel.values.get(name)) for launch, kernel in of_cluster])
            for of_cluster in kernels
        )
        if any(value is not None for value in values):
            by_cluster[name] = values
    missing: dict[PowerField | CounterName, Reason] = {
        name: "not_supported" for name in COUNTERS if name not in by_cluster
    }
    return Counters(tool=tool, clusters=by_cluster, missing=missing)


def check_same(launches: Sequence[Launch], counted: Sequence[CountedKernel]) -> None:
    """Raises MeasurementError unless both are the same kernels in the same order."""
    names = [kernel_family(kernel.name) for kernel in counted]
    expected = [launch.family for launch in launches]
    if names == expected:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(expected, names, strict=False)) if a != b),
        min(len(expected), len(names)),
    )
    raise MeasurementError(
        "the kernels that ncu counted are not those that were timed",
        cause=f"{len(expected)} were timed and {len(names)} counted; number {place + 1} was "
        f"{_at(expected, place)} where it was timed and {_at(names, place)} where it was counted",
        hint="count the same step, and switch off libraries that try kernels at run time, for they choose anew in each "
        "process; or do without counters",
    )


def with_counters(signature: Signature, counters: Counters) -> Signature:
    """The signature with these counters in its measurement."""
    (measurement,) = signature.measurements
    assert measurement.gpu is not None, "only what ran on a GPU is counted"
    gpu = replace(measurement.gpu, counters=counters)
    return replace(signature, measurements=(replace(measurement, gpu=gpu),))


def combine_samples(name: str, samples: Sequence[tuple[Launch, float | None]]) -> float | None:
    """One value for several kernels: their mean over time; for SUM_COUNTERS, the sum in an average step, in which
    kernels without a value count as if they were like the others, second for second. None if no kernel has a value."""
    known = [(launch, value) for launch, value in samples if value is not None]
    if not known:
        return None
    spent_s = sum(launch.weight * launch.time_s for launch, _ in known)
    if name in SUM_COUNTERS:
        total = sum(launch.weight * value for launch, value in known)
        if len(known) == len(samples) or spent_s <= 0:
            return total
        return total * sum(launch.weight * launch.time_s for launch, _ in samples) / spent_s
    if spent_s <= 0:
        return sum(value for _, value in known) / len(known)
    return sum(launch.weight * launch.time_s * value for launch, value in known) / spent_s


def _at(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) else "none"


def by_place(counters: Counters, count: int) -> list[dict[str, float]]:
    """For each of `count` clusters, its known counters: name -> value."""
    return [
        {name: value for name, values in counters.clusters.items() if (value := values[i]) is not None}
        for i in range(count)
    ]
