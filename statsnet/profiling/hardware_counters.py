"""Hardware counters: one step run once more, under Nsight Compute, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.ncu import (
    NO_PERMISSION,
    CountedKernel,
    command,
    find_ncu,
    known_metrics,
    read_table,
    wanted,
)
from statsnet.measure.process import Progress, run_job
from statsnet.profiling.gpu_activity import Launch, no_counters
from statsnet.profiling.kernels import kernel_family
from statsnet.signatures.gpu import COUNTERS, SUM_COUNTERS, Counters
from statsnet.signatures.model import Signature


class NotCounted(MeasurementError):
    """`why` is a word of WHY_MISSING."""

    def __init__(self, why: str, message: str, *, cause: str, hint: str) -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What ncu counted, and which ncu."""

    kernels: Sequence[CountedKernel]
    tool: str


def counters_of(
    job: Mapping[str, Any],
    launches: Sequence[Launch],
    clusters: int,
    how: str,
    *,
    on_progress: Progress | None = None,
) -> tuple[Counters, str]:
    """The counters of the step that `job` runs within ncu.RANGE, by the clusters that launched its kernels; and where
    there are none, why, in a sentence.

    Raises MeasurementError where they cannot be had and `how` is `ncu`.
    """
    if how == "off":
        return no_counters("off"), ""
    try:
        table = count_kernels(job, on_progress=on_progress)
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
    launches: Sequence[Mapping[str, Any]],
    job: Mapping[str, Any],
    how: str,
    *,
    on_progress: Progress | None = None,
) -> tuple[Signature, str]:
    """The signature with the counters of the step that `job` makes, of which `launches` (as dicts) were timed; and
    where there are none, why. Raises as `counters_of`."""
    timed = [Launch(**launch) for launch in launches]
    counters, why = counters_of(job, timed, len(signature.clusters), how, on_progress=on_progress)
    return with_counters(signature, counters), why


def count_kernels(job: Mapping[str, Any], *, on_progress: Progress | None = None) -> Table:
    """Run the job under ncu. Raises NotCounted where that is not there, not allowed, or fails."""
    ncu = find_ncu()
    if ncu is None:
        raise NotCounted(
            "not_installed",
            "ncu was not found",
            cause="hardware counters are read through Nsight Compute",
            hint="install it and put it into PATH, or give --counters off",
        )
    counters = wanted(known_metrics(ncu))
    if not counters:
        raise NotCounted(
            "not_supported",
            "ncu knows none of the metrics on this device",
            cause="they are those of GPUs of compute capability 7.0 and later",
            hint="look at ncu --query-metrics, or give --counters off",
        )
    if on_progress is not None:
        on_progress({"stage": "counting (each kernel runs several times)", "done": 0.0})
    with tempfile.TemporaryDirectory(prefix="statsnet-") as folder:
        log = Path(folder, "counters.csv")
        try:
            run_job(dict(job), under=command(ncu, counters, str(log)), env={"LC_ALL": "C"})
        except StatsNetError as error:
            raise _refused(_text(log), error) from error
        text = _text(log)
    if NO_PERMISSION in text:
        raise _refused(text, None)
    try:
        kernels = read_table(text, counters)
    except ValueError as error:
        raise NotCounted(
            "failed",
            "ncu wrote no table of kernels",
            cause=f"{error}: {_last_words(text)}",
            hint="run it by hand on a small program, or give --counters off",
        ) from error
    return Table(kernels=kernels, tool=f"ncu {_version(ncu)}")


def _refused(text: str, error: StatsNetError | None) -> NotCounted:
    if NO_PERMISSION in text:
        return NotCounted(
            "not_permitted",
            "the driver keeps hardware counters from this user",
            cause=NO_PERMISSION,
            hint="have the administrator set NVreg_RestrictProfilingToAdminUsers=0, or give --counters off",
        )
    assert error is not None
    return NotCounted(
        "failed",
        "the step failed under ncu",
        cause=f"{error.message}: {error.cause}",
        hint="give --counters off",
    )


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("==")]
    return lines[-1] if lines else "it said nothing"


def _version(ncu: str) -> str:
    try:
        said = subprocess.run(
            [ncu, "--version"], capture_output=True, text=True, check=False, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    found = re.search(r"Version (\d+(?:\.\d+)*)", said)
    return found[1] if found else "0"


def assign_to_clusters(
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
        name: tuple(combine_samples(name, of_cluster) for of_cluster in rows)
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


def combine_samples(name: str, samples: Sequence[tuple[Launch, float]]) -> float | None:
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
