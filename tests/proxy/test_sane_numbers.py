"""No number of a generated network runs away, however long its towers are."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor
from watched_blocks import blocks_of, inputs, noted

from statsnet.blocks.pointwise import BINARY, FUNCTIONS
from statsnet.proxy.towers import LONGEST_TOWER, Placed, build_towers

TINY = torch.finfo(torch.float32).tiny
SHAPE = (16, 32)
LONG: dict[str, tuple[str, dict[str, Any]]] = {
    "conv": ("conv", {"batch": 1, "channels": 8, "size": (8, 8), "filters": 8, "kernel": (3, 3),
                      "stride": (1, 1), "padding": (1, 1)}),
    "linear": ("linear", {"rows": 16, "inputs": 32, "outputs": 32}),
    "linear sigmoid": ("linear", {"rows": 16, "inputs": 32, "outputs": 32, "activation": "sigmoid"}),
    "linear relu": ("linear", {"rows": 16, "inputs": 32, "outputs": 32, "activation": "relu"}),
    "matmul": ("batched_matmul", {"batch": 2, "rows": 4, "depth": 64, "columns": 64}),
    "attention": ("attention", {"batch": 1, "heads": 2, "queries": 8, "keys": 32, "head_size": 32}),
    "recurrent": ("recurrent", {"steps": 4, "batch": 4, "inputs": 32, "hidden": 32}),
    "batch norm": ("norm", {"kind": "batch", "shape": SHAPE, "activation": "relu"}),
    "softmax": ("softmax", {"shape": (1, 512), "axis": 1}),
    "log softmax": ("softmax", {"shape": SHAPE, "axis": 1, "log": True}),
    "transpose": ("transpose", {"shape": SHAPE, "order": (1, 0)}),
    "average": ("pool", {"kind": "avg", "batch": 1, "channels": 8, "size": (8, 8), "kernel": (3, 3),
                         "stride": (1, 1), "padding": (1, 1)}),
    "max": ("reduce", {"function": "amax", "shape": SHAPE, "axes": (1,)}),
    "divided": ("pointwise", {"shape": SHAPE, "functions": ("div", "mul", "mul"), "operand": SHAPE}),
    **{n: ("pointwise", {"shape": SHAPE, "functions": (n,), **({"operand": SHAPE} if n in BINARY else {})})
       for n in FUNCTIONS},
}  # fmt: skip


def check_sizes(network: Any) -> None:
    """Run forward and backward: activations and gradients are finite, of sane size and not denormal. A gradient may be
    cut off: that of a maximum's operand of which no element is the largest."""
    proxy = network.build()
    seen: list[Tensor] = []
    batch = [x.requires_grad_(x.is_floating_point()) for x in inputs(network, proxy)]
    with ExitStack() as stack:
        for block in blocks_of(proxy):
            stack.enter_context(noted(block, lambda y: seen.append(y.detach())))
        outputs = proxy(batch)
    torch.autograd.backward(outputs, network.gradients_like(outputs))
    gradients = [x.grad for x in (*proxy.parameters(), *batch) if x.requires_grad]
    assert any(g.any() for g in gradients)
    seen += [g for g in gradients if g.any()]
    for tensor in seen:
        size = float(tensor.double().square().mean().sqrt())
        assert math.isfinite(size)
        assert 1e-17 < size < 1e13, size
        magnitude = tensor.abs()
        denormal = (magnitude > 0) & (magnitude < TINY)
        assert not denormal.any()


@pytest.mark.parametrize("name", LONG)
def test_a_long_tower_keeps_numbers_sane(name: str, write_source: Callable[..., str], load: Any) -> None:
    kind, config = LONG[name]
    towers = build_towers([(Placed(kind=kind, config=config), LONGEST_TOWER)])
    check_sizes(load(write_source("training", towers)))


@pytest.mark.parametrize("seed", range(6))
def test_mixed_towers_keep_numbers_sane(seed: int, write_source: Callable[..., str], load: Any) -> None:
    generator = torch.Generator().manual_seed(seed)
    names = [list(LONG)[i] for i in torch.randperm(len(LONG), generator=generator)[:12].tolist()]
    counts = torch.randint(1, 5, (12,), generator=generator).tolist()
    rows = [(Placed(kind=LONG[n][0], config=LONG[n][1]), c) for n, c in zip(names, counts, strict=True)]
    check_sizes(load(write_source("training", build_towers(rows))))
