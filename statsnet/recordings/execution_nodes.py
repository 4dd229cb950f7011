"""The nodes of a PyTorch execution trace (the format of Chakra and PARAM), and where each of them ran.

A node is an operator, an autograd function or a range; `ctrl_deps` (`parent` in schema 1.0.1) names the one that it ran
in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError
from statsnet.profiling.loop_phases import OPTIMIZER_RANGES, optimizer_places
from statsnet.recordings.arguments import Arguments, item, of_execution_trace
from statsnet.recordings.operators import does_work, is_composite, is_operator_name, may_run_alone
from statsnet.recordings.parameters import TensorUse
from statsnet.recordings.phases import STEP, phase_of
from statsnet.recordings.process_groups import NAME, Noted, noted_in_node
from statsnet.signatures.gzipped import read_unpacked
from statsnet.signatures.strict_json import MAX_PARTS, check_parts

MOST_BYTES = 2**29
"""Enough for half a million nodes: each takes 500 to 1000 bytes."""

LEAST_BYTES = 6
"""So many bytes belong to each list, object and key of a file with more than MAX_PARTS of them. In real traces, of
17 kB to 24 MB, it is 12 to 14, and 10 without white space, so MOST_BYTES decides for them. Empty lists have 3, and
64 MB of them take 2 GB of memory."""

_SIDES = ("values", "shapes", "types", "strides")
_OLD_SIDES = ("s", "_shapes", "_types", "_strides")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A node's inputs or outputs: values, shapes, types and strides lie side by side."""

    values: Sequence[Any] = ()
    shapes: Sequence[Any] = ()
    types: Sequence[Any] = ()
    strides: Sequence[Any] = ()

    @property
    def arguments(self) -> Arguments:
        return of_execution_trace(self.values, self.shapes, self.types, self.strides)

    def tensors(self, operator: str) -> Iterator[TensorUse]:
        """The tensors of this operator by their storage; those without one are left out."""
        for place, kind in enumerate(self.types):
            if "Tensor(" not in str(kind):
                continue
            is_floating = re.search(r"float|double|[hH]alf|BFloat", str(kind)) is not None
            for tensor in _tensors(item(self.values, place)):
                numbers = [n for n in tensor[1:5] if isinstance(n, int)]
                if len(numbers) == 4 and numbers[0]:
                    storage, _, elements, item_bytes = numbers
                    yield TensorUse(operator=operator, storage=storage, place=place, elements=elements,
                                    item_bytes=item_bytes, is_floating=is_floating)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`record_id` is the number of the profiler's record of it, where the trace has it; `noted` is what a process group
    notes of a collective around it. `is_alone` is an operator that runs no others here, and may elsewhere."""

    id: int
    parent: int
    name: str
    schema: str
    record_id: int | None
    inputs: Side
    outputs: Side
    noted: Noted | None = None
    is_alone: bool = False

    @property
    def is_operator(self) -> bool:
        return is_operator_name(self.name)

    @property
    def only_calls_others(self) -> bool:
        return not self.is_alone and is_composite(self.name) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node ran: its phase and step, and whether an operator around it is counted already."""

    phase: str = "forward"
    step: int | None = None
    inside: bool = False


def read_nodes(path: Path) -> list[Node]:
    """All nodes in the order in which they began, which is that of their numbers.

    Raises FileFormatError for what is no execution trace (.json or .json.gz).
    """
    data = _load(path)
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list) or "schema" not in data:
        is_timeline = isinstance(data, dict) and "traceEvents" in data
        raise FileFormatError(
            f"'{path}' is no execution trace",
            cause="it is a trace of the profiler's timeline"
            if is_timeline
            else "it has no schema and no list of nodes",
            hint="record one with torch.profiler.ExecutionTraceObserver",
        )
    schema = str(data["schema"])
    if not schema.startswith(("1.0.", "1.1.")):
        raise FileFormatError(
            f"'{path}' has schema {schema[:40]!r}",
            cause="those that are read are 1.0 and 1.1",
            hint="record it with a torch of version 2.1 to 2.13",
        )
    try:
        nodes = [_node(raw) for raw in data["nodes"]]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(
            f"'{path}' holds a node that cannot be read",
            cause=f"{type(error).__name__}: {str(error)[:100]}",
            hint="record it anew; the file may have been cut or changed",
        ) from error
    return sorted(nodes, key=lambda node: node.id)


