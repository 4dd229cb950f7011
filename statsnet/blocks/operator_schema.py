"""Which operators may be a block by themselves: pure computation on tensors, by schema and name."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from statsnet.signatures.categories import base_name, categorize, is_metadata
from statsnet.signatures.found import FINDING
from statsnet.signatures.quantized import is_packed
from statsnet.workloads.torch_operators import find_overload

ARGUMENTS = frozenset({
    "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "int", "int?", "int[]", "int[]?", "number", "number?", "number[]",
    "float", "float?", "float[]?", "bool", "bool?", "bool[]", "str", "str?",
    "ScalarType", "ScalarType?", "Layout?", "Device?", "MemoryFormat?",
})  # fmt: skip
"""Types of arguments that an operator may take, as in ATen's schemas."""

REFUSED_TAGS = (
    torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape,
    torch.Tag.inplace_view,
)  # fmt: skip
"""Random numbers, and results whose shape or number depends on values: of FINDING, the shapes tell what values these
are (signatures/found.py)."""

SAMPLING = frozenset({"bernoulli", "_scaled_dot_product_flash_attention_for_cpu"})
"""Operators with random numbers that change no shape: a dropout's mask; attention, which drops nothing on a CPU."""

BY_NUMBERS = frozenset({"_ctc_loss.default"})
"""Shapes of their results depend on values, but those stand in lists of numbers."""

BEYOND = (
    "_fft_",
    "linalg_",
    "_linalg_",
    "special_",
    "lu_",
    "triangular_solve",
    "igamma",
    "frexp",
    "rad2deg",
    "deg2rad",
)
"""How pure operators begin that have no category of their own."""

REFUSED = frozenset({
    "_local_scalar_dense", "_pin_memory", "sparse_mask", "_coalesce", "coalesce", "to_mkldnn", "_to_sparse",
    "_to_sparse_csr", "_to_dense", "from_file", "set", "resize", "linalg_cholesky_ex",
    "lu_unpack", "linalg_lu_solve", "linalg_ldl_solve", "segment_reduce",
})  # fmt: skip
"""Known operators that leave dense tensors or their memory, or need a matrix of a special kind."""

IN_PLACE = frozenset({
    "copy", "fill", "zero", "masked_fill", "masked_scatter", "relu", "clamp", "clamp_min", "clamp_max", "hardtanh",
    "threshold", "index_put", "_index_put_impl", "index_copy", "index_fill", "scatter", "add", "sub", "scatter_add",
    "index_add", "tril", "triu", "abs", "round", "floor", "ceil", "sign", "bernoulli",
})  # fmt: skip
"""Operators that may be run in place on one tensor again and again: its values stay of sane size. Others write a new
tensor."""


@cache
def runnable(op: str) -> str | None:
    """The operator that is run for a captured one: itself, or without its change in place where values would grow or
    vanish. None if it is not one of pure computation."""
    function = find_overload(op)
    if function is None or is_metadata(op) or not _is_known(op):
        return None
    if function._schema.is_mutable:
        stem = base_name(op).removesuffix("_")
        if stem not in IN_PLACE or base_name(op) == stem:
            return _without_change(op)
    return op if _is_pure(function) else None


def _without_change(op: str) -> str | None:
    """The overload that returns a new tensor: `aten.mul_.Tensor` -> `aten.mul.Tensor`, `aten.pow_.Scalar` ->
    `aten.pow.Tensor_Scalar`, `aten.cumsum.out` -> `aten.cumsum.default`."""
    library, name, variant = op.split(".")
    if name.endswith("__"):
        return None
    changing = find_overload(op)
    assert changing is not None
    stem = name.removesuffix("_")
    others = [variant, *getattr(getattr(torch.ops, library), stem).overloads()]
    for other in others:
        function = find_overload(f"{library}.{stem}.{other}")
        if function is None or function._schema.is_mutable or not _is_pure(function):
            continue
        if _signature(function) == _signature(changing):
            return f"{library}.{stem}.{other}"
    return None


def _signature(function: Any) -> list[tuple[str, str]]:
    """Names and types of what it reads, without tensors that it is only handed to write to."""
    return [(a.name, type_of(a)) for a in function._schema.arguments if not a.is_out]


def _is_known(op: str) -> bool:
    """Whether it is in the vocabulary of categories, as a computation on tensors: of ATen, or on quantised ones."""
    stem = base_name(op).removesuffix("_")
    is_list = base_name(op).startswith("_foreach_")
    known = stem.startswith(BEYOND) or categorize(op, "forward") not in ("other", "optimizer")
    pure = not is_list and stem not in REFUSED and not op.startswith("quantized.conv_transpose")
    return op.startswith(("aten.", "quantized.")) and pure and known


def _is_pure(function: Any) -> bool:
    name = function._schema.name.partition("::")[2].removesuffix("_")
    refused = [tag for tag in REFUSED_TAGS if tag in function.tags]
    told = name in FINDING or f"{name}.{function._overloadname}" in BY_NUMBERS
    samples = name in SAMPLING and refused == [torch.Tag.nondeterministic_seeded]
    if refused and not samples and not (told and refused == [torch.Tag.dynamic_output_shape]):
        return False
    types = [type_of(a) for a in function._schema.arguments if a.name != "generator"]
    if any(kind not in ARGUMENTS and not is_packed(kind) for kind in types):
        return False
    written = [a for a in function._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    viewed = any(r.alias_info is not None and not r.alias_info.is_write for r in function._schema.returns)
    changes_first = not written or (len(written) == 1 and written[0] is function._schema.arguments[0])
    returns_tensor = any(str(r.type) in ("Tensor", "List[Tensor]") for r in function._schema.returns)
    return changes_first and returns_tensor and not viewed


def type_of(argument: Any) -> str:
    """An argument's type as a schema writes it: `Tensor?[]`, `ScalarType?`, `int[]`."""
    text, suffix = str(argument.real_type), ""
    while text.startswith(("Optional[", "List[")):
        suffix = ("?" if text.startswith("Optional[") else "[]") + suffix
        text = text[text.index("[") + 1 : -1]
    return text + suffix
