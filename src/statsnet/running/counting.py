"""Hardware counters: one step run once more, under Nsight Compute, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.profiling.counters import joined, with_counters
from statsnet.profiling.gpu_activity import Launch, no_counters
from statsnet.profiling.ncu import (
    NO_PERMISSION,
    CountedKernel,
    command,
    find_ncu,
    known_metrics,
    read_table,
    wanted,
)
from statsnet.running.child import Progress, run_job
from statsnet.signatures.gpu import Counters
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
            return joined(launches, table.kernels, clusters=clusters, tool=table.tool), ""
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
