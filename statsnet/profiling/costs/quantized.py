"""Layers with packed, quantised weights: the same products as their floating counterparts, 2 FLOPs per multiply-add.

Quantising the activations on the way in is not counted; weights count with the bytes of their narrow type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, last_dimension
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec


def _weight(call: OperatorCall) -> TensorSpec:
    """The packed weight: the first tensor of the second argument."""
    weights = call.tensors(1)
    if not weights:
        raise MisfitError(f"{call.op}: the packed weight is not known")
    return weights[0]


@operator_cost(
    "quantized.linear", "quantized.linear_relu", "quantized.linear_leaky_relu", "quantized.linear_tanh",
    "quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
    "quantized.linear_relu_dynamic_fp16", "quantized.linear_with_input_q_dq_qweight_dq_output_fp32",
    "quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32", "onednn.qlinear_pointwise",
)  # fmt: skip
def _linear(call: OperatorCall) -> Cost:
    """x [..., K], packed weight [N, K] and bias."""
    return call.cost(2 * call.output().numel * last_dimension(call.tensor(0)))


@operator_cost(
    "quantized.conv1d", "quantized.conv2d", "quantized.conv3d", "quantized.conv1d_relu", "quantized.conv2d_relu",
    "quantized.conv3d_relu", "quantized.conv1d_dynamic", "quantized.conv2d_dynamic", "quantized.conv3d_dynamic",
)  # fmt: skip
def _convolution(call: OperatorCall) -> Cost:
    """x, packed weight [out, in / groups, ...] and bias: every weight once at each position of the output."""
    out, weight = call.output(), _weight(call)
    if len(out.shape) < 3 or not out.shape[1]:
        raise MisfitError(f"{call.op}: an output [N, C, ...] is expected")
    return call.cost(2 * weight.numel * (out.numel // out.shape[1]))


@operator_cost("aten.quantized_lstm", "aten.quantized_gru")
def _recurrent(call: OperatorCall) -> Cost:
    """x [T, B, K], states, packed weights of all gates: each weight once for each token; 9 (LSTM) or 8 (GRU) FLOPs per
    hidden unit and step beside."""
    x = call.tensor(0)
    tokens = x.numel // max(1, last_dimension(x))
    weights = list(_packed_weights(call.arg(2)))
    if not weights:
        raise MisfitError(f"{call.op}: the packed weights are not known")
    gates, per_unit = (4, 9) if "lstm" in call.op else (3, 8)
    matrices = [weight for weight in weights if len(weight.shape) == 2]
    units = sum(weight.shape[0] for weight in matrices) / (2 * gates)
    flops = 2 * tokens * sum(weight.numel for weight in matrices) + per_unit * tokens * units
    return call.cost(flops, read=call.bytes_in + sum(weight.nbytes for weight in weights))


def _packed_weights(argument: Any) -> Iterator[TensorSpec]:
    """The tensors of a list of packed parameters, which stays encoded."""
    if isinstance(argument, TensorSpec):
        yield argument
    elif isinstance(argument, dict) and "shape" in argument:
        yield TensorSpec.from_dict(argument)
    elif isinstance(argument, dict):
        yield from _packed_weights(argument.get("tensors", []))
    elif isinstance(argument, list | tuple):
        for entry in argument:
            yield from _packed_weights(entry)
