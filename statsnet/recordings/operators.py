"""What an operator of a recording was called with and returned, encoded as a live profile encodes it.

A recording names operators without their overloads and tells sizes, types and sometimes strides and values of the
arguments, never the results. The overload is the one whose schema fits; the results are those that the operator gives
on tensors without data (torch's meta device).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from statsnet.profiling.encode import encode_outputs, encode_value
from statsnet.recordings.chrome_trace import Arguments
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.privacy import safe_op

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")
_NOT_OPERATORS = frozenset({"autograd", "profiler", "prim", "torch"})

DTYPES = {
    "float": torch.float32, "double": torch.float64, "c10::Half": torch.float16, "c10::BFloat16": torch.bfloat16,
    "long int": torch.int64, "long": torch.int64, "int": torch.int32, "short int": torch.int16, "short": torch.int16,
    "signed char": torch.int8, "char": torch.int8, "unsigned char": torch.uint8, "bool": torch.bool,
    "unsigned short": torch.uint16, "unsigned int": torch.uint32, "unsigned long": torch.uint64,
    "c10::complex<float>": torch.complex64, "c10::complex<double>": torch.complex128,
    "c10::complex<c10::Half>": torch.complex32, "c10::Float8_e4m3fn": torch.float8_e4m3fn,
    "c10::Float8_e5m2": torch.float8_e5m2, "c10::Float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "c10::Float8_e5m2fnuz": torch.float8_e5m2fnuz,
}  # fmt: skip
"""torch's dtypes by the name of the C++ type (caffe2's TypeMeta), which recordings hold."""

_SCALAR_TYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
    torch.bfloat16,
)  # fmt: skip
"""The numbers that stand for dtypes in an operator's recorded values (c10/core/ScalarType.h)."""

_TENSOR_LISTS = ("TensorList", "GenericList", "Tensor[]", "")

_NCCL = re.compile(r"nccl:(?:_)?(\w+)")
_COLLECTIVES = {
    "all_reduce": "c10d.allreduce_.default", "all_gather": "c10d.allgather_.default",
    "broadcast": "c10d.broadcast_.default", "all_to_all": "c10d.alltoall_.default",
    "reduce_scatter": "c10d.reduce_scatter_.default", "reduce": "c10d.reduce_.default",
    "gather": "c10d.gather_.default", "scatter": "c10d.scatter_.default", "send": "c10d.send.default",
    "recv": "c10d.recv_.default", "all_gather_base": "c10d._allgather_base_.default",
    "reduce_scatter_base": "c10d._reduce_scatter_base_.default",
}  # fmt: skip
"""Operators by the name of the range that ProcessGroupNCCL records around what it launches."""

_SIZES_ALONE = frozenset(
    {"_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_dropout",
     "native_dropout_backward", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "threshold_backward",
     "pow", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "rsub", "gelu", "gelu_backward", "leaky_relu",
     "leaky_relu_backward", "hardtanh", "hardtanh_", "clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max",
     "masked_fill", "masked_fill_", "fill_", "bernoulli_", "uniform_", "normal_", "eq", "ne", "lt", "le", "gt", "ge",
     "addcmul_", "addcdiv_", "addcmul", "addcdiv", "lerp_", "elu", "softplus", "_fused_dropout"}
)  # fmt: skip
"""Operators whose results have the same sizes whatever the numbers in their arguments. If a recording does not tell
these numbers, others stand in for them."""


_LIKE_ARGUMENTS = {
    "cudnn_batch_norm_backward": (0, 2, 2), "miopen_batch_norm_backward": (0, 2, 2),
    "max_pool2d_with_indices_backward": (1,), "_adaptive_avg_pool2d_backward": (1,),
}  # fmt: skip
"""Operators whose results are like some of their arguments (by place), and that need more to run on the meta device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An operator's full name and its encoded arguments and outputs. If not `complete`, they do not suffice to count
    its work."""

    op: str
    args: list[Any]
    outputs: list[Any]
    complete: bool


