"""Encodes torch values as the plain data of `signatures.operators`: metadata only, never a tensor's values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from statsnet.signatures.collectives import encoded_group, is_collective
from statsnet.signatures.operators import SAFE_STRINGS
from statsnet.workloads.dtypes import dtype_name
from statsnet.workloads.trees import lengths_of, packed_tensors, parts_of


def encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype, strides if the tensor is not contiguous, and what a sparse or nested one stores."""
    if tensor.is_nested:
        return _encode_nested(tensor)
    out: dict[str, Any] = {"shape": [int(n) for n in tensor.shape], "dtype": dtype_name(tensor.dtype)}
    if tensor.layout == torch.strided:
        if not tensor.is_contiguous():
            out["strides"] = [int(s) for s in tensor.stride()]
        return out
    if tensor.layout == torch.sparse_coo and tensor.sparse_dim() == 1:  # a gradient: rows of a table
        return out | {"sparse": int(tensor._nnz())}
    if tensor.layout in _SPARSE:
        *indices, values = parts_of(tensor)
        index_bytes = sum(index.numel() * index.element_size() for index in indices)
        return out | {"sparse": int(tensor._nnz()), "elements": int(values.numel()), "index_bytes": index_bytes}
    return out


_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def _encode_nested(tensor: torch.Tensor) -> dict[str, Any]:
    """The shape of its longest rows, how many numbers it stores, and the sum of the squares of its rows' lengths."""
    dtype = dtype_name(tensor.dtype)
    if tensor.layout == torch.jagged:
        lengths = lengths_of(tensor)
        ragged = next((d for d, n in enumerate(tensor.shape) if d and not _is_number(n)), 1)
        shape = [max(lengths, default=0) if d == ragged else int(n) for d, n in enumerate(tensor.shape)]
        elements = int(tensor.values().numel())
    else:
        sizes = tensor._nested_tensor_size()
        ragged_columns = [d for d in range(sizes.shape[1]) if sizes[:, d].unique().numel() > 1] or [0]
        lengths = tuple(sizes[:, ragged_columns[0]].tolist())
        shape = [len(sizes), *sizes.max(0).values.tolist()]
        elements = int(sizes.prod(1).sum())
    return {"shape": shape, "dtype": dtype, "elements": elements, "squares": sum(n * n for n in lengths)}


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or not size.node.is_nested_int()


def _packed(value: Any) -> list[torch.Tensor | None] | None:
    """The weights inside a packed parameter of a quantised layer; None for any other object."""
    if not isinstance(value, torch.ScriptObject):
        return None
    found = packed_tensors(value)
    return list(found) if found else None


def encode_value(value: Any) -> Any:
    """One argument or result. Anything but a tensor or a plain scalar becomes null."""
    if isinstance(value, torch.Tensor):
        return encode_tensor(value)
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor) for v in value):
            value = [tensor for tensors in value for tensor in tensors]  # lists of lists, as collectives have them
        if any(isinstance(v, torch.Tensor) for v in value):
            return {"tensors": [encode_value(v) for v in value]}
        return [encode_value(v) for v in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, torch.SymInt)):
        return int(value) if _is_number(value) else None
    if isinstance(value, (float, torch.SymFloat)):
        number = float(value)
        return number if abs(number) < 1e300 else None  # inf and nan are not JSON
    if isinstance(value, str):
        return value if value in SAFE_STRINGS else None
    if (weights := _packed(value)) is not None:
        return {"tensors": [encode_value(weight) for weight in weights]}
    return None  # dtype, device, layout, generator: implied by the outputs


NORMS = frozenset({
    "norm", "native_norm", "linalg_vector_norm", "linalg_norm", "linalg_cond", "_foreach_norm", "renorm", "dist",
    "cdist", "_cdist_forward", "_cdist_backward", "_pdist_forward", "_pdist_backward",
})  # fmt: skip
"""Operators for which an infinite order is a maximum or a minimum, in a kernel of its own."""


def encode_arguments(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments in the order of the operator's schema, with defaults filled in."""
    rest = func._schema.arguments[len(args) :]
    return encode_values(func, [*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest)])


def encode_values(func: torch._ops.OpOverload, values: Sequence[Any]) -> list[Any]:
    """Arguments that are already in the order of the operator's schema."""
    if is_collective(str(func)):
        return _encode_collective(func, values)
    if func._schema.name.partition("::")[2].rstrip("_") in NORMS:
        values = [str(v) if isinstance(v, float) and math.isinf(v) else v for v in values]
    return [encode_value(v) for v in values]


def _encode_collective(func: torch._ops.OpOverload, values: Sequence[Any]) -> list[Any]:
    """A group is encoded by its number of processes and where these are (`encoded_group`). How long to wait for them is
    no part of the work."""
    names = [argument.name for argument in func._schema.arguments]
    return [
        _encoded_group(value) if name in GROUPS else None if name == "timeout" else encode_value(value)
        for name, value in zip(names, values, strict=False)
    ]


GROUPS = frozenset({"process_group", "group_name", "group"})
"""What the schemas of collectives call the group."""


def _encoded_group(group: Any) -> int | list[int] | None:
    import torch.distributed as dist

    c10d: Any = dist.distributed_c10d
    if isinstance(group, str):
        try:
            group = c10d._resolve_process_group(group)
        except (RuntimeError, ValueError):  # of a recording: none of this process has that name
            return None
    if isinstance(group, torch.ScriptObject):
        group = dist.ProcessGroup.unbox(group)
    if not hasattr(group, "size"):
        return encode_value(group) if isinstance(group, (int, list)) else None  # as an export writes it
    known: dict[int, int] = c10d._world.pg_group_ranks.get(group, {})
    return encoded_group(list(known) or range(group.size()), dist.get_world_size() if known else group.size())


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
