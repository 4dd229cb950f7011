"""Normalisations, softmax and losses against counts per element."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from clusters import tensor

from statsnet.profiling.costs import cost_of

N, C, S = 4, 6, 10
ELEMENTS = N * C * S


@pytest.mark.parametrize(("training", "per_element"), [(True, 8), (False, 4)])
def test_batch_norm(cost, training, per_element):
    channel = [torch.rand(C) for _ in range(4)]
    got = cost(lambda: F.batch_norm(torch.randn(N, C, S), *channel, training=training), "native_batch_norm")
    assert got.flops == per_element * ELEMENTS
    assert got.bytes_read == 4 * (ELEMENTS + 4 * C)
    statistics = 4 * (2 * C + 2 * C) if training else 0  # saved for backward, and the running ones
    assert got.bytes_written == 4 * ELEMENTS + statistics


@pytest.mark.parametrize(
    ("training", "mask", "per_element"),
    [(True, (1, 1, 1), 9), (True, (1, 0, 0), 9), (True, (0, 1, 1), 5), (True, (0, 0, 1), 1),
     (False, (1, 1, 1), 6), (False, (1, 0, 0), 1), (False, (0, 1, 0), 4)],
)  # fmt: skip
def test_batch_norm_backward(training, mask, per_element):
    x, c = tensor(N, C, S), tensor(C)
    args = [x, x, c, c, c, c, c, training, 1e-5, [bool(m) for m in mask]]
    outputs = [s if m else None for s, m in zip((x, c, c), mask, strict=True)]
    got = cost_of("aten.native_batch_norm_backward.default", args, outputs)
    assert got.flops == per_element * ELEMENTS
    cudnn = cost_of("aten.cudnn_batch_norm_backward.default", [x, x, c, c, c, c, c, 1e-5, None], [x, c, c])
    assert cudnn.flops == 9 * ELEMENTS


@pytest.mark.parametrize(("affine", "per_element"), [(True, 8), (False, 6)])
def test_layer_norm(cost, affine, per_element):
    layer = torch.nn.LayerNorm(S, elementwise_affine=affine)
    assert cost(lambda: layer(torch.randn(N, C, S)), "native_layer_norm").flops == per_element * ELEMENTS


@pytest.mark.parametrize(
    ("mask", "per_element"),
    [((1, 1, 1), 13), ((1, 0, 0), 10), ((0, 1, 1), 5), ((0, 0, 1), 1), ((0, 1, 0), 4)],
)
def test_layer_and_group_norm_backward(mask, per_element):
    x, row, w = tensor(N, C, S), tensor(N, C, 1), tensor(S)
    flags = [bool(m) for m in mask]
    outputs = [s if m else None for s, m in zip((x, w, w), mask, strict=True)]
    args = [x, x, [S], row, row, w, w, flags]
    got = cost_of("aten.native_layer_norm_backward.default", args, outputs)
    assert got.flops == per_element * ELEMENTS
    args = [x, x, tensor(N, 2), tensor(N, 2), tensor(C), N, C, S, 2, flags]
    assert cost_of("aten.native_group_norm_backward.default", args, outputs).flops == per_element * ELEMENTS


def test_layer_norm_backward_without_weight(cost):
    layer = torch.nn.LayerNorm(S, elementwise_affine=False)
    x = torch.randn(N, C, S, requires_grad=True)
    assert cost(lambda: layer(x).sum().backward(), "native_layer_norm_backward").flops == 9 * ELEMENTS


def test_rms_norm():
    x, w, r = tensor(N, C, S), tensor(S), tensor(N, C, 1)
    assert cost_of("aten._fused_rms_norm.default", [x, [S], w, None], [x, r]).flops == 4 * ELEMENTS
    args = [x, x, [S], r, w, [True, True]]
    assert cost_of("aten._fused_rms_norm_backward.default", args, [x, w]).flops == 9 * ELEMENTS


def test_group_norm(cost):
    got = cost(lambda: torch.nn.GroupNorm(2, C)(torch.randn(N, C, S)), "native_group_norm")
    assert got.flops == 8 * ELEMENTS


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
def test_softmax(cost, kind):
    x = torch.randn(N, S, requires_grad=True)

    def step():
        getattr(torch, kind)(x, -1).pow(2).sum().backward()

    forward, backward = cost(step, f"_{kind}"), cost(step, f"_{kind}_backward_data")
    assert (forward.flops, forward.bytes_read) == (5 * N * S, 4 * N * S)
    assert (backward.flops, backward.bytes_read) == (4 * N * S, 2 * 4 * N * S)
    expanded = cost(lambda: getattr(torch, kind)(x, -1).sum().backward(), f"_{kind}_backward_data")
    assert (expanded.flops, expanded.bytes_read) == (4 * N * S, 4 * (1 + N * S))


def test_nll_loss_reads_one_score_per_target(cost):
    scores, target = torch.randn(N, 100, requires_grad=True), torch.randint(0, 100, (N,))

    def step():
        F.nll_loss(scores, target).backward()

    forward, backward = cost(step, "nll_loss_forward"), cost(step, "nll_loss_backward")
    assert (forward.flops, forward.bytes_read) == (N, N * 4 + N * 8)
    assert backward.bytes_read == 4 + N * 8 + 4
    assert backward.bytes_written == 4 * N * 100


@pytest.mark.parametrize(("reduction", "per_element"), [("mean", 3), ("none", 2)])
def test_mse_loss(cost, reduction, per_element):
    x, y = torch.randn(N, S), torch.randn(N, S)
    assert cost(lambda: F.mse_loss(x, y, reduction=reduction), "mse_loss").flops == per_element * N * S


def test_ctc_loss_works_on_states(cost):
    steps, batch, classes, labels = 12, 2, 6, 3
    x = torch.randn(steps, batch, classes, requires_grad=True)

    def step():
        lengths = [steps] * batch, [labels] * batch
        F.ctc_loss(x.log_softmax(-1), torch.randint(1, classes, (batch, labels)), *lengths).backward()

    states = steps * batch * (2 * labels + 1)
    assert cost(step, "_ctc_loss").flops == 12 * states
    assert cost(step, "_ctc_loss_backward").flops == 16 * states + 4 * steps * batch * classes