def _load(path: Path) -> Any:
    data = read_unpacked(path, most=MOST_BYTES)
    check_parts(data, path, max(MAX_PARTS, len(data) // LEAST_BYTES), hint="trace fewer steps")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"'{path}' is not an execution trace",
            cause=f"it is no JSON: {str(error)[:120]}" if data.strip() else "it is empty",
            hint="record it anew; a file that ends early was copied before the recorder closed it",
        ) from error


def _node(raw: Mapping[str, Any]) -> Node:
    attributes: Mapping[str, Any] = raw
    if "ctrl_deps" in raw:
        attributes = {a["name"]: a.get("value") for a in raw.get("attrs") or ()}
        parent = int(raw["ctrl_deps"])
        sides = [_side(raw.get(side) or {}, _SIDES) for side in ("inputs", "outputs")]
    else:  # schema 1.0.1
        parent = int(raw.get("parent", 0))
        sides = [_side(raw, [f"{side}{what}" for what in _OLD_SIDES]) for side in ("input", "output")]
    record_id = attributes.get("rf_id")
    return Node(
        id=int(raw["id"]), parent=parent, name=str(raw["name"]), schema=str(attributes.get("op_schema") or ""),
        record_id=record_id if isinstance(record_id, int) else None, inputs=sides[0], outputs=sides[1],
        noted=noted_in_node(attributes) if raw["name"] == NAME else None,
    )  # fmt: skip


def _side(raw: Mapping[str, Any], names: Sequence[str]) -> Side:
    lists = [value if isinstance(value := raw.get(name), list) else [] for name in names]
    return Side(values=lists[0], shapes=lists[1], types=lists[2], strides=lists[3])


def without_copies(nodes: Sequence[Node]) -> list[Node]:
    """Each node once that a file holds several times."""
    first: dict[int, Node] = {}
    return [node for node in nodes if (known := first.setdefault(node.id, node)) is node or known != node]


def alone_marked(nodes: Sequence[Node]) -> list[Node]:
    """The same nodes. Composite operators that hold no other operator here are marked: this device has a kernel for
    them."""
    if not any(may_run_alone(node.name) for node in nodes):
        return list(nodes)
    parents = {node.id: node.parent for node in nodes}
    holders: set[int] = set()
    for node in nodes:
        around = node.parent if does_work(node.name) else None
        while around in parents and around not in holders:
            holders.add(around)
            around = parents[around]
    return [
        replace(node, is_alone=True) if may_run_alone(node.name) and node.id not in holders else node for node in nodes
    ]


def oddities(nodes: Sequence[Node]) -> Iterator[str]:
    """A sentence for each kind of thing in a file that is not as it should be."""
    known = {node.id: node for node in nodes}
    if orphans := sum(1 for n in nodes if n.parent not in known and n.parent != 0):
        yield f"{orphans} nodes name a parent that the file does not hold: they began before the recording"
    if len(known) < len(nodes):
        yield f"{len(nodes) - len(known)} nodes have a number that another one has"
    if cycles := _in_circles(known):
        yield f"{cycles} nodes hang on each other in a circle; each circle is read as if it began there"
    if generated := sum(1 for n in nodes if n.name.startswith("triton_")):
        yield f"{generated} kernels that a compiler generated are no operators and are not counted"


def _in_circles(known: Mapping[int, Node]) -> int:
    """How many nodes are their own ancestors, a root that names itself left out."""
    walk_of: dict[int, int] = {}
    found = 0
    for start in known:
        at = start
        while at in known and at not in walk_of:
            walk_of[at] = start
            at = known[at].parent
        if at in known and walk_of[at] == start and known[at].parent != at:
            found += 1
            after = known[at].parent
            while after != at:
                found += 1
                after = known[after].parent
    return found


def places_of(nodes: Sequence[Node]) -> dict[int, Place]:
    """The place of every node, from its ancestors; each is looked at once, however deep it lies.

    What runs in another thread (the backward pass) hangs on no step: it belongs to the last step that had begun.
    """
    known = {node.id: node for node in nodes}
    places: dict[int, Place] = {}
    for start in nodes:
        chain: list[Node] = []
        node: Node | None = start
        seen: set[int] = set()
        while node is not None and node.id not in places and node.id not in seen:
            seen.add(node.id)
            chain.append(node)
            node = known.get(node.parent) if node.parent != node.id else None
        around = node if node is not None and node.id in places else None
        place = places[around.id] if around is not None else Place()
        for member in reversed(chain):
            place = _inner(place, around, member)
            places[member.id] = place
            around = member
    current: int | None = None
    for node in nodes:
        if number := STEP.match(node.name):
            current = int(number[1])
        if places[node.id].step is None and current is not None:
            places[node.id] = replace(places[node.id], step=current)
    for id_ in _of_optimizers(nodes, places):
        places[id_] = replace(places[id_], phase="optimizer")
    return places


def _of_optimizers(nodes: Sequence[Node], places: Mapping[int, Place]) -> set[int]:
    calls = [(n.id, n.id, n.name.replace("::", "."), places[n.id].phase) for n in nodes if n.is_operator]
    return optimizer_places(calls, ((n.id, n.name) for n in nodes if n.name.startswith(OPTIMIZER_RANGES)))


def _inner(outer: Place, around: Node | None, node: Node) -> Place:
    """The place of a node within `around`, whose own place is `outer`."""
    number = STEP.match(node.name)
    return Place(
        phase=phase_of(node.name, outer.phase),
        step=int(number[1]) if number else outer.step,
        inside=outer.inside or (around is not None and around.is_operator and not around.only_calls_others),
    )


def _tensors(value: Any) -> Iterable[list[Any]]:
    """The tensors in a value, as lists of [tensor, storage, offset, elements, item size, device]."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, list) and part and not any(isinstance(p, list) for p in part):
            yield part
        elif isinstance(part, list):
            stack.extend(reversed(part))


def nodes_by_step(
    nodes: Sequence[Node], places: Mapping[int, Place], chosen: Callable[[Node], bool]
) -> dict[int | None, list[Node]]:
    """The chosen nodes of each step; those of no step, under None, where the trace marks none."""
    steps: dict[int | None, list[Node]] = {}
    for node in nodes:
        if chosen(node):
            steps.setdefault(places[node.id].step, []).append(node)
    return {number: steps[number] for number in steps if number is not None} or steps
