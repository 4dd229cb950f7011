"""PyTorch execution traces (the format of Chakra and PARAM) → signatures with counts and no times.

A node is an operator, an autograd function or a range; `ctrl_deps` (`parent` in schema 1.0.1) names the one that it ran
in. A signature holds the calls that torch's dispatcher saw below autograd, as a profile does: operators that only call
others (`linear`, `conv2d`, `matmul`) are looked through, and what runs inside of the rest is theirs.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError, UsageError
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall
from statsnet.profiling.trace import StepTrace
from statsnet.recordings.arguments import operator_name, trace_argument
from statsnet.recordings.parameters import TensorUse, memory_of
from statsnet.recordings.trace_file import load_json
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import safe_op
from statsnet.signatures.vocabulary import OPTIMIZERS

SCHEMAS = ("1.0.1", "1.0.2-chakra", "1.0.3-chakra", "1.1.0-chakra", "1.1.1-chakra")
_STEP = re.compile(r"ProfilerStep#(\d+)$")
_OPTIMIZER = re.compile(r"Optimizer\.(?:step|zero_grad)#(\w+)\.")
_AUTOGRAD = re.compile(r"autograd::engine::evaluate_function|torch::autograd::|\w+Backward\d*$")
_NO_OPERATOR = re.compile(r"(?:torch::autograd|autograd::engine)::|\w+:: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. Values, shapes, types and strides of inputs and outputs lie side by side."""

    id: int
    parent: int
    name: str
    schema: str
    inputs: tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]
    outputs: tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]

    @property
    def is_operator(self) -> bool:
        return bool(re.fullmatch(r"\w+::\w+", self.name)) and not _NO_OPERATOR.match(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a node ran: its phase and step, and whether an operator around it is counted already."""

    phase: str | None = None
    step: int | None = None
    inside: bool = False


def read_execution_trace(
    path: Path, *, step: int | None = None, note: Callable[[str], object] = lambda _: None
) -> Signature:
    """The signature of one step of an execution trace (.json or .json.gz); it has no measurement.

    `step` is the number of a ProfilerStep; by default it is the step with the most FLOPs, the first among equals. A
    trace without steps is one step as a whole. Parameters and inputs are found by data flow (parameters.py). `note` is
    called with a sentence for each oddity of the file. Raises FileFormatError for what is no execution trace, and
    UsageError for a step that it does not hold.
    """
    nodes = _nodes(load_json(path, what="an execution trace"), path)
    known = {node.id: node for node in nodes}
    _tell_oddities(nodes, known, note)
    places = _places(nodes, known)
    steps = sorted({p.step for p in places.values() if p.step is not None})
    if step is not None and step not in steps:
        raise UsageError(
            f"{path.name} has no step {step}",
            cause=f"its steps are {', '.join(map(str, steps))}" if steps else "no ProfilerStep is marked in it",
            hint="give one of these, or none for the busiest",
        )
    called = [n for n in nodes if n.is_operator and not places[n.id].inside and not _is_composite(n)]
    chosen: list[int | None] = [step] if step is not None else [*steps] or [None]
    signatures = [
        _signature([n for n in called if number is None or places[n.id].step == number], places, known, path)
        for number in chosen
        if number is None or any(places[n.id].step == number for n in called)
    ]
    if not signatures:
        raise FileFormatError(
            f"{path.name} holds no operators",
            cause="none of its nodes is an operator" + (f" of step {step}" if step is not None else ""),
            hint="record with torch.profiler.ExecutionTraceObserver around whole steps",
        )
    return max(signatures, key=lambda s: (s.flops_per_step, s.calls_per_step))


def _nodes(data: Any, path: Path) -> list[Node]:
    """All nodes in the order in which they began, which is that of their numbers."""
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list) or "schema" not in data:
        other = (
            "it is a trace of the profiler's timeline"
            if isinstance(data, dict) and "traceEvents" in data
            else ("it has no schema and no list of nodes")
        )
        raise FileFormatError(
            f"{path.name} is no execution trace", cause=other,
            hint="record one with torch.profiler.ExecutionTraceObserver, or import the timeline as a trace",
        )  # fmt: skip
    schema = str(data["schema"])
    if not schema.startswith(("1.0.", "1.1.")):
        raise FileFormatError(
            f"{path.name} has schema {schema[:40]!r}",
            cause=f"those that are read are {', '.join(SCHEMAS)}",
            hint="record it with a torch of version 2.1 to 2.13",
        )
    try:
        nodes = [_node(raw) for raw in data["nodes"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"{path.name} holds a node that cannot be read",
            cause=f"{type(error).__name__}: {error}",
            hint="record it anew; the file may have been cut or changed",
        ) from error
    return sorted(nodes, key=lambda node: node.id)


def _node(raw: dict[str, Any]) -> Node:
    if "ctrl_deps" not in raw:  # schema 1.0.1
        sides = [
            tuple(raw.get(f"{side}{what}") or () for what in ("s", "_shapes", "_types", "_strides"))
            for side in ("input", "output")
        ]
        return Node(id=int(raw["id"]), parent=int(raw.get("parent", 0)), name=str(raw["name"]),
                    schema=str(raw.get("op_schema", "")), inputs=sides[0], outputs=sides[1])  # type: ignore[arg-type]  # fmt: skip
    attributes = {a["name"]: a.get("value") for a in raw.get("attrs", ())}
    sides = [
        tuple((raw.get(side) or {}).get(what) or () for what in ("values", "shapes", "types", "strides"))
        for side in ("inputs", "outputs")
    ]
    return Node(id=int(raw["id"]), parent=int(raw["ctrl_deps"]), name=str(raw["name"]),
                schema=str(attributes.get("op_schema", "")), inputs=sides[0], outputs=sides[1])  # type: ignore[arg-type]  # fmt: skip


def _tell_oddities(nodes: list[Node], known: dict[int, Node], note: Callable[[str], object]) -> None:
    orphans = sum(1 for n in nodes if n.parent not in known and n.parent != 0)
    if orphans:
        note(f"{orphans} nodes name a parent that the file does not hold: they began before the recording")
    if len(known) < len(nodes):
        note(f"{len(nodes) - len(known)} nodes have a number that another one has")
    cycles = sum(1 for n in nodes if n.parent in known and n.parent != n.id and _is_in_cycle(n, known))
    generated = sum(1 for n in nodes if n.name.startswith("triton_"))
    if generated:
        note(f"{generated} kernels that a compiler generated are no operators and are not counted")
    if cycles:
        note(f"{cycles} nodes hang on each other in a circle; each is read as if it began there")


def _is_in_cycle(node: Node, known: dict[int, Node]) -> bool:
    """Whether the parent's parent is the node again: longer circles end in `_places`, which goes no node twice."""
    parent = known[node.parent]
    return parent.parent == node.id


def _places(nodes: list[Node], known: dict[int, Node]) -> dict[int, _Place]:
    """The place of every node, from its ancestors; each is looked at once, however deep it lies.

    What runs in another thread (the backward pass) hangs on no step: it belongs to the last step that had begun.
    """
    places: dict[int, _Place] = {}
    for start in nodes:
        chain: list[Node] = []
        node: Node | None = start
        seen: set[int] = set()
        while node is not None and node.id not in places and node.id not in seen:
            seen.add(node.id)
            chain.append(node)
            node = known.get(node.parent) if node.parent != node.id else None
        place = places.get(node.id, _Place()) if node is not None else _Place()
        around = node if node is not None and node.id in places else None
        for member in reversed(chain):
            place = _inner(place, around, member)
            places[member.id] = place
            around = member
    current: int | None = None
    for node in nodes:
        if number := _STEP.match(node.name):
            current = int(number[1])
        place = places[node.id]
        if place.step is None and current is not None:
            places[node.id] = _Place(phase=place.phase, step=current, inside=place.inside)
    return places


def _inner(outer: _Place, around: Node | None, node: Node) -> _Place:
    """The place of a node within `around`, whose own place is `outer`."""
    phase, step = outer.phase, outer.step
    if _OPTIMIZER.match(node.name):
        phase = "optimizer"
    elif phase is None and _AUTOGRAD.match(node.name):
        phase = "backward"
    if number := _STEP.match(node.name):
        step = int(number[1])
    inside = outer.inside or (around is not None and around.is_operator and not _is_composite(around))
    return _Place(phase=phase, step=step, inside=inside)


def _is_composite(node: Node) -> bool:
    stated = re.match(r"([\w]+::\w+(?:\.\w+)?)\(", node.schema)
    return _only_calls_others(stated[1] if stated else node.name)


@functools.cache
def _only_calls_others(name: str) -> bool:
    """Whether the operator is made of others for every device, so that a dispatcher below autograd never sees it."""
    import torch

    try:
        overloads = [s.overload_name for s in torch._C._jit_get_schemas_for_operator(name)] if "." not in name else []
        full = f"{name}.{overloads[0]}".removesuffix(".") if overloads else name
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"))
    except RuntimeError:  # this torch does not know it
        return False


def _signature(called: list[Node], places: dict[int, _Place], known: dict[int, Node], path: Path) -> Signature:
    calls: list[OpCall] = []
    uses: list[TensorUse] = []
    producer: dict[int, int] = {}
    for node in called:
        args, outputs = _encoded(node.inputs), _encoded(node.outputs)
        read, written = list(_storages(node.inputs)), list(_storages(node.outputs))
        op = safe_op(operator_name(node.name, args, node.schema))
        phase = places[node.id].phase or "forward"
        calls.append(
            OpCall(
                op=op, phase=phase, args=args, outputs=_flat(outputs), metadata=is_metadata(op), event=node.name,
                producers=tuple(sorted({producer[u.storage] for u in read if u.storage in producer})),
            )
        )  # fmt: skip
        if phase == "forward":
            uses += [u for u in read if u.storage not in producer]
        before = {u.storage for u in read}
        for use in written:
            if use.storage not in before or node.name.endswith("_"):
                producer[use.storage] = len(calls) - 1
    if not calls:
        raise FileFormatError(
            f"{path.name} holds no operators", cause="none of its nodes is an operator",
            hint="record with torch.profiler.ExecutionTraceObserver around whole steps",
        )  # fmt: skip
    phases = {call.phase for call in calls}
    return build_signature(
        [StepTrace(device="cpu", calls=calls, implementations=["unknown"] * len(calls))],
        mode="training" if phases & {"backward", "optimizer"} else "inference",
        dtype=_dtype(calls),
        memory=memory_of(uses),
        environment=None,
        optimizer=_optimizer(called, known),
    )


def _encoded(side: tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]) -> list[Any]:
    values, shapes, types, strides = side
    return [
        trace_argument(value, shape, str(kind), strides[i] if i < len(strides) else None)
        for i, (value, shape, kind) in enumerate(zip(values, shapes, types, strict=False))
    ]


