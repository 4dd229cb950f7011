"""What an operator of another library computes, as its kernels and its tensors tell.

Serving libraries and plug-ins register operators of their own: flash attention, products. Such a name may be private
and is not kept. But its kernels belong to a public library, whose family says what they compute, and the tensors have
the sizes. Where both fit, the operator counts as torch's operator that does the same work. Where they leave a doubt (a
key-value cache, a window, experts, packed weights, two products), it is torch's operator of that kind, without FLOPs: a
wrong number is worse than none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch

from statsnet.profiling.encode import encode_value
from statsnet.profiling.kernel_families import kernel_family
from statsnet.recordings.arguments import Arguments, dtype_at, item, parsed, stand_in_tensor
from statsnet.recordings.described import Described

_ATTENTION = re.compile(r"attention|attn|mha|flash_(?:fwd|bwd)")
_BACKWARD = re.compile(r"backward|bwd")
_NO_MAIN_KERNEL = re.compile(r"combine|reduce|preprocess|postprocess|convert")
_PRODUCT = re.compile(r"gemm|matmul|cijk")
_GROUPED = re.compile(r"moe|group|expert")
_MULTIPLIES = re.compile(rf"{_ATTENTION.pattern}|{_PRODUCT.pattern}|mm(?:_|$)|gemv|mla|^(?:other)?$")
"""What a kernel's name says if it may do the work of a product or of attention. One without known words may."""
_ALL_PAIRS = frozenset({"flash_attn", "xformers", "cutlass", "ck", "ck_tile", "aiter"})
"""Libraries whose attention is that of torch, with tokens before heads. Others have linear or local attention too, or
heads before tokens."""
MOST_TENSORS = 12
"""So many arguments of an operator are looked at."""


def told_by_kernels(family: str, kernels: Sequence[str], arguments: Arguments | None) -> Described | None:
    """The operator of torch for one whose kernels are mostly of this family; None if they do not tell. `kernels` are
    the names of all that ran within it, also of those that other operators inside it launched."""
    found = _tensors(arguments)
    tensors = [tensor for tensor in found if tensor is not None]
    library, kernel = _library_and_kernel(family)
    if arguments is None or len(tensors) < 2 or _NO_MAIN_KERNEL.search(kernel):
        return None
    all_known = len(tensors) == len(found)
    if _ATTENTION.search(kernel):
        backward = _BACKWARD.search(kernel) is not None
        is_sure = all_known and library in _ALL_PAIRS and _is_one_call(kernels, backward=backward)
        told = _attention(tensors, _is_causal(arguments), backward=backward) if is_sure else None
        return told or _of_kind("_flash_attention_backward" if backward else "_flash_attention_forward", tensors)
    if _PRODUCT.search(kernel):
        is_sure = all_known and not _GROUPED.search(kernel) and _is_one_call(kernels, backward=False)
        return (_product(tensors) if is_sure else None) or _of_kind("_grouped_mm", tensors)
    return None


def _library_and_kernel(family: str) -> tuple[str, str]:
    """Both empty for a kernel that no public library owns."""
    library, *kernel = family.split(":")
    return (library, kernel[0]) if kernel else ("", "")


def _is_one_call(kernels: Sequence[str], *, backward: bool) -> bool:
    """Whether these are the kernels of one product or one attention: a single one that multiplies, but for attention's
    backward pass, which has several, each once."""
    main = {name: _library_and_kernel(kernel_family(name))[1] for name in kernels}
    main = {k: v for k, v in main.items() if _MULTIPLIES.search(v) and not _NO_MAIN_KERNEL.search(v)}
    runs = sum(name in main for name in kernels)
    return runs == len(main) and all(map(_BACKWARD.search, main.values())) if backward else runs == 1


def _of_kind(name: str, tensors: Sequence[torch.Tensor]) -> Described:
    """An operator of which no more is known than what it computes, and its tensors."""
    return Described(op=f"aten.{name}.default", args=[encode_value(t) for t in tensors], outputs=[], complete=False)


def _tensors(arguments: Arguments | None) -> list[torch.Tensor | None]:
    """The tensors among the arguments, in their order; None for one whose size or type is not known."""
    if arguments is None:
        return []
    return [
        stand_in_tensor(sizes, dtype_at(arguments.types, i), item(arguments.strides, i))
        for i, sizes in enumerate((arguments.dims or [])[:MOST_TENSORS])
        if sizes or (sizes is None and item(arguments.types, i))
    ]


# Attention.


def _is_causal(arguments: Arguments) -> bool | None:
    """The flag after the scale, which a window's two sides follow. None if it was not recorded, or if it does not tell
    all: where two flags stand there (the first is AITER's and vLLM's `zero_tensors`) and differ, or with a window or
    another number that selects pairs."""
    values = [parsed(value) if isinstance(value, str) else value for value in arguments.values or ()]
    first = next((i for i, value in enumerate(values) if isinstance(value, bool)), 0)
    if first == 0 or not isinstance(values[first - 1], float):
        return None
    flags = list(takewhile(lambda value: isinstance(value, bool), values[first:]))
    until_next = takewhile(lambda value: not isinstance(value, bool), values[first + len(flags) :])
    numbers = [n for value in until_next for n in (value if isinstance(value, list) else [value]) if type(n) is int]
    left, right, *others = [*numbers, -1, -1]
    causal: bool = flags[0]
    is_part = left >= 0 or right >= (1 if causal else 0) or any(n > 0 for n in others)  # causal: nothing to the right
    return None if is_part or len(set(flags)) > 1 else causal


