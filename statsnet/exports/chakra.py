"""The format `chakra`: execution traces as PyTorch writes them, which PARAM and Chakra's converter read.

One trace for each member, of one step. Operators hang below a ProfilerStep, those of the backward pass below ranges of
the autograd engine. A layer stands there as often as the step calls it, after the layers that it depends on: where the
signature says that it reads another layer's result, it reads the storage that the other wrote last. No times: a
signature's counts alone.
Below each collective stands the node from which readers take its size and its group.

A layer is held if `statsnet import` would read the same operator, FLOPs and bytes from its node. One that stands for
calls of several shapes is called with the one that it shows, as often as gives their work.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statsnet.errors import UsageError
from statsnet.exports import collectives
from statsnet.exports.manifest import Communication, Layer, Manifest, Use
from statsnet.exports.mean_work import mean_work
from statsnet.exports.registry import Exporter
from statsnet.profiling.costs import Cost, cost_of
from statsnet.recordings.arguments import DTYPES, of_execution_trace
from statsnet.recordings.described import Describer
from statsnet.recordings.operators import is_composite
from statsnet.signatures.model import Phase
from statsnet.signatures.operators import ITEM_SIZE, is_tensor
from statsnet.signatures.tensor_lists import each_in_list
from statsnet.workloads.torch_operators import find_overload

MOST_CALLS = 10**6
SCHEMA = "1.1.1-chakra.0.0.4"
_TYPE_OF = {str(dtype).removeprefix("torch."): name for name, dtype in reversed(DTYPES.items())}
_NAMES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
          "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
          "bool": "bool", "complex64": "c10::complex<float>"}  # fmt: skip
"""C++ types by dtype, as PyTorch's observer writes them."""

Argument = tuple[Any, Any, str, Any]
"""Value, sizes, type and strides, as they stand side by side in a node."""

NONE: Argument = ("<None>", [], "None", [])


class Chakra(Exporter):
    """trace.json, or trace-MEMBER.json for each member of a mix."""

    name = "chakra"
    title = "an execution trace"

    def reason_against(self, layer: Layer) -> str | None:
        name = _dispatched_name(layer.operator)
        if is_composite(name):
            return "it only calls other operators, which readers look at in its place"
        inputs, outputs = _node_arguments(layer, _Storages())
        sides = [of_execution_trace(*_side(side).values()) for side in (inputs, outputs)]
        described = Describer(runs=False).describe_with_results(name, _schema(layer.operator), sides[0], sides[1])
        cost = cost_of(described.op, described.args, described.outputs) if described.complete else None
        if described.op != layer.operator:
            return "torch does not know the operator"
        wanted, read = _known_work(layer), _work(cost)
        shown = _work(cost_of(layer.operator, layer.args, layer.outputs))
        if _alike(read, wanted) or (_alike(read, shown) and None not in (*shown, *wanted)):
            return None
        return "its arguments do not fit a node (sparse, nested or packed tensors, or unknown)"

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        layers = _in_order(manifest.layers)
        if len(manifest.members) == 1 or manifest.layer_mode != "distinct":
            return {"trace.json": trace(layers, [_calls_of(layer, None) for layer in layers])}
        found: dict[str, bytes] = {}
        for member in manifest.members:
            calls = ((layer, _calls_of(layer, member.name)) for layer in layers)
            found[_free(f"trace-{member.name.replace('/', '-')}", found)] = trace(*zip(*calls, strict=True))
        return found

    def notes(self, manifest: Manifest) -> list[str]:
        made = ["only `statsnet import` has read these traces here: of other readers, none has been run"]
        uses = [(layer, use) for layer in manifest.layers for use in layer.uses]
        if any(use.calls != round(use.calls) or not _shows_its_work(layer) for layer, use in uses):
            words = (
                "calls of layers whose shapes change, from step to step or within a step, are whole calls of one shape"
            )
            made.append(words + _changes(uses))
        if manifest.layer_mode != "distinct":
            made.append(f"a {manifest.layer_mode} layer stands in the trace once: its repeats are in manifest.json")
        return made


def _shows_its_work(layer: Layer) -> bool:
    """Whether each call has the work of the shape that the layer shows."""
    return _alike(_work(cost_of(layer.operator, layer.args, layer.outputs)), _known_work(layer))


def _known_work(layer: Layer) -> tuple[float | None, float | None, float | None]:
    return layer.flops, layer.bytes_read, layer.bytes_written


def _changes(uses: Sequence[tuple[Layer, Use]]) -> str:
    """What whole calls do to the FLOPs and the bytes of a step."""
    exact, whole = [0.0, 0.0], [0.0, 0.0]
    for layer, use in uses:
        mean = _known_work(layer)
        shown = _work(cost_of(layer.operator, layer.args, layer.outputs))
        for sums, calls, (flops, *moved) in ((exact, use.calls, mean), (whole, _calls_of(layer, use.member), shown)):
            sums[0] += calls * (flops or 0.0)
            sums[1] += calls * math.fsum(amount or 0.0 for amount in moved)
    changes = zip(("FLOPs", "bytes"), exact, whole, strict=True)
    said = ", ".join(f"{name} change by {after / before - 1:+.2%}" for name, before, after in changes if before)
    return f": {said}" if said else ""


