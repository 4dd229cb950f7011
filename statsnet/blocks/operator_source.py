"""A configured operator as a line of Python: its call, and the tensors that it is called with."""

from __future__ import annotations

import math
import re
import string
from dataclasses import astuple, replace
from typing import Any

from statsnet.blocks.base import Config
from statsnet.blocks.operator_call import OWN, Operand, contiguous_strides, index_limit, name_of, operands_of
from statsnet.blocks.operator_schema import type_of
from statsnet.signatures.categories import base_name
from statsnet.signatures.found import HOW
from statsnet.signatures.nested import Nested
from statsnet.signatures.operators import ITEM_SIZE, SAFE_STRINGS
from statsnet.signatures.partitions import parts_of
from statsnet.signatures.quantized import QUANTIZED, Cell, Packed
from statsnet.signatures.sparse import Stored
from statsnet.signatures.strides import span, view_of
from statsnet.workloads.sparse_values import sparse_maker
from statsnet.workloads.torch_operators import overload

SPELLINGS = ("torch", "F", "method", "aten")

POSITIVE = frozenset({
    "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "float_power", "reciprocal", "lgamma", "digamma", "xlogy",
    "special_xlog1py", "special_entr", "acosh", "polygamma", "mvlgamma", "poisson_nll_loss",
})  # fmt: skip
"""Operators whose operands are positive, so that results are numbers."""

VARIANCES = frozenset({"running_var", "save_invstd", "save_var", "invstd", "rstd"})
"""Arguments that are positive for any operator."""

UNIT = frozenset({
    "logit", "acos", "asin", "atanh", "erfinv", "special_ndtri", "binary_cross_entropy",
    "binary_cross_entropy_backward", "bernoulli",
})  # fmt: skip
"""Operators whose operands lie between 0 and 1."""

SORTED = frozenset({"sorted_sequence", "boundaries"})

NAMES = ("x", *string.ascii_lowercase[:23])


def arguments_source(config: Config) -> list[str]:
    """Arguments of the block `Operator`: the function that it calls, then its operands. Raises ValueError for a
    configuration that must not become code."""
    try:
        keep = tuple(i for i, o in enumerate(operands_of(config)) if o.dtype != OWN and _is_floating(o))
        return [function_source(config), *operand_sources(config), *([f"keep={keep}"] if keep else [])]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{config!r} is no operator") from error


def helpers_used(configs: list[Config]) -> set[str]:
    """Names of the functions that make the operands."""
    texts = [text for config in configs for text in operand_sources(config)]
    return {name for text in texts for name in re.findall(r"(\w+)\(", text)}


def function_source(config: Config) -> str:
    """`torch.tanh`, or a lambda where the operands are not all that it is called with. What reads or writes nested
    tensors is kept from torch.compile, which does not take them."""
    is_nested = "nested" in base_name(name_of(config)) or any(isinstance(o.form, Nested) for o in operands_of(config))
    return f"torch.compiler.disable({_function(config)})" if is_nested else _function(config)


def _function(config: Config) -> str:
    count = len(config["operands"])
    arguments = list(config["arguments"])
    rest = [a for a in arguments if a[0] != "usual"]
    plain = rest == [("operand", place) for place in range(count)] and rest == arguments[:count]
    schema = overload(name_of(config))._schema.arguments
    plain = plain and not any(a.kwarg_only for a in schema[:count])
    if plain and config["output"] < 0 and config["spelling"] != "method":
        return _callee(config)
    listed = ("operands", tuple(range(count)))
    if count > 2 and listed in rest:
        return f"lambda x, *others: {_call(config, ['x', '*others'], whole_list=True)}"
    names = list(NAMES[:count]) if count <= len(NAMES) else [f"x{i}" for i in range(count)]
    return f"lambda {', '.join(names)}: {_call(config, names)}"


def _callee(config: Config) -> str:
    op, spelling = name_of(config), config["spelling"]
    if spelling not in SPELLINGS:
        raise ValueError(f"{spelling!r} is no way to call an operator")
    if spelling == "aten":
        return f"torch.ops.{op}"
    return f"{spelling}.{base_name(op)}"


def _call(config: Config, names: list[str], *, whole_list: bool = False) -> str:
    schema = overload(name_of(config))._schema.arguments
    positional: list[str] = []
    keyword: list[str] = []
    given = list(zip(schema, config["arguments"], strict=True))
    last = max((i for i, (a, entry) in enumerate(given) if not a.kwarg_only and entry[0] != "usual"), default=-1)
    for i, (argument, entry) in enumerate(given):
        text = _argument(argument, entry, names, whole_list)
        if argument.kwarg_only:
            keyword += [f"{argument.name}={text}"] if entry[0] != "usual" else []
        elif i <= last:
            positional.append(text)
    callee = _callee(config)
    if config["spelling"] == "method":
        callee = f"{positional.pop(0)}.{base_name(name_of(config))}"
    index = config["output"]
    if not isinstance(index, int):
        raise ValueError("the result is not numbered")
    return f"{callee}({', '.join([*positional, *keyword])})" + (f"[{index}]" if index >= 0 else "")


def _argument(argument: Any, entry: tuple[Any, ...], names: list[str], whole_list: bool) -> str:
    kind = entry[0]
    value: Any = entry[1] if len(entry) > 1 else None
    if kind == "usual":
        return repr(argument.default_value)
    if kind == "nothing":
        return "None"
    if kind == "operand":
        return names[_place(value)]
    if kind == "operands":
        if whole_list and len(value) > 2:
            return f"[{', '.join(names)}]"
        return f"[{', '.join(names[_place(p)] if p != -1 else 'None' for p in value)}]"
    if kind == "numbers":
        return f"[{', '.join(_number(v) for v in value)}]"
    if kind == "number":
        return _number(value)
    if kind == "infinity":
        return "math.inf" if value > 0 else "-math.inf"
    if kind == "word" and value in SAFE_STRINGS and type_of(argument).startswith("str"):
        return f'"{value}"'
    if kind == "dtype":
        return _dtype(value)
    if kind == "format" and value in ("contiguous_format", "channels_last", "channels_last_3d"):
        return f"torch.{value}"
    if kind == "device":
        return "x.device"
    raise ValueError(f"{entry!r} is no argument of an operator")


