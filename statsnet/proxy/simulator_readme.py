"""README.md of a proxy for simulators."""

from __future__ import annotations

from collections.abc import Sequence

from statsnet.proxy.readme import head_of, told
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.simulation import Prediction, Simulation, SimulationFit
from statsnet.units import format_bytes, format_duration, format_quantity, plural


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
