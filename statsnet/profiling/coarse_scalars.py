"""Scalars in operators' arguments, made coarse: enough to run the same kernel, too little to reveal a value.

ATen and its libraries look at some scalars to choose a kernel, or to skip work: exponents, orders of norms, factors of
0 and 1, probabilities of 0 and 1. Such values stay as they are, and no other value becomes one of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

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

POWERS = frozenset({"pow", "float_power", "_foreach_pow"})


def coarse_arguments(op: str, args: Sequence[Any]) -> list[Any]:
    """Encoded arguments of an operator ("aten.pow.Tensor_Scalar"), with every floating-point scalar made coarse.
    Integers and flags stay, because they are sizes, axes and choices; but not as exponents."""
    coarse = [_coarse(arg) for arg in args]
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
