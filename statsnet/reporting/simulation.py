"""A proxy for simulators as tables: its layers, what is predicted of them, and what they do not preserve."""

from __future__ import annotations

from statsnet.exports.simulator_proxy import manifest_of_simulation
from statsnet.reporting.export import scaled_table
from statsnet.reporting.tables import MISSING, Report, line, notes, pairs
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.simulation import SimulationFit
from statsnet.units import format_duration, format_quantity, plural

UNMEASURED = "Nothing of it was measured: all figures are predictions."


def layers_report(spec: ProxySpec, fit: Fit | None) -> Report:
    """Its reference device, its layers, and their fit where it is known. Raises FileFormatError for a spec whose
    blocks are no layers."""
    manifest = manifest_of_simulation(spec, fit)
    rows = [
        ("id", spec.id),
        ("reference device", manifest.reference.words),
        ("repeats count", manifest.unit),
        ("network", f"{plural(len(manifest.layers), 'layer')}, each of which runs once"),
    ]
    title = f"A proxy for simulators, for {plural(len(spec.mix), 'workload')}, {spec.mode}, {spec.dtype}"
    predicted = fit.simulation if fit else None
    return [pairs(title, rows), scaled_table(manifest), *(predictions_report(predicted) if predicted else [])]


def predictions_report(simulation: SimulationFit) -> Report:
    """What a fit says of the layers."""
    fewer = simulation.suite_macs / simulation.simulated_macs if simulation.simulated_macs else 0.0
    suite_s = simulation.suite_latency_s
    rows = [
        ("multiply-adds", f"{format_quantity(simulation.simulated_macs)}; one step of each workload takes "
                          f"{format_quantity(simulation.suite_macs)}, {fewer:,.3g} times as many"),
        ("these steps", format_duration(suite_s) + " on the reference device" if suite_s else MISSING),
        ("layers left out", str(len(simulation.left_out))),
    ]  # fmt: skip
    return [pairs("Fit, as predicted", rows), line(UNMEASURED), *notes("note", simulation.not_preserved)]
