"""What is kept of one operator call: metadata of its tensors and the scalars that matter, never a value.

An argument is encoded as JSON:
  tensor       {"shape": [2, 64], "dtype": "float32"}  plus "strides" unless contiguous,
               plus "high": N for an integer tensor whose values are indices below N
               plus "sparse": N for a sparse tensor with N stored entries, which are rows; a sparse matrix, and any
               other kind, has also "elements": the numbers stored, and "index_bytes": the bytes of its indices
               plus "elements": N and "squares": Q for a nested tensor, whose shape is that of its longest rows: the
               numbers that are stored, and the sum of the squares of the rows' lengths
  tensor list  {"tensors": [tensor or null, ...]}; a tensor with "times": N stands for N equal neighbours.
               In files also {"tensors": [...], "times": N}: a run of entries that repeats N times
  scalars      numbers, booleans, null, lists of them; strings only from SAFE_STRINGS
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from statsnet.signatures.conversion import typed
from statsnet.signatures.limits import Finite, Size, Word
from statsnet.signatures.strides import span
from statsnet.signatures.tensor_lists import MAX_LIST_TENSORS, flatten_tensor_list

ITEM_SIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "complex32": 4, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "bool": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip
"""Bytes of one element by dtype name (torch's, without the prefix)."""

REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Complex dtype -> that of its real and imaginary parts."""

SAFE_STRINGS = frozenset(
    {"none", "mean", "sum", "avg", "product", "tanh", "max", "min", "prod", "amax", "amin", "floor", "trunc",
     "linear", "nearest", "bilinear", "bicubic", "zeros", "border", "reflect", "constant", "replicate",
     "circular", "ij", "xy", "lower", "upper", "left", "right",
     "inf", "-inf", "fro", "nuc", "reduced", "complete", "r", "same", "valid"}
)  # fmt: skip
"""The only strings that an operator's arguments may bring into a signature."""

INFINITE = ("inf", "-inf")
"""Orders of norms; JSON has no such number."""

LARGEST = 3e38
"""The largest number of float32, with a file's nine digits, is over float32's limit, and no operator takes it."""


def without_overflow(value: Any) -> Any:
    """An operator's number as it can be given to one: infinite where it is the largest of its dtype, as in masks."""
    return math.copysign(math.inf, value) if isinstance(value, float) and abs(value) > LARGEST else value


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Shape, dtype and strides (in elements; None means contiguous) of one tensor. A sparse or nested one stores fewer
    `elements` than its shape has, and some bytes of indices; a nested one has `squares`."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    high: int | None = None
    elements: int | None = None
    index_bytes: int = 0
    squares: int | None = None

    @property
    def numel(self) -> int:
        return math.prod(self.shape) if self.elements is None else self.elements

    @property
    def touched(self) -> int:
        """Distinct elements in memory: a broadcast dimension (stride 0) is stored once."""
        if self.strides is None:
            return self.numel
        stored = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if s != 0]
        windowed = span(self.shape, self.strides)  # windows that overlap share elements
        return min(math.prod(n for n, _ in stored), windowed) if self.numel else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct elements, each counted once."""
        return self.touched * ITEM_SIZE.get(self.dtype, 4) + self.index_bytes

    @property
    def layout(self) -> str:
        """`contiguous`, `channels_last` (4-D or 5-D), `transposed` (last two swapped), `expanded` (an axis of which all
        elements are one) or `strided`. The stride of an axis of one element says nothing."""
        if self.strides is None:
            return "contiguous"
        if any(stride == 0 and n > 1 for n, stride in zip(self.shape, self.strides, strict=True)):
            return "expanded"
        rank = len(self.shape)
        if self._is_dense(range(rank)):
            return "contiguous"
        if rank in (4, 5) and self._is_dense((0, *range(2, rank), 1)):
            return "channels_last"
        if rank >= 2 and self._is_dense((*range(rank - 2), rank - 1, rank - 2)):
            return "transposed"
        return "strided"

    def _is_dense(self, order: Sequence[int]) -> bool:
        """Whether the elements fill memory without gaps, in this order of the axes."""
        strides = self.strides or ()
        expected = 1
        for d in reversed(order):
            if self.shape[d] > 1 and strides[d] != expected:
                return False
            expected *= self.shape[d]
        return True

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TensorSpec:
        return cls(
            shape=tuple(data["shape"]),
            dtype=data["dtype"],
            strides=tuple(data["strides"]) if "strides" in data else None,
            high=data.get("high"),
            elements=data.get("elements"),
            index_bytes=data.get("index_bytes", 0),
            squares=data.get("squares"),
        )


def is_tensor(arg: Any) -> bool:
    """Whether an encoded argument is a tensor."""
    return isinstance(arg, dict) and "shape" in arg


def tensors_of(args: Iterable[Any]) -> list[TensorSpec]:
    """All tensors in encoded arguments, in order, with lists flattened and repetitions written out."""
    return list(_each_tensor(args))


def first_tensor(args: Iterable[Any]) -> TensorSpec | None:
    """The first of `tensors_of`, if there is one."""
    return next(_each_tensor(args), None)


def _each_tensor(args: Iterable[Any]) -> Iterator[TensorSpec]:
    for arg in args:
        if is_tensor(arg):
            yield TensorSpec.from_dict(arg)
        elif isinstance(arg, dict) and "tensors" in arg:
            for entry in flatten_tensor_list(arg["tensors"]):
                if entry is not None:
                    yield from repeat(TensorSpec.from_dict(entry), entry.get("times", 1))


def bytes_of(args: Iterable[Any], outputs: Iterable[Any]) -> int:
    """Bytes of all tensors in encoded arguments and results."""
    return sum(t.nbytes for t in (*tensors_of(args), *tensors_of(outputs)))


def dtype_of(args: Iterable[Any], outputs: Iterable[Any]) -> str:
    """Dtype of the first tensor that is read, else of the first that is written; `none` if there is none."""
    first = first_tensor(args) or first_tensor(outputs)
    return "none" if first is None else first.dtype


MAX_FILE_TENSORS = 200_000
"""Most tensors that the lists of one file may stand for, all together. The largest models of a suite list 20,000."""


MOST_AXES = 16
"""Of a tensor that a signature holds."""

Dims = Annotated[tuple[Size, ...], Meta(max_length=MOST_AXES)]
Times = Annotated[int, Meta(ge=1, le=MAX_LIST_TENSORS)]
Scalar = None | bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Finite | Annotated[str, Meta(max_length=40)]


class EncodedTensor(Struct, forbid_unknown_fields=True):
    """A tensor within encoded arguments."""

    shape: Dims
    dtype: Word
    strides: Dims | UnsetType = UNSET
    high: Size | UnsetType = UNSET
    sparse: Size | UnsetType = UNSET
    elements: Size | UnsetType = UNSET
    index_bytes: Size | UnsetType = UNSET
    squares: Size | UnsetType = UNSET
    times: Times | UnsetType = UNSET


class EncodedGroup(Struct, forbid_unknown_fields=True):
    """A run of a tensor list's entries that repeats."""

    tensors: Annotated[list[EncodedTensor | None], Meta(min_length=1, max_length=1000)]
    times: Times


