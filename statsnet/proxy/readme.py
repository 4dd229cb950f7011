"""README.md of a proxy folder: what it stands for and how well, for whoever finds it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from statsnet.errors import printable, shown
from statsnet.signatures.coverage import coverage_warning, missed_warning, not_together
from statsnet.signatures.documents import COLLECTIVE_GROUP, Characteristic, Fit, ProxySpec
from statsnet.signatures.simulation import Prediction, Simulation, SimulationFit
from statsnet.units import format_bytes, format_compression, format_duration, format_quantity, plural

_TITLES = {
    "category": "Time by operator category",
    "phase": "Time by phase",
}

SHOWN_LINES = 10


def head_of(spec: ProxySpec, subject: str) -> list[str]:
    """The title, and the notes of whoever asked for the mix: Markdown, but no HTML."""
    title, notes = printable(spec.title).replace("`", "'"), shown(spec.notes.strip()).replace("<", "&lt;")
    return [f"# {subject} `{title}`", "", *([notes, ""] if notes else [])]


def told(text: object) -> str:
    """A name from a file that others may have written, in Markdown: no markup, no control characters."""
    return re.sub(r"[\\`<>|\[\]!&]", r"\\\g<0>", printable(str(text)))


def proxy_readme(spec: ProxySpec, fit: Fit, network: str) -> str:
    """README.md; `network` is the text of network.py, of which it shows a few lines."""
    figures, where = fit.summary, spec.reference_environment
    lines = [
        *head_of(spec, "Proxy for"),
        f"One {spec.mode} step of this network stands for {plural(len(spec.mix), 'workload')} ({spec.dtype}). It takes "
        f"{format_duration(figures.step_latency_s)} where one step of each workload takes "
        f"{format_duration(figures.suite_latency_s)}: {format_compression(figures.compression)}.",
        "",
        f"{_origin(fit, where)} On another "
        "device or with other settings its step time should change by the same factor as the weighted workloads'.",
        "",
        "    python network.py            # torch alone",
        "    statsnet run .               # the same, several processes",
        "    statsnet validate .          # against the real workloads",
        "",
        "## The network",
        "",
        "```python",
        *_first_towers(network),
        "```",
        "",
        f"`network.py` holds all {plural(sum(len(t.blocks) for t in spec.towers), 'block')} in "
        f"{plural(len(spec.towers), 'tower')}, and the few lines of PyTorch that each kind of block is.",
        "",
        "## The mix",
        "",
        "| workload | weight | step | batch |",
        "|---|---|---|---|",
        *(f"| {told(m.name)} | {m.weight:.3f} | {format_duration(m.latency_s)} | {m.batch or '–'} |" for m in spec.mix),
        "",
        "## Fit, as predicted" if fit.recorded else "## Fit where it was made",
        "",
        "![What was asked for, and what the network does](fit.svg)",
        "",
        "| characteristic | asked | achieved |",
        "|---|---|---|",
        *(_rate_line(row) for row in fit.characteristics if row.group in ("rate", "memory")),
        "",
        f"Total variation over categories {_points(figures.category_total_variation)}, over kernel classes "
        f"{_points(figures.kernel_class_total_variation)}; intensity histogram "
        f"{figures.intensity_earth_movers_distance_log2:.2f} log2 units away.",
    ]
    if figures.proxy_coverage is not None:
        lines += ["", _coverage(fit)]
    for group, title in _TITLES.items():
        lines += _shares_section(fit, group, title)
    if spec.collectives:
        lines += _communication_section(spec, fit)
    return "\n".join(lines + _how_it_was_made(fit)) + "\n"


def _shares_section(fit: Fit, group: str, title: str) -> list[str]:
    return ["", f"## {title}", "", "| | asked | achieved |", "|---|---|---|"] + [
        f"| {told(row.name)} | {row.target:.1%} | {row.achieved:.1%} |"
        for row in fit.characteristics
        if row.group == group and max(row.target or 0.0, row.achieved or 0.0) >= 0.001
    ]


def _how_it_was_made(fit: Fit) -> list[str]:
    """What makes its times less certain."""
    lines = []
    if fit.effort == "quick":
        lines += ["", "Made with `--effort quick`: networks were measured in one process each, this one not again."]
    if fit.replayed_members and not fit.recorded:
        replayed = ", ".join(map(told, fit.replayed_members))
        lines += ["", f"Timed by replay of their operators, not by their models: {replayed}"]
    if fit.stored_members:
        lines += [
            "",
            "These members keep the times of their signatures: " + ", ".join(map(told, fit.stored_members)),
        ]
    if fit.slowed_share:
        lines += [
            "",
            "When the finished network was measured, some operators took longer than when it was chosen, by "
            f"{fit.slowed_share:.0%} of their time; the cause is not known. The fit has their times from then.",
        ]
    return lines


def _communication_section(spec: ProxySpec, fit: Fit) -> list[str]:
    """Of a proxy that several processes can run together: how, and what they send each other."""
    rows, placed = [r for r in fit.characteristics if r.group == COLLECTIVE_GROUP], spec.collectives or ()
    processes = max((c.group_size or 2 for c in placed), default=2)
    return [
        "",
        "## In several processes",
        "",
        f"    torchrun --nproc-per-node {processes} network.py",
        "",
        f"Then the processes run each step together, with {plural(sum(c.count for c in placed), 'collective')}. "
        "A process that is alone leaves these out, and so do all times above.",
        "",
        "| | asked | achieved |",
        "|---|---|---|",
        *(f"| {told(r.name)} | {_in_unit(r.target, r.unit)} | {_in_unit(r.achieved, r.unit)} |" for r in rows),
        *(line for sentence in (missed_warning(fit), not_together(fit)) if sentence for line in ("", told(sentence))),
    ]


def _in_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" if unit.startswith("share") else told(format_quantity(value, unit.replace("1/s", "/s")))


def _coverage(fit: Fit) -> str:
    """For how much of the target's time there are operators of the same kernel classes."""
    figures = fit.summary
    text = (
        f"Of the target's operator time, {figures.proxy_coverage:.1%} is in kernel classes (operator, implementation, "
        f"dtype and layout) that this network has, {figures.candidate_coverage:.1%} in classes that a candidate had."
    )
    warning = coverage_warning(fit)
    return f"{text}\n\n**{warning}**" if warning else text


