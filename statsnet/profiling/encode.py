"""Encodes torch values as the plain data of `signatures.operators`: metadata only, never a tensor's values."""

from __future__ import annotations

import math
from typing import Any

import torch

from statsnet.signatures.operators import SAFE_STRINGS


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype, and strides if the tensor is not contiguous."""
    out: dict[str, Any] = {"shape": [int(n) for n in tensor.shape], "dtype": dtype_name(tensor.dtype)}
    if tensor.layout == torch.strided and not tensor.is_contiguous():
        out["strides"] = [int(s) for s in tensor.stride()]
    elif tensor.layout == torch.sparse_coo:
        out["sparse"] = int(tensor._nnz())
    return out


def encode_value(value: Any) -> Any:
    """One argument or result. Anything but a tensor or a plain scalar becomes null."""
    if isinstance(value, torch.Tensor):
        return encode_tensor(value)
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, torch.Tensor) for v in value):
            return {"tensors": [encode_value(v) for v in value]}
        return [encode_value(v) for v in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, torch.SymInt)):
        return int(value)
    if isinstance(value, (float, torch.SymFloat)):
        number = float(value)
        return number if abs(number) < 1e300 else None  # inf and nan are not JSON
    if isinstance(value, str):
        return value if value in SAFE_STRINGS else None
    return None  # dtype, device, layout, generator: implied by the outputs


NORMS = frozenset({
    "norm", "native_norm", "linalg_vector_norm", "linalg_norm", "linalg_cond", "_foreach_norm", "renorm", "dist",
    "cdist", "_cdist_forward", "_cdist_backward", "_pdist_forward", "_pdist_backward",
})  # fmt: skip
"""Operators for which an infinite order is a maximum or a minimum, in a kernel of its own."""


def encode_arguments(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments in the order of the operator's schema, with defaults filled in."""
    rest = func._schema.arguments[len(args) :]
    values = [*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest)]
    if func._schema.name.partition("::")[2].rstrip("_") in NORMS:
        values = [str(v) if isinstance(v, float) and math.isinf(v) else v for v in values]
    return [encode_value(v) for v in values]


def encode_outputs(result: Any) -> list[Any]:
    """Outputs as a flat list; anything but a tensor is null."""
    if isinstance(result, torch.Tensor):
        return [encode_tensor(result)]
    if isinstance(result, (list, tuple)):
        flat: list[Any] = []
        for item in result:
            flat.extend(encode_outputs(item))
        return flat
    return [None]
