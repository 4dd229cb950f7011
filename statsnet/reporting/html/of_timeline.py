"""A step as a timeline, as far as a file knows an order: a signature that of its phases, a proxy that of its towers.

Operators of a signature are in no order of execution (signatures/order.py), so within a phase the longest category
stands first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from rich.table import Table

from statsnet.evaluation.error_parts import BETWEEN
from statsnet.reporting.html.of_towers import counted_chains
from statsnet.reporting.html.pictures import Picture, hover, names_axis, safe
from statsnet.reporting.pictures import colour_of
from statsnet.reporting.tables import MISSING, environment_line, percent, table
from statsnet.signatures.documents import Fit, ProxySpec, SpecTower
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Phase, Signature
from statsnet.units import format_duration

SHORT = 0.002
"""Categories that take less of the step than this are together one stretch of their phase."""

NARROW = 0.01
"""Stretches of a smaller part of a timeline are drawn without an edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of one row of a timeline. Stretches of one name have one colour. `shown` is what hovering says."""

    row: int
    name: str
    start: float
    length: float
    shown: str


def timeline(
    title: str, note: str, rows: Sequence[str], stretches: Sequence[Stretch], table: Table, *, axis: str
) -> Picture:
    """Rows of stretches along one axis, the first row on top."""
    by_name: dict[str, list[Stretch]] = {}
    for each in stretches:
        by_name.setdefault(each.name, []).append(each)
    narrow = NARROW * max((each.start + each.length for each in stretches), default=0.0)
    # An edge would hide what is narrow.
    edges_px = {name: [0.5 if each.length > narrow else 0 for each in of_one] for name, of_one in by_name.items()}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": safe(name),
            "base": [each.start for each in of_one],
            "x": [each.length for each in of_one],
            "y": [each.row for each in of_one],
            "marker": {"color": colour_of(number), "line": {"color": "#ffffff", "width": edges_px[name]}},
            **hover([each.shown for each in of_one]),
        }
        for number, (name, of_one) in enumerate(by_name.items())
    ]
    layout = {
        "barmode": "overlay",
        "bargap": 0.15,
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": names_axis(rows),
        "showlegend": True,
    }
    return Picture.of(title, note, table, traces, layout, rows=2 * len(rows), legend=len(by_name))


def signature_timeline(signature: Signature, measurement: Measurement, where: str) -> Picture | None:
    """Phases in their order, and each one's categories; what lies between operators comes last. None where no operator
    has a time."""
    time_s: dict[str, dict[str, float]] = {phase: defaultdict(float) for phase in get_args(Phase)}
    for cluster, spent_s in zip(signature.clusters, measurement.cluster_time_s, strict=True):
        if spent_s:
            time_s[cluster.phase][cluster.category] += spent_s
    parts = {phase: _longest_first(categories, measurement.latency_s) for phase, categories in time_s.items()}
    parts = {phase: categories for phase, categories in parts.items() if categories}
    if not parts:
        return None
    outside_s = (measurement.framework_time_s or 0.0) + (measurement.idle_time_s or 0.0)
    whole_s = sum(sum(categories.values()) for categories in parts.values()) + outside_s
    stretches: list[Stretch] = []
    rows: list[tuple[str, str, str, str]] = []
    start_s = 0.0
    for phase, categories in parts.items():
        phase_s = sum(categories.values())
        stretches.append(_stretch(0, phase, start_s, phase_s, whole_s, where))
        for name, spent_s in categories.items():
            stretches.append(_stretch(1, name, start_s, spent_s, whole_s, f"{phase}\n{where}"))
            rows.append((phase, name, format_duration(spent_s), percent(spent_s / whole_s)))
            start_s += spent_s
    if outside_s:
        stretches.append(_stretch(0, BETWEEN, start_s, outside_s, whole_s, where))
        rows.append((BETWEEN, MISSING, format_duration(outside_s), percent(outside_s / whole_s)))
    return timeline(
        "The step as a timeline",
        f"Phases in the order in which they run, {where}. The order of operators in a phase is not known: their "
        f"categories stand side by side, the longest first. What lies {BETWEEN} is everywhere in the step, and stands "
        "at its end.",
        ["phase", "category"],
        stretches,
        table("", ("phase", "category", "time", "share"), rows, left=2),
        axis="ms",
    )


def _longest_first(time_s: Mapping[str, float], step_s: float) -> dict[str, float]:
    """Categories with their times; short ones together."""
    order = sorted(time_s, key=lambda name: (-time_s[name], name))
    shown = {name: time_s[name] for name in order if time_s[name] >= SHORT * step_s}
    rest_s = sum(time_s.values()) - sum(shown.values())
    return {**shown, **({"others": rest_s} if rest_s > 1e-12 else {})}


def proxy_timeline(spec: ProxySpec, fit: Fit | None) -> Picture | None:
    """Towers in the order in which they run, as long as their operators took where the proxy was made. None for a proxy
    from before towers had their shares."""
    if fit is None or fit.summary.step_latency_s is None or not all(tower.purpose for tower in spec.towers):
        return None
    step_s, where = fit.summary.step_latency_s, environment_line(fit.environment)
    stretches: list[Stretch] = []
    rows: list[tuple[str, str, str, str]] = []
    start_s = 0.0
    for number, tower in enumerate(spec.towers, 1):
        assert tower.purpose is not None
        spent_s, category = tower.purpose.step_share * step_s, next(iter(tower.purpose.categories), "optimizer alone")
        blocks = _blocks(tower)
        stretches.append(_stretch(0, category, start_s, spent_s, step_s, f"tower {number}: {blocks}\n{where}"))
        rows.append((f"tower {number}", blocks, format_duration(spent_s), percent(tower.purpose.step_share)))
        start_s += spent_s
    stretches += _phases(fit, start_s, step_s, where)
    outside_s = step_s - start_s
    if outside_s > 0:
        stretches.append(_stretch(0, BETWEEN, start_s, outside_s, step_s, where))
        rows.append((BETWEEN, MISSING, format_duration(outside_s), percent(outside_s / step_s)))
    backward = " Backward runs them in the opposite order; a stretch holds both." if spec.mode == "training" else ""
    return timeline(
        "The step as a timeline",
        f"Towers in the order in which they run, as long as their operators take, coloured by their main category. "
        f"{where}.{backward} What lies {BETWEEN} is everywhere in the step, and stands at its end. "
        "Single blocks were not timed in place: statsnet run --trace records them.",
        ["tower", "phase"] if any(each.row == 1 for each in stretches) else ["tower"],
        stretches,
        table("", ("", "blocks", "time", "share of the step"), rows, left=2),
        axis="ms",
    )


def _phases(fit: Fit, operators_s: float, step_s: float, where: str) -> Iterator[Stretch]:
    """The phases of a step, by their share of operator time; nothing if there is only one."""
    shares = {row.name: row.achieved for row in fit.characteristics if row.group == "phase" and row.achieved}
    if len(shares) < 2:
        return
    start_s = 0.0
    for phase in get_args(Phase):
        spent_s = (shares.get(phase) or 0.0) * operators_s
        if spent_s:
            yield _stretch(1, phase, start_s, spent_s, step_s, where)
        start_s += spent_s


def _blocks(tower: SpecTower) -> str:
    chains = counted_chains(tower)
    return " → ".join([*chains[:12], *(["…"] if len(chains) > 12 else [])])


def _stretch(row: int, name: str, start_s: float, length_s: float, whole_s: float, where: str) -> Stretch:
    shown = f"{name}: {format_duration(length_s)}, {length_s / whole_s:.1%}\n{where}"
    return Stretch(row=row, name=name, start=1e3 * start_s, length=1e3 * length_s, shown=shown)