def _origin(fit: Fit, where: Mapping[str, Any]) -> str:
    """Where its times are from."""
    device = told(where["device_name"])
    if not fit.recorded:
        return f"Made and measured on {device}, {where['threads']} threads, torch {told(where['torch'])}."
    shares = [f"{share:.0%} {how}" for kind, how in _EVIDENCE if (share := fit.recorded.get(kind, 0.0)) >= 0.005]
    return (
        f"Made for {device}, from its record. Nothing has run there: all times are predictions. Of the "
        f"time of its operators, {', '.join(shares)}."
    )


_EVIDENCE = (
    ("exact", "was recorded with the same arguments"),
    ("model", "is modelled from operators of other sizes"),
    ("roofline", "is a roofline estimate"),
)


def _first_towers(network: str) -> list[str]:
    """The first lines of the towers in a network's source, less their indentation."""
    start = network.index("    return [\n", network.index("def towers()"))
    lines = network[start : network.index("\n    ]\n", start)].splitlines()[1:]
    more = ["..."] if len(lines) > SHOWN_LINES else []
    return [line[8:] for line in lines[:SHOWN_LINES]] + more


def _points(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} points"


def _rate_line(row: Characteristic) -> str:
    shows = {"B": format_bytes, "s": format_duration}
    show = shows.get(row.unit, lambda v: format_quantity(v, row.unit.replace("1/s", "/s")))
    return f"| {told(row.name)} | {told(show(row.target))} | {told(show(row.achieved))} |"


def simulator_readme(spec: ProxySpec, fit: Fit) -> str:
    """What it stands for, how to use it, and what is predicted."""
    simulation, predicted = spec.simulation, fit.simulation
    assert simulation is not None
    lines = [
        *head_of(spec, "Proxy for simulators, for"),
        f"{plural(len(simulation.layers), 'layer')}, made smaller, in place of all matrix products in one {spec.mode} "
        f"step of {plural(len(spec.mix), 'workload')}. **Nothing was measured**: all figures here are predictions.",
        "",
        "    statsnet export . --format scalesim -o sim      # or onnx, onnx-shapes, c, chakra, manifest",
        "    python network.py                               # the layers in torch, each once",
        "",
        "Let a simulator run each layer once, and multiply what it counts by the layer's repeats: the sums follow the "
        f"mix's. Repeats count {simulation.unit} ({simulation.reference.words}). The time of the whole network says "
        "nothing.",
        "",
        *(_costs(predicted) if predicted else []),
        *_layers(simulation, predicted.predictions if predicted else ()),
        "",
        "## The mix",
        "",
        "| workload | weight | step on the reference device | batch |",
        "|---|---|---|---|",
        *(f"| {told(m.name)} | {m.weight:.3f} | {format_duration(m.latency_s)} | {m.batch or '–'} |" for m in spec.mix),
    ]
    if predicted:
        lines += ["", "## Not preserved", "", *(f"- {told(sentence)}" for sentence in predicted.not_preserved)]
        lines.append(f"- {plural(len(predicted.left_out), 'layer')} of the mix that they do not stand for: fit.json "
                     "names each, with its share")  # fmt: skip
    return "\n".join(lines) + "\n"


def _costs(predicted: SimulationFit) -> list[str]:
    return [
        f"One pass takes {format_quantity(predicted.simulated_macs)} multiply-adds; one step of each workload takes "
        f"{format_quantity(predicted.suite_macs)}.",
        "",
    ]


def _layers(simulation: Simulation, predictions: Sequence[Prediction]) -> list[str]:
    head = ("layer", "from", "repeats", "of the multiply-adds", "utilisation", "scaled", "working set", "scaled")
    lines = ["## The layers", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for place, layer in enumerate(simulation.layers):
        cells = [str(place), told(layer.of_operator), f"{layer.repeats:g}", f"{layer.macs_share:.1%}"]
        if place < len(predictions):
            p = predictions[place]
            cells += [f"{p.utilisation_unscaled:.1%}", f"{p.utilisation:.1%}",
                      format_bytes(p.working_set_bytes_unscaled), format_bytes(p.working_set_bytes)]  # fmt: skip
        else:
            cells += ["–"] * 4
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", "Utilisation is the mean over systolic arrays of many shapes with three dataflows, predicted."]
