"""Recurrent layers: one formula for oneDNN's, cuDNN's and torch's own form of the same network."""

from __future__ import annotations

import pytest
import torch
from clusters import tensor
from torch.nn.utils.rnn import pack_padded_sequence

from statsnet.profiling.costs import cost_of

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 8, 16
TOKENS = STEPS * BATCH
LSTM = TOKENS * (2 * 4 * HIDDEN * (INPUT + HIDDEN) + 9 * HIDDEN)
GRU = TOKENS * (2 * 3 * HIDDEN * (INPUT + HIDDEN) + 8 * HIDDEN)


def test_onednn_layer_forward_and_backward(cost):
    layer = torch.nn.LSTM(INPUT, HIDDEN)
    x = torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    forward = cost(lambda: layer(x), "mkldnn_rnn_layer")
    assert forward.flops == LSTM
    weights = 4 * (4 * HIDDEN * (INPUT + HIDDEN) + 2 * 4 * HIDDEN)
    assert forward.bytes_read == weights + 4 * (TOKENS * INPUT + 2 * BATCH * HIDDEN)
    backward = cost(lambda: layer(x)[0].sum().backward(), "mkldnn_rnn_layer_backward")
    assert backward.flops == TOKENS * (4 * 4 * HIDDEN * (INPUT + HIDDEN) + 23 * HIDDEN)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [(torch.nn.LSTM, "lstm", LSTM), (torch.nn.GRU, "gru", GRU),
     (torch.nn.RNN, "rnn_tanh", TOKENS * (2 * HIDDEN * (INPUT + HIDDEN) + HIDDEN))],
)  # fmt: skip
def test_whole_networks_of_inference_mode(cost, kind, name, expected):
    layer = kind(INPUT, HIDDEN, batch_first=True)
    with torch.inference_mode():
        assert cost(lambda: layer(torch.randn(BATCH, STEPS, INPUT)), name).flops == expected


def test_layers_and_directions_add_up(cost):
    layer = torch.nn.LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True)
    with torch.inference_mode():
        got = cost(lambda: layer(torch.randn(STEPS, BATCH, INPUT)), "lstm")
    second = TOKENS * (2 * 4 * HIDDEN * (2 * HIDDEN + HIDDEN) + 9 * HIDDEN)
    assert got.flops == 2 * LSTM + 2 * second


def test_packed_sequences_count_their_own_tokens(cost):
    layer = torch.nn.GRU(INPUT, HIDDEN)
    packed = pack_padded_sequence(torch.randn(STEPS, BATCH, INPUT), [5, 4, 2])
    with torch.inference_mode():
        got = cost(lambda: layer(packed), "gru")
    assert got.flops == 11 * (2 * 3 * HIDDEN * (INPUT + HIDDEN) + 8 * HIDDEN)


def cudnn_arguments():
    weights = {"tensors": [tensor(4 * HIDDEN, INPUT), tensor(4 * HIDDEN, HIDDEN), tensor(4 * HIDDEN),
                           tensor(4 * HIDDEN)]}  # fmt: skip
    buffer = tensor(4 * HIDDEN * (INPUT + HIDDEN + 2))
    state = tensor(1, BATCH, HIDDEN)
    shape = [2, HIDDEN, 0, 1, False, 0.0, True, False, [], None]
    return tensor(STEPS, BATCH, INPUT), weights, buffer, state, shape


def test_cudnn_reads_its_weights_once():
    x, weights, buffer, state, shape = cudnn_arguments()
    out = tensor(STEPS, BATCH, HIDDEN)
    got = cost_of("aten._cudnn_rnn.default", [x, weights, 4, buffer, state, state, *shape], [out, state, state])
    assert got.flops == LSTM
    assert got.bytes_read == 4 * (TOKENS * INPUT + 4 * HIDDEN * (INPUT + HIDDEN + 2) + 2 * BATCH * HIDDEN)


def test_cudnn_backward():
    x, weights, buffer, state, shape = cudnn_arguments()
    out = tensor(STEPS, BATCH, HIDDEN)
    args = [x, weights, 4, buffer, state, state, out, out, state, state, *shape, None, [True] * 4]
    got = cost_of("aten._cudnn_rnn_backward.default", args, [x, state, state])
    assert got.flops == TOKENS * (4 * 4 * HIDDEN * (INPUT + HIDDEN) + 23 * HIDDEN)


def test_fused_cells():
    gates, state = tensor(BATCH, 4 * HIDDEN), tensor(BATCH, HIDDEN)
    bias = tensor(4 * HIDDEN)
    got = cost_of("aten._thnn_fused_lstm_cell.default", [gates, gates, state, bias, bias], [state, state, gates])
    assert got.flops == BATCH * HIDDEN * (3 * 4 + 9)
    gates = tensor(BATCH, 3 * HIDDEN)
    got = cost_of("aten._thnn_fused_gru_cell.default", [gates, gates, state, None, None], [state, tensor(1)])
    assert got.flops == BATCH * HIDDEN * (2 + 8)


def test_cell_of_inference_mode(cost):
    cell = torch.nn.LSTMCell(INPUT, HIDDEN)
    with torch.inference_mode():
        got = cost(lambda: cell(torch.randn(BATCH, INPUT)), "lstm_cell")
    assert got.flops == LSTM / STEPS


def test_an_unknown_kind_of_cell_has_no_cost():
    x, weights, buffer, state, shape = cudnn_arguments()
    args = [x, weights, 4, buffer, state, state, 9, *shape[1:]]
    assert cost_of("aten._cudnn_rnn.default", args, [x, state, state]) is None


def test_miopen_works_as_cudnn():
    x, state, weights = tensor(5, 3, 8), tensor(1, 3, 4), [tensor(16, 8), tensor(16, 4), tensor(16), tensor(16)]
    packed = {"tensors": weights}
    sizes = [2, 4, 1, False, 0.0, False, False]
    got = cost_of("aten.miopen_rnn.default", [x, packed, 4, state, state, *sizes], [tensor(5, 3, 4)])
    cudnn = [x, packed, 4, None, state, state, 2, 4, 0, 1, False, 0.0, False, False]
    assert got.flops == cost_of("aten._cudnn_rnn.default", cudnn, [tensor(5, 3, 4)]).flops > 0