def _flat(outputs: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for output in outputs:
        flat += output["tensors"] if isinstance(output, dict) and "tensors" in output else [output]
    return [o if isinstance(o, dict) else None for o in flat]


def _storages(side: tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]) -> Iterator[TensorUse]:
    """The tensors of a node by their storage; a tensor is [tensor, storage, offset, elements, item size, device]."""
    for place, (value, kind) in enumerate(zip(side[0], side[2], strict=False)):
        if "Tensor(" not in str(kind):
            continue
        for tensor in [value] if str(kind).startswith("Tensor(") else _tensors(value):
            if isinstance(tensor, list) and len(tensor) >= 5 and tensor[1]:
                floating = re.search(r"float|double|[hH]alf|BFloat", str(kind)) is not None
                yield TensorUse(storage=int(tensor[1]), place=place, elements=int(tensor[3]), item_bytes=int(tensor[4]),
                                is_floating=floating)  # fmt: skip


def _tensors(value: Any) -> Iterable[Any]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list) and item and not any(isinstance(part, list) for part in item):
            yield item
        elif isinstance(item, list):
            stack.extend(reversed(item))


def _dtype(calls: list[OpCall]) -> str:
    """The floating type of most elements, or `mixed` if a second one has a fifth of them."""
    elements: Counter[str] = Counter()
    for call in calls:
        for tensor in (a for a in (*call.args, *call.outputs) if isinstance(a, dict) and "shape" in a):
            if tensor["dtype"].startswith(("float", "bfloat")):
                count = 1
                for size in tensor["shape"]:
                    count *= size
                elements[tensor["dtype"]] += count
    ranked = elements.most_common(2)
    if not ranked:
        return "float32"
    return "mixed" if len(ranked) > 1 and ranked[1][1] > 0.2 * elements.total() else ranked[0][0]


def _optimizer(called: list[Node], known: dict[int, Node]) -> str | None:
    name = next((m[1] for node in known.values() if (m := _OPTIMIZER.match(node.name))), None)
    if name is None:
        return None
    lower = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return lower if lower.replace("_", "") in OPTIMIZERS else "custom"