class EncodedList(Struct, forbid_unknown_fields=True):
    """A tensor list; its entries are tensors, groups and nulls."""

    tensors: Annotated[list[dict[str, Any] | None], Meta(max_length=MAX_LIST_TENSORS)]


def can_be_kept(args: Iterable[Any]) -> bool:
    """Whether a signature can hold the tensors in encoded arguments: torch has more axes, and packed dtypes of 1 to 7
    bits."""
    return all(tensor.dtype in ITEM_SIZE and len(tensor.shape) <= MOST_AXES for tensor in _each_tensor(args))


def check_argument(arg: Any, place: str) -> None:
    """Raise ValueError, which names the place, for what encodes no argument."""
    if isinstance(arg, list):
        for i, part in enumerate(arg):
            check_argument(part, f"{place}[{i}]")
    elif isinstance(arg, str):
        if arg not in SAFE_STRINGS:
            raise ValueError(f"at {place}: this text is not one that an operator's argument may have")
    elif isinstance(arg, dict) and "tensors" in arg:
        typed(arg, EncodedList, place)
        for i, entry in enumerate(arg["tensors"]):
            if entry is not None:
                typed(entry, EncodedGroup if "tensors" in entry else EncodedTensor, f"{place}.tensors[{i}]")
                for tensor in entry.get("tensors", [entry]):
                    _check_tensor(tensor, f"{place}.tensors[{i}]")
    else:
        typed(arg, EncodedTensor if isinstance(arg, dict) else Scalar, place)
        _check_tensor(arg, place)


def _check_tensor(arg: Any, place: str) -> None:
    """What the types do not say: torch must have such a dtype, and each axis its stride."""
    if not isinstance(arg, dict):
        return
    if arg["dtype"] not in ITEM_SIZE:
        raise ValueError(f"at {place}: there is no such dtype")
    if "strides" in arg and len(arg["strides"]) != len(arg["shape"]):
        raise ValueError(f"at {place}: the strides are not as many as the sizes")