@dataclass(slots=True)
class Describer:
    """Describes operators. `list_dtype` is that of tensors in lists, of which recordings tell the sizes alone."""

    list_dtype: torch.dtype = torch.float32
    _known: dict[tuple[str, int], Described] = field(default_factory=dict)

    def describe(self, name: str, arguments: Arguments | None) -> Described:
        """Raises nothing: what cannot be told is left out."""
        key = (name, id(arguments))  # a recording has one object for equal arguments, and keeps it
        if key not in self._known:
            self._known[key] = self._described(name, arguments)
        return self._known[key]

    def _described(self, name: str, arguments: Arguments | None) -> Described:
        packet = packet_of(name)
        if packet is None:
            tensors = [] if arguments is None else self._plain(arguments)
            return Described(op=public_name(name), args=tensors, outputs=[], complete=False)
        overloads = [getattr(packet, o) for o in packet.overloads()]
        if arguments is None or is_metadata(str(overloads[0])):
            return Described(op=str(_usual(overloads)), args=[], outputs=[], complete=False)
        fitting = [o for o in overloads if _fits(o._schema.arguments, arguments)]
        if not fitting:
            return Described(op=str(_usual(overloads)), args=self._plain(arguments), outputs=[], complete=False)
        function = _usual(fitting, len(arguments.dims or ()))
        values = [self._value(a, i, arguments) for i, a in enumerate(function._schema.arguments)]
        args = [encode_value(None if v is _UNKNOWN else v) for v in values]
        outputs = _outputs(function, values)
        return Described(op=safe_op(str(function)), args=args, outputs=outputs or [], complete=outputs is not None)

    def _value(self, argument: Any, index: int, recorded: Arguments) -> Any:
        """The argument's value on the meta device; _UNKNOWN if the recording does not tell it."""
        dims, kind = recorded.dims or [], _item(recorded.types, index)
        if index >= len(dims):
            return argument.default_value
        if (text := str(argument.type)).startswith(("Tensor", "Optional[Tensor")):
            return _tensor(dims[index], DTYPES.get(str(kind)), _item(recorded.strides, index))
        if "Tensor" in text:
            return self._tensors(dims[index], _item(recorded.strides, index), "Optional" in text)
        if argument.name in ("device", "layout", "generator"):
            return torch.device("meta") if argument.name == "device" else None
        if recorded.values is None or index >= len(recorded.values):
            return argument.default_value if argument.has_default_value() else _UNKNOWN
        return _scalar(recorded.values[index], argument)

    def _tensors(self, sizes: Any, strides: Any, of_indices: bool) -> Any:
        if not isinstance(sizes, list) or not sizes or not all(isinstance(s, list) for s in sizes):
            return _UNKNOWN
        dtype = torch.int64 if of_indices else self.list_dtype
        made = [_tensor(s, dtype, _item(strides, i)) for i, s in enumerate(sizes)]
        return [None if of_indices and t is not None and t.dim() == 0 else t for t in made]

    def _plain(self, recorded: Arguments) -> list[Any]:
        """Tensors alone, for an operator without a schema here."""
        encoded: list[Any] = []
        for i, sizes in enumerate((recorded.dims or [])[:100]):
            dtype = DTYPES.get(str(_item(recorded.types, i)))
            encoded.append(encode_value(_tensor(sizes, dtype, _item(recorded.strides, i))))
        return encoded


class _Unknown:
    """An argument that a recording does not tell."""


_UNKNOWN = _Unknown()


