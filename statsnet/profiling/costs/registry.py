"""The table of cost formulas: how a formula is added, and how a call finds its formula."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from statsnet.errors import UsageError
from statsnet.profiling.costs.call import ZERO, Cost, MisfitError, OperatorCall
from statsnet.signatures.categories import base_name, is_metadata, namespace
from statsnet.signatures.operators import TensorSpec, bytes_of

Formula = Callable[[OperatorCall], Cost]

_FORMULAS: dict[str, Formula] = {}
_NAME = re.compile(r"\w+(\.\w+){0,2}")


def operator_cost(*names: str) -> Callable[[Formula], Formula]:
    """Register a cost formula: `@operator_cost("mylib.scan")` over a function from OperatorCall to Cost.

    A name is `library.operator.overload`, `library.operator` (every overload) or a bare `operator` (every
    overload of ATen's). In-place (`add_`) and list (`_foreach_add`) variants of ATen's operators use the
    formula of the plain one unless they have their own. The more precise name wins.
    Raises UsageError for a malformed name or one that has a formula already.
    """
    keys = [_key(name) for name in names]
    if taken := next((k for k in keys if k in _FORMULAS or keys.count(k) > 1), None):
        raise UsageError(
            f"operator '{taken}' has a cost formula already",
            cause="a second formula would silently change the first one's numbers",
            hint="register a more precise name (library.operator.overload)",
        )

    def register(formula: Formula) -> Formula:
        for key in keys:
            _FORMULAS[key] = formula
        return formula

    return register


def operator_costs(formulas: Mapping[str, Formula]) -> None:
    """Register short formulas, each under one or several names with spaces between them."""
    for names, formula in formulas.items():
        operator_cost(*names.split())(formula)


def cost_of(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Cost | None:
    """Cost of one call, from its encoded arguments and outputs (see `signatures.operators`).

    None if the operator has no formula, or if the call does not fit it (a packed weight, an argument that was not
    kept). Metadata operators cost nothing.
    """
    formula = find_formula(op)
    if formula is None:
        return ZERO if is_metadata(op) else None
    try:
        return formula(OperatorCall.decode(op, args, outputs))
    except MisfitError:
        return None


def work_of_call(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[float, float]:
    """FLOPs and bytes of one call, read and written together; of an operator without a formula the bytes of all
    tensors."""
    cost = cost_of(op, args, outputs)
    return (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, float(bytes_of(args, outputs)))


def registered_operators() -> tuple[str, ...]:
    """Names with a formula, as registered (bare names get the prefix `aten.`)."""
    return tuple(sorted(_FORMULAS))


def find_formula(op: str) -> Formula | None:
    """The formula for an operator's full name, or None."""
    library, name = namespace(op), base_name(op)
    library = "aten" if library == "prims" else library
    overload = op.split(".")[2] if op.count(".") >= 2 else ""
    for candidate in _spellings(name):
        rule = _FORMULAS.get(f"{library}.{candidate}.{overload}") or _FORMULAS.get(f"{library}.{candidate}")
        if rule is not None:
            return rule
    if name.startswith("_foreach_"):
        inner = find_formula(f"{library}.{name.removeprefix('_foreach_')}.{overload}")
        return inner and _over_list(inner)
    return None


def _spellings(name: str) -> tuple[str, ...]:
    if name.endswith("_") and not name.endswith("__"):
        return (name, name[:-1])
    return (name,)


def _key(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not an operator's name",
            cause="letters, digits and underscores in one to three parts are expected",
            hint="for example aten.convolution.default, mylib.scan or add",
        )
    return name if "." in name else f"aten.{name}"


def _over_list(formula: Formula) -> Formula:
    """A list operator costs the sum over its members; tensors shared by all of them are read once."""

    def over_list(call: OperatorCall) -> Cost:
        members = call.tensors(0)
        results: tuple[TensorSpec | None, ...] = call.outputs
        if call.in_place or len(results) != len(members):
            results = members  # in-place list operators return nothing
        plain = call.op.replace("_foreach_", "", 1)
        total = ZERO
        for i, result in enumerate(results):
            args = tuple(_member(a, i) for a in call.args)
            total += formula(OperatorCall(op=plain, args=args, outputs=(result,)))
        shared = sum(a.nbytes for a in call.args[1:] if isinstance(a, TensorSpec))
        repeated = shared * max(0, len(members) - 1)
        return Cost(total.flops, max(0.0, total.bytes_read - repeated), total.bytes_written)

    return over_list


def _member(arg: Any, index: int) -> Any:
    if isinstance(arg, (tuple, list)):
        return arg[index] if index < len(arg) else None
    return arg
