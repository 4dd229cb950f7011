"""A proxy as pictures: its towers, what was asked and what it has, the rounds, the search's front."""

from __future__ import annotations

from collections.abc import Sequence

from statsnet.reporting.front import SearchRecord
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.of_timeline import proxy_timeline
from statsnet.reporting.html.of_towers import towers_picture
from statsnet.reporting.html.pictures import SHOWN_ROWS, Picture, Point, Series, bars, cloud, clouds, line_trace
from statsnet.reporting.proxy import GROUPS, asked_and_achieved, proxy_report, quantity, shown_shares
from statsnet.reporting.tables import environment_line, percent, table
from statsnet.signatures.documents import Characteristic, Fit, ProxySpec
from statsnet.units import format_duration


def proxy_section(
    name: str, spec: ProxySpec, fit: Fit | None, search: SearchRecord | None, command: str = ""
) -> Section:
    pictures: list[Picture | None] = [towers_picture(spec, fit), proxy_timeline(spec, fit), _members(spec)]
    if fit is not None:
        where = environment_line(fit.environment)
        pictures += [_asked(fit.characteristics, group, where) for group in GROUPS]
        pictures += [_errors(fit.characteristics, where), _rates(fit.characteristics, where), _rounds(fit, where)]
    if search is not None:
        pictures.append(_front(search))
    title = f"{name}: a proxy, {spec.mode}, {spec.dtype}"
    shown = [picture for picture in pictures if picture is not None]
    return Section(title=title, pictures=shown, tables=proxy_report(spec, fit), command=command)


def _members(spec: ProxySpec) -> Picture:
    names = [member.name for member in spec.mix]
    shown = [f"{m.name}: {m.weight:.1%} of device time, a step takes {format_duration(m.latency_s)}" for m in spec.mix]
    rows = [(m.name, percent(m.weight), format_duration(m.latency_s)) for m in spec.mix]
    return bars(
        "The mix",
        f"Share of device time of each workload, on {environment_line(spec.reference_environment)}.",
        names,
        [Series(name="weight", x=[100 * m.weight for m in spec.mix], shown=shown)],
        table("", ("workload", "weight", "step"), rows),
        axis="% of device time",
    )


def _asked(rows: Sequence[Characteristic], group: str, where: str) -> Picture | None:
    """Shares of one group: asked against achieved."""
    shown = shown_shares(rows, group)
    if len(shown) < 2:  # such as the only phase
        return None
    series = [
        Series(
            name=name,
            x=[None if value is None else 100 * value for value in values],
            shown=[f"{r.name}: {percent(v)} {name}\n{where}" for r, v in zip(shown, values, strict=True)],
        )
        for name, values in (("asked", [r.target for r in shown]), ("achieved", [r.achieved for r in shown]))
    ]
    return bars(
        f"{GROUPS[group]}: asked against achieved",
        f"Shares of operator time, {where}.",
        [r.name for r in shown],
        series,
        table("", ("", "asked", "achieved", "error"), map(asked_and_achieved, shown)),
        axis="% of operator time",
    )


def _errors(rows: Sequence[Characteristic], where: str) -> Picture | None:
    """Where the error comes from: the kernel classes that are furthest off."""
    known = [r for r in rows if r.group == "kernel_class" and r.target is not None and r.achieved is not None]
    shown = sorted(known, key=lambda r: -abs((r.achieved or 0.0) - (r.target or 0.0)))[:20]
    if not shown:
        return None
    errors = [100 * ((r.achieved or 0.0) - (r.target or 0.0)) for r in shown]
    words = [
        f"{r.name}: {error:+.2f} points ({percent(r.target)} asked, {percent(r.achieved)} achieved)\n{where}"
        for r, error in zip(shown, errors, strict=True)
    ]
    return bars(
        "Error by kernel class",
        f"Achieved less asked, in points of operator time; the {len(shown)} largest of {len(known)}. {where}.",
        [r.name for r in shown],
        [Series(name="error", x=errors, shown=words)],
        table("", ("kernel class", "error"), [(name, off) for name, *_, off in map(asked_and_achieved, shown)]),
        axis="points",
    )


def _rates(rows: Sequence[Characteristic], where: str) -> Picture | None:
    """Rates, memory and counters as achieved over asked."""
    shown = [r for r in rows if r.group in ("rate", "memory", "counter") and r.target and r.achieved]
    if not shown:
        return None
    ratios = [(r.achieved or 0.0) / (r.target or 1.0) for r in shown]
    words = [
        f"{r.name}: {quantity(r.target, r.unit)} asked, {quantity(r.achieved, r.unit)} achieved\n{where}" for r in shown
    ]
    return bars(
        "Rates: achieved over asked",
        f"100 % is what was asked. {where}.",
        [r.name for r in shown],
        [Series(name="ratio", x=[100 * ratio for ratio in ratios], shown=words)],
        table("", ("", "asked", "achieved", "error"), map(asked_and_achieved, shown)),
        axis="% of what was asked",
    )


def _rounds(fit: Fit, where: str) -> Picture | None:
    if len(fit.rounds) < 2:
        return None
    numbers = [each.round for each in fit.rounds]
    series = [
        Series(
            name=name,
            x=numbers,
            y=values,
            shown=[f"round {n}: {name} error {value:.3g}\n{where}" for n, value in zip(numbers, values, strict=True)],
        )
        for name, values in (
            ("measured", [each.measured_error for each in fit.rounds]),
            ("predicted", [each.predicted_error for each in fit.rounds]),
        )
    ]
    lines = [
        (
            str(r.round),
            f"{r.predicted_error:.3g}",
            f"{r.measured_error:.3g}",
            format_duration(r.step_latency_s),
            f"{r.drift:.3g}",
        )
        for r in fit.rounds
    ]
    columns = ("round", "predicted error", "measured error", "step", "drift of the machine")
    note = f"Each round builds a network, measures it and learns from it. Errors are the integer program's. {where}."
    return cloud("Rounds", note, series, table("", columns, lines), x="round", y="error", log=False, counted=True)


def _front(search: SearchRecord) -> Picture:
    """The designs that were tried: error against step time."""
    front = sorted((1e3 * t.step_latency_s, t.error) for t in search.tried if t.number in set(search.front))
    series = clouds(
        Point(
            "chosen" if t.number == search.chosen else "tried",
            1e3 * t.step_latency_s,
            t.error,
            f"design {t.number}: error {t.error:.3g}, step {format_duration(t.step_latency_s)}",
            14 if t.number == search.chosen else 8,
        )
        for t in sorted(search.tried, key=lambda t: t.number == search.chosen)
    )
    lines = [(str(t.number), f"{t.error:.3g}", format_duration(t.step_latency_s)) for t in search.tried[:SHOWN_ROWS]]
    drawn = [line_trace("Pareto front", [x for x, _ in front], [y for _, y in front], stairs=True)] if front else []
    budget_ms, errors = 1e3 * search.budget_s, [t.error for t in search.tried]
    drawn.append(line_trace("budget", [budget_ms] * 2, [min(errors), max(errors)], dash="dot"))
    return cloud(
        "The search: error against step time",
        "A point is a design that was built and measured. On the front are those that no other beats in both.",
        series,
        table("", ("design", "error", "step"), lines),
        x="step time, ms",
        y="measured error",
        log=False,
        lines=drawn,
    )
