"""What can be exported: a signature's file, a mix, or a proxy's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from statsnet.blocks import KINDS
from statsnet.blocks.base import with_tuples
from statsnet.exports.build_manifest import ROOFLINE, Clock, manifest_of_signature
from statsnet.exports.collectives import clusters_of
from statsnet.exports.manifest import Manifest
from statsnet.exports.simulator_proxy import manifest_of_simulation
from statsnet.measure.process import run
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.step_trace import StepTrace
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder, runnable
from statsnet.signatures.documents import ProxySpec
from statsnet.signatures.simulation import Reference
from statsnet.signatures.storage import load_signature
from statsnet.synthesis.bench.capture_tasks import CaptureNetworkOperators


def manifest_of_proxy(
    opened: ProxyFolder, *, reference: Reference = ROOFLINE, clock: Clock | None = None, report: Report = silent
) -> Manifest:
    """One step of a proxy, counted in a process of its own, and its collectives. It is counted on tensors without
    memory, unless a block cannot be made of these: then it takes one step on the CPU. Of a proxy for simulators the
    layers that it was made of, with its own reference."""
    if opened.spec.simulation is not None and opened.is_generated:
        return manifest_of_simulation(opened.spec, opened.fit())
    with runnable(opened) as proxy:
        fake = not (proxy.is_generated and _has_values(proxy.spec))
        task = CaptureNetworkOperators(folder=str(proxy.network_folder), fake=fake)
        captured = run(task, report=report)
    signature = build_signature(
        [StepTrace.counted(captured.calls)],
        mode=proxy.spec.mode,
        dtype=proxy.spec.dtype,
        memory=captured.memory,
        environment=None,
    )
    if proxy.spec.collectives and proxy.is_generated:
        signature = replace(signature, clusters=(*signature.clusters, *clusters_of(proxy.spec.collectives)))
    return manifest_of_signature(signature, "proxy", reference=reference, clock=clock)


def _has_values(spec: ProxySpec) -> bool:
    """Whether a block of it cannot be made of fake tensors."""
    blocks = (block for tower in spec.towers for block in tower.blocks)
    return any(KINDS[block.kind].has_values(with_tuples(block.config)) for block in blocks)


def manifest_of_file(path: Path, *, reference: Reference, clock: Clock | None) -> Manifest:
    """One step of a signature in a file. Raises FileFormatError for a damaged one, else as `manifest_of_signature`."""
    signature = load_signature(path)
    return manifest_of_signature(signature, signature.name or "signature", reference=reference, clock=clock)
