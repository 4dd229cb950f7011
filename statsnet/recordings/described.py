"""What an operator of a recording was called with and returned, encoded as a live profile encodes it.

Where a recording does not tell the results, they are those that the operator gives on tensors without data (torch's
meta device).
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch

from statsnet.profiling.encode import encode_outputs, encode_value, encode_values
from statsnet.profiling.operator_schemas import is_replayable, is_unknown_number
from statsnet.progress import silent
from statsnet.recordings.arguments import Arguments, dtype_at, dtype_of_type, item, parsed, stand_in_tensor
from statsnet.recordings.operators import fitting_overload, overloads_of, public_name, usual_overload
from statsnet.signatures.categories import base_name, is_metadata, namespace
from statsnet.signatures.operators import SAFE_STRINGS
from statsnet.signatures.public_names import is_public_op, safe_op
from statsnet.signatures.tensor_lists import MAX_LIST_TENSORS

_SCALAR_TYPES = dict(enumerate((
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
    torch.bfloat16,
))) | {
    23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 25: torch.float8_e5m2fnuz, 26: torch.float8_e4m3fnuz,
    27: torch.uint16, 28: torch.uint32, 29: torch.uint64, 44: torch.float8_e8m0fnu,
}  # fmt: skip
"""The numbers that stand for dtypes in an operator's recorded values (c10/core/ScalarType.h)."""

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