def _attention(tensors: Sequence[torch.Tensor], causal: bool | None, *, backward: bool) -> Described | None:
    """Flash attention: [batch, tokens, heads, width], or [tokens, heads, width] of sequences that cumulative lengths
    part. Before a backward pass's query stands the result's gradient."""
    begin = 1 if backward else 0
    parts = tensors[: begin + 3]
    if len(parts) < begin + 3 or not _is_attention(parts[begin:], parts[0] if backward else None):
        return None
    query, key, _ = parts[begin:]
    queries, keys = query.shape[-3], key.shape[-3]
    # Other lengths, or a table, say which part of the keys is used. Libraries align a causal mask to the last query.
    lengths = [t for t in tensors[begin + 3 :] if t.dtype == torch.int32]
    offsets = lengths if query.dim() == 3 and _are_offsets(lengths) else []
    is_told = len(offsets) == 2 if query.dim() == 3 else not lengths
    given: list[Any] = [*parts, *([tensors[4], None] if backward and len(tensors) > 4 else [None, None] * backward)]
    given += offsets if offsets else [None, None]
    given += [queries, keys, 0.0, bool(causal), False]
    name = "_flash_attention_backward" if backward else "_flash_attention_forward"
    results = parts[1:] if backward else [torch.empty_like(query)]
    return Described(
        op=f"aten.{name}.default",
        args=[encode_value(value) for value in given],
        outputs=[encode_value(value) for value in results],
        complete=causal is not None and is_told and not (causal and queries != keys),
    )


def _are_offsets(lengths: Sequence[torch.Tensor]) -> bool:
    """Where the sequences of queries and of keys begin and end."""
    return [t.dim() for t in lengths] == [1, 1] and lengths[0].numel() == lengths[1].numel() > 1


def _is_attention(parts: Sequence[torch.Tensor], gradient: torch.Tensor | None) -> bool:
    query, key, value = parts
    return (
        query.dim() in (3, 4)
        and query.dim() == key.dim() == value.dim()
        and all(t.is_floating_point() for t in parts)
        and query.shape[-1] == key.shape[-1]
        and key.shape[:-1] == value.shape[:-1]
        and (query.dim() == 3 or query.shape[0] == key.shape[0])
        and query.shape[-2] % max(key.shape[-2], 1) == 0
        and (gradient is None or gradient.shape[:-1] == query.shape[:-1])
    )


# Products.


def _product(tensors: Sequence[torch.Tensor]) -> Described | None:
    """A matrix product. The operands come after the result, if the first three tensors fit so, else first."""
    pair = _operands(*tensors[1:3]) if len(tensors) > 2 else None
    if pair is not None and _sizes(tensors[0]) == (pair[0].shape[0], pair[1].shape[1]):
        dtype, others = tensors[0].dtype, tensors[3:]
    else:
        pair = None if _is_ambiguous(*tensors[:2]) else _operands(*tensors[:2])
        dtype, others = _result_dtype(tensors[0]), tensors[2:]
    if pair is None:
        return None
    rows, columns = pair
    result = stand_in_tensor([rows.shape[0], columns.shape[1]], dtype)
    if result is None or any(_may_be_operand(t, rows, result) for t in others):
        return None
    return Described(
        op="aten.mm.default", args=[encode_value(rows), encode_value(columns)], outputs=[encode_value(result)],
        complete=True,
    )  # fmt: skip


def _operands(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Both as matrices that can be multiplied, if they can; weights are [columns, rows] or [rows, columns]. Numbers of
    other sizes are scales, and integers of more than a byte hold several packed ones."""
    are_numbers = all(t.is_floating_point() or t.dtype == torch.int8 for t in (left, right))
    if left.dim() < 2 or right.dim() != 2 or not are_numbers or left.element_size() != right.element_size():
        return None
    rows = left.flatten(0, -2)
    depth = rows.shape[1]
    if depth == 0 or depth not in right.shape:
        return None
    return rows, right.t() if right.shape[1] == depth else right


def _is_ambiguous(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two operands, of which the result is not known, may be others than they seem: a result and its left
    operand, or activations and gradients over tokens; or weights of four bits, two in a byte."""
    count, depth = _sizes(left)
    are_alike = _sizes(right) == (count, depth) and count != depth
    return are_alike or (right.dtype == torch.int8 and 2 * right.numel() == depth**2)


def _may_be_operand(other: torch.Tensor, rows: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether this may be the weight of a second product, or a packed one: it is neither result nor bias nor scale."""
    if other.dim() < 2 or _sizes(other) in (_sizes(result), (1, result.shape[1])):
        return False
    return not other.is_floating_point() or other.element_size() == rows.element_size()


def _sizes(tensor: torch.Tensor) -> tuple[int, int]:
    """As a matrix."""
    return math.prod(tensor.shape[:-1]), tensor.shape[-1]


def _result_dtype(operand: torch.Tensor) -> torch.dtype:
    """Products of numbers of one byte are stored in two."""
    return operand.dtype if operand.element_size() > 1 else torch.bfloat16
