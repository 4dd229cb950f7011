"""Whether a configured operator runs: tried with values where that is safe and quick, else without."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from statsnet.blocks import convolution_gradients
from statsnet.blocks.base import Config
from statsnet.blocks.operator_call import OF_SPARSE, name_of, operands_of, torch_arguments
from statsnet.blocks.operator_source import operand_sources
from statsnet.blocks.operator_spelling import NAMESPACE, meta_operands
from statsnet.blocks.operator_values import MADE_BY
from statsnet.signatures.categories import base_name
from statsnet.signatures.found import INDEXING, MASKS
from statsnet.signatures.partitions import ENDS
from statsnet.signatures.quantized import QUANTIZED, Packed
from statsnet.workloads.torch_operators import overload

LARGEST_TRIED = 50_000
"""Operators on more elements are not run to see whether they can be: the process that measures them finds out."""

LARGEST_SURE = 2_000_000
"""But up to so many elements, read and written, where nobody measures them before they stand in a network."""

SLOW = ("linalg_", "_linalg_", "lu_", "triangular_solve", "cholesky", "cdist", "_cdist", "matrix_exp")
"""How operators begin that take long on few elements."""

SAFE_BACKWARD = frozenset({"select_backward", "slice_backward", "diagonal_backward", "unfold_backward"})
"""Operators of autograd that check what they are given, but not without values."""


def surely_runs(config: Config) -> bool:
    """Whether it was tried with values, or its shapes were checked. False for what might crash, take long, or is too
    large."""
    return _surely_runs(_key(config))


@lru_cache(maxsize=4096)
def _surely_runs(key: tuple[Any, ...]) -> bool:
    config = _config(key)
    base = base_name(name_of(config))
    if base == convolution_gradients.NAME:
        return _elements(config) <= LARGEST_SURE and convolution_gradients.fit(config)
    # Without values, torch takes grouped products of bfloat16 alone, nothing is found, and nothing quantised.
    finds = any(o.found is not None for o in operands_of(config)) or is_quantized(config)
    results = () if finds or base in ENDS else _result_shapes(key)
    if results is None or is_lax(base) or base.startswith(SLOW):
        return False
    count = _elements(config) + sum(map(math.prod, results))
    return count <= LARGEST_SURE and _runs(config)


def may_run(config: Config) -> bool:
    """False for what was tried with values, and does not run, and for masks that do not fit. True for other large
    operands, and for what might crash: that is for the process to find out that measures it."""
    count, base = _elements(config), base_name(name_of(config))
    is_large = count > (LARGEST_SURE if base in SAFE_BACKWARD or is_quantized(config) else LARGEST_TRIED)
    return _masks_fit(config) and (is_large or is_lax(base) or _runs(config))


def _masks_fit(config: Config) -> bool:
    """Whether masks that index an operand are as long as the axes that they choose from. Without values torch cannot
    tell."""
    if base_name(name_of(config)).removesuffix("_") not in INDEXING:
        return True
    first, *others = operands_of(config)
    axis = 0
    for place in config["arguments"][1][1]:
        given = others[place - 1] if place > 0 else None
        axes = 1
        if given is not None and given.dtype in MASKS:
            axes = len(given.shape)
            if given.shape != first.shape[axis : axis + axes]:
                return False
        axis += axes
    return True


def is_quantized(config: Config) -> bool:
    return any(operand.dtype in QUANTIZED for operand in operands_of(config))


def _elements(config: Config) -> int:
    """Of the operands, and of what is found in them."""
    return sum(o.numel + (o.found or 0) for o in operands_of(config))


def _runs(config: Config) -> bool:
    names = {**NAMESPACE, **MADE_BY}
    try:
        operands = [eval(text, names) for text in operand_sources(config)]  # of checked words and numbers
        positional, keyword = torch_arguments(config, operands)
        with torch.no_grad():
            overload(name_of(config))(*positional, **keyword)
    except Exception:  # its own check of its arguments
        return False
    return True


def is_lax(base: str) -> bool:
    """Whether an operator may trust its caller, as those of autograd do, and read past the end of what does not fit."""
    if base in SAFE_BACKWARD or base in ENDS or base in OF_SPARSE:
        return False
    return "_backward" in base or base.startswith("_") or base.startswith(("mkldnn", "embedding"))


def _key(config: Config) -> tuple[Any, ...]:
    return config["operator"], config["operands"], config["arguments"], config["output"]


def _config(key: tuple[Any, ...]) -> Config:
    return dict(zip(("operator", "operands", "arguments", "output"), key, strict=True))


def result_shapes(config: Config) -> tuple[tuple[int, ...], ...] | None:
    """Shapes of the results, found without values; None if the operator does not run."""
    return _result_shapes(_key(config))


@lru_cache(maxsize=4096)
def _result_shapes(key: tuple[Any, ...]) -> tuple[tuple[int, ...], ...] | None:
    results = results_without_values(_config(key))
    return None if results is None else tuple(tuple(r.shape) for r in results)


def results_without_values(config: Config) -> list[torch.Tensor] | None:
    """The results on the meta device; None if the operator does not run there, and packed parameters do not tell
    them."""
    first, *others = operands_of(config)
    for weight in others:
        if isinstance(weight.form, Packed):
            shape = weight.form.output(first.shape, weight.shape)
            dtype = torch.uint8 if first.dtype in QUANTIZED else torch.float32
            return None if shape is None else [torch.empty(shape, dtype=dtype, device="meta")]
    try:
        positional, keyword = torch_arguments(config, meta_operands(config))
        with torch.no_grad():
            result = overload(name_of(config))(*positional, **keyword)
    except Exception:  # arguments that do not fit each other, or no kernel without values
        return None
    given = result if isinstance(result, (list, tuple)) else [result]
    return [r for r in given if isinstance(r, torch.Tensor)]