def is_operator_name(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[1] not in _NOT_OPERATORS


@cache
def packet_of(name: str) -> Any:
    """torch's operator of that name, with all its overloads; None if this torch has none."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] in _NOT_OPERATORS:
        return None
    packet = getattr(getattr(torch.ops, match[1]), match[2], None)
    return packet if isinstance(packet, torch._ops.OpOverloadPacket) else None


@cache
def is_composite(name: str) -> bool | None:
    """Whether the operator only calls others: a dispatch mode, and so a live profile, sees those alone. None if this
    torch does not know it."""
    packet = packet_of(name)
    if packet is None:
        return None
    # Variants that write into a given tensor are made of the plain ones, whatever those are.
    plain = [o for o in packet.overloads() if "out" not in o]
    names = [name if o == "default" else f"{name}.{o}" for o in plain or packet.overloads()]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return all(has_kernel(n, "CompositeImplicitAutograd") for n in names if torch._C._dispatch_has_kernel(n))


def is_collective(name: str) -> bool:
    """Whether a range is what NCCL's process group records around a launch."""
    return _NCCL.fullmatch(name) is not None


@cache
def public_name(name: str) -> str:
    """An operator's name as a signature may hold it."""
    if match := _NCCL.fullmatch(name):
        return _COLLECTIVES.get(match[1].lower().strip("_"), "c10d.allreduce_.default")
    return safe_op(f"{name.replace('::', '.')}.default" if is_operator_name(name) else name)


def common_dtype(arguments: Iterable[Arguments | None]) -> torch.dtype:
    """The floating dtype that most tensors have."""
    counted: dict[torch.dtype, int] = {}
    for one in arguments:
        for kind in (one.types if one is not None else None) or ():
            dtype = DTYPES.get(str(kind))
            if dtype is not None and dtype.is_floating_point:
                counted[dtype] = counted.get(dtype, 0) + 1
    return max(counted, key=lambda d: counted[d]) if counted else torch.float32


def _usual(overloads: Sequence[Any], count: int | None = None) -> Any:
    """Of several overloads: as many arguments as were recorded, then the plain one, then the one on tensors."""

    def rank(function: Any) -> tuple[bool, bool, int]:
        name = function._overloadname
        order = ("default", "Tensor", "dim_IntList", "int", "Scalar")
        fewer = count is not None and len(function._schema.arguments) != count
        return (fewer, "out" in name, order.index(name) if name in order else len(order))

    return min(overloads, key=rank)


def _fits(schema: Sequence[Any], recorded: Arguments) -> bool:
    """Whether the recorded arguments can be those of the schema. One recorded by an older torch may be shorter."""
    count = len(recorded.dims or ())
    if count > len(schema) or any(not a.has_default_value() for a in schema[count:]):
        return False
    return all(_fits_one(str(a.type), _item(recorded.types, i), recorded, i) for i, a in enumerate(schema[:count]))


def _fits_one(wanted: str, kind: Any, recorded: Arguments, index: int) -> bool:
    kind = "" if kind is None else str(kind)
    is_tensor = kind in DTYPES or bool(_sizes(recorded.dims, index))
    if wanted.startswith("Tensor"):
        return is_tensor or recorded.types is None
    if wanted.startswith("Optional[Tensor"):
        return is_tensor or kind == ""
    if "Tensor" in wanted:
        return kind in _TENSOR_LISTS
    if "List" in wanted:
        return not is_tensor and kind not in ("TensorList", "Scalar")
    return not is_tensor and kind not in ("TensorList", "ScalarList")


def _sizes(dims: Any, index: int) -> list[int] | None:
    sizes = _item(dims, index)
    return sizes if isinstance(sizes, list) and sizes and all(isinstance(n, int) for n in sizes) else None


def _item(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _tensor(sizes: Any, dtype: torch.dtype | None, strides: Any) -> torch.Tensor | None:
    """A tensor without data; None if there was none or its type is not known."""
    if dtype is None or not isinstance(sizes, list) or not all(isinstance(n, int) and n >= 0 for n in sizes):
        return None
    if math.prod(sizes) > 2**50:
        return None
    if isinstance(strides, list) and len(strides) == len(sizes) and all(isinstance(s, int) and s >= 0 for s in strides):
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return torch.empty(sizes, dtype=dtype, device="meta")


def _scalar(text: Any, argument: Any) -> Any:
    """A value from its text: `[1, 1]`, `True`, `0.5`; an empty one stands for None and for what has no text."""
    if isinstance(text, str) and text:
        try:
            value = ast.literal_eval(_PYTHON.get(text, text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text if "str" in str(argument.type) else argument.default_value
        if argument.name == "dtype" or str(argument.real_type).startswith(("ScalarType", "Optional[ScalarType")):
            return _SCALAR_TYPES[value] if isinstance(value, int) and value < len(_SCALAR_TYPES) else _UNKNOWN
        return value
    if not isinstance(text, str) and text is not None:
        return text
    if str(argument.type).startswith("Optional"):
        return None
    return argument.default_value if argument.has_default_value() else _UNKNOWN


_PYTHON = {"true": "True", "false": "False", "inf": "1e999", "-inf": "-1e999", "nan": "None"}


def _outputs(function: Any, values: list[Any]) -> list[Any] | None:
    """Encoded results on the meta device; None if the operator cannot be run there with what is known."""
    name = function._schema.name.partition("::")[2]
    if name in _LIKE_ARGUMENTS:
        like = [values[i] for i in _LIKE_ARGUMENTS[name]]
        return [encode_value(v) for v in like] if all(isinstance(v, torch.Tensor) for v in like) else None
    if any(v is _UNKNOWN for v in values) and name not in _SIZES_ALONE:
        return None
    ready = [_stand_in(v, a) for v, a in _paired(values, function)]
    if name in ("cudnn_batch_norm", "miopen_batch_norm"):  # no results on meta; those of the plain one
        function, ready = torch.ops.aten.native_batch_norm.default, ready[:8]
    positional, keyword = _split(function, ready)
    try:
        with torch.no_grad():
            return encode_outputs(function(*positional, **keyword))
    except Exception:  # whatever an operator does with arguments of another version
        return None


def _paired(values: list[Any], function: Any) -> Iterable[tuple[Any, Any]]:
    return zip(values, function._schema.arguments, strict=True)


def _stand_in(value: Any, argument: Any) -> Any:
    if value is not _UNKNOWN:
        return value
    kind = str(argument.type)
    return True if kind == "bool" else 0.5 if kind in ("float", "number") else 0


def _split(function: Any, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    schema = function._schema.arguments
    positional = [v for v, a in zip(values, schema, strict=False) if not a.kwarg_only]
    keyword = {a.name: v for v, a in zip(values, schema, strict=False) if a.kwarg_only}
    return positional, keyword
