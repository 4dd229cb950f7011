"""What a recording tells of an operator's arguments, and tensors without data that stand for them.

Kineto traces give C++ types, sizes, strides and, since 2023, scalars as text (`Concrete Inputs`). Execution traces give
values and types such as `GenericList[Tensor(float),None]`. Both become `Arguments`; what a recording does
not hold is None.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from statsnet.signatures.operators import MOST_AXES

DTYPES = {
    "float": torch.float32, "double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "long int": torch.int64, "long": torch.int64, "long long": torch.int64, "int": torch.int32,
    "short int": torch.int16, "short": torch.int16, "signed char": torch.int8, "char": torch.int8,
    "unsigned char": torch.uint8, "bool": torch.bool, "unsigned short": torch.uint16,
    "short unsigned int": torch.uint16, "unsigned int": torch.uint32, "unsigned long": torch.uint64,
    "long unsigned int": torch.uint64, "uint16_t": torch.uint16, "uint32_t": torch.uint32, "uint64_t": torch.uint64,
    "int64_t": torch.int64, "int32_t": torch.int32, "int16_t": torch.int16, "int8_t": torch.int8,
    "uint8_t": torch.uint8, "complex<float>": torch.complex64, "complex<double>": torch.complex128,
    "complex<Half>": torch.complex32, "Float8_e4m3fn": torch.float8_e4m3fn, "Float8_e5m2": torch.float8_e5m2,
    "Float8_e4m3fnuz": torch.float8_e4m3fnuz, "Float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "Float8_e8m0fnu": torch.float8_e8m0fnu,
}  # fmt: skip
"""torch's dtypes by the name of the C++ type (caffe2's TypeMeta), without namespaces. Case matters: scalars are
`Int`, `Double` and `Bool` in old recordings."""

LARGEST_INTEGER = 2**63 - 1
MOST_ELEMENTS = 2**50
MOST_NESTING = 8
"""Lists are at most two deep in real recordings."""

LONGEST_VALUE = 20_000
"""Of text that is read as a value: Python's parser takes hundreds of bytes for each letter. Recorders write lists of at
most 30 numbers."""

_PYTHON = {"true": "True", "false": "False", "inf": "1e999", "-inf": "-1e999", "nan": "None"}


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """Arguments by their places, a list each: sizes, types as C++ names them, strides, and values as text or as they
    are. A list of tensors has a list of sizes, and `TensorList` or a tuple of its members' types. None: it
    was not recorded."""

    dims: list[Any] | None
    types: list[Any] | None
    strides: list[Any] | None = None
    values: list[Any] | None = None


class KnownArguments:
    """One object for all equal arguments, of which a large file has few."""

    def __init__(self) -> None:
        self._known: dict[str, Arguments] = {}

    def same(self, arguments: Arguments) -> Arguments:
        """The first of the arguments that equal these."""
        parts = (arguments.dims, arguments.types, arguments.strides, arguments.values)
        return self._known.setdefault(repr(parts), arguments)


@functools.lru_cache(maxsize=1000)
def dtype_of_type(name: str) -> torch.dtype | None:
    """`c10::Half` or `long int` -> the dtype; None for what is no element's type."""
    return DTYPES.get(re.sub(r"\b(?:c10|at|std)::", "", name))


def dtype_at(types: Sequence[Any] | None, index: int) -> torch.dtype | None:
    """The dtype of the tensor at this place."""
    kind = item(types, index)
    return dtype_of_type(kind) if isinstance(kind, str) else None


def item(values: Any, index: int) -> Any:
    """The list's or tuple's member, None if there is none."""
    return values[index] if isinstance(values, (list, tuple)) and index < len(values) else None


def are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= LARGEST_INTEGER for n in value)


