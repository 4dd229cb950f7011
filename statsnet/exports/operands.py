"""Which of the bytes that an operator reads are weights, and which are inputs.

A simulator keeps the two in memories of their own. The weight of a product is its right side, whether a layer's
parameter or, as in attention, another activation: that is what SCALE-Sim and ZigZag mean by a filter or weight operand.
"""

from __future__ import annotations

from statsnet.exports.lowering import QUANTISED_LINEAR
from statsnet.exports.manifest import Layer
from statsnet.profiling.costs.call import Argument, OperatorCall
from statsnet.profiling.costs.quantized import packed_weights
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import ITEM_SIZE, TensorSpec, tensors_of
from statsnet.signatures.parameters import CONVOLUTION, PARAMETERS

_WEIGHTS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "matmul", "_int_mm", "_scaled_mm", "_scaled_mm_v2", "_sparse_mm",
                     "_sparse_mm_reduce_impl", "_sparse_sparse_matmul", "_grouped_mm", "_scaled_grouped_mm",
                     "_linear_cross_entropy_batch_chunked", "_linear_cross_entropy_batch_chunked_no_reduction",
                     *QUANTISED_LINEAR), (1,)),
    **dict.fromkeys(("baddbmm", "addmv", "addbmm", "_sparse_addmm"), (0, 2)), "sparse_sampled_addmm": (2,),
    "_weight_int8pack_mm": (1, 2), "_weight_int4pack_mm": (1, 3), "_weight_int4pack_mm_for_cpu": (1, 3),
    "qlinear_pointwise": (3,),
    "linear_backward": (2,), "convolution_backward": (2,), "_native_multi_head_attention": (5, 6, 7, 8),
    "_transformer_encoder_layer_fwd": (3, 4, 5, 6, *range(10, 18)), "_cudnn_rnn": (1,),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), (2,)), **PARAMETERS,
}  # fmt: skip
"""Places of weights, of lists of them, and of parameters added to products, among an operator's arguments. Of packed
sequences those of recurrent layers stand one place later."""


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
    later = int(call.op.endswith(".data"))
    if name in ("quantized_lstm", "quantized_gru"):
        return float(sum(t.nbytes for t in packed_weights(call.arg(2 + later))))
    places = _WEIGHTS.get(name)
    if places is None and "attention" in name and "backward" not in name:
        return float(sum(t.nbytes for t in call.inputs[1:3]))
    if places is None:
        places = CONVOLUTION if cluster.category == "convolution" and "backward" not in name else ()
    return float(sum(t.nbytes for place in places for t in _tensors(call.arg(place + later))))


def _tensors(argument: Argument) -> tuple[TensorSpec, ...]:
    """A tensor, or those of a list; none of anything else."""
    given = argument if isinstance(argument, tuple) else (argument,)
    return tuple(t for t in given if isinstance(t, TensorSpec))


def weight_bits(layer: Layer) -> int:
    """Bits of an element of a product's weight: fewer than the inputs' where it is quantised and packed."""
    if "int4pack" in layer.operator:
        return 4
    if layer.operator.startswith(("quantized.", "onednn.")) or "int8pack" in layer.operator:
        weight = max(tensors_of(layer.args)[1:], key=lambda spec: spec.numel, default=None)
        return layer.dtype_bits if weight is None else 8 * ITEM_SIZE[weight.dtype]
    return layer.dtype_bits
