"""Many signatures side by side: a folder of profiles, or the members of a mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statsnet.analysis.characteristics import Characteristics, categories_of, characteristics_of
from statsnet.analysis.database import NamedSignature
from statsnet.analysis.sizes import memory_by_size
from statsnet.reporting.characteristics import characteristics_report
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.of_gpu import power_picture
from statsnet.reporting.html.pictures import Picture, Point, Series, bars, cloud, clouds
from statsnet.reporting.tables import Report, environment_line, percent, table
from statsnet.signatures.mix import Mix
from statsnet.units import format_bytes, format_duration, format_quantity

MOST_CATEGORIES = 12


def profiles_section(title: str, measured: Sequence[NamedSignature], mode: str, command: str = "") -> Section:
    """Signatures of one mode, each with a measurement; of one environment, but those of a mix may be of several."""
    steps = [characteristics_of(named) for named in measured]
    places = {environment_line(named.signature.measurements[0].environment) for named in measured}
    where = places.pop() if len(places) == 1 else f"{len(places)} environments, whose times differ for that reason, too"
    tables: Report = characteristics_report(steps, measured, memory_by_size(measured), where, mode)
    power = power_picture(measured, where)
    drawn = [_categories(steps, where), _rates(steps, where), _memory(measured), power]
    pictures = [picture for picture in drawn if picture is not None]
    return Section(title=title, pictures=pictures, tables=tables, command=command)


def counted_section(title: str, counted: Sequence[NamedSignature]) -> Section:
    """Signatures that were measured nowhere: their work and memory."""
    return Section(title=title, pictures=[_work(counted), _memory(counted)], tables=[])


def mix_section(title: str, mix: Mix, mode: str, command: str) -> Section:
    """What a mix asks for: its members, their shares, and what they do."""
    members = [member for member in mix.members if member.measurement is not None]
    named = [NamedSignature(name=member.name, signature=member.signature) for member in members]
    weights = {member.name: member.weight for member in mix.members}
    pictures = [_weights(weights)]
    tables: Report = []
    if named:
        section = profiles_section(title, named, mode)
        pictures += section.pictures
        tables = section.tables
    return Section(title=title, pictures=pictures, tables=tables, command=command)


def _weights(weights: Mapping[str, float]) -> Picture:
    rows = [(name, percent(weight)) for name, weight in weights.items()]
    series = Series(
        name="weight",
        x=[100 * w for w in weights.values()],
        shown=[f"{name}: {w:.1%} of device time" for name, w in weights.items()],
    )
    return bars(
        "Members and their shares", "Share of device time that the mix asks for.", list(weights), [series],
        table("", ("workload", "weight"), rows), axis="% of device time",
    )  # fmt: skip


def _categories(steps: Sequence[Characteristics], where: str) -> Picture:
    order = categories_of(steps)
    shown, rest = order[:MOST_CATEGORIES], order[MOST_CATEGORIES:]
    columns = {name: [step.categories.get(name, 0.0) for step in steps] for name in shown}
    if rest:
        columns["other categories"] = [sum(step.categories.get(name, 0.0) for name in rest) for step in steps]
    columns["framework"] = [step.framework or 0.0 for step in steps]
    columns["idle"] = [step.idle or 0.0 for step in steps]
    columns = {name: values for name, values in columns.items() if any(values)}
    series = [
        Series(
            name=name,
            x=[100 * value for value in values],
            shown=[f"{s.name}: {value:.1%} {name}\n{where}" for s, value in zip(steps, values, strict=True)],
        )
        for name, values in columns.items()
    ]
    rows = [(s.name, *(percent(values[n]) for values in columns.values())) for n, s in enumerate(steps)]
    return bars(
        "Time by operator category",
        f"Share of a step's time, {where}.",
        [step.name for step in steps],
        series,
        table("", ("workload", *columns), rows),
        axis="% of the step",
        stacked=True,
    )


def _rates(steps: Sequence[Characteristics], where: str) -> Picture:
    known = [step for step in steps if step.flops and step.bytes]
    points = [
        Point(
            _domain(s.name),
            s.flops / s.bytes,
            s.flops / s.latency_s,
            f"{s.name}: {format_quantity(s.flops / s.latency_s, 'FLOP/s')}, {s.flops / s.bytes:.3g} FLOP/B, "
            f"step {format_duration(s.latency_s)}\n{where}",
        )
        for s in known
    ]
    rows = [
        (
            s.name,
            f"{s.flops / s.bytes:.3g}",
            format_quantity(s.flops / s.latency_s, "FLOP/s"),
            format_duration(s.latency_s),
        )
        for s in known
    ]
    made = table("", ("workload", "FLOP/B", "FLOP/s", "step"), rows)
    note = f"A point is a workload's step, {where}."
    return cloud("Rates against intensity", note, clouds(points), made, x="FLOP per byte", y="FLOP/s")


def _work(counted: Sequence[NamedSignature]) -> Picture:
    """FLOPs of a step against its intensity. A step without FLOPs or bytes is in the table alone."""
    work = [(each.name, each.signature.flops_per_step, each.signature.bytes_per_step) for each in counted]
    points = [
        Point(_domain(name), f / b, f, f"{name}: {format_quantity(f, 'FLOP')}, {format_bytes(b)} a step (counted)")
        for name, f, b in work
        if f and b
    ]
    rows = [(name, format_quantity(flops, "FLOP"), format_bytes(moved)) for name, flops, moved in work]
    return cloud(
        "Work of a step", "A point is a workload's step. Counted, on no device.", clouds(points),
        table("", ("workload", "FLOPs", "bytes"), rows), x="FLOP per byte", y="FLOP",
    )  # fmt: skip


def _domain(name: str) -> str:
    return name.partition("/")[0]


def _memory(named: Sequence[NamedSignature]) -> Picture:
    held = [each.signature.memory for each in named]
    kinds = {
        "parameters": [memory.parameter_bytes for memory in held],
        "comes and goes in a step": [memory.activation_bytes for memory in held],
        "inputs": [memory.input_bytes for memory in held],
    }
    series = [
        Series(
            name=kind,
            x=[None if size is None else size / 2**20 for size in sizes],
            shown=[f"{n.name}: {format_bytes(size)} {kind} (counted)" for n, size in zip(named, sizes, strict=True)],
        )
        for kind, sizes in kinds.items()
    ]
    rows = [(each.name, *(format_bytes(sizes[n]) for sizes in kinds.values())) for n, each in enumerate(named)]
    return bars(
        "Memory by kind", "Counted, on no device.", [each.name for each in named], series,
        table("", ("workload", *kinds), rows), axis="MiB", stacked=True,
    )  # fmt: skip
