"""Values of the Python API as a line, as HTML and as columns of a data frame (display.Forms)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.devices.device_record import DeviceRecord
from statsnet.errors import StatsNetError, UsageError, shown
from statsnet.evaluation.standings import Standings
from statsnet.proxy.fit_picture import fit_svg
from statsnet.reporting import standings as of_standings
from statsnet.reporting.html import markup, page
from statsnet.reporting.proxy import proxy_report
from statsnet.reporting.results import subject_title
from statsnet.reporting.signature import signature_report, title_of
from statsnet.reporting.tables import MISSING, Report, environment_line, notes, percent, table
from statsnet.reporting.tables import line as text_line
from statsnet.reporting.validation import validation_report
from statsnet.signatures.intervals import latency_with_ci
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature
from statsnet.signatures.results import Result
from statsnet.signatures.saved_proxy import SavedProxy
from statsnet.signatures.scenarios import ScenarioResult
from statsnet.signatures.timing import Timing
from statsnet.units import format_compression, format_duration, format_quantity, listed, plural

Columns = Mapping[str, Sequence[Any]]

SHOWN = 4
"""Results that a line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    words: Callable[[Any], str]
    report: Callable[[Any], Report]
    columns: Callable[[Any], Columns]
    picture: Callable[[Any], str] = lambda _: ""
    """SVG that is read on light and dark pages."""
    in_view: int | None = None
    """So many parts of the report are in view (None: all); the others are one click away."""


def line(value: object) -> str:
    """`Signature(cv/resnet50, inference, float32, batch 4: 8.2 GFLOP in 161 calls, 12.3 ms a step on AMD EPYC 9R14)`"""
    try:
        words = _FORMS[type(value)].words(value)
    except StatsNetError as error:  # such as for a result whose clock stood still
        words = error.message
    words = shown(words).replace("\n", " ")
    return f"{type(value).__name__}({words})"


def html(value: object) -> str:
    """The tables of a report, and a proxy's picture, as a part of any page. What cannot be shown is said."""
    form = _FORMS[type(value)]
    try:
        report = form.report(value)
        first, rest = report[: form.in_view], report[form.in_view or len(report) :]
        more = f"<details><summary>all tables</summary>{markup.html(rest)}</details>" if rest else ""
        body = markup.html(first) + form.picture(value) + more
    except StatsNetError as error:
        body = markup.html([text_line(f"{line(value)}: {error}")])
    return page.fragment(body)


def columns(value: object) -> Columns:
    """Raises UsageError where there is nothing to put into a table."""
    return _FORMS[type(value)].columns(value)


def _columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Columns:
    """Rows turned into columns, which are there without rows, too."""
    made = list(rows)
    return {name: [row[i] for row in made] for i, name in enumerate(names)}


def _attributes(names: Sequence[str], things: Iterable[object]) -> Columns:
    return _columns(names, ([getattr(thing, name) for name in names] for thing in things))


def _signature_words(signature: Signature) -> str:
    work = f"{format_quantity(signature.flops_per_step, 'FLOP')} in {signature.calls_per_step:.4g} calls"
    measured = [m for m in signature.measurements if m.step_latency_s]
    if not measured:
        return f"{title_of(signature)}: {work}, not timed"
    device = measured[0].environment["device_name"]
    return f"{title_of(signature)}: {work}, {format_duration(measured[0].latency_s)} a step on {device}"


def _signature_columns(signature: Signature) -> Columns:
    """A row for each cluster: its counts, and its time in the first measurement."""
    counted = ("op", "phase", "category", "calls", "flops", "bytes_read", "bytes_written")
    found: dict[str, Sequence[Any]] = dict(_attributes(counted, signature.clusters))
    none = (None,) * len(signature.clusters)
    measurement = next(iter(signature.measurements), None)
    found["time_s"] = measurement.cluster_time_s if measurement else none
    found["kernel"] = measurement.kernels if measurement else none
    found["kernel_class"] = measurement.kernel_class if measurement else none
    return found


def _mix_words(mix: Mix) -> str:
    largest = max(mix.members, key=lambda member: member.weight)
    return f"{mix.title}, {mix.mode}: {plural(len(mix.members), 'workload')}, {largest.name} {largest.weight:.1%}"


def _mix_report(mix: Mix) -> Report:
    """Its members with their shares of device time, and where they were measured."""
    rows, environments = [], []
    for member in mix.members:
        signature, measurement = member.signature, member.measurement
        is_timed = measurement is not None and bool(measurement.step_latency_s)
        rows.append(
            (
                member.name,
                signature.workload.preset if signature.workload and signature.workload.preset else MISSING,
                signature.dtype,
                percent(member.weight),
                str(signature.batch or MISSING),
                format_duration(measurement.latency_s if measurement and is_timed else None),
                format_quantity(signature.flops_per_step, "FLOP"),
            )
        )
        if measurement is not None:
            environments.append(environment_line(measurement.environment))
    title = f"A mix of {plural(len(mix.members), 'workload')}, {mix.mode}"
    columns = ("workload", "preset", "dtype", "share of device time", "batch", "step", "work")
    return [table(title, columns, rows, left=3), *notes("measured on:", dict.fromkeys(environments))]


