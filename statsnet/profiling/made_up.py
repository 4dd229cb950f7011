"""Arguments for an operator from its signature alone: tensors of its shapes and layouts, with made-up values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import torch

from statsnet.profiling.coarse_scalars import BATCH_SIZES
from statsnet.signatures.categories import base_name
from statsnet.signatures.found import Found, finds_by_values, found_of
from statsnet.signatures.indices import bound_of
from statsnet.signatures.model import Cluster
from statsnet.signatures.nested import lengths_of
from statsnet.signatures.operators import INFINITE, is_tensor, tensors_of, without_overflow
from statsnet.signatures.partitions import parts_of
from statsnet.signatures.quantized import QUANTIZED, cells_of, is_packed, packed_of
from statsnet.signatures.sparse import stored_of
from statsnet.signatures.strides import span
from statsnet.signatures.tensor_lists import each_in_list
from statsnet.workloads.found_values import FOUND_BY
from statsnet.workloads.nested_values import nested
from statsnet.workloads.packed_values import packed_parameters, quantized
from statsnet.workloads.sparse_values import sparse_maker
from statsnet.workloads.torch_operators import overload

PACKED = "aten._pack_padded_sequence.default"
OF_CHANCES = frozenset({"multinomial", "bernoulli", "binomial", "poisson", "_standard_gamma", "_sample_dirichlet"})
"""Operators that draw by their operands, which are no negative numbers."""


def arguments(cluster: Cluster, device: str) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments with made-up values: normal floats, indices within bounds."""
    schema = overload(cluster.op)._schema.arguments
    high = bound_of(cluster.op, cluster.args)
    given = {argument.name: encoded for argument, encoded in zip(schema, cluster.args, strict=False)}
    found = found_of(cluster.op, given, cluster.outputs) if finds_by_values(cluster.op, given) else None
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for argument, encoded in zip(schema, cluster.args, strict=False):
        kind = str(argument.real_type)
        packed = is_packed(kind.removesuffix("]"))
        value = _packed(kind, encoded, cluster) if packed else _value(encoded, high, argument.name, device)
        if value is None and _is_dtype_of_result(argument.name, cluster):
            value = getattr(torch, cluster.outputs[0]["dtype"])
        if value is None and argument.default_value is None and str(argument.type) in ("number", "float"):
            value = -math.inf  # infinities (masks) are not JSON
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            value = _divided(value, argument.name, cluster)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and base_name(cluster.op) in OF_CHANCES:
            value = value.abs().clamp(max=1.0)
        if found is not None and argument.name == found.argument:
            value = _finding(value, found)
        if argument.name == "offset2bag" and value is not None:
            value = _bags_of_indices(value, cluster)
        if cluster.op == PACKED and argument.name == "lengths":
            value = _packed_lengths(value, cluster)
        if argument.name == BATCH_SIZES and encoded is None:
            value = _batch_sizes(given)
        if argument.name == "target_lengths" and isinstance(value, list) and len(given["targets"]["shape"]) == 1:
            value = _even(given["targets"]["shape"][0], len(value))
        if argument.name == "device" and value is None:
            value = torch.device(device)
        if argument.kwarg_only:
            keyword[argument.name] = value if value is not None else argument.default_value
        else:
            positional.append(value if value is not None else argument.default_value)
    if any(argument.name == "device" and argument.kwarg_only for argument in schema[len(cluster.args) :]):
        keyword["device"] = torch.device(device)
    return positional, keyword


def _value(encoded: Any, high: int, name: str, device: str) -> Any:
    if is_tensor(encoded):
        return _tensor(encoded, high, name, device)
    if isinstance(encoded, dict):
        return [None if e is None else _tensor(e, high, name, device) for e in each_in_list(encoded["tensors"])]
    return float(encoded) if encoded in INFINITE else without_overflow(encoded)


def _is_dtype_of_result(name: str, cluster: Cluster) -> bool:
    """A quantised recurrent layer's is that of its weights."""
    told = bool(cluster.outputs and cluster.outputs[0])
    return told and name.endswith("dtype") and not base_name(cluster.op).startswith("quantized_")


def _packed(kind: str, encoded: Any, cluster: Cluster) -> Any:
    """The parameters of a quantised layer; of a recurrent one, a list of them."""
    if kind.startswith("List["):
        place = 2 if cluster.op.endswith(".data") else 1
        states = tensors_of(cluster.args[place : place + 1])
        cells = cells_of(encoded, states[0].shape[-1]) if states else None
        if cells is None:
            raise NotImplementedError("packed parameters of this kind are not made up")
        return [packed_parameters(*cell) for cell in cells]
    found = packed_of(kind, encoded, cluster.args[0]["shape"], cluster.outputs[0]["shape"])
    if found is None:
        raise NotImplementedError("packed parameters of this kind are not made up")
    return packed_parameters(*found)


