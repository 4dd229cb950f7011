"""Which of an operator's arguments are parameters of a model for certain, by their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor

PARAMETERS = {
    "linear": (1, 2), "mkldnn_linear": (1, 2), "addmm": (0, 2), "_addmm_activation": (0, 2),
    "native_batch_norm": (1, 2, 3, 4), "_native_batch_norm_legit_no_training": (1, 2, 3, 4),
    "cudnn_batch_norm": (1, 2, 3, 4), "native_layer_norm": (2, 3), "native_group_norm": (1, 2), "rms_norm": (2,),
    "_fused_rms_norm": (2,), "mkldnn_rnn_layer": (1, 2, 3, 4), "lstm_cell": (2, 3, 4, 5), "gru_cell": (2, 3, 4, 5),
}  # fmt: skip
"""Their places among the arguments. A matrix product's right side is none: it may be another activation."""

LOOK_UPS = frozenset({"embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"})
"""They read rows of their first argument, a table."""

CONVOLUTION = (1, 2)
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn"})
"""Their parameters stand in a list, and have at most two axes; states have three."""


def parameters_of(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The encoded parameters that an operator of the forward pass reads, and all that an optimizer does."""
    name = base_name(cluster.op).rstrip("_")
    if cluster.phase == "optimizer":
        yield from tensors_in(cluster.args)
    elif cluster.phase == "forward" and "backward" not in name:
        if name in RECURRENT:
            lists = (arg for arg in cluster.args if not is_tensor(arg))
            yield from (t for t in tensors_in(lists) if len(t["shape"]) <= 2)
        else:
            yield from tensors_in(arg for i, arg in enumerate(cluster.args) if i in _places(name, cluster.category))


def tensors_in(arguments: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Encoded tensors among arguments, and in their lists."""
    for arg in arguments:
        if is_tensor(arg):
            yield arg
        elif isinstance(arg, dict) and "tensors" in arg:
            yield from (entry for entry in arg["tensors"] if entry is not None)


def _places(name: str, category: str) -> tuple[int, ...]:
    if name in LOOK_UPS:
        return (0,)
    return PARAMETERS.get(name, CONVOLUTION if category == "convolution" else ())