def _place(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no operand")
    return value


def _number(value: Any) -> str:
    if not isinstance(value, (bool, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r} is no number")
    return repr(value)


def _dtype(name: str) -> str:
    if name != OWN and name not in ITEM_SIZE:
        raise ValueError(f"{name!r} is no dtype")
    return "x.dtype" if name == OWN else f"torch.{name}"


def operand_sources(config: Config) -> list[str]:
    """Calls that make the operands."""
    base, high = base_name(name_of(config)).removesuffix("_"), index_limit(config)
    operands, names, texts = operands_of(config), argument_names(config), []
    shapes = {name: operand.shape for name, operand in zip(names, operands, strict=True)}
    for operand, name in zip(operands, names, strict=True):
        parts = None if _is_floating(operand) else parts_of(name_of(config), name, operand.numel, shapes)
        if parts is not None:
            texts.append(_made("bags", [parts[1]], operand, "int64") + (f" + {parts[0]}" if parts[0] else ""))
        elif name == "offset2bag" and "grad" in names:  # the bag of each index: a row of the gradient
            bags = operands[names.index("grad")].shape[0]
            texts.append(_made("below", [bags], operand, "int64") + ".sort().values")
        else:
            texts.append(_operand(base, name, operand, high) + (".sort().values" if name in SORTED else ""))
    return texts


def argument_names(config: Config) -> list[str]:
    """The schema's name for each operand."""
    names = [""] * len(config["operands"])
    for argument, entry in zip(overload(name_of(config))._schema.arguments, config["arguments"], strict=True):
        if entry[0] in ("operand", "operands"):
            for place in (entry[1],) if entry[0] == "operand" else entry[1]:
                if place >= 0:
                    names[_place(place)] = argument.name
    return names


def _operand(base: str, name: str, operand: Operand, high: int) -> str:
    form = operand.form
    if isinstance(form, (Packed, Cell)):
        return _packed(operand.shape, form)
    if isinstance(form, Nested):
        dtype = "" if operand.dtype == OWN else f", dtype=torch.{operand.dtype}"
        return f"nested({', '.join(map(str, (form.lengths, *operand.shape[2:])))}{dtype})"
    if isinstance(form, Stored):
        return _made(sparse_maker(name).__name__, [*astuple(form)], operand, OWN)
    if operand.dtype in QUANTIZED:
        dtype = "" if operand.dtype == QUANTIZED[0] else f", dtype=torch.{operand.dtype}"
        shape, then = _stored(operand)
        return f"quantized(normal({', '.join(map(str, shape))}){dtype}){then}"
    if operand.found is not None:
        return _finding(base, operand)
    if operand.dtype == "bool":
        return _made("flags", [], operand, "bool")
    if _is_floating(operand):
        function = "positive" if base in POSITIVE or name in VARIANCES else "fraction" if base in UNIT else "normal"
        return _made(function, [], operand, OWN)
    return _made("below", [high], operand, "int64")


def _packed(shape: tuple[int, ...], packed: Packed | Cell) -> str:
    sizes, bias = ", ".join(map(str, shape)), "" if packed.bias else ", bias=False"
    if isinstance(packed, Cell):
        return f"packed_cell({shape[0]}, {shape[1] - packed.hidden}, {packed.hidden}{bias})"
    if not packed.stride:
        return f"packed_linear({sizes}{bias})"
    groups = f", groups={packed.groups}" if packed.groups > 1 else ""
    return f"packed_conv({sizes}, stride={packed.stride}, padding={packed.padding}{groups}{bias})"


def _finding(base: str, operand: Operand) -> str:
    """A call that makes values for which exactly as much is found."""
    function = HOW.get(base, "hits")
    usual, found = "bool" if function == "hits" else "int64", operand.found or 0
    if operand.is_contiguous:
        return _made(function, [found], operand, usual)
    if 0 in operand.strides:  # what is expanded is made once
        return _made(function, [found * math.prod(_stored(operand)[0]) // max(1, operand.numel)], operand, usual)
    values = _made(function, [found], replace(operand, strides=contiguous_strides(operand.shape)), usual)
    return f"torch.empty_strided({operand.shape}, {operand.strides}, dtype=torch.{_named(operand)}).copy_({values})"


def _named(operand: Operand) -> str:
    return "float32" if operand.dtype == OWN else operand.dtype


def _is_floating(operand: Operand) -> bool:
    return operand.dtype == OWN or operand.dtype.startswith(("float", "bfloat", "complex"))


def _made(function: str, first: list[int], operand: Operand, usual: str) -> str:
    """A call that makes a contiguous tensor, and the views that give it its strides."""
    shape, then = _stored(operand)
    dtype = [] if operand.dtype == usual else [f"dtype=torch.{_named(operand)}"]
    return f"{function}({', '.join([*map(str, (*first, *shape)), *dtype])}){then}"


def _stored(operand: Operand) -> tuple[tuple[int, ...], str]:
    """The shape of a contiguous tensor of which the operand is a view, and that view."""
    if operand.is_contiguous:
        return operand.shape, ""
    if view := view_of(operand.shape, operand.strides):
        return view.base, view.source
    return (span(operand.shape, operand.strides),), f".as_strided({operand.shape}, {operand.strides})"
