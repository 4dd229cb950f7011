"""Blocks within a network: what they take from the block before, and in which layout."""

from __future__ import annotations

import pytest
import torch
from block_configs import CONV, POOL

from statsnet.blocks import KINDS
from statsnet.blocks.base import SIDE_INPUTS


@pytest.mark.parametrize("before", ["conv", "linear"])
def test_maps_are_read_channels_last_without_a_copy(before: str) -> None:
    """Where convolutions write them so: a slice of such a map, and what else comes in, is one too."""
    last = {"memory_format": torch.channels_last}
    y = torch.randn(8, 64)
    if before == "conv":
        conv = KINDS["conv"].build(CONV).to(**last)
        y = conv(torch.randn(8, 4, 6, 6).to(**last))
    pool = KINDS["pool"].build({**POOL, "batch": 1, "channels": 8, "size": (6, 6)})
    pool.read_channels_last()
    y = y.detach()
    entered = pool.enter(y)
    assert entered.shape == (1, 8, 6, 6)
    assert entered.is_contiguous(**last)
    linear = KINDS["linear"].build({"rows": 8, "inputs": 16, "outputs": 4})
    linear.read_channels_last()  # reads no maps: nothing changes
    for part in (entered, linear.enter(y)):
        assert part.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        assert torch.equal(part.flatten().sort().values, in_memory(y)[: part.numel()].sort().values)
    assert before != "conv" or torch.equal(entered, y[:1])
    assert pool(y).is_contiguous(**last)
    graded = pool.enter(y.clone().requires_grad_())
    assert torch.equal(graded, entered)
    assert graded.is_contiguous(**last)


def in_memory(x: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie there."""
    return x.as_strided((x.numel(),), (1,))


@pytest.mark.parametrize(("elements", "sliced"), [(32, False), (48, True)])
def test_what_is_read_whole_is_not_sliced(elements: int, sliced: bool) -> None:
    """The gradient of a slice, even of one of all elements, is one more pass over them."""
    block = KINDS["pointwise"].build({"shape": (8, 4), "functions": ("tanh",), "operand": ()})
    x = torch.randn(elements, requires_grad=True)
    node = block.enter(x).grad_fn
    names = []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert ("SliceBackward0" in names) == sliced
    (gradient,) = torch.autograd.grad(block.enter(x), x, torch.ones(8, 4))
    assert gradient.sum() == 32


@pytest.mark.parametrize("kind", ["conv", "concat", "pointwise"])
def test_other_branches_of_maps_are_kept_channels_last(kind: str) -> None:
    shape = (2, 8, 6, 6)
    config = {
        "conv": {**CONV, "residual": True},
        "concat": {"shape": shape, "axis": 1, "pieces": 2},
        "pointwise": {"shape": shape, "functions": ("add",), "operand": shape},
    }[kind]
    block = KINDS[kind].build(config)
    block.read_channels_last()
    named = (*block.named_parameters(), *block.named_buffers())
    side_inputs = [t for name, t in named if name.startswith(SIDE_INPUTS)]
    assert side_inputs
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in side_inputs)
    x = torch.randn(block.shape).to(memory_format=torch.channels_last)
    assert block(x).is_contiguous(memory_format=torch.channels_last)
