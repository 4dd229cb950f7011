"""Which of the bytes that an operator reads are weights, and which are inputs.

A simulator keeps the two in memories of their own. The weight of a product is its right side, whether a layer's
parameter or, as in attention, another activation: that is what SCALE-Sim and ZigZag mean by a filter or weight operand.
"""

from __future__ import annotations

from statsnet.profiling.costs.call import OperatorCall
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.parameters import CONVOLUTION, PARAMETERS

_WEIGHTS = {
    "mm": (1,), "bmm": (1,), "mv": (1,), "matmul": (1,), "_int_mm": (1,), "_scaled_mm": (1,), "_scaled_mm_v2": (1,),
    "baddbmm": (0, 2), "addmv": (0, 2), "addbmm": (0, 2), "_sparse_addmm": (0, 2), "_sparse_mm": (1,),
    "_grouped_mm": (1,), "convolution_backward": (2,), **PARAMETERS,
}  # fmt: skip
"""Places of weights, and of parameters added to products, among an operator's arguments."""

_WITH_LISTS = {"lstm": 2, "gru": 2, "rnn_tanh": 2, "rnn_relu": 2, "_cudnn_rnn": 1}


def operand_bytes(cluster: Cluster) -> tuple[float | None, float | None]:
    """Bytes that one call reads of inputs and of weights; (None, None) where they are not known."""
    if cluster.bytes_read is None:
        return None, None
    weights = min(_weight_bytes(cluster), cluster.bytes_read)
    return cluster.bytes_read - weights, weights


def _weight_bytes(cluster: Cluster) -> float:
    call, name = OperatorCall.decode(cluster.op, cluster.args, cluster.outputs), base_name(cluster.op).rstrip("_")
    if "embedding" in name and "backward" not in name:  # the rows that are read, not the table
        tensors = [t.nbytes for t in call.inputs[1:]]
        return max(0.0, (cluster.bytes_read or 0.0) - sum(tensors))
    if "attention" in name and "backward" not in name:
        return float(sum(t.nbytes for t in call.inputs[1:3]))
    if name in _WITH_LISTS:
        return float(sum(t.nbytes for t in call.inputs[2:] if len(t.shape) <= 2))
    places = _WEIGHTS.get(name)
    if places is None:
        places = CONVOLUTION if cluster.category == "convolution" and "backward" not in name else ()
    return float(sum(t.nbytes for i in places if (t := call.maybe_tensor(i)) is not None))
