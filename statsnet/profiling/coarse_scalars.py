"""Scalars in operators' arguments, made coarse: enough to run the same kernel, too little to reveal a value.

ATen and its libraries look at some scalars to choose a kernel, or to skip work: exponents, orders of norms, factors of
0 and 1, probabilities of 0 and 1. Such values stay as they are, and no other value becomes one of them.

Integers are sizes, axes and choices in most places of an operator's schema, and stay. In the others they are values: a
token's id, a vocabulary's end, a zero point. There only their size is kept. Lists of lengths are what a tensor held:
of these the longest is kept, or none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, TypeGuard

from statsnet.profiling.costs.registry import find_formula
from statsnet.profiling.operator_schemas import parameters_of
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import tensors_of

KEPT = (0.0, 0.5, 1.0, 2.0)
"""Factors, probabilities and orders of norms that may choose a kernel, with either sign."""

KEPT_EXPONENTS = (*KEPT, 3.0)
"""Square roots, reciprocals, squares and cubes have kernels of their own, or are written as products."""

GENERIC_EXPONENT = 0.75
"""Stands for all other exponents, which share one kernel."""

NEAR_ONE = ((0.5, 0.4), (1.0, 0.7), (2.0, 1.5), (math.inf, 2.5))
"""What stands for values whose order of magnitude is 1: below each bound, a value that chooses nothing."""

KEPT_INTEGERS = (0, 1, 2)
"""Integers that may choose a kernel, or skip work, with either sign."""

VALUES = frozenset(
    {"padding_idx", "ignore_index", "blank", "quant_min", "quant_max", "fill_value", "value", "val", "low", "high",
     "from", "to", "tag", "tag_list"}
)  # fmt: skip
"""Parameters of operators that take an integer which is a value, not a size. So do all that take any number, and those
that VALUES_LIKE finds."""

VALUES_LIKE = re.compile(r"zero_point|_zp$|seed")
"""Quantized operators have a zero point for each operand: `x_zero_point`, `Y_zero_point_i`, `other_zp`."""

LENGTHS = frozenset({"input_lengths", "target_lengths"})
"""Of the sequences in a batch. Shapes tell the longest, too."""

BATCH_SIZES = "batch_sizes"
"""At each step of packed sequences, how many are that long."""

CHOICES = frozenset({"ord", "p", "norm", "exponent"})
"""Parameters that take a number and choose a kernel by it."""

RANGES = frozenset({"arange", "range"})
SLICES = frozenset({"slice_backward", "slice_scatter", "slice_copy"})
PLACES = frozenset({"index", "storage_offset", "offset_increment"})

KEPT_PLACES = 128
"""A place on an axis before this one is a step of a loop, or a choice. Others may be a token's id or a label: what
selects one tells its order of magnitude, and a slice begins at 0."""

POWERS = frozenset({"pow", "float_power", "_foreach_pow"})


def coarse_arguments(op: str, args: Sequence[Any]) -> list[Any]:
    """Encoded arguments of an operator ("aten.pow.Tensor_Scalar"), with every floating-point scalar made coarse, and
    every integer that is a value. Sizes, axes and choices stay. Of an operator that nobody knows, no integer stays."""
    coarse = [_coarse(arg) for arg in args]
    parameters = parameters_of(op)
    if parameters is None and find_formula(op) is None:
        return [_coarse_integers(arg) for arg in coarse]
    for place, (name, kind) in enumerate(parameters or ()):
        if place >= len(coarse):
            break
        if name not in CHOICES and (is_value(name) or "number" in kind or kind == "Tensor"):
            coarse[place] = _coarse_integers(coarse[place], name)
        elif name in PLACES:
            coarse[place] = _coarse_place(coarse[place])
        elif name in LENGTHS or name == BATCH_SIZES:
            coarse[place] = _coarse_lengths(coarse[place], name)
    if base_name(op) in RANGES or (base_name(op) in SLICES and _is_far(parameters or (), args)):
        coarse = _from_zero(parameters or (), args, coarse)
    if base_name(op).rstrip("_") in POWERS and len(args) > 1 and _is_floating(args[0]):
        coarse[1] = [*map(coarse_exponent, args[1])] if isinstance(args[1], list) else coarse_exponent(args[1])
    return coarse


def call_key(op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> str:
    """One text for all encoded calls that count as the same: of one operator and phase, with equal tensors and coarse
    scalars."""
    return json.dumps([op, phase, coarse_arguments(op, args), list(outputs)], sort_keys=True)


def coarse_number(value: float) -> float:
    """A scalar's sign and order of magnitude."""
    if abs(value) in KEPT:
        return value
    size = 10.0 ** round(math.log10(abs(value)))
    if size == 1.0:
        size = next(stand_in for bound, stand_in in NEAR_ONE if abs(value) < bound)
    return math.copysign(size, value)


