"""What an operator of another library computes, as its kernels and its tensors tell.

Serving libraries and plug-ins register operators of their own: flash attention, products. Such a name may be private
and is not kept. But its kernels belong to a public library, whose family says what they compute, and the tensors have
the sizes. Where both fit, the operator counts as torch's operator that does the same work. Where the sizes do not tell
the work (a key-value cache, experts), it is torch's operator of that kind, without FLOPs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from statsnet.profiling.encode import encode_value
from statsnet.recordings.arguments import Arguments, dtype_at, item, parsed, stand_in_tensor
from statsnet.recordings.described import Described

_ATTENTION = re.compile(r"attention|attn|mha|flash_(?:fwd|bwd)")
_BACKWARD = re.compile(r"backward|bwd")
_NO_MAIN_KERNEL = re.compile(r"combine|reduce|preprocess|postprocess|convert")
_PRODUCT = re.compile(r"gemm|matmul|cijk")
_GROUPED = re.compile(r"moe|group|expert")
MOST_TENSORS = 12
"""That are looked at."""


def told_by_kernels(family: str, arguments: Arguments | None) -> Described | None:
    """The operator of torch for one whose kernels are mostly of this family; None if they do not tell."""
    tensors = _tensors(arguments)
    kernel = family.split(":")[1] if ":" in family else ""
    if arguments is None or len(tensors) < 2 or _NO_MAIN_KERNEL.search(kernel):
        return None
    if _ATTENTION.search(kernel):
        backward = _BACKWARD.search(kernel) is not None
        found = _attention(tensors, _is_causal(arguments), backward=backward)
        return found or _of_kind("_flash_attention_backward" if backward else "_flash_attention_forward", tensors)
    if _PRODUCT.search(kernel):
        found = None if _GROUPED.search(kernel) else _product(tensors)
        return found or _of_kind("_grouped_mm", tensors)
    return None


def _of_kind(name: str, tensors: Sequence[torch.Tensor]) -> Described:
    """An operator of which no more is known than what it computes, and its tensors."""
    return Described(op=f"aten.{name}.default", args=[encode_value(t) for t in tensors], outputs=[], complete=False)


def _tensors(arguments: Arguments | None) -> list[torch.Tensor]:
    """The tensors among the arguments, in their order."""
    if arguments is None:
        return []
    made = [
        stand_in_tensor(sizes, dtype_at(arguments.types, i), item(arguments.strides, i))
        for i, sizes in enumerate((arguments.dims or [])[:MOST_TENSORS])
        if sizes
    ]
    return [tensor for tensor in made if tensor is not None]


def _is_causal(arguments: Arguments) -> bool | None:
    """The first flag: libraries have it after the scale. None if no flag was recorded."""
    values = (parsed(value) for value in arguments.values or () if isinstance(value, str) and value)
    return next((value for value in values if isinstance(value, bool)), None)


def _attention(tensors: Sequence[torch.Tensor], causal: bool | None, *, backward: bool) -> Described | None:
    """Flash attention: [batch, tokens, heads, width], or [tokens, heads, width] of sequences that cumulative lengths
    part. Before a backward pass's query stands the result's gradient."""
    begin = 1 if backward else 0
    parts = tensors[: begin + 3]
    if len(parts) < begin + 3 or not _is_attention(parts[begin:], parts[0] if backward else None):
        return None
    query, key, _ = parts[begin:]
    offsets = [t for t in tensors[begin + 3 :] if t.dim() == 1 and t.dtype == torch.int32 and t.numel() > 1][:2]
    packed = query.dim() == 3
    given: list[Any] = [*parts, *([tensors[4], None] if backward and len(tensors) > 4 else [None, None] * backward)]
    given += offsets if packed and len(offsets) == 2 else [None, None]
    given += [query.shape[-3], key.shape[-3], 0.0, bool(causal), False]
    name = "_flash_attention_backward" if backward else "_flash_attention_forward"
    results = parts[1:] if backward else [torch.empty_like(query)]
    return Described(
        op=f"aten.{name}.default",
        args=[encode_value(value) for value in given],
        outputs=[encode_value(value) for value in results],
        complete=causal is not None and (not packed or len(offsets) == 2),
    )


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


def _product(tensors: Sequence[torch.Tensor]) -> Described | None:
    """A matrix product. Operands come first, or after the result; weights are [columns, rows] or [rows, columns]."""
    for left, right in (tensors[:2], tensors[1:3]) if len(tensors) > 2 else (tensors[:2],):
        if right.dim() != 2 or left.dim() < 2 or not (left.is_floating_point() or left.dtype == torch.int8):
            continue
        rows = left.reshape(-1, left.shape[-1]) if left.dim() > 2 else left
        if rows.shape[1] not in right.shape:
            continue
        right = right.t() if right.shape[1] == rows.shape[1] else right
        result = torch.empty(rows.shape[0], right.shape[1], dtype=_result_dtype(left), device="meta")
        return Described(
            op="aten.mm.default", args=[encode_value(rows), encode_value(right)], outputs=[encode_value(result)],
            complete=True,
        )  # fmt: skip
    return None


def _result_dtype(operand: torch.Tensor) -> torch.dtype:
    """Products of numbers of one byte are stored in two."""
    return operand.dtype if operand.element_size() > 1 else torch.bfloat16