def _divided(given: torch.Tensor, name: str, cluster: Cluster) -> torch.Tensor:
    """Numbers that divide rows into equal parts, if the argument of this name does so."""
    names = [a.name for a in overload(cluster.op)._schema.arguments]
    shapes = {n: a["shape"] for n, a in zip(names, cluster.args, strict=False) if is_tensor(a)}
    parts = parts_of(cluster.op, name, given.numel(), shapes)
    if parts is None:
        return given
    return (torch.arange(given.numel(), device=given.device) * parts[1] + parts[0]).to(given.dtype).view(given.shape)


def _finding(given: Any, found: Found) -> Any:
    """A tensor, or the masks of a list of indices, with values for which an operator finds as much."""
    if isinstance(given, list):
        return [_finding(each, found) if each is not None and each.dtype in (torch.bool, torch.uint8) else each
                for each in given]  # fmt: skip
    if given.device.type == "meta":
        return given
    made = FOUND_BY[found.how](found.count, *given.shape, dtype=given.dtype).to(given.device)
    return made if given.is_contiguous() or 0 in given.stride() else given.copy_(made)


def _packed_lengths(lengths: torch.Tensor, cluster: Cluster) -> torch.Tensor:
    """Lengths of sequences that are as long as the packed rows together, the longest first, as torch wants them. None
    is longer than the axis that it is cut from: how many rows there are may be told roughly."""
    rows, sequences = int(cluster.outputs[0]["shape"][0]), lengths.numel()
    even = rows // sequences + (torch.arange(sequences) < rows % sequences)
    longest = cluster.args[0]["shape"][1 if True in cluster.args[2:] else 0]
    return even.clamp(1, longest).to(lengths.dtype)


def _batch_sizes(given: Mapping[str, Any]) -> list[int]:
    """How many packed sequences are how long: all alike, and some one step longer. Their rows are the input, and their
    number is in the state."""
    rows, sequences = given["input"]["shape"][0], given["hx"]["shape"][-2]
    whole, rest = divmod(rows, max(1, sequences))
    return [sequences] * whole + [rest] * (rest > 0)


def _even(total: int, parts: int) -> list[int]:
    """So many whole numbers that differ by at most one, with this sum."""
    return [total // parts + (i < total % parts) for i in range(parts)]


def _bags_of_indices(places: torch.Tensor, cluster: Cluster) -> torch.Tensor:
    """The bag of each index. The bags are the rows of the first argument, the gradient."""
    bags, indices = int(cluster.args[0]["shape"][0]), max(1, places.numel())
    return (torch.arange(places.numel(), device=places.device) * bags // indices).to(places.dtype)


def _tensor(spec: dict[str, Any], high: int, name: str, device: str) -> torch.Tensor:
    dtype = getattr(torch, spec["dtype"])
    if spec.get("squares") is not None:
        with torch.device(device):  # of a jagged one, the tensors inside are captured
            return nested(lengths_of(spec), *spec["shape"][2:], dtype=dtype)
    if spec.get("elements") is not None:
        return _sparse_matrix(spec, name, dtype, device)
    if spec.get("sparse") is not None:
        return _sparse_rows(spec, dtype, device)
    if spec["dtype"] in QUANTIZED:
        return _quantized(spec, dtype, device)
    shape, strides = spec["shape"], spec.get("strides")
    if strides is None:
        out = torch.empty(shape, dtype=dtype, device=device)
    else:
        out = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    stored = out if strides is None or 0 not in strides else out.as_strided(
        [1 if s == 0 else n for n, s in zip(shape, strides, strict=True)], strides
    )  # fmt: skip
    if dtype.is_floating_point or dtype.is_complex:
        stored.copy_(torch.randn(stored.shape, device=device)) if dtype.itemsize == 1 else stored.normal_()
    elif dtype in (torch.uint8, torch.bool):
        stored.zero_()
    else:
        stored.random_(0, max(1, high))
    return out


def _quantized(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    shape, strides = spec["shape"], spec.get("strides")
    if strides is None:
        return quantized(torch.randn(shape, device=device), dtype)
    return quantized(torch.randn(span(shape, strides), device=device), dtype).as_strided(shape, strides)


def _sparse_rows(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A gradient of an embedding: some rows of a table."""
    rows, *rest = spec["shape"]
    indices = torch.randint(0, max(1, rows), (1, spec["sparse"]), device=device)
    values = torch.randn(spec["sparse"], *rest, dtype=dtype, device=device)
    return torch.sparse_coo_tensor(indices, values, spec["shape"], check_invariants=False)


def _sparse_matrix(spec: dict[str, Any], name: str, dtype: torch.dtype, device: str) -> torch.Tensor:
    """A matrix that stores as much, in the same form."""
    stored = stored_of(spec, name)
    if stored is None:
        raise NotImplementedError("sparse tensors of this form are not made up")
    with torch.device(device):
        return sparse_maker(name)(*astuple(stored), *spec["shape"], dtype=dtype)
