"""What works in lower precision under autocast, as a signature tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from profiling_helpers import profiled
from torch import nn

from statsnet.profiling.autocast_shares import with_known_shares


class Residual(nn.Module):
    """Sums with a residual of float32, and one of two products."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        hidden = hidden + hidden.sin()
        return x + self.down(hidden) + x.cos()


class Refusing(nn.Linear):
    """Fails where its output has another dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if y.dtype != x.dtype:
            raise TypeError("one dtype, please")
        return y


def residual() -> tuple[nn.Module, Any]:
    return Residual(), (torch.randn(4, 8),)


def refusing() -> tuple[nn.Module, Any]:
    return Refusing(8, 8), (torch.randn(4, 8),)


def halved() -> tuple[nn.Module, Any]:
    return nn.Linear(8, 8).bfloat16(), (torch.randn(4, 8, dtype=torch.bfloat16),)


def shares(factory: Any) -> dict[tuple[str, int], float | None]:
    """(operator, its width) -> share."""
    clusters = profiled(factory).signature.clusters
    return {(c.op.split(".")[1], c.outputs[0]["shape"][-1]): c.autocast_share for c in clusters}


def test_a_sum_with_a_residual_stays_and_what_follows_a_product_does_not() -> None:
    found = shares(residual)
    assert found["addmm", 32] == found["addmm", 8] == found["sin", 32] == found["add", 32] == 1
    assert found["cos", 8] == found["add", 8] == 0


def test_a_model_that_fails_under_autocast_or_has_another_dtype_tells_nothing() -> None:
    assert set(shares(refusing).values()) == set(shares(halved).values()) == {None}


def test_a_signature_of_the_same_work_tells_the_shares_if_it_knows_them_and_has_all_clusters() -> None:
    fresh = replace(profiled(residual).signature, motifs=())
    unknown = replace(fresh, clusters=tuple(replace(c, autocast_share=None) for c in fresh.clusters))
    assert with_known_shares(unknown, replace(fresh, clusters=fresh.clusters[::-1])) == fresh
    assert with_known_shares(fresh, unknown) is None
    first, *_ = fresh.clusters
    other = replace(first, args=first.args[1:])
    assert with_known_shares(fresh, replace(fresh, clusters=(other, *fresh.clusters[1:]))) is None