def _work(cost: Cost | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if cost is None else (cost.flops, cost.bytes_read, cost.bytes_written)


def _alike(one: Sequence[float | None], other: Sequence[float | None]) -> bool:
    """Equal to the nine digits of files."""
    return all((a is None) == (b is None) and (a is None or math.isclose(a, b or 0.0, rel_tol=1e-8, abs_tol=1e-6))
               for a, b in zip(one, other, strict=True))  # fmt: skip


def _calls_of(layer: Layer, member: str | None) -> int:
    """Whole calls in one step of the member (None: of the only one): of a layer that stands for calls of several shapes
    as many of the one that it shows as have their work."""
    if not layer.uses:
        return 1
    calls = math.fsum(u.calls for u in layer.uses if member in (None, u.member)) * mean_work(layer)
    return max(1, round(calls)) if calls > 0 else 0


_PHASES: tuple[Phase, ...] = ("input", "forward", "backward", "optimizer")


def _in_order(layers: Sequence[Layer]) -> list[Layer]:
    """Each after those that it depends on, else by phase. Of layers that depend on each other, one is first."""
    known, begun, placed = {layer.index: layer for layer in layers}, set[int](), list[Layer]()
    for first in sorted(layers, key=lambda layer: _PHASES.index(layer.phase)):
        stack = [first.index] * (first.index not in begun)
        begun.update(stack)
        while stack:
            waits_for = (b for b in known[stack[-1]].depends_on if b in known and b not in begun)
            if (before := next(waits_for, None)) is None:
                placed.append(known[stack.pop()])
            else:
                begun.add(before)
                stack.append(before)
    return placed


@dataclass(slots=True)
class _Storages:
    """Numbers for tensors, and the last output of each layer, by shape; of collectives also apart."""

    last: int = 0
    outputs: dict[int, dict[tuple[int, ...], int]] = field(default_factory=dict)
    moved: dict[int, dict[tuple[int, ...], int]] = field(default_factory=dict)

    def new(self) -> int:
        self.last += 1
        return self.last


@dataclass(slots=True)
class _Read:
    """The storages that a call reads: `written` has those of tensors of its shapes, `part` that of a tensor of another
    shape, because a collective often moves many tensors as one."""

    written: dict[tuple[int, ...], int] = field(default_factory=dict)
    part: int | None = None

    def take(self, shape: tuple[int, ...]) -> int | None:
        if (found := self.written.get(shape)) is None:
            found, self.part = self.part, None
        return found

    @classmethod
    def of(cls, layer: Layer, storages: _Storages) -> _Read:
        known = storages.moved if layer.communication is None else storages.outputs
        parts = [s for before in layer.depends_on for s in known.get(before, {}).values()]
        written = [storages.outputs.get(before, {}) for before in layer.depends_on]
        return cls(dict(each for one in written for each in one.items()), parts[-1] if parts else None)


def trace(layers: Sequence[Layer], calls: Sequence[int]) -> bytes:
    """An execution trace of one step in which each layer is called so often. Raises UsageError for more than MOST_CALLS
    together: each is a node, and their number may come from a stranger's file."""
    if sum(calls) > MOST_CALLS:
        raise UsageError(
            f"a step has {sum(calls):,} calls",
            cause=f"each is a node of the execution trace, which has {MOST_CALLS:,} at most",
            hint="--format manifest holds the layers with their number of calls",
        )
    nodes = [_node(1, "[pytorch|profiler|execution_trace|process]", 1),
             _node(2, "[pytorch|profiler|execution_trace|thread]", 1), _node(3, "ProfilerStep#0", 2)]  # fmt: skip
    storages = _Storages()
    for layer, count in zip(layers, calls, strict=True):
        for _ in range(count):
            parent = _around(nodes, layer)
            inputs, outputs = _node_arguments(layer, storages)
            name = _dispatched_name(layer.operator)
            nodes.append(_node(len(nodes) + 1, name, parent, inputs, outputs, _schema(layer.operator)))
            if layer.communication is not None:
                nodes.append(_of_collective(layer, layer.communication, len(nodes), inputs[:1]))
    lines = ",\n".join(json.dumps(node, separators=(",", ":")) for node in nodes)
    return f'{{"schema":"{SCHEMA}","pid":1,"nodes":[\n{lines}\n]}}\n'.encode("ascii")


def _of_collective(layer: Layer, sent: Communication, parent: int, inputs: Iterable[Argument]) -> dict[str, Any]:
    """The node below a collective that tells simulators of networks what is sent."""
    node = _node(parent + 1, collectives.NODE_NAME, parent, inputs)
    own = collectives.attributes(sent, layer.dtype, max(1, layer.dtype_bits // 8))
    node["attrs"] += [dict(zip(("name", "type", "value"), attribute, strict=True)) for attribute in own]
    return node


def _around(nodes: list[dict[str, Any]], layer: Layer) -> int:
    """The number of the range that a call of this phase runs in; the range is added where it is needed."""
    if layer.phase == "forward":
        return 3
    range_name = {"backward": "autograd::engine::evaluate_function: Backward0", "optimizer": "Optimizer.step#SGD.step",
                  "input": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}[layer.phase]  # fmt: skip
    nodes.append(_node(len(nodes) + 1, range_name, 3))
    return len(nodes)


def _node(
    number: int, name: str, parent: int, inputs: Iterable[Argument] = (), outputs: Iterable[Argument] = (),
    schema: str = "",
) -> dict[str, Any]:  # fmt: skip
    numbers = (("rf_id", "uint64", number), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1),
               ("scope", "uint64", 0), ("tid", "uint64", 1), ("fw_tid", "uint64", 0))  # fmt: skip
    texts = (("op_schema", schema), ("kernel_backend", ""), ("kernel_file", ""), ("tensor_range", ""))
    attributes = [*numbers, *((key, "string", text) for key, text in texts)]
    return {
        "id": number, "name": name, "ctrl_deps": parent, "inputs": _side(inputs), "outputs": _side(outputs),
        "attrs": [dict(zip(("name", "type", "value"), attribute, strict=True)) for attribute in attributes],
    }  # fmt: skip


def _side(arguments: Iterable[Argument]) -> dict[str, list[Any]]:
    columns = list(zip(*arguments, strict=True)) or [(), (), (), ()]
    return {name: list(column) for name, column in zip(("values", "shapes", "types", "strides"), columns, strict=True)}


def _node_arguments(layer: Layer, storages: _Storages) -> tuple[list[Argument], list[Argument]]:
    read = _Read.of(layer, storages)
    inputs = [_argument(arg, storages, read) for arg in layer.args]
    outputs = [_argument(out, storages, _Read()) for out in layer.outputs]
    written = storages.outputs[layer.index] = {tuple(shape): value[1] for value, shape in _tensors(outputs)}
    if layer.communication is not None:
        storages.moved[layer.index] = written
    return inputs, outputs


def _tensors(arguments: Iterable[Argument]) -> Iterator[tuple[Any, Any]]:
    """Values and sizes, also of those in lists."""
    for value, shape, kind, _ in arguments:
        if kind.startswith("GenericList["):
            kinds = kind.removeprefix("GenericList[").removesuffix("]").split(",")
            yield from ((v, s) for v, s, k in zip(value, shape, kinds, strict=False) if k.startswith("Tensor("))
        elif kind.startswith("Tensor("):
            yield value, shape


def _argument(arg: Any, storages: _Storages, read: _Read) -> Argument:
    if is_tensor(arg):
        return _tensor(arg, storages, read)
    if isinstance(arg, dict):
        return _list([_argument(entry, storages, read) for entry in each_in_list(arg["tensors"])])
    if isinstance(arg, list):
        return _list([_argument(part, storages, read) for part in arg])
    if arg is None:
        return NONE
    kind = {bool: "Bool", int: "Int", float: "Double", str: "String"}[type(arg)]
    return arg, [], kind, []


def _free(name: str, taken: Container[str]) -> str:
    """A file's name that no other member has: `a-b/c` and `a/b-c` would share one."""
    others = (f"{name}-{number}.json" for number in itertools.count(2))
    return next(each for each in itertools.chain([f"{name}.json"], others) if each not in taken)


def _list(parts: list[Argument]) -> Argument:
    values, shapes, types, strides = (list(column) for column in zip(*parts, strict=True)) if parts else ([],) * 4
    return values, shapes, f"GenericList[{','.join(types)}]", strides


def _tensor(arg: Mapping[str, Any], storages: _Storages, read: _Read) -> Argument:
    shape, dtype = list(arg["shape"]), arg["dtype"]
    dense = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    storage = read.take(tuple(shape)) or storages.new()
    kind = _NAMES.get(dtype) or f"c10::{_TYPE_OF.get(dtype, dtype)}"
    value = [storage, storage, 0, math.prod(shape), ITEM_SIZE.get(dtype, 4), "cpu"]
    return value, shape, f"Tensor({kind})", list(arg.get("strides", dense))


def _dispatched_name(op: str) -> str:
    """`aten.add.Tensor` -> `aten::add`."""
    return "::".join(op.split(".")[:2])


def _schema(op: str) -> str:
    """The operator's schema as torch states it; empty for one that torch does not have."""
    function = find_overload(op)
    return "" if function is None else str(function._schema)
