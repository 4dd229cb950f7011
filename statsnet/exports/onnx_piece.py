"""The nodes and tensors of one layer within an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statsnet.exports.manifest import Layer
from statsnet.signatures.operators import ITEM_SIZE, REAL

Role = Literal["input", "weight", "hidden", "output", "constant"]

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
