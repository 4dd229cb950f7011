"""How torch code spells an operator: the shortest way that runs it with the same arguments, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.blocks.base import Config
from statsnet.blocks.operator_call import OF_MEMORY, OWN, name_of, operands_of, torch_arguments
from statsnet.blocks.operator_source import SPELLINGS, function_source
from statsnet.signatures.categories import base_name
from statsnet.signatures.nested import Nested
from statsnet.signatures.quantized import Cell, Packed
from statsnet.workloads.torch_operators import overload

NAMESPACE = {"torch": torch, "F": F, "math": math}


def spelled(config: Config) -> Config:
    """The configuration with the first of SPELLINGS that runs the operator; the last is the operator itself."""
    base = base_name(name_of(config))
    known = {"torch": hasattr(torch, base), "F": hasattr(F, base), "method": hasattr(Tensor, base)}
    for spelling in SPELLINGS[:-1]:
        tried = {**config, "spelling": spelling}
        begins_with_operand = config["arguments"][0] == ("operand", 0)
        if known[spelling] and (spelling != "method" or begins_with_operand) and _runs_it(tried):
            return tried
    return {**config, "spelling": SPELLINGS[-1]}


def function_of(config: Config) -> Callable[..., Any]:
    """The function that a configuration's source stands for. The source is made of checked words and numbers."""
    function: Callable[..., Any] = eval(function_source(config), dict(NAMESPACE))
    return function


def meta_operands(config: Config) -> list[Tensor]:
    """The operands without values. Raises TypeError for packed parameters and nested tensors."""
    if any(isinstance(o.form, Packed | Cell | Nested) for o in operands_of(config)):
        raise TypeError("these have values")
    return [
        torch.empty_strided(o.shape, o.strides, dtype=dtype_of(o.dtype), device="meta") for o in operands_of(config)
    ]


def dtype_of(name: str) -> torch.dtype:
    dtype: torch.dtype = torch.float32 if name == OWN else getattr(torch, name)
    return dtype


def _runs_it(config: Config) -> bool:
    wanted = overload(name_of(config))
    seen = _Calls()
    try:
        operands = meta_operands(config)
        positional, keyword = torch_arguments(config, operands)
        with torch.no_grad(), seen:
            function_of(config)(*operands)
    except Exception:  # another signature than the operator's, no kernel without values, or packed parameters
        return False
    return seen.calls == [(str(wanted), _filled(wanted, positional, keyword))]


class _Calls(TorchDispatchMode):
    """The operators that run, with all their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((str(func), _filled(func, args, kwargs or {})))
        return func(*args, **(kwargs or {}))


def _filled(function: Any, positional: Any, keyword: dict[str, Any]) -> list[Any]:
    """All arguments in order but those OF_MEMORY; a tensor as its shape, strides and dtype."""
    rest = function._schema.arguments[len(positional) :]
    values = [*positional, *(keyword.get(a.name, a.default_value) for a in rest)]
    pairs = zip(function._schema.arguments, values, strict=False)
    return [_plain(v) for a, v in pairs if a.name not in OF_MEMORY]


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape), tuple(value.stride()), str(value.dtype)
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
