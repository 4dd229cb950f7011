"""Operators that run in place of others while torch is watched, and those that a checkpoint breaks off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from profiling_helpers import profiled
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from statsnet.profiling.capture import CaptureMode, capture_step
from statsnet.profiling.unwatched_capture import UnwatchedCapture

WIDTH, ROWS = 16, 4


class Weighted(nn.Module):
    """A function of the input times a weight."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ROWS, WIDTH))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.weight)


def volume() -> Any:
    """Light that is left after each sample of a ray, as volume rendering computes it."""
    return Weighted(lambda x: torch.cumprod(torch.sigmoid(x), 1)), (torch.randn(ROWS, WIDTH),)


def product() -> Any:
    return Weighted(lambda x: x.prod(1)), (torch.randn(ROWS, WIDTH),)


def orthogonal() -> Any:
    return parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH)), (torch.randn(ROWS, WIDTH),)


def householder() -> Any:
    layer = nn.Linear(WIDTH, WIDTH // 2)
    return parametrizations.orthogonal(layer, orthogonal_map="householder"), (torch.randn(ROWS, WIDTH),)


def radius() -> Any:
    """The largest eigenvalue of a state's update."""
    return Weighted(lambda x: torch.linalg.eigvals(x.T @ x).abs().amax()), (torch.randn(ROWS, WIDTH),)


def routed() -> Any:
    """Each row goes to its two best columns, as a mixture of experts sends it."""
    return Weighted(lambda x: x.softmax(-1).topk(2).values), (torch.randn(ROWS, WIDTH),)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False)
        return x


def checkpointed() -> Any:
    return Checkpointed(), (torch.randn(ROWS, WIDTH),)


@pytest.mark.parametrize(("factory", "mode", "ran"), [
    (volume, "training", "aten.cumsum.default"), (product, "training", "aten.prod.dim_int"),
    (orthogonal, "training", "aten.linalg_matrix_exp.default"), (radius, "inference", "aten._linalg_eigvals.default"),
    (householder, "training", "aten.linalg_householder_product.default"),
    (checkpointed, "training", "aten.tanh_backward.default"), (routed, "training", "aten.topk.default"),
])  # fmt: skip
def test_what_runs_is_what_is_counted(factory: Callable[..., Any], mode: str, ran: str) -> None:
    signature = profiled(factory, mode).signature
    assert signature.measurements[0].unmatched_calls == 0
    assert ran in {cluster.op for cluster in signature.clusters}


def spectrum() -> Any:
    return Weighted(lambda x: torch.linalg.eigvalsh(x.T @ x) + torch.linalg.svdvals(x @ x.T).sum()), (
        torch.randn(ROWS, WIDTH),
    )


def test_values_without_vectors_are_counted_as_such() -> None:
    flops = {c.op: c.flops for c in profiled(spectrum).signature.clusters}
    assert flops["aten._linalg_eigh.default"] == pytest.approx(4 / 3 * WIDTH**3)
    assert flops["aten._linalg_svd.default"] == pytest.approx((4 - 4 / 3) * ROWS**3)


def test_an_unwatched_capture_sees_what_a_mode_sees() -> None:
    layers = [nn.Embedding(50, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)]
    model, x = nn.Sequential(*layers), torch.randint(50, (ROWS,))

    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    watched, unwatched = (capture_step(step, device="meta", by=by) for by in (CaptureMode, UnwatchedCapture))
    assert [(c.op, c.args, c.outputs, c.phase) for c in watched] == [
        (c.op, c.args, c.outputs, c.phase) for c in unwatched
    ]
    assert not torch._C._dispatch_tls_is_dispatch_key_included(torch._C._dispatch_key_parse("Fake"))
