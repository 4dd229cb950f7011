"""Counts that data decide: how many rows were found, kept or stored. Exact ones are a fingerprint of a batch.

Told as powers of two: rows of sparse gradients, sizes that operators such as `nonzero` find in their input, and the
same sizes where later operators take what was found. Told with two digits: what sparse matrices store, how many rows
nested tensors have, and the squares of their lengths. FLOPs follow from these, and a power of two would put them wrong
by up to 41 %. A size that a parameter has, too, is a width of the model, and stays where it was not found. An
activation's width is no such evidence: similarities of what was found are as wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from statsnet.signatures.categories import base_name
from statsnet.signatures.coarse import CostOf, with_work
from statsnet.signatures.model import Cluster, Memory
from statsnet.signatures.operators import is_tensor
from statsnet.signatures.parameters import parameters_of, tensors_in
from statsnet.signatures.rounding import SMALL, binned_size, dense_strides, in_steps, rounded

FINDERS = frozenset(
    {"nonzero", "argwhere", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive",
     "unique_dim_consecutive", "bincount", "nms", "_pack_padded_sequence"}
)  # fmt: skip
FINDING_OVERLOADS = frozenset({"aten.where.default", "aten.repeat_interleave.Tensor"})
"""Operators that return as many elements as they find, or as sequences are long. So does `index` with a mask."""


def with_told_counts(clusters: Sequence[Cluster], cost_of: CostOf) -> tuple[Cluster, ...]:
    """The clusters with such counts told roughly, and with the work that follows."""
    widths = {n for c in clusters for tensor in parameters_of(c) for n in tensor["shape"]}
    spread = {n for c in clusters for n in _found(c)} - widths
    return tuple(_told(cluster, spread | _found(cluster), cost_of) for cluster in clusters)


def told_memory(memory: Memory) -> Memory:
    """Sizes of what such counts are in, with two digits: exact ones would tell the counts to whoever knows the rest."""
    names = ("buffer_bytes", "input_bytes", "activation_bytes", "peak_bytes")
    sizes = {name: value for name in names if (value := getattr(memory, name)) is not None}
    return replace(memory, **{name: int(rounded(value)) for name, value in sizes.items()})


def has_exact_count(cluster: Cluster) -> bool:
    """Whether a count that data decided is told exactly."""
    tensors = list(tensors_in((*cluster.args, *cluster.outputs)))
    exact = any(n != in_steps(n, 2) for n in _found(cluster))
    matrices = (t.get("sparse", 0) for t in tensors if "elements" in t)
    gradients = (t.get("sparse", 0) for t in tensors if "elements" not in t)
    stored = (*matrices, *(tensor.get("squares", 0) for tensor in tensors))
    return exact or any(n != in_steps(n, 2) for n in gradients) or not all(map(_is_rough, stored))


def _in_digits(count: int) -> int:
    """With two digits; below 100, where these would tell all, the nearest power of two."""
    return in_steps(count, 2) if count < 100 else int(rounded(count))


def _is_rough(count: int) -> bool:
    """Whether a count that decides FLOPs is told at one of the levels."""
    return count in (_in_digits(count), in_steps(count, 2), binned_size(count))


def _told(cluster: Cluster, sizes: Set[int], cost_of: CostOf) -> Cluster:
    args, outputs = (tuple(_told_argument(a, sizes) for a in values) for values in (cluster.args, cluster.outputs))
    if (args, outputs) == (cluster.args, cluster.outputs):
        return cluster
    return with_work(replace(cluster, args=args, outputs=outputs), cost_of)


def _told_argument(arg: Any, sizes: Set[int]) -> Any:
    if is_tensor(arg):
        return _told_tensor(arg, sizes)
    if isinstance(arg, dict) and "tensors" in arg:
        return {"tensors": [None if entry is None else _told_tensor(entry, sizes) for entry in arg["tensors"]]}
    if isinstance(arg, list):
        return [_told_argument(a, sizes) for a in arg]
    return in_steps(arg, 2) if isinstance(arg, int) and not isinstance(arg, bool) and arg in sizes else arg


def _told_tensor(tensor: dict[str, Any], sizes: Set[int]) -> dict[str, Any]:
    shape = [in_steps(n, 2) if n in sizes else n for n in tensor["shape"]]
    out = tensor | {"shape": shape}
    if "strides" in tensor and shape != tensor["shape"]:
        out["strides"] = dense_strides(shape, tensor["strides"])
    if tensor.get("high") in sizes:  # indices of what was found
        out["high"] = in_steps(tensor["high"], 2)
    if "squares" in tensor:
        wide = math.prod(tensor["shape"][2:]) or 1
        return out | {
            "elements": _in_digits(tensor.get("elements", 0) // wide) * wide,
            "squares": _in_digits(tensor["squares"]),
        }
    return out | _stored(tensor) if "sparse" in tensor else out


def _entries(tensor: dict[str, Any]) -> int:
    """Of a sparse tensor, as they are told: those of a matrix decide its FLOPs."""
    entries = tensor.get("sparse", 0)
    return _in_digits(entries) if "elements" in tensor else in_steps(entries, 2)


def _stored(tensor: dict[str, Any]) -> dict[str, int]:
    """What a sparse tensor stores: elements and bytes of indices as that many entries have."""
    entries = tensor["sparse"]
    told = {"sparse": _entries(tensor)}
    if "elements" in tensor:
        told["elements"] = told["sparse"] * (tensor["elements"] // entries if entries else 1)
    if "index_bytes" in tensor:
        told["index_bytes"] = _index_bytes(tensor, told["sparse"])
    return told


def _index_bytes(tensor: dict[str, Any], told: int) -> int:
    """Of coordinates (so many for each entry), or of compressed rows (one entry each, and where each row or row of
    blocks begins); a power of two where they are neither."""
    entries, given, shape = tensor["sparse"], tensor["index_bytes"], tensor["shape"]
    if entries and given % (8 * entries) == 0 and given // (8 * entries) >= len(shape):
        return int(given // entries * told)
    for size in (8, 4):
        begins = given // size - entries - 1
        if given % size == 0 and begins > 0 and any(n % begins == 0 for n in shape if n):
            return size * (told + int(begins) + 1)
    return in_steps(given, 2)


def _found(cluster: Cluster) -> set[int]:
    """Sizes of results that are no size of what was read."""
    base = base_name(cluster.op)
    masked = base.rstrip("_") == "index" and any(t["dtype"] in ("bool", "uint8") for t in tensors_in(cluster.args[1:]))
    if not (base in FINDERS or cluster.op in FINDING_OVERLOADS or masked):
        return set()
    read = {n for tensor in tensors_in(cluster.args) for n in tensor["shape"]}
    return {n for tensor in tensors_in(cluster.outputs) for n in tensor["shape"] if n > SMALL} - read