def _mix_columns(mix: Mix) -> Columns:
    names = ("name", "weight", "source", "preset", "dtype", "batch", "step_latency_s", "flops", "bytes", "device")
    rows = []
    for member in mix.members:
        signature, measurement = member.signature, member.measurement
        rows.append(
            (
                member.name,
                member.weight,
                member.source,
                signature.workload.preset if signature.workload else None,
                signature.dtype,
                signature.batch,
                measurement.latency_s if measurement and measurement.step_latency_s else None,
                signature.flops_per_step,
                signature.bytes_per_step,
                measurement.environment["device_name"] if measurement else None,
            )
        )
    return _columns(names, rows)


def _proxy_words(proxy: SavedProxy) -> str:
    spec, summary = proxy.spec, proxy.fit.summary if proxy.fit else None
    blocks = sum(len(tower.blocks) for tower in spec.towers)
    words = f"{proxy.path}: {plural(len(spec.mix), 'workload')}, {spec.mode}, {spec.dtype}, {plural(blocks, 'block')}"
    if summary is None or summary.step_latency_s is None:
        return f"{words}; no fit"
    return f"{words}; {format_duration(summary.step_latency_s)} a step, {format_compression(summary.compression)}"


def _proxy_columns(proxy: SavedProxy) -> Columns:
    """A row for each characteristic: what was asked, and what the proxy has."""
    if proxy.fit is None:
        raise UsageError(
            f"'{proxy.path}' has no fit.json", cause="the table compares what was asked with what the proxy has"
        )
    return _attributes(("group", "name", "target", "achieved", "unit"), proxy.fit.characteristics)


def _result_words(result: Result) -> str:
    title, device = subject_title(result.subject), result.environment["device_name"]
    if result.members is not None:
        return f"{title}: {plural(len(result.members), 'workload')} on {device}"
    processes = plural(len(result.of_subject), "process")
    return f"{title}: {format_duration(latency_with_ci(result.of_subject).value)} a step in {processes} on {device}"


def _result_columns(result: Result) -> Columns:
    """A row for each timed step. `name` is the workload's in a suite, else what was run."""
    timed: list[tuple[str, Sequence[Timing]]] = []
    timed += [(result.subject.type, result.processes)] if result.processes is not None else []
    timed += [(member.name, member.processes) for member in result.members or ()]
    timed += [("proxy", result.proxy.processes)] if result.proxy is not None else []
    rows = (
        (name, number, step, latency_s)
        for name, processes in timed
        for number, process in enumerate(processes)
        for step, latency_s in enumerate(process.latency_s)
    )
    return _columns(("name", "process", "step", "latency_s"), rows)


def _scenario_words(result: ScenarioResult) -> str:
    title, device = subject_title(result.subject), result.environment["device_name"]
    return f"{title}, {result.scenario}: {plural(len(result.trials), 'trial')} on {device}"


def _scenario_report(result: ScenarioResult) -> Report:
    from statsnet.reporting.scenarios import scenario_report

    return scenario_report(result)


def _scenario_columns(result: ScenarioResult) -> Columns:
    """A row for each query."""
    rows = (
        (number, instance, trial.qps, query, latency_s)
        for number, trial in enumerate(result.trials)
        for instance, answers in enumerate(trial.answers)
        for query, latency_s in enumerate(answers.latency_s)
    )
    return _columns(("trial", "instance", "qps", "query", "latency_s"), rows)


def _standings_words(found: Standings) -> str:
    return listed([f"{row.name}: {row.verdict}" for row in found.rows], SHOWN, "; ")


def _standings_columns(found: Standings) -> Columns:
    return _columns(of_standings.COLUMNS, of_standings.standings_rows(found))


def _device_words(record: DeviceRecord) -> str:
    sources = ", ".join(source.source for source in record.sources)
    return f"{record.device}: {record.measured} operators measured, {len(record.models)} kinds modelled, from {sources}"


def _device_report(record: DeviceRecord) -> Report:
    from statsnet.reporting.device import record_report  # with torch, which reading a record does not need

    return record_report(record)


def _device_columns(record: DeviceRecord) -> Columns:
    """A row for each modelled kind of operator, with the errors on rows that its fit had not seen."""
    names = ("operator", "dtype", "direction", "source", "rows", "median_error", "p90_error")
    rows = (
        (m.operator, m.dtype, m.direction, m.source, m.rows, m.held_out.median_error, m.held_out.p90_error)
        for m in record.models
    )
    return _columns(names, rows)


_FORMS: dict[type, _Form] = {
    Signature: _Form(words=_signature_words, report=signature_report, columns=_signature_columns),
    Mix: _Form(words=_mix_words, report=_mix_report, columns=_mix_columns),
    SavedProxy: _Form(
        words=_proxy_words,
        report=lambda proxy: proxy_report(proxy.spec, proxy.fit),
        columns=_proxy_columns,
        picture=lambda proxy: fit_svg(proxy.fit) if proxy.fit else "",
        in_view=1,
    ),
    ScenarioResult: _Form(words=_scenario_words, report=_scenario_report, columns=_scenario_columns),
    Result: _Form(words=_result_words, report=validation_report, columns=_result_columns),
    Standings: _Form(words=_standings_words, report=of_standings.standings_report, columns=_standings_columns),
    DeviceRecord: _Form(words=_device_words, report=_device_report, columns=_device_columns, in_view=1),
}
