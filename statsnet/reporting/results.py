"""Results of runs as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from statsnet.environment import differences
from statsnet.reporting.tables import (
    Report,
    environment_line,
    line,
    notes,
    pairs,
    percent,
    table,
    times,
)
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.intervals import Interval, latency_with_ci
from statsnet.signatures.results import Result, ResultMember, Subject
from statsnet.signatures.timing import Timing, warnings_of
from statsnet.units import format_duration, plural

POWER_ROWS = (
    ("energy_j_per_step", "energy per step", "J"),
    ("power_w", "power", "W"),
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("temperature_c", "temperature", "°C"),
)


SAME_SPEED = 0.02
"""A step that differs less from that in fit.json needs no explanation."""


def result_report(result: Result, spec: ProxySpec | None = None, fit: Fit | None = None) -> Report:
    """Median, interval, samples, environment and warnings; with `spec`, what the proxy stands for; with `fit` too, why
    the same machine took another time when the proxy was made."""
    if result.members is not None:
        return _suite_report(result, result.members)
    processes = result.of_subject
    interval = latency_with_ci(processes)
    rows = [
        ("step time", f"{format_duration(interval.value)} (median)"),
        ("95 % interval", _bounds(interval, "one process gives none: use --processes 3 or more")),
        ("samples", _samples(processes)),
        *_gpu_rows(processes),
        ("environment", environment_line(result.environment)),
    ]
    if spec is not None:
        rows.append(("stands for", _stands_for(spec, predicted=fit is not None and bool(fit.recorded))))
    other_time = _when_made(interval.value, result, spec, fit) if spec is not None and fit is not None else []
    return [pairs(subject_title(result.subject), rows), *other_time, *notes("warnings:", warnings_of(processes))]


def _when_made(step_s: float, result: Result, spec: ProxySpec, fit: Fit) -> Report:
    """Nothing in another environment, where another time is what one wants to see."""
    made_s = fit.summary.step_latency_s
    if made_s is None or abs(made_s / step_s - 1) < SAME_SPEED:
        return []
    if not spec.reference_environment or differences(result.environment, spec.reference_environment):
        return []
    return [
        line(
            f"When the proxy was made, in such an environment, its step took {format_duration(made_s)} (fit.json): "
            "machines change speed. This run says how long a step takes now. Compare the time in fit.json only with "
            "the suite's in the same file; `statsnet validate` measures both anew."
        )
    ]


def _gpu_rows(processes: Sequence[Timing]) -> list[tuple[str, str]]:
    """Figures that only a GPU gives, as medians over processes; and which are missing, and why."""
    flushed = [median(p.flushed_latency_s) for p in processes if p.flushed_latency_s]
    rows = [("with L2 flushed", format_duration(median(flushed)))] if flushed else []
    records = [p.power for p in processes if p.power]
    for name, label, unit in POWER_ROWS:
        values = [value for r in records if (value := getattr(r, name)) is not None]
        if values:
            rows.append((label, f"{median(values):.3g} {unit}"))
    missing = {name: reason for r in records for name, reason in (r.missing or {}).items()}
    return [*rows, *((f"no {name}", reason) for name, reason in sorted(missing.items()))]


def member_table(members: Sequence[ResultMember]) -> Table:
    """Step time of every member here, and in the reference environment."""
    rows = []
    for member in members:
        interval = latency_with_ci(member.processes)
        reference = member.latency_s_reference
        rows.append(
            (
                member.name,
                member.evidence,
                percent(member.weight),
                format_duration(interval.value),
                format_duration(reference),
                times(interval.value / reference),
            )
        )
    return table("The suite", ("workload", "evidence", "weight", "step here", "reference", "factor"), rows, left=2)


def subject_title(subject: Subject) -> str:
    """`proxy sha256:0123456789ab, inference`"""
    return f"{subject_name(subject)}, {subject.mode}"


def subject_name(subject: Subject) -> str:
    return f"{subject.type} {(subject.id or '')[:19]}"


def _suite_report(result: Result, members: Sequence[ResultMember]) -> Report:
    processes = result.of_subject
    rows = [("samples", _samples(processes)), ("environment", environment_line(result.environment))]
    report: Report = [pairs(subject_title(result.subject), rows), member_table(members)]
    if result.proxy is not None:
        interval = latency_with_ci(result.proxy.processes)
        report.append(line(f"the proxy's step takes {format_duration(interval.value)}"))
        processes = (*processes, *result.proxy.processes)
    return [*report, *notes("warnings:", warnings_of(processes))]


def _samples(processes: Sequence[Timing]) -> str:
    steps = sum(len(process.latency_s) for process in processes)
    return f"{steps} steps in {plural(len(processes), 'process')}"


def _stands_for(spec: ProxySpec, *, predicted: bool) -> str:
    suite_s = sum(member.latency_s for member in spec.mix)
    where = environment_line(spec.reference_environment) if spec.reference_environment else "its origin"
    count = len(spec.mix)
    of = f"one step of each of {count} workloads, together" if count > 1 else "one step of a workload,"
    return f"{of} {format_duration(suite_s)} on {where}{', as its record predicts' if predicted else ''}"


def _bounds(interval: Interval, otherwise: str) -> str:
    if interval.low is None or interval.high is None:
        return otherwise
    return f"{format_duration(interval.low)} to {format_duration(interval.high)}"
