"""Operators and arguments as PyTorch's recorders spell them → as signatures hold them (signatures/operators.py).

Kineto traces give C++ types, dimensions, strides and, since 2023, scalars as text (`Concrete Inputs`). Execution traces
give values, shapes, types such as `GenericList[Tensor(float),None]`, and strides from schema 1.1.1 on. What a recording
does not hold becomes None, as does every text: names never pass.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

from statsnet.signatures.operators import SAFE_STRINGS, is_tensor

_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "complex<half>": "complex32", "complex<float>": "complex64", "complex<double>": "complex128",
    "complexhalf": "complex32", "complexfloat": "complex64", "complexdouble": "complex128",
    "long": "int64", "long int": "int64", "long long": "int64", "int": "int32", "short": "int16",
    "short int": "int16", "signed char": "int8", "char": "int8", "unsigned char": "uint8", "byte": "uint8",
    "bool": "bool", "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64", "int8_t": "int8", "int16_t": "int16", "int32_t": "int32",
    "int64_t": "int64", "uint8_t": "uint8", "unsigned short": "uint16", "unsigned int": "uint32",
    "unsigned long": "uint64", "short unsigned int": "uint16", "long unsigned int": "uint64",
    "qint8": "qint8", "quint8": "quint8", "qint32": "qint32",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2", "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2fnuz": "float8_e5m2fnuz", "float8_e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip
"""C++ types of elements, in lower case and without namespaces -> dtypes."""

MOST_NESTING = 8
"""Lists are at most two deep in real recordings."""

LARGEST_INTEGER = 2**63 - 1


def dtype_of_type(name: str) -> str | None:
    """`c10::Half`, `Tensor(long int)` or `unsigned char` -> `float16`, `int64`, `uint8`; None for what is no element's
    type."""
    if inner := re.fullmatch(r"Tensor\((.*)\)", name):
        name = inner[1]
    return _DTYPES.get(re.sub(r"\b(c10|at|std)::", "", name).strip().lower())


def encode_tensor(shape: Any, dtype: str | None, strides: Any = None) -> dict[str, Any] | None:
    """A tensor as signatures hold it; None if the shape is no list of sizes or the dtype is not known.

    `strides` are in elements; they are left out where the tensor is contiguous or the recording has none.
    """
    if dtype is None or not _are_sizes(shape):
        return None
    out: dict[str, Any] = {"shape": list(shape), "dtype": dtype}
    if _are_sizes(strides) and len(strides) == len(shape) and shape and not _is_contiguous(shape, strides):
        out["strides"] = list(strides)
    return out


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= LARGEST_INTEGER for n in value)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def encode_scalar(value: Any) -> Any:
    """Numbers, booleans and lists of them as they are; of texts only the few that signatures may hold; else None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_INTEGER else None
    if isinstance(value, float):
        return value if math.isfinite(value) and abs(value) < 1e300 else None
    if isinstance(value, str):
        return value if value in SAFE_STRINGS else None
    if isinstance(value, list):
        return [encode_scalar(v) for v in value]
    return None


