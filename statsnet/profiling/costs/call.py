"""One operator call as a cost formula sees it: typed access to encoded arguments, and the cost it returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.errors import StatsNetError
from statsnet.signatures.operators import ITEM_SIZE, TensorSpec, is_tensor
from statsnet.signatures.tensor_lists import flatten_tensor_list

_INDEX_BYTES = 8  # the coordinates of a sparse tensor are int64


class MisfitError(StatsNetError):
    """A call's arguments are not those that the formula expects; `cost_of` then returns None."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one operator call: FLOPs (2 per multiply-add) and bytes, each distinct element once."""

    flops: float
    bytes_read: float
    bytes_written: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


ZERO = Cost(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSpec(TensorSpec):
    """A sparse tensor. Without `elements`, its `entries` are slices along the first dimension, as gradients of
    embeddings are; a sparse matrix has the `elements` that it stores and its `index_bytes`."""

    entries: int

    @property
    def touched(self) -> int:
        return self.entries * math.prod(self.shape[1:]) if self.elements is None else self.elements

    @property
    def nbytes(self) -> int:
        indices = self.entries * _INDEX_BYTES if self.elements is None else self.index_bytes
        return self.touched * ITEM_SIZE.get(self.dtype, 4) + indices


Argument = TensorSpec | tuple["TensorSpec | None", ...] | Any


_INTO = (
    ".out", "_out", ".values", ".values_stable", ".dim_values", ".dim_max", ".dim_min", ".grad_input", ".output",
    ".eigenvalues", ".eigvals", ".X", ".U", ".Q", ".L", ".out_mode", ".result", ".inverse",
)  # fmt: skip
"""Ends of operators whose last arguments are where the results go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """Arguments in schema order (tensors as TensorSpec, tensor lists as tuples, all else as encoded) and outputs.
    Every accessor raises MisfitError if the argument is not of the kind that it returns."""

    op: str
    args: tuple[Argument, ...]
    outputs: tuple[TensorSpec | None, ...]

    @classmethod
    def decode(cls, op: str, args: Sequence[Any], outputs: Sequence[Any]) -> OperatorCall:
        """From arguments and outputs as encoded by `signatures.operators`."""
        results = tuple(_decode_tensor(o) if is_tensor(o) else None for o in outputs)
        inputs = tuple(_decode(a) for a in args)
        if op.endswith(_INTO) and len(inputs) > len(results):
            inputs = inputs[: len(inputs) - len(results)]  # destinations are written, not read
        return cls(op=op, args=inputs, outputs=results)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Every tensor among the arguments, lists flattened."""
        tensors: list[TensorSpec] = []
        for arg in self.args:
            if isinstance(arg, TensorSpec):
                tensors.append(arg)
            elif isinstance(arg, tuple):
                tensors.extend(t for t in arg if t is not None)
        return tuple(tensors)

    @property
    def bytes_in(self) -> int:
        return sum(t.nbytes for t in self.inputs)

    @property
    def bytes_out(self) -> int:
        return sum(t.nbytes for t in self.outputs if t is not None)

    @property
    def in_place(self) -> bool:
        name = self.op.split(".")[1] if "." in self.op else self.op
        return name.endswith("_") and not name.endswith("__")

    def arg(self, index: int) -> Argument:
        """An argument as it is; None if the call has fewer."""
        return self.args[index] if index < len(self.args) else None

    def tensor(self, index: int) -> TensorSpec:
        tensor = self.maybe_tensor(index)
        if tensor is None:
            raise MisfitError(f"{self.op}: argument {index} is not a tensor")
        return tensor

    def maybe_tensor(self, index: int) -> TensorSpec | None:
        argument = self.arg(index)
        return argument if isinstance(argument, TensorSpec) else None

    def tensors(self, index: int) -> tuple[TensorSpec, ...]:
        """The tensors of a list argument, without undefined ones; an empty list gives ()."""
        argument = self.arg(index)
        if isinstance(argument, TensorSpec):
            return (argument,)
        if not isinstance(argument, (tuple, list)):
            raise MisfitError(f"{self.op}: argument {index} is not a list of tensors")
        return tuple(t for t in argument if isinstance(t, TensorSpec))

    def number(self, index: int, default: float = 0.0) -> float:
        """A scalar argument; `default` if it is absent or was not recorded."""
        argument = self.arg(index)
        return argument if isinstance(argument, (int, float)) else default

    def flag(self, index: int, default: bool = False) -> bool:
        return bool(self.number(index, default))

    def integers(self, index: int) -> tuple[int, ...]:
        """A list of integers; a single one gives a tuple of one."""
        argument = self.arg(index)
        if isinstance(argument, int):
            return (argument,)
        if not isinstance(argument, list) or not all(isinstance(n, int) for n in argument):
            raise MisfitError(f"{self.op}: argument {index} is not a list of integers")
        return tuple(argument)

    def mask(self, index: int, length: int) -> tuple[bool, ...]:
        """An output mask. If it is missing, everything is computed."""
        argument = self.arg(index)
        if isinstance(argument, list) and len(argument) == length:
            return tuple(bool(f) for f in argument)
        return (True,) * length

    def output(self, index: int = 0) -> TensorSpec:
        output = self.outputs[index] if index < len(self.outputs) else None
        if output is None:
            raise MisfitError(f"{self.op}: output {index} is not a tensor")
        return output

    def cost(self, flops: float = 0.0, *, read: float | None = None, written: float | None = None) -> Cost:
        """`flops`, and by default every input read once and every output written once."""
        return Cost(
            float(flops),
            float(self.bytes_in if read is None else read),
            float(self.bytes_out if written is None else written),
        )


def item_bytes(spec: TensorSpec) -> int:
    """Bytes of one element."""
    return ITEM_SIZE.get(spec.dtype, 4)


def dimensions(spec: TensorSpec, rank: int) -> tuple[int, ...]:
    """The shape, which must have `rank` dimensions."""
    if len(spec.shape) != rank:
        raise MisfitError(f"a tensor of {rank} dimensions is expected, not {len(spec.shape)}")
    return spec.shape


def first_dimension(spec: TensorSpec) -> int:
    if not spec.shape:
        raise MisfitError("a tensor with at least one dimension is expected")
    return spec.shape[0]


def last_dimension(spec: TensorSpec) -> int:
    if not spec.shape:
        raise MisfitError("a tensor with at least one dimension is expected")
    return spec.shape[-1]


def tokens_of(spec: TensorSpec) -> int:
    """Vectors of the last dimension: batch times steps, of packed or nested rows those that are there."""
    return spec.numel // max(1, last_dimension(spec))


def is_complex(spec: TensorSpec) -> bool:
    return spec.dtype.startswith("complex")


def _decode(arg: Any) -> Argument:
    if is_tensor(arg):
        return _decode_tensor(arg)
    if isinstance(arg, dict) and "tensors" in arg:
        tensors: list[TensorSpec | None] = []
        for entry in flatten_tensor_list(arg["tensors"]):
            if entry is None:
                tensors.append(None)
            else:
                tensors.extend([_decode_tensor(entry)] * int(entry.get("times", 1)))
        return tuple(tensors)
    return arg


def _decode_tensor(encoded: dict[str, Any]) -> TensorSpec:
    spec = TensorSpec.from_dict(encoded)
    entries = encoded.get("sparse")
    if entries is None:
        return spec
    return SparseSpec(
        shape=spec.shape,
        dtype=spec.dtype,
        entries=int(entries),
        elements=spec.elements,
        index_bytes=spec.index_bytes,
    )
