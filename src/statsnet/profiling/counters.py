"""Hardware counters of a step's kernels joined to the clusters that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from statsnet.errors import MeasurementError
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.kernels import kernel_family
from statsnet.profiling.ncu import CountedKernel
from statsnet.signatures.gpu import COUNTERS, SUM_COUNTERS, Counters
from statsnet.signatures.model import Signature


def joined(
    launches: Sequence[Launch], counted: Sequence[CountedKernel], *, clusters: int, tool: str
) -> Counters:
    """The n-th kernel that was counted is the n-th that was timed; each counts for as long as it was timed to run.

    Raises MeasurementError where the two are not the same kernels in the same order: nothing is shifted to make them
    fit.
    """
    check_same(launches, counted)
    samples: dict[str, list[list[tuple[Launch, float]]]] = {
        name: [[] for _ in range(clusters)] for name in COUNTERS
    }
    for launch, kernel in zip(launches, counted, strict=True):
        if launch.cluster is None:
            continue
        for name, value in kernel.values.items():
            if value is not None:
                samples[name][launch.cluster].append((launch, value))
    found = {
        name: tuple(together(name, of_cluster) for of_cluster in rows)
        for name, rows in samples.items()
        if any(rows)
    }
    missing = {name: "not_supported" for name in COUNTERS if name not in found}
    return Counters(tool=tool, clusters=found, missing=missing)


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
        f"{_at(expected, place)} and then {_at(names, place)}",
        hint="a library that tries kernels at run time chooses anew in each process: switch that off, "
        "or profile with --counters off",
    )


def with_counters(signature: Signature, counters: Counters) -> Signature:
    """The signature with these counters in its measurement."""
    (measurement,) = signature.measurements
    assert measurement.gpu is not None, "only what ran on a GPU is counted"
    gpu = replace(measurement.gpu, counters=counters)
    return replace(signature, measurements=(replace(measurement, gpu=gpu),))


def together(name: str, samples: Sequence[tuple[Launch, float]]) -> float | None:
    """One value of several kernels: their mean over time, or of SUM_COUNTERS the sum in an average step."""
    if not samples:
        return None
    if name in SUM_COUNTERS:
        return sum(launch.weight * value for launch, value in samples)
    spent = sum(launch.weight * launch.time_s for launch, _ in samples)
    if spent <= 0:
        return sum(value for _, value in samples) / len(samples)
    return sum(launch.weight * launch.time_s * value for launch, value in samples) / spent


def _at(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) else "none"


def by_place(counters: Counters, count: int) -> list[dict[str, float]]:
    """The counters of each of so many clusters: name -> value, those that are known."""
    return [
        {name: value for name, values in counters.clusters.items() if (value := values[i]) is not None}
        for i in range(count)
    ]