def coarse_integer(value: int, name: str = "") -> int:
    """A value's sign and order of magnitude. A row that is left out becomes the first one, so that a table has it."""
    if name == "padding_idx":
        return min(value, 0)
    if abs(value) in KEPT_INTEGERS:
        return value
    size = 10 ** min(max(1, round(math.log10(abs(value)))), 18)
    return size if value > 0 else -size


def _coarse_integers(value: Any, name: str = "") -> Any:
    if isinstance(value, list):
        return [_coarse_integers(v, name) for v in value]
    return coarse_integer(value, name) if isinstance(value, int) and not isinstance(value, bool) else value


def is_value(name: str) -> bool:
    """Whether a parameter of this name takes an integer that is a value."""
    return name in VALUES or VALUES_LIKE.search(name) is not None


def _coarse_lengths(value: Any, name: str) -> Any:
    """A list that stands for a tensor's values."""
    if not (isinstance(value, list) and value and all(map(_is_whole, value))):
        return value
    return None if name == BATCH_SIZES else [max(value)] * len(value)


def _coarse_place(value: Any) -> Any:
    """An index. One that is rounded becomes a smaller one, so that the axis has it."""
    if not _is_whole(value) or abs(value) < KEPT_PLACES:
        return value
    size = 10 ** (len(str(abs(value))) - 1)
    return size if value > 0 else -size


def _from_zero(parameters: Sequence[tuple[str, str]], args: Sequence[Any], coarse: list[Any]) -> list[Any]:
    """A range or slice as long as the one asked for, from 0 on: where it begins is a value, how long it is a size."""
    place = {name: i for i, (name, _) in enumerate(parameters) if i < len(args)}
    given = {name: args[place[name]] for name in ("start", "end", "step") if name in place}
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in given.values()):
        return coarse
    begin = given.get("start", 0)
    exact = {"start": 0, "end": given.get("end", 0) - begin, "step": given.get("step", 1)}
    return [exact[parameters[i][0]] if i < len(parameters) and parameters[i][0] in given else c
            for i, c in enumerate(coarse)]  # fmt: skip


def _is_far(parameters: Sequence[tuple[str, str]], args: Sequence[Any]) -> bool:
    """Whether a slice begins at a place that may be a value, and ends on its axis: then its length is an axis."""
    given = {name: value for (name, _), value in zip(parameters, args, strict=False)}
    begin, end = given.get("start"), given.get("end")
    if not (_is_whole(begin) and _is_whole(end)) or given.get("step", 1) != 1 or begin * end < 0:
        return False
    sizes = {n for tensor in tensors_of(args[:2]) for n in tensor.shape}
    return min(abs(begin), abs(end)) >= KEPT_PLACES and end - begin in sizes


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def coarse_exponent(value: Any) -> Any:
    """An exponent with a kernel of its own, else GENERIC_EXPONENT; what is no number stays."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) in KEPT_EXPONENTS:
        return value
    return GENERIC_EXPONENT


def _coarse(value: Any) -> Any:
    if isinstance(value, float):
        return coarse_number(value)
    return [_coarse(v) for v in value] if isinstance(value, list) else value


def _is_floating(base: Any) -> bool:
    """Whether the base of a power is a tensor, or a list of some, whose dtype an exponent of another kind does not
    change. Powers of integers stay integers, so their exponents do too."""
    tensors = tensors_of([base])
    return bool(tensors) and all(t.dtype.startswith(("float", "bfloat", "complex")) for t in tensors)
