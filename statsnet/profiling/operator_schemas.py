"""Which operators may be run from a signature alone, and whether a cluster's arguments fit the operator's schema.

A signature may come from anybody. Torch has operators that open files, print, or wait for other processes. So an
operator is run again only if StatsNet knows what kind of work it does, and only with arguments that its schema takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from statsnet.profiling.costs.registry import find_formula
from statsnet.signatures.categories import COLLECTIVE, categorize
from statsnet.signatures.operators import INFINITE, is_tensor
from statsnet.signatures.quantized import is_packed
from statsnet.workloads.torch_operators import find_overload

NOT_RUN = frozenset({COLLECTIVE, "other"})
"""Categories of operators that are not run again: a collective waits for other processes, and of the others nobody
knows what they do."""


@functools.lru_cache(maxsize=4096)
def is_replayable(op: str) -> bool:
    """Whether an operator may be run from a signature: one with a cost formula, or of a category that is known."""
    category = categorize(op, "forward")
    return category not in NOT_RUN or (category == "other" and find_formula(op) is not None)


def misfit(op: str, args: tuple[Any, ...]) -> str | None:
    """What in encoded arguments does not fit the schema of an operator; None if all fits, or if this torch does not
    know the operator.

    An argument that was not kept is None, whatever its type is.
    """
    schema = _schema(op)
    if schema is None:
        return None
    if len(args) > len(schema):
        return f"it takes {len(schema)} arguments, not {len(args)}"
    for number, argument in enumerate(schema):
        kind = str(argument.type)
        if number >= len(args):
            if kind in ("Tensor", "List[Tensor]") and not argument.has_default_value():
                return f"its argument '{argument.name}' is missing"
            continue
        if not _fits(args[number], kind):
            return f"its argument '{argument.name}' is no {_words(kind)}"
        if is_unknown_number(argument, args[number]):
            return f"its argument '{argument.name}' is a number that torch does not know"
    return None


@functools.lru_cache(maxsize=4096)
def parameters_of(op: str) -> tuple[tuple[str, str], ...] | None:
    """Names and TorchScript types of an operator's parameters; None if this torch does not know the operator."""
    schema = _schema(op)
    return None if schema is None else tuple((argument.name, str(argument.type)) for argument in schema)


@functools.lru_cache(maxsize=4096)
def _schema(op: str) -> tuple[Any, ...] | None:
    function = find_overload(op)
    return None if function is None else tuple(function._schema.arguments)


def _fits(value: Any, kind: str) -> bool:
    """Whether an encoded argument may stand for a value of a type of TorchScript."""
    if value is None:
        return kind not in ("Tensor", "List[Tensor]")
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if inner.startswith("List["):
        element = inner.removeprefix("List[").removesuffix("]")
        if element in ("Tensor", "Optional[Tensor]"):
            return isinstance(value, dict) and "tensors" in value
        return isinstance(value, list) and all(_fits(v, element) for v in value)
    if is_packed(inner):
        return isinstance(value, dict) and "tensors" in value
    return _ACCEPTS.get(inner, lambda _: False)(value)


_NUMBERED = {"ScalarType": 16, "Layout": 8, "MemoryFormat": 4}
"""Types whose values numbers stand for, and how many every torch knows (c10/core). Torch crashes at any other one."""


def is_unknown_number(argument: Any, value: Any) -> bool:
    """Whether an argument of a schema is of a type whose values have numbers, and this is the number of none."""
    kind = str(argument.real_type).removeprefix("Optional[").removesuffix("]")
    count = _NUMBERED.get(kind)
    return count is not None and value is not None and not (_is_int(value) and 0 <= value < count)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or value in INFINITE


_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: is_tensor(v) or _is_number(v),  # a number stands for a tensor of no dimensions
    "int": lambda v: _is_int(v) or isinstance(v, bool),
    "SymInt": _is_int,
    "float": _is_number,
    "number": _is_number,
    "bool": lambda v: isinstance(v, (bool, int)),
    "str": lambda v: isinstance(v, str),
}


def _words(kind: str) -> str:
    return {"Tensor": "tensor", "List[Tensor]": "list of tensors", "number": "number"}.get(kind, f"'{kind}'")
