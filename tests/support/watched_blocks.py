"""The blocks of a loaded network, and what they give: noted, or changed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def inputs(network: Any, proxy: nn.Module) -> list[Tensor]:
    dtype = next((p.dtype for p in proxy.parameters()), torch.float32)
    return [x.to(dtype) if x.is_floating_point() else x for x in network.batches(proxy, "cpu")[0]]


def blocks_of(proxy: nn.Module) -> list[nn.Module]:
    return [block for tower in proxy.towers for block in tower]


@contextmanager
def changed(block: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """What the block gives goes through `change`. Blocks are run by their forward: they know no hooks."""
    forward = block.forward
    block.forward = lambda x: change(forward(x))
    yield
    del block.forward


def noted(block: nn.Module, note: Callable[[Tensor], object]) -> AbstractContextManager[None]:
    def and_on(y: Tensor) -> Tensor:
        note(y)
        return y

    return changed(block, and_on)
