"""The nodes and tensors of one layer within an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statsnet.exports.manifest import Layer
from statsnet.signatures.operators import ITEM_SIZE, REAL, TensorSpec, is_tensor, without_overflow

Role = Literal["input", "weight", "hidden", "output", "constant"]
"""A hidden value lies between the nodes of one layer: no operator of the signature reads or writes it. A constant is
what an operator has as a number or a list of sizes."""

DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
          "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}  # fmt: skip
"""dtype -> onnx.TensorProto.DataType."""

OPERANDS = {**REAL, "quint8": "uint8", "qint8": "int8", "qint32": "int32"}
"""dtype of a layer -> that of its products, where it is another: complex products are four of real numbers."""

LARGEST_WEIGHT_BYTES = 2**32
"""A file of weights is as long as the largest of them."""


class CannotHoldError(Exception):
    """Why ONNX cannot hold a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of the graph; a constant has `numbers`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    numbers: tuple[int | float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`repeats` is how often the node counts in the manifest's unit; `macs` are those of one run."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    layer: int
    repeats: float
    macs: int


@dataclass(slots=True)
class Piece:
    """The nodes and values of one layer while they are made. `repeats` is how often its nodes count."""

    layer: Layer
    repeats: float
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    @property
    def operand_dtype(self) -> str:
        return OPERANDS.get(self.layer.dtype, self.layer.dtype)

    def value(
        self, role: Role, shape: Sequence[int], dtype: str | None = None, *, numbers: tuple[int | float, ...] = ()
    ) -> str:
        """Without a dtype an operand of a product."""
        dtype = dtype or self.operand_dtype
        if dtype not in DTYPES:
            raise CannotHoldError(f"no ONNX operator here takes elements of {dtype}")
        name = f"{self.layer.name}_{role[0]}{len(self.values)}"
        made = Value(name=name, shape=tuple(shape), dtype=dtype, role=role, numbers=numbers)
        if role == "weight" and math.prod(made.shape) * ITEM_SIZE[dtype] > LARGEST_WEIGHT_BYTES:
            raise CannotHoldError("a weight is larger than 4 GiB")
        self.values.append(made)
        return name

    def argument(self, place: int, default: Any = None) -> Any:
        """An argument of the layer; the default where none is given."""
        given = self.layer.args[place] if place < len(self.layer.args) else None
        return default if given is None else given

    def tensor(self, place: int) -> TensorSpec:
        """An argument of the layer. Raises ValueError if it is no tensor."""
        arg = self.layer.args[place]
        if not is_tensor(arg):
            raise ValueError("no tensor")
        return TensorSpec.from_dict(arg)

    def result(self, place: int = 0) -> TensorSpec:
        return TensorSpec.from_dict(self.layer.outputs[place])

    def of(self, role: Role, spec: TensorSpec) -> str:
        """A value of the same shape and elements."""
        return self.value(role, spec.shape, spec.dtype)

    def constant(self, *numbers: int) -> str:
        """Sizes or places in a row."""
        return self.value("constant", (len(numbers),), "int64", numbers=numbers)

    def scalar(self, number: Any, dtype: str) -> str:
        """A number; floats may be infinite, in words or as too large a number."""
        if dtype.startswith(("float", "bfloat")):
            return self.value("constant", (), dtype, numbers=(without_overflow(float(number)),))
        whole, signed = int(number), dtype.startswith("int")
        limit = 2 if dtype == "bool" else 2 ** (8 * ITEM_SIZE.get(dtype, 4) - signed)
        if not (-limit if signed else 0) <= whole < limit:
            raise CannotHoldError("a number is too large for the elements")
        return self.value("constant", (), dtype, numbers=(whole,))

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        repeats: float = 1.0,
        macs: int = 0,
        **attrs: Any,
    ) -> None:
        name = self.layer.name if not self.nodes else f"{self.layer.name}_{len(self.nodes)}"
        self.nodes.append(Node(name=name, op=op, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attrs,
                               layer=self.layer.index, repeats=self.repeats * repeats, macs=macs))  # fmt: skip


MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What arguments raise that torch could not have been called with: a file from elsewhere may hold them."""

Rule = Callable[[Piece], None]
"""Makes the nodes of a layer. May raise CannotHoldError, or one of MALFORMED."""
