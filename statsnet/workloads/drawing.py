"""Random weights of large models, without minutes of drawing.

One thread draws all random numbers, some hundred million a second. Times hardly depend on the values of weights, so of
each parameter only the first million is drawn. Other tensors are drawn whole: what becomes an index is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from unittest.mock import patch

import torch

DRAWN = 1_000_003
"""So many numbers of a parameter are drawn, and then repeated. A prime number, so that many rows of a table differ."""


@dataclass(slots=True)
class _Patches:
    """Of torch's methods: made for the first of several threads that build models, taken back after the last."""

    lock: Lock = field(default_factory=Lock)
    users: int = 0
    made: ExitStack = field(default_factory=ExitStack)

    def begin(self) -> None:
        with self.lock:
            if self.users == 0:
                for name in ("normal_", "uniform_"):
                    self.made.enter_context(patch.object(torch.Tensor, name, _in_part(getattr(torch.Tensor, name))))
            self.users += 1

    def end(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.made.close()


_PATCHES = _Patches()


@contextmanager
def drawn_in_part() -> Iterator[None]:
    """Inside the `with` block, the tensor methods `normal_` and `uniform_`, which all of torch's initialisers call,
    fill a large parameter by repeating its first DRAWN numbers. Others are drawn as ever.

    No dispatch mode: under one, TorchScript and the compiler behave otherwise than in a user's own program.
    """
    _PATCHES.begin()
    try:
        yield
    finally:
        _PATCHES.end()


def _in_part(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def drawn(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not _is_large(tensor):
            return draw(tensor, *args, **kwargs)
        with torch.no_grad():
            flat = tensor.view(-1)
            draw(flat[:DRAWN], *args, **kwargs)
            for part in flat[DRAWN:].split(DRAWN):
                part.copy_(flat[: len(part)])
        return tensor

    return drawn


def _is_large(tensor: torch.Tensor) -> bool:
    """Whether this is an ordinary parameter of more than DRAWN numbers, one after the other in memory, that may be
    filled."""
    is_ordinary = type(tensor) is torch.nn.Parameter
    is_open = not (tensor.requires_grad and torch.is_grad_enabled())  # else torch refuses to fill it
    return is_ordinary and is_open and tensor.device.type == "cpu" and tensor.numel() > DRAWN and tensor.is_contiguous()
