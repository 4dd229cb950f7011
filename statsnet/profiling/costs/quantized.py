"""Layers with packed, quantised weights: the same products as their floating counterparts, 2 FLOPs per multiply-add.
Other quantised operators, too, count as the floating ones.

Quantising the activations on the way in is not counted; weights count with the bytes of their narrow type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, first_dimension, last_dimension, tokens_of
from statsnet.profiling.costs.registry import find_formula, operator_cost
from statsnet.signatures.operators import TensorSpec
from statsnet.signatures.tensor_lists import each_in_list


def _weight(call: OperatorCall, place: int = 1) -> TensorSpec:
    """The packed weight, of an argument that holds a bias, too: files keep no order of the two."""
    weights = call.tensors(place)
    if not weights:
        raise MisfitError(f"{call.op}: the packed weight is not known")
    return max(weights, key=lambda weight: len(weight.shape))


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


_FLOATING = {
    "add": "add", "add_scalar": "add", "mul": "mul", "mul_scalar": "mul", "cat": "cat", "relu6": "hardtanh",
    "hardswish": "hardswish", "leaky_relu": "leaky_relu", "elu": "elu", "sigmoid": "sigmoid", "softmax": "_softmax",
    "max_pool1d": "max_pool1d", "max_pool2d": "max_pool2d",
}  # fmt: skip
"""Quantised operators and the floating ones of ATen that they do the work of. Some take a ReLU along."""

_WITH_RELU = ("add", "add_scalar", "mul", "mul_scalar", "cat")


@operator_cost(*(f"quantized.{name}" for name in _FLOATING), *(f"quantized.{name}_relu" for name in _WITH_RELU))
def _as_floating(call: OperatorCall) -> Cost:
    name = call.op.split(".")[1]
    formula = find_formula(f"aten.{_FLOATING[name if name in _FLOATING else name.removesuffix('_relu')]}")
    assert formula is not None
    operands = 2 if name.startswith(("add", "mul")) else None  # behind them stand the scale and the zero of the result
    cost = formula(replace(call, args=call.args[:operands]))
    return cost if name in _FLOATING else call.cost(cost.flops + call.output().numel)


_BYTES_OF_SCALES = {"byte": 8, "4bit": 4}
"""Beside each row of a packed table stand its scale and bias: float32 with bytes, float16 with halves of bytes."""


@operator_cost("quantized.embedding_byte", "quantized.embedding_4bit")
def _embedding(call: OperatorCall) -> Cost:
    """Packed table and indices: each element that is read is scaled and shifted."""
    indices = call.tensor(1)
    return call.cost(2 * call.output().numel, read=_rows_bytes(call, indices.numel) + indices.nbytes)


@operator_cost("quantized.embedding_bag_byte", "quantized.embedding_bag_4bit")
def _bag(call: OperatorCall) -> Cost:
    """Packed table, indices, offsets, ..., weights of samples at 6: each element that is read is scaled, shifted and
    added up, and once more multiplied where samples have weights."""
    indices, given = call.tensor(1), [call.maybe_tensor(place) for place in (1, 2, 6)]
    gathered = indices.numel * last_dimension(_weight(call, 0))
    read = _rows_bytes(call, indices.numel) + sum(t.nbytes for t in given if t is not None)
    return call.cost(gathered * (4 if given[2] is not None else 3), read=read)


def _rows_bytes(call: OperatorCall, rows: int) -> float:
    """Bytes of so many rows of the packed table, at most all of it."""
    table, kind = _weight(call, 0), "4bit" if "4bit" in call.op else "byte"
    width_bytes = last_dimension(table) / (2 if kind == "4bit" else 1)
    return min(rows, first_dimension(table)) * (width_bytes + _BYTES_OF_SCALES[kind])


@operator_cost("aten.quantized_lstm", "aten.quantized_gru")
def _recurrent(call: OperatorCall) -> Cost:
    """x [T, B, K], states, packed weights of all gates: each weight once for each token; 9 (LSTM) or 8 (GRU) FLOPs per
    hidden unit and step beside. Of packed sequences, the sizes of batches come before the states."""
    x = call.tensor(0)
    tokens = tokens_of(x)
    weights = list(packed_weights(call.arg(3 if call.op.endswith(".data") else 2)))
    if not weights:
        raise MisfitError(f"{call.op}: the packed weights are not known")
    gates, per_unit = (4, 9) if "lstm" in call.op else (3, 8)
    matrices = [weight for weight in weights if len(weight.shape) == 2]
    units = sum(weight.shape[0] for weight in matrices) / (2 * gates)
    flops = 2 * tokens * sum(weight.numel for weight in matrices) + per_unit * tokens * units
    return call.cost(flops, read=call.bytes_in + sum(weight.nbytes for weight in weights))


def packed_weights(argument: Any) -> Iterator[TensorSpec]:
    """The tensors of a list of packed parameters, which stays encoded."""
    if isinstance(argument, TensorSpec):
        yield argument
    elif isinstance(argument, dict) and "shape" in argument:
        yield TensorSpec.from_dict(argument)
    elif isinstance(argument, dict):
        yield from packed_weights(list(each_in_list(argument.get("tensors", []))))
    elif isinstance(argument, list | tuple):
        for entry in argument:
            yield from packed_weights(entry)
