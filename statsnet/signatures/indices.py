"""The indices that an operator takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from statsnet.signatures.operators import is_tensor


def bound_of(op: str, args: Sequence[Any]) -> int:
    """Integers in an operator's encoded arguments stay below this: the table's rows, the indexed axis's length, the
    classes."""
    base = op.split(".")[1].removesuffix("_")
    shape = args[0]["shape"] if args and is_tensor(args[0]) else [1]
    if base in ("embedding", "_embedding_bag", "_embedding_bag_forward_only"):
        return int(shape[0])
    if base in ("embedding_dense_backward", "_embedding_bag_backward"):
        return int(next((a for a in args[2:] if isinstance(a, int) and not isinstance(a, bool)), 2))
    if base in ("index_select", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add"):
        return int(shape[int(args[1]) % len(shape)]) if shape else 1
    if base.startswith(("index", "_index", "_unsafe_index")):
        return int(min(shape)) if shape else 1
    if base.startswith("nll_loss"):
        scores = args[1]["shape"] if "backward" in base else shape
        return int(scores[min(1, len(scores) - 1)])
    if base == "_embedding_bag_per_sample_weights_backward":
        return int(args[1]["shape"][0])
    if "max_pool" in base and base.endswith("_backward"):
        return int(math.prod(args[1]["shape"][2:]))
    if base in ("take", "put"):
        return int(math.prod(shape))
    return 2