_COLUMN_MAJOR = frozenset({"_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "_scaled_grouped_mm_v2"})
"""Operators that take their second matrix in no other layout. Older recorders, and those that keep no concrete inputs,
write no strides."""

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
    """Describes operators. `list_dtype` is that of tensors in lists of which a recording tells the sizes alone,
    `processes` the number of those that made the step together. If it `runs` nothing, results are those recorded."""

    list_dtype: torch.dtype = torch.float32
    processes: int = 1
    runs: bool = True
    _known: dict[tuple[str, str, int, int], Described] = field(default_factory=dict)

    def describe(self, name: str, arguments: Arguments | None) -> Described:
        """A call whose results are not recorded. Raises nothing: what cannot be told is left out."""
        key = (name, "", id(arguments), 0)  # a recording has one object for equal arguments, and keeps it
        if key not in self._known:
            self._known[key] = self._described(name, arguments)
        return self._known[key]

    def describe_with_results(self, name: str, schema: str, arguments: Arguments, results: Arguments) -> Described:
        """A call whose schema and results are recorded. Raises nothing: what cannot be told is left out."""
        key = (name, schema, id(arguments), id(results))
        if key not in self._known:
            self._known[key] = self._described_with_results(name, schema, arguments, results)
        return self._known[key]

    def _described_with_results(self, name: str, schema: str, arguments: Arguments, results: Arguments) -> Described:
        overloads = overloads_of(name)
        outputs = _flat(self._plain(results))
        function = fitting_overload(overloads, arguments, schema)
        if function is None:
            op = str(usual_overload(overloads)) if overloads else public_name(name)
            return Described(op=safe_op(op), args=self._plain(arguments), outputs=outputs, complete=False)
        values = self._values(function, arguments)
        found = outputs or ([] if _returns_no_tensor(function) else self._outputs(function, values))
        complete = found is not None
        return Described(
            op=safe_op(str(function)), args=_encoded(function, values), outputs=found or [], complete=complete
        )

    def _described(self, name: str, arguments: Arguments | None) -> Described:
        overloads = overloads_of(name)
        if not overloads:
            tensors = [] if arguments is None else self._plain(arguments)
            return Described(op=public_name(name), args=tensors, outputs=[], complete=False)
        if arguments is None or is_metadata(str(overloads[0])):
            return Described(op=safe_op(str(usual_overload(overloads))), args=[], outputs=[], complete=False)
        function = fitting_overload(overloads, arguments)
        if function is None:
            op = safe_op(str(usual_overload(overloads)))
            return Described(op=op, args=self._plain(arguments), outputs=[], complete=False)
        values = self._values(function, arguments)
        outputs = self._outputs(function, values)
        complete = outputs is not None
        return Described(
            op=safe_op(str(function)), args=_encoded(function, values), outputs=outputs or [], complete=complete
        )

    def _outputs(self, function: Any, values: list[Any]) -> list[Any] | None:
        return _outputs(function, values) if self.runs else None

    def _values(self, function: Any, recorded: Arguments) -> list[Any]:
        values = [self._value(argument, i, recorded) for i, argument in enumerate(function._schema.arguments)]
        name = function._schema.name.partition("::")[2]
        if name in _COLUMN_MAJOR and item(recorded.strides, 1) is None and isinstance(values[1], torch.Tensor):
            values[1] = _by_columns(values[1])
        return values

    def _value(self, argument: Any, index: int, recorded: Arguments) -> Any:
        """The argument's value on the meta device; _UNKNOWN if the recording does not tell it."""
        dims = recorded.dims or []
        if argument.name == "device":  # also where it was left out: no operator of a recording takes memory here
            return torch.device("meta")
        if index >= len(dims):
            return argument.default_value
        if (text := str(argument.type)).startswith(("Tensor", "Optional[Tensor")):
            return stand_in_tensor(dims[index], dtype_at(recorded.types, index), item(recorded.strides, index))
        if "Tensor" in text:
            made = self._tensors(recorded, index, of_indices="Optional" in text)
            return _UNKNOWN if made is None else made
        if argument.name in ("layout", "generator", "pin_memory"):
            return None
        if recorded.values is None or index >= len(recorded.values):
            return argument.default_value if argument.has_default_value() else _UNKNOWN
        return _scalar(recorded.values[index], argument)

    def _tensors(self, recorded: Arguments, index: int, *, of_indices: bool = False) -> list[Any] | None:
        """A list's tensors; None if its members were not recorded."""
        sizes, kinds, strides = (item(v, index) for v in (recorded.dims, recorded.types, recorded.strides))
        if not isinstance(sizes, list) or not sizes or not all(s is None or isinstance(s, list) for s in sizes):
            return None
        if isinstance(kinds, tuple):
            return [stand_in_tensor(s, dtype_of_type(item(kinds, i) or ""), item(strides, i))
                    for i, s in enumerate(sizes)]  # fmt: skip
        made = [stand_in_tensor(s, torch.int64 if of_indices else self.list_dtype, item(strides, i))
                for i, s in enumerate(sizes)]  # fmt: skip
        return [None if of_indices and t is not None and t.dim() == 0 else t for t in made]

    def _plain(self, recorded: Arguments) -> list[Any]:
        """Tensors alone, for an operator without a schema here."""
        encoded: list[Any] = []
        for i, sizes in enumerate((recorded.dims or [])[:MOST_PLAIN]):
            made = stand_in_tensor(sizes, dtype_at(recorded.types, i), item(recorded.strides, i))
            encoded.append(encode_value(self._tensors(recorded, i) if made is None else made))
        return encoded


MOST_PLAIN = 100
"""Arguments that are kept of an operator without a schema."""


@dataclass(frozen=True, slots=True)
class _Guard:
    """Hears the name of each operator before it runs, and an empty one after it; operators `left_out` do not run."""

    begin: Callable[[str], None]
    left_out: Collection[str] = ()


_UNWATCHED = _Guard(silent)
_guard: ContextVar[_Guard] = ContextVar("guard", default=_UNWATCHED)


@contextlib.contextmanager
def guarded(begin: Callable[[str], None], left_out: Collection[str]) -> Iterator[None]:
    """Within, `begin` hears which operator runs, so that whoever watches the process knows what it did last."""
    token = _guard.set(_Guard(begin, left_out))
    try:
        yield
    finally:
        _guard.reset(token)


def _by_columns(matrix: torch.Tensor) -> torch.Tensor:
    """The same sizes, with the last two axes stored the other way round."""
    return matrix if matrix.dim() < 2 else matrix.mT.contiguous().mT


class _Unknown:
    """An argument that a recording does not tell."""


_UNKNOWN = _Unknown()


def common_dtype(arguments: Iterable[Arguments | None]) -> torch.dtype:
    """The floating dtype that most tensors have."""
    counted: Counter[torch.dtype] = Counter()
    for one in arguments:
        for index in range(len(one.types or ()) if one is not None else 0):
            dtype = dtype_at(one.types, index) if one is not None else None
            if dtype is not None and dtype.is_floating_point:
                counted[dtype] += 1
    return counted.most_common(1)[0][0] if counted else torch.float32


def _encoded(function: Any, values: list[Any]) -> list[Any]:
    return encode_values(function, [None if v is _UNKNOWN else v for v in values])


def _returns_no_tensor(function: Any) -> bool:
    """As `item()`; and as some collectives, whose result is in an argument once it was waited for."""
    return not any("Tensor" in str(result.type) for result in function._schema.returns)


def _flat(outputs: list[Any]) -> list[Any]:
    """Results as a flat list of tensors."""
    flat: list[Any] = []
    for output in outputs:
        flat += output["tensors"] if isinstance(output, dict) and "tensors" in output else [output]
    return [o if isinstance(o, dict) else None for o in flat]


def _scalar(recorded: Any, argument: Any) -> Any:
    """A value from its text or as it is; an empty text stands for None and for what has no text."""
    value = recorded
    if isinstance(value, str) and value:
        value = parsed(value)
        if isinstance(value, str) and "str" not in str(argument.type):
            return argument.default_value
    if value is None or value == "":
        if str(argument.type).startswith("Optional"):
            return None
        return argument.default_value if argument.has_default_value() else _UNKNOWN
    if argument.name == "dtype" or str(argument.real_type).startswith(("ScalarType", "Optional[ScalarType")):
        return _SCALAR_TYPES.get(value, _UNKNOWN) if type(value) is int else _UNKNOWN
    return _UNKNOWN if is_unknown_number(argument, value) else value


def _outputs(function: Any, values: list[Any]) -> list[Any] | None:
    """Encoded results on the meta device; None if the operator cannot be run there with what is known."""
    name = function._schema.name.partition("::")[2]
    if name in _LIKE_ARGUMENTS:
        like = [values[i] for i in _LIKE_ARGUMENTS[name]]
        return [encode_value(v) for v in like] if all(isinstance(v, torch.Tensor) for v in like) else None
    if any(v is None and str(a.type) == "Tensor" for v, a in _paired(values, function)):
        return None  # some of torch's operators would take it for a tensor without elements
    unknown = [str(a.type) for v, a in _paired(values, function) if v is _UNKNOWN]
    if _returns_no_tensor(function) and not any("Tensor" in kind for kind in unknown):
        return []
    if (unknown and name not in _SIZES_ALONE) or not _may_run(function, values):
        return None
    ready = [_stand_in(v, a) for v, a in _paired(values, function)]
    if name in ("cudnn_batch_norm", "miopen_batch_norm"):  # no results on meta; those of the plain one
        function, ready = torch.ops.aten.native_batch_norm.default, ready[:8]
    guard, (positional, keyword) = _guard.get(), _split(function, ready)
    if str(function) in guard.left_out:
        return None
    guard.begin(str(function))
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return encode_outputs(function(*positional, **keyword))
    except Exception:  # whatever an operator does with arguments of another version
        return None
    finally:
        guard.begin("")


def _may_run(function: Any, values: list[Any]) -> bool:
    """Whether an operator may be run as anybody has recorded it: its work is known, it is given nothing but tensors
    without data and words of operators, and it makes no tensor or step for each place of a long axis."""
    op = str(function)
    is_functional = namespace(op) == "_c10d_functional"  # collectives that name their group in a text, and run without
    if not (is_public_op(op) and (is_functional or is_replayable(op))) or base_name(op) in _NOT_RUN:
        return False
    tensors = [t for v in values for t in (v if isinstance(v, list) else [v]) if isinstance(t, torch.Tensor)]
    if not tensors and not any(a.name == "device" for a in function._schema.arguments):
        return False
    makes_list = any("List[Tensor" in str(result.type) for result in function._schema.returns)
    if makes_list and max((n for t in tensors for n in t.shape), default=0) > MAX_LIST_TENSORS:
        return False
    return is_functional or all(v in SAFE_STRINGS for v in values if isinstance(v, str))


_NOT_RUN = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "quantized_lstm", "quantized_gru"})
"""Loops over an axis."""


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
