"""PyTorch execution traces → signatures with counts and no times.

A signature holds the calls that torch's dispatcher saw below autograd, as a profile does: operators that only call
others (`linear`, `conv2d`, `matmul`) are looked through, and what runs inside of the rest is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from statsnet.errors import FileFormatError, UsageError
from statsnet.profiling.build_signature import build_signature, dtype_of_elements, mode_of
from statsnet.profiling.capture import OpCall
from statsnet.profiling.step_trace import StepTrace
from statsnet.recordings.arguments import KnownArguments
from statsnet.recordings.described import Describer
from statsnet.recordings.execution_nodes import (
    Node,
    Place,
    alone_marked,
    nodes_by_step,
    oddities,
    places_of,
    read_nodes,
    without_copies,
)
from statsnet.recordings.imported import Imported, within_limits
from statsnet.recordings.parameters import TensorUse, memory_of
from statsnet.recordings.phases import optimizer_of
from statsnet.recordings.process_groups import Noted, with_noted
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature


def read_execution_trace(path: Path, *, step: int | None = None, mode: str | None = None) -> Imported:
    """One step of an execution trace (.json or .json.gz), as a signature without a measurement.

    `step` is the number of a ProfilerStep; by default it is the step with the most FLOPs, the first among equals. A
    trace without steps is one step as a whole. Parameters and inputs are found by data flow (parameters.py). Raises
    FileFormatError for what is no execution trace, and UsageError for a step that it does not hold.
    """
    read = read_nodes(path)
    nodes = alone_marked(without_copies(read))
    places = places_of(nodes)
    steps = nodes_by_step(
        nodes, places, lambda n: n.is_operator and not places[n.id].inside and not n.only_calls_others
    )
    if not steps:
        raise FileFormatError(
            f"'{path}' holds no operators",
            cause="none of its nodes is an operator",
            hint="record with torch.profiler.ExecutionTraceObserver around whole steps",
        )
    if step is not None and step not in steps:
        known = sorted(number for number in steps if number is not None)
        raise UsageError(
            f"'{path}' has no step {step}",
            cause=f"its steps are {', '.join(map(str, known[:20]))}" if known else "no ProfilerStep is marked in it",
            hint="give one of these, or none for the busiest" if known else "leave out --step",
        )
    optimizer = next((found for n in nodes if (found := optimizer_of(n.name)) is not None), None)
    noted = {node.parent: node.noted for node in nodes if node.noted}
    chosen = steps.values() if step is None else [steps[step]]
    signatures = [
        within_limits(partial(_signature, called, places, mode, optimizer, noted), str(path)) for called in chosen
    ]
    busiest = max(signatures, key=lambda s: (s.flops_per_step, s.calls_per_step))
    notes = [*oddities(nodes), "an execution trace has no times: the signature has counts alone"]
    if unknown := round(sum(c.calls for c in busiest.clusters if c.flops is None)):
        notes.append(
            f"{unknown} of {round(busiest.calls_per_step)} operators have no FLOPs and bytes: the trace does not tell "
            "all that their work depends on"
        )
    if copies := len(read) - len(nodes):
        notes.append(f"the file holds {copies} nodes more than once: each was read once")
    if step is None and len(steps) > 1:
        number = list(steps)[signatures.index(busiest)]
        notes.append(f"ProfilerStep {number} was read, of {len(steps)} the one with the most FLOPs")
    return Imported(signature=busiest, notes=tuple(notes))


def _signature(
    called: Sequence[Node], places: Mapping[int, Place], mode: str | None, optimizer: str | None,
    noted: Mapping[int, Noted],
) -> Signature:  # fmt: skip
    calls: list[OpCall] = []
    uses: list[TensorUse] = []
    producer: dict[int, int] = {}
    describer, known = Describer(), KnownArguments()
    processes = max((found.processes for found in noted.values()), default=1)
    for node in called:
        arguments, results = known.same(node.inputs.arguments), known.same(node.outputs.arguments)
        described = describer.describe_with_results(node.name, node.schema, arguments, results)
        described = with_noted(described, noted.get(node.id), processes)
        read, written = (list(side.tensors(node.name)) for side in (node.inputs, node.outputs))
        phase = places[node.id].phase
        calls.append(
            OpCall(
                op=described.op, phase=phase, args=described.args, outputs=described.outputs, event=node.name,
                metadata=is_metadata(described.op), is_counted=described.complete,
                producers=tuple(sorted({producer[u.storage] for u in read if u.storage in producer})),
            )
        )  # fmt: skip
        if phase == "forward":
            uses += [u for u in read if u.storage not in producer]
        before = {u.storage for u in read}
        for use in written:
            if use.storage not in before or node.name.endswith("_"):
                producer[use.storage] = len(calls) - 1
    found = mode_of(calls)
    return build_signature(
        [StepTrace.counted(calls)],
        mode=mode or found,
        dtype=dtype_of_elements(t for call in calls for t in (*call.args, *call.outputs)),
        memory=memory_of(uses),
        environment=None,
        optimizer=optimizer if found == "training" else None,
        processes=processes if processes > 1 else None,
    )