def stand_in_tensor(sizes: Any, dtype: torch.dtype | None, strides: Any = None) -> torch.Tensor | None:
    """A tensor without data; None if there was none, or its size or type is not known.

    No strides beside sizes are those of a sparse tensor, of which a recording does not tell how much it stores.
    """
    if strides == [] and sizes:
        return None
    if (
        dtype is None
        or not are_sizes(sizes)
        or len(sizes) > MOST_AXES
        or math.prod(max(n, 1) for n in sizes) > MOST_ELEMENTS
    ):
        return None
    if are_sizes(strides) and len(strides) == len(sizes):
        reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
        if reach <= MOST_ELEMENTS:
            return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return torch.empty(sizes, dtype=dtype, device="meta")


def parsed(text: str) -> Any:
    """A value from its text: `1`, `0.`, `[2, 2]`, `True`; the text itself if it is no value."""
    if len(text) > LONGEST_VALUE or "\\" in text:  # of an escape that it does not know, Python warns on the terminal
        return text
    try:
        value = ast.literal_eval(_PYTHON.get(text, text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return plain(value)


def plain(value: Any, depth: int = 0) -> Any:
    """Numbers, booleans, texts, and lists of them; None for all others, and for integers beyond 64 bits."""
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1) for v in value] if depth < MOST_NESTING else None
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_INTEGER else None
    return value if isinstance(value, (float, str)) else None


def of_execution_trace(
    values: Sequence[Any], shapes: Sequence[Any], types: Sequence[Any], strides: Sequence[Any]
) -> Arguments:
    """The arguments or outputs of an execution trace's node. A tensor's value is [tensor, storage, offset, elements,
    bytes of an element, device].

    A tensor whose number of elements contradicts its sizes has none that are known: symbolic sizes are written as [].
    Lists of lists of tensors are flattened.
    """
    found = [_argument(item(values, i), item(shapes, i), str(kind), item(strides, i)) for i, kind in enumerate(types)]
    return Arguments(*([argument[part] for argument in found] for part in range(4)))


def _argument(value: Any, shape: Any, kind: str, strides: Any) -> tuple[Any, Any, Any, Any]:
    """Sizes, type, strides and value of one argument."""
    tensors = _tensors(value, shape, kind, strides)
    if not tensors:
        is_value = kind not in ("None", "Device", "Generator")
        return [], _scalar_type(kind), None, plain(value) if is_value else None
    if kind.startswith("Tensor("):
        return (*tensors[0], None)
    return [t[0] for t in tensors], tuple(t[1] for t in tensors), [t[2] for t in tensors], None


def _tensors(value: Any, shape: Any, kind: str, strides: Any, depth: int = 0) -> list[tuple[Any, str, Any]]:
    """Sizes, type and strides of each tensor in an argument; empty if it holds none."""
    if kind.startswith("Tensor(") and kind.endswith(")"):
        is_known = are_sizes(shape)
        if is_known and isinstance(value, list) and len(value) >= 5:
            is_known = len(shape) <= MOST_AXES and value[3] == math.prod(shape)
        element = kind[len("Tensor(") : -1]
        return [(None, "", None) if element.startswith("nullptr") else (shape if is_known else None, element, strides)]
    members = split_list_type(kind)
    if not members or "Tensor(" not in kind or depth > MOST_NESTING:
        return []
    found: list[tuple[Any, str, Any]] = []
    for i, member in enumerate(members):
        inner = _tensors(item(value, i), item(shape, i), member, item(strides, i), depth + 1)
        found += inner or [(None, "", None)]
    return found


def _scalar_type(kind: str) -> str:
    if kind in ("Int", "Bool", "Double", "Float", "Complex"):
        return "Scalar"
    return "ScalarList" if split_list_type(kind) else ""


def split_list_type(kind: str) -> list[str] | None:
    """`GenericList[Tensor(float),None]` -> its members' types; None if this is no list's or tuple's type."""
    match = re.fullmatch(r"(?:GenericList|Tuple|List)\[(.*)\]", kind, re.DOTALL)
    if match is None:
        return None
    members, depth, begin, inner = [], 0, 0, match[1]
    for i, letter in enumerate(inner):
        if letter in "[(<":
            depth += 1
        elif letter in "])>":
            depth -= 1
        elif letter == "," and depth == 0:
            members.append(inner[begin:i])
            begin = i + 1
    return [m.strip() for m in (*members, inner[begin:])] if inner else []
