"""From a captured call, as a signature holds it, to an operator's configuration (operator_call.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from statsnet.blocks.base import Config
from statsnet.blocks.operator_call import OF_MEMORY, OF_SPARSE, OWN, entry_of
from statsnet.blocks.operator_schema import runnable, type_of
from statsnet.signatures.categories import base_name
from statsnet.signatures.found import MASKS, finds_by_values, found_of
from statsnet.signatures.model import Cluster
from statsnet.signatures.nested import Nested, is_nested, lengths_of
from statsnet.signatures.operators import INFINITE, SAFE_STRINGS, is_tensor, without_overflow
from statsnet.signatures.quantized import QUANTIZED, cells_of, is_packed, packed_of
from statsnet.signatures.sparse import is_sparse, stored_of
from statsnet.signatures.tensor_lists import each_in_list
from statsnet.workloads.torch_operators import overload

MOST_OPERANDS = 128

FACTORY_SHAPE = (1,)
"""An operator without tensors is handed one of this shape, which says on which device it runs."""


INTO_MEMORY: dict[str, tuple[str, int, tuple[Any, ...]]] = {
    "fsdp.all_gather_copy_in.default": ("aten.cat.default", 1, (0,)),
    "fsdp.split_with_sizes_copy.default": ("aten.split_with_sizes_copy.default", 3, ()),
    "fsdp.chunk_cat.default": ("aten._chunk_cat.default", 3, ()),
}
"""What FSDP2 calls to write into tensors that it keeps; and what writes the same into new ones, with how many of the
arguments, and which others."""


def call_of(cluster: Cluster, own_dtype: str) -> Config | None:
    """The configuration that runs a captured call; None if it is not one of pure computation on dense, quantised or
    nested tensors, or a product with a sparse one. Tensors of `own_dtype` follow the network's."""
    if cluster.op in INTO_MEMORY:
        op, kept, others = INTO_MEMORY[cluster.op]
        cluster = replace(cluster, op=op, args=(*cluster.args[:kept], *others))
    name = runnable(cluster.op)
    if name is None:
        return None
    reader = _Reader(base=base_name(name), own_dtype=own_dtype, outputs=list(cluster.outputs), operands=[])
    schema = overload(name)._schema.arguments
    asked = [a.name for a in overload(cluster.op)._schema.arguments]
    if len(cluster.args) != len(asked):
        return None
    given = dict(zip(asked, cluster.args, strict=True))
    try:
        arguments = tuple(reader.argument(a, given[a.name]) for a in schema)
    except _NotKnownError:
        return None
    if len(reader.operands) > MOST_OPERANDS or _is_sparse_alone(cluster, reader):
        return None
    if not _finds_as_much(name, given, arguments, reader):
        return None
    if reader.operands:
        arguments = _main_first(reader.operands, arguments)
    else:
        arguments = tuple(("device",) if a.name == "device" else e for a, e in zip(schema, arguments, strict=True))
        reader.operands.append((OWN, FACTORY_SHAPE, ()))
    return {
        "operator": tuple(name.removeprefix("aten.").split(".")),
        "spelling": "aten",
        "operands": tuple(reader.operands),
        "arguments": arguments,
        "output": _output(overload(name), list(cluster.outputs)),
    }


def _finds_as_much(name: str, given: dict[str, Any], arguments: tuple[Any, ...], reader: _Reader) -> bool:
    """Note beside an operand how much the operator is to find by its values. False if it finds something, and its
    shapes do not tell how much."""
    if not finds_by_values(name, given):
        return True
    found = found_of(name, given, reader.outputs)
    if found is None:
        return False
    schema = overload(name)._schema.arguments
    (entry,) = (entry for a, entry in zip(schema, arguments, strict=True) if a.name == found.argument)
    if entry[0] == "operand":
        places = [entry[1]]
    else:
        places = [place for place in entry[1] if place >= 0 and reader.operands[place][0] in MASKS]
    for place in places:
        reader.operands[place] = (*reader.operands[place], found.count)
    return True


def _is_dense(operand: tuple[Any, ...]) -> bool:
    """Neither a sparse matrix nor packed parameters."""
    form = operand[3] if len(operand) > 3 else None
    return not isinstance(form, tuple) or form[0] == "nested"


def _is_sparse_alone(cluster: Cluster, reader: _Reader) -> bool:
    """Whether all operands are sparse, or the result is: then nothing dense goes in or comes out."""
    results = [o for o in cluster.outputs if is_tensor(o)]
    goes_in = not reader.operands or any(map(_is_dense, reader.operands))
    return not goes_in or any(map(is_sparse, results))


