"""Recurrent layers: the gates' matrix products over all steps, and the pointwise work of each hidden unit.

Pointwise FLOPs per hidden unit and step: LSTM 9 (5 activations, f·c + i·g, o·tanh c), GRU 8, plain 1. Biases and the
sum of both products are part of the accumulation and free, except in fused cells, where both products are inputs. The
backward pass has twice the products. Weights count as read once, not once per step.
"""

from __future__ import annotations

from collections.abc import Iterable

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, first_dimension, last_dimension, tokens_of
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec

_FORWARD = {"lstm": 9, "gru": 8, "rnn": 1}
_BACKWARD = {"lstm": 23, "gru": 16, "rnn": 3}
_MODES = {0: "rnn", 1: "rnn", 2: "lstm", 3: "gru"}  # torch's numbering, cuDNN's too


def _cell(call: OperatorCall, mode_index: int) -> str:
    mode = int(call.number(mode_index, -1))
    if mode not in _MODES:
        raise MisfitError(f"{call.op}: unknown kind of cell")
    return _MODES[mode]


def _matrices(weights: Iterable[TensorSpec]) -> int:
    return sum(w.numel for w in weights if len(w.shape) == 2)


def _layers_flops(tokens: int, matrices: int, hidden: float, layers: int, cell: str, *, backward: bool) -> float:
    if backward:
        return 4 * tokens * matrices + tokens * layers * hidden * _BACKWARD[cell]
    return 2 * tokens * matrices + tokens * layers * hidden * _FORWARD[cell]


@operator_cost("mkldnn_rnn_layer")
def _onednn(call: OperatorCall) -> Cost:
    """One layer in one direction: input [T, B, I], weights ih, hh and two biases, hx, cx."""
    matrices = _matrices(call.inputs[1:3])
    tokens = tokens_of(call.tensor(0))
    flops = _layers_flops(tokens, matrices, call.number(10), 1, _cell(call, 9), backward=False)
    return call.cost(flops)


@operator_cost("mkldnn_rnn_layer_backward")
def _onednn_backward(call: OperatorCall) -> Cost:
    matrices = _matrices(call.inputs[1:3])
    tokens = tokens_of(call.tensor(0))
    return call.cost(_layers_flops(tokens, matrices, call.number(15), 1, _cell(call, 14), backward=True))


@operator_cost("lstm", "gru", "rnn_tanh", "rnn_relu")
def _composite(call: OperatorCall) -> Cost:
    """All layers: (input, hx, params, ...); for packed sequences (data, batch_sizes, hx, params, ...)."""
    packed = call.op.endswith(".data")
    state = call.tensors(2 if packed else 1)
    parameters = call.tensors(3 if packed else 2)
    if not state:
        raise MisfitError(f"{call.op}: no initial state")
    layers, hidden = first_dimension(state[-1]), last_dimension(state[-1])
    cell = call.op.split(".")[1].partition("_")[0]
    tokens = tokens_of(call.tensor(0))
    return call.cost(_layers_flops(tokens, _matrices(parameters), hidden, layers, cell, backward=False))


@operator_cost("_cudnn_rnn")
def _cudnn(call: OperatorCall) -> Cost:
    """input, weights, stride0, weight_buf (the same memory as the weights), hx, cx, mode, hidden size, ..."""
    layers = first_dimension(call.tensor(4))
    tokens = tokens_of(call.tensor(0))
    matrices = _matrices(call.tensors(1))
    flops = _layers_flops(tokens, matrices, call.number(7), layers, _cell(call, 6), backward=False)
    return call.cost(flops, read=call.bytes_in - _buffer_bytes(call))


@operator_cost("miopen_rnn")
def _miopen(call: OperatorCall) -> Cost:
    """input, weights, stride0, hx, cx, mode, hidden size, ..."""
    layers, tokens = first_dimension(call.tensor(3)), tokens_of(call.tensor(0))
    matrices = _matrices(call.tensors(1))
    return call.cost(_layers_flops(tokens, matrices, call.number(6), layers, _cell(call, 5), backward=False))


@operator_cost("_cudnn_rnn_backward")
def _cudnn_backward(call: OperatorCall) -> Cost:
    layers = first_dimension(call.tensor(4))
    tokens = tokens_of(call.tensor(0))
    matrices = _matrices(call.tensors(1))
    flops = _layers_flops(tokens, matrices, call.number(11), layers, _cell(call, 10), backward=True)
    return call.cost(flops, read=call.bytes_in - _buffer_bytes(call))


def _buffer_bytes(call: OperatorCall) -> int:
    buffer = call.maybe_tensor(3)
    return buffer.nbytes if buffer is not None else 0


@operator_cost("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _composite_cell(call: OperatorCall) -> Cost:
    """input [B, I], hx, w_ih, w_hh, biases."""
    x, weights = call.tensor(0), (call.tensor(2), call.tensor(3))
    hidden = last_dimension(weights[1])
    cell = call.op.split(".")[1].partition("_")[0]
    return call.cost(_layers_flops(tokens_of(x), _matrices(weights), hidden, 1, cell, backward=False))


@operator_cost("_thnn_fused_lstm_cell")
def _fused_lstm_cell(call: OperatorCall) -> Cost:
    """Both products [B, 4H] are inputs: they are added, with up to two biases, then 9 per hidden unit."""
    gates = call.tensor(0).numel
    biases = sum(call.maybe_tensor(i) is not None for i in (3, 4))
    return call.cost(gates * (1 + biases) + gates // 4 * _FORWARD["lstm"])


@operator_cost("_thnn_fused_gru_cell")
def _fused_gru_cell(call: OperatorCall) -> Cost:
    """Both products [B, 3H]: two of three gates are added (the third's sum is among the 8), plus biases."""
    gates = call.tensor(0).numel
    biases = sum(call.maybe_tensor(i) is not None for i in (3, 4))
    return call.cost(gates // 3 * 2 + gates * biases + gates // 3 * _FORWARD["gru"])


@operator_cost("_thnn_fused_lstm_cell_backward_impl")
def _fused_lstm_cell_backward(call: OperatorCall) -> Cost:
    return call.cost(call.tensor(2).numel * _BACKWARD["lstm"])


@operator_cost("_thnn_fused_gru_cell_backward")
def _fused_gru_cell_backward(call: OperatorCall) -> Cost:
    return call.cost(call.tensor(0).numel * _BACKWARD["gru"])
