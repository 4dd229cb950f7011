"""Agreement with torch's own FLOP counter, for the operators and cases that it counts as we do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from statsnet.profiling.costs import cost_of
from statsnet.signatures.categories import categorize

COUNTED = ("convolution", "gemm", "attention")


def ours(calls):
    costs = [(cost_of(*c), c[0]) for c in calls]
    return sum(c.flops for c, op in costs if categorize(op, "forward") in COUNTED)


def theirs(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def grad(*shape):
    return torch.randn(*shape, requires_grad=True)


CASES = {
    "linear and its gradients": lambda: F.linear(grad(6, 5), grad(7, 5)).pow(2).sum().backward(),
    "convolution": lambda: F.conv2d(torch.randn(2, 4, 9, 9), torch.randn(6, 4, 3, 3), stride=2, padding=1),
    "grouped convolution": lambda: F.conv2d(torch.randn(2, 4, 9, 9), torch.randn(6, 2, 3, 3), groups=2),
    "dilated convolution": lambda: F.conv1d(torch.randn(2, 4, 30), torch.randn(6, 4, 3), dilation=3),
    "transposed convolution": lambda: F.conv_transpose2d(torch.randn(2, 4, 5, 5), torch.randn(4, 6, 3, 3)),
    "convolution gradients": lambda: F.conv2d(grad(2, 4, 9, 9), grad(6, 4, 3, 3)).pow(2).sum().backward(),
    "strided gradients": lambda: F.conv1d(grad(2, 4, 21), grad(6, 4, 3), stride=2).pow(2).sum().backward(),
    "transposed gradients": lambda: (
        F.conv_transpose1d(grad(2, 4, 9), grad(4, 6, 3)).pow(2).sum().backward()
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_agrees_with_torch(calls_of, case):
    assert ours(calls_of(case)) == theirs(case) > 0


@pytest.mark.parametrize("backward", [False, True])
def test_attention_kernels(backward):
    """CUDA's kernels are counted from their shapes, on no device at all."""
    q, kv = torch.empty(2, 3, 8, 16, device="meta"), torch.empty(2, 3, 12, 16, device="meta")
    flop_registry = torch.utils.flop_counter.flop_registry
    for kind in ("flash", "efficient", "cudnn"):
        name = f"_scaled_dot_product_{kind}_attention" + ("_backward" if backward else "")
        packet = getattr(torch.ops.aten, name)
        leading = (q, q, kv, kv) if backward else (q, kv, kv)
        expected = flop_registry[packet](*leading, out_val=q)
        encoded = [{"shape": list(t.shape), "dtype": "float32"} for t in leading]
        got = cost_of(f"aten.{name}.default", encoded, [{"shape": [2, 3, 8, 16], "dtype": "float32"}])
        assert got.flops == expected