def _main_first(operands: list[tuple[Any, ...]], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Puts the first dense operand with the most axes in front: it is the input, and its outermost axis is the batch.
    Returns the arguments with the operands' new places."""
    main = max(range(len(operands)), key=lambda place: (_is_dense(operands[place]), len(operands[place][1]), -place))
    operands.insert(0, operands.pop(main))

    def moved(place: int) -> int:
        return 0 if place == main else place + 1 if 0 <= place < main else place

    def entry(given: tuple[Any, ...]) -> tuple[Any, ...]:
        if given[0] == "operand":
            return "operand", moved(given[1])
        return ("operands", tuple(map(moved, given[1]))) if given[0] == "operands" else given

    return tuple(entry(given) for given in arguments)


def _output(function: Any, outputs: list[Any]) -> int:
    """The first result of numbers with a fraction, else the first that is there and not empty."""
    returns = function._schema.returns
    if len(returns) == 1 and str(returns[0].type) == "Tensor":
        return -1
    there = [i for i, o in enumerate(outputs) if o is not None and 0 not in o["shape"]]
    return next((i for i in there if outputs[i]["dtype"].startswith(("float", "bfloat"))), there[0] if there else 0)


class _NotKnownError(Exception):
    """An argument that a signature does not tell."""


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Turns encoded arguments into entries of a configuration, and collects the operands."""

    base: str
    own_dtype: str
    outputs: list[Any]
    operands: list[tuple[Any, ...]]

    def argument(self, argument: Any, encoded: Any) -> tuple[Any, ...]:
        kind = type_of(argument)
        if kind.startswith("ScalarType"):
            return self._dtype(kind)
        if kind == "MemoryFormat?":
            return self._format()
        if argument.name in OF_MEMORY:
            return ("usual",)
        if is_packed(kind):
            return self._cells(encoded) if kind.endswith("[]") else self._packed(kind, encoded)
        encoded = without_overflow(encoded)
        if encoded is None:
            return self._missing(argument, kind)
        if isinstance(encoded, float) and math.isinf(encoded):
            return "infinity", 1 if encoded > 0 else -1
        if kind.startswith("Tensor"):
            return self._tensors(encoded, argument.name)
        if isinstance(encoded, str):
            if encoded in INFINITE:
                return "infinity", -1 if encoded.startswith("-") else 1
            return _known("word", encoded in SAFE_STRINGS, encoded)
        if isinstance(encoded, list):
            return _known("numbers", all(isinstance(v, (bool, int, float)) for v in encoded), tuple(encoded))
        return ("usual",) if encoded == argument.default_value else _known("number", _is_number(encoded), encoded)

    def _missing(self, argument: Any, kind: str) -> tuple[Any, ...]:
        if argument.has_default_value():
            return ("usual",)
        if kind.endswith("?"):
            return ("nothing",)
        if kind in ("number", "float"):
            return "infinity", -1  # of a mask: JSON has no infinity
        raise _NotKnownError

    def _tensors(self, encoded: Any, name: str) -> tuple[Any, ...]:
        if is_tensor(encoded):
            return "operand", self._place(encoded, name)
        if _is_number(encoded):  # it becomes a tensor without axes
            return "number", encoded
        places = []
        for entry in each_in_list(encoded["tensors"]) if isinstance(encoded, dict) else ():
            places.append(-1 if entry is None else self._place(entry, name))
            if len(places) > MOST_OPERANDS:
                raise _NotKnownError
        return _known("operands", isinstance(encoded, dict), tuple(places))

    def _place(self, tensor: dict[str, Any], name: str) -> int:
        dtype = OWN if tensor["dtype"] == self.own_dtype else tensor["dtype"]
        if dtype.startswith("q") and dtype not in QUANTIZED:
            raise _NotKnownError
        strides = tuple(tensor.get("strides", ()))
        self.operands.append((dtype, tuple(tensor["shape"]), strides, *self._form(tensor, name)))
        return len(self.operands) - 1

    def _form(self, tensor: dict[str, Any], name: str) -> tuple[Any, ...]:
        """What a tensor stores that is not dense."""
        if is_nested(tensor):
            try:
                return (entry_of(Nested(lengths_of(tensor))),)
            except NotImplementedError:
                raise _NotKnownError from None
        if tensor.get("sparse") is None and tensor.get("elements") is None:
            return ()
        stored = stored_of(tensor, name) if self.base in OF_SPARSE else None
        if stored is None:
            raise _NotKnownError
        return (entry_of(stored),)

    def _cells(self, encoded: Any) -> tuple[Any, ...]:
        """Of a recurrent layer. Its state is the operand before."""
        found = cells_of(encoded, self.operands[-1][1][-1]) if self.operands else None
        if found is None:
            raise _NotKnownError
        self.operands += [("qint8", shape, (), entry_of(cell)) for shape, cell in found]
        return "operands", tuple(range(len(self.operands) - len(found), len(self.operands)))

    def _packed(self, kind: str, encoded: Any) -> tuple[Any, ...]:
        written: list[int] = next((o["shape"] for o in self.outputs if is_tensor(o)), [])
        found = packed_of(kind, encoded, self.operands[0][1], written) if self.operands else None
        if found is None:
            raise _NotKnownError
        shape, packed = found
        self.operands.append(("qint8", shape, (), entry_of(packed)))
        return "operand", len(self.operands) - 1

    def _dtype(self, kind: str) -> tuple[Any, ...]:
        """A dtype is not kept; it is the result's."""
        written = next((o["dtype"] for o in self.outputs if o is not None), None)
        if written is None:
            raise _NotKnownError
        first = self.operands[0][0] if self.operands else None
        name = OWN if written == self.own_dtype and first == OWN else written
        return ("usual",) if kind.endswith("?") and first == name else ("dtype", name)

    def _format(self) -> tuple[Any, ...]:
        """Kept where the result is laid out otherwise than the operand."""
        written = next((o for o in self.outputs if o is not None), None)
        if written is None or not self.operands:
            return ("usual",)
        _, shape, strides, *_ = self.operands[0]
        new = tuple(written.get("strides", ()))
        if strides == new or tuple(written["shape"]) != shape:
            return ("usual",)
        if not new:
            return "format", "contiguous_format"
        last = {4: "channels_last", 5: "channels_last_3d"}.get(len(new))
        return ("format", last) if last and new[1] == 1 else ("usual",)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and (not isinstance(value, float) or math.isfinite(value))


def _known(kind: str, holds: bool, value: Any) -> tuple[Any, ...]:
    if not holds:
        raise _NotKnownError
    return kind, value
