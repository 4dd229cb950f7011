"""The indices that an operator takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from statsnet.signatures.operators import is_tensor
from statsnet.signatures.tensor_lists import each_in_list

_ALONG_AN_AXIS = frozenset({
    "index_select", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill",
})  # fmt: skip


def bound_of(op: str, args: Sequence[Any]) -> int:
    """Integers in an operator's encoded arguments stay below this: the table's rows, the indexed axis's length, the
    classes."""
    base = op.split(".")[1].removesuffix("_")
    shape = args[0]["shape"] if args and is_tensor(args[0]) else [1]
    if base in ("embedding", "_embedding_bag", "_embedding_bag_forward_only"):
        return int(shape[0])
    if base in ("embedding_dense_backward", "_embedding_bag_backward"):
        return int(next((a for a in args[2:] if isinstance(a, int) and not isinstance(a, bool)), 2))
    if base in _ALONG_AN_AXIS:
        return int(shape[int(args[1]) % len(shape)]) if shape else 1
    if base.startswith(("index", "_index", "_unsafe_index")):
        return min(_indexed(shape, args[1]), default=1)
    if base.startswith("nll_loss"):
        scores = args[1]["shape"] if "backward" in base else shape
        return int(scores[min(1, len(scores) - 1)])
    if base == "_embedding_bag_per_sample_weights_backward":
        return int(args[1]["shape"][0])
    if "max_pool" in base and base.endswith("_backward"):
        return int(math.prod(args[1]["shape"][2:]))
    if base == "_ctc_loss":
        return int(shape[-1])
    if base in ("take", "put"):
        return int(math.prod(shape))
    return 2


def _indexed(shape: Sequence[int], indices: Any) -> list[int]:
    """Lengths of the axes that a list of indices goes along: the places where it has one. A mask may take several."""
    entries = list(islice(each_in_list(indices["tensors"]), len(shape))) if isinstance(indices, dict) else []
    given = [(n, entry["dtype"]) for n, entry in zip(shape, entries, strict=False) if entry is not None]
    is_mask = any(dtype in ("bool", "uint8") for _, dtype in given)
    return [n for n, _ in given] if given and not is_mask else list(shape)