def parse_concrete(text: str) -> Any:
    """A scalar or a list from Kineto's `Concrete Inputs`: `1`, `0.`, `-0.001`, `True`, `[2, 2]`, `['mean', 1]`."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1]
        if "[" in inner:
            return None
        return [parse_concrete(part) for part in inner.split(",")] if inner.strip() else []
    if text in ("True", "False", "true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?\d{1,20}", text):
        return encode_scalar(int(text))
    try:
        return encode_scalar(float(text))
    except ValueError:
        return encode_scalar(text.strip("'\""))


def kineto_arguments(
    dims: Sequence[Any], types: Sequence[Any], strides: Sequence[Any] = (), concrete: Sequence[Any] = ()
) -> list[Any]:
    """Encoded arguments from a Kineto event's `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs`.

    Recordings before 2023 have no strides and no concrete inputs: tensors are then taken as contiguous, scalars are
    None. A tensor list whose members were not recorded is None. Torch writes `TensorList` without the members' dtype:
    see `tensor_list_dtype`.
    """

    def at(values: Sequence[Any], i: int, default: Any) -> Any:
        return values[i] if i < len(values) else default

    out: list[Any] = []
    list_dtype = tensor_list_dtype(types)
    for i, shape in enumerate(dims):
        kind, text = at(types, i, ""), at(concrete, i, "")
        members = isinstance(shape, list) and bool(shape) and all(isinstance(d, list) for d in shape)
        if members:
            layouts = at(strides, i, [])
            dtype = dtype_of_type(kind) if isinstance(kind, str) else None
            out.append({
                "tensors": [
                    encode_tensor(d, dtype or list_dtype, at(layouts, j, None)) for j, d in enumerate(shape)
                ]
            })  # fmt: skip
        elif isinstance(kind, str) and (dtype := dtype_of_type(kind)):
            # Scalars are called `Int`, `Double` or `Bool` in old recordings, and tensors `int`, `double`, `bool`.
            is_scalar = kind in ("Int", "Double", "Bool", "Float", "Long")
            out.append(None if is_scalar else encode_tensor(shape, dtype, at(strides, i, None)))
        else:
            out.append(parse_concrete(text) if isinstance(text, str) and text else None)
    return out


def tensor_list_dtype(types: Sequence[Any]) -> str:
    """The dtype that a tensor list of this call most likely has, as `TensorList` does not say: that of the first tensor
    beside it, else float32."""
    named = (dtype_of_type(t) for t in types if isinstance(t, str) and t not in ("Int", "Double", "Bool"))
    return next((dtype for dtype in named if dtype is not None), "float32")


def trace_argument(value: Any, shape: Any, kind: str, strides: Any = None, depth: int = 0) -> Any:
    """One encoded argument or output of an execution trace's node. A tensor's value is [tensor, storage, offset,
    elements, bytes of an element, device].

    A tensor whose number of elements contradicts its shape is None, as its size is not known: symbolic sizes are
    written as shape []. Lists of lists of tensors are flattened.
    """
    if kind.startswith("Tensor("):
        dtype = dtype_of_type(kind)
        if isinstance(value, list) and len(value) >= 5 and _are_sizes(shape) and value[3] != math.prod(shape):
            return None
        return encode_tensor(shape, dtype, strides)
    if (members := split_list_type(kind)) is None or not isinstance(value, list) or depth > MOST_NESTING:
        return encode_scalar(value)

    def at(values: Any, i: int) -> Any:
        return values[i] if isinstance(values, list) and i < len(values) else None

    encoded = [trace_argument(v, at(shape, i), k, at(strides, i), depth + 1)
               for i, (v, k) in enumerate(zip(value, members, strict=False))]  # fmt: skip
    if not any("Tensor(" in k for k in members):
        return encoded
    tensors: list[Any] = []
    for item in encoded:
        tensors.extend(item["tensors"] if isinstance(item, dict) and "tensors" in item else [item])
    return {"tensors": [t if t is None or is_tensor(t) else None for t in tensors]}


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


def operator_name(name: str, args: Sequence[Any], schema: str = "") -> str:
    """`aten::add` -> `aten.add.Tensor`, as torch's dispatcher names it.

    The overload comes from the operator's `schema` if the recording has it (`aten::add.Tensor(Tensor self, ...)`),
    else from torch's own schemas: the first that takes these encoded arguments. `default` if torch knows none.
    """
    library, _, base = name.partition("::")
    base = base.replace("::", ".")
    stated = re.match(r"[\w]+::\w+(?:\.(\w+))?\(", schema)
    overload = (stated[1] or "default") if stated else _overload(name, tuple(_kind(a) for a in args))
    return f"{library}.{base}.{overload}"


def _kind(arg: Any) -> str:
    if isinstance(arg, dict):
        return "tensor" if is_tensor(arg) else "tensors"
    if isinstance(arg, bool):
        return "bool"
    if isinstance(arg, (int, float)):
        return "number"
    return "list" if isinstance(arg, list) else "text" if isinstance(arg, str) else "unknown"


@functools.lru_cache(maxsize=10_000)
def _overload(name: str, kinds: tuple[str, ...]) -> str:
    import torch

    fitting = []
    for place, schema in enumerate(torch._C._jit_get_schemas_for_operator(name)):
        full = f"{name}.{schema.overload_name}".removesuffix(".")
        # TorchScript has overloads of its own, for lists and the like, which the dispatcher does not know.
        if len(schema.arguments) == len(kinds) and torch._C._dispatch_has_kernel(full):
            misfits = [_misfit(kind, str(a.type)) for kind, a in zip(kinds, schema.arguments, strict=True)]
            writes_result = any(getattr(a, "is_out", False) for a in schema.arguments)
            fitting.append((sum(misfits), writes_result, place, schema.overload_name or "default"))
    return min(fitting)[3] if fitting else "default"


def _misfit(kind: str, wanted: str) -> int:
    """How badly an argument of this kind fits the schema's type; 0 if it does."""
    is_list = "List[" in wanted
    holds_tensor = "Tensor" in wanted
    if kind == "unknown":  # undefined, or not recorded: tensors always are
        return 2 if holds_tensor and not wanted.startswith("Optional") else 0
    if kind in ("tensor", "tensors"):
        return 0 if holds_tensor and is_list == (kind == "tensors") else 10
    if kind == "list":
        return 0 if is_list and not holds_tensor else 10
    if kind == "text":
        return 0 if "str" in wanted else 10
    if is_list or holds_tensor or "str" in wanted:
        return 10
    return 1 if (kind == "bool") != ("bool" in wanted) else 0
