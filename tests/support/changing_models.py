"""What models with steps that are not alike are made of, and some whose inputs have many shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH = 16


class Calls(nn.Module):
    """Calls a function with the module and its inputs."""

    def __init__(self, function: Callable[..., Any], **held: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = function
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def target_of(factory: Callable[..., Any]) -> str:
    """What names the factory on the command line."""
    return f"{inspect.getfile(factory)}:{factory.__name__}"


def many_lengths(descending: bool = False) -> Any:
    lengths = sorted(range(4, 84, 4), reverse=descending)
    return {"model": nn.Linear(WIDTH, WIDTH), "inputs": [((torch.randn(n, WIDTH),), {}) for n in lengths]}


def recurrent() -> Any:
    class Last(nn.GRU):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(rows)[0]

    return Last(WIDTH, WIDTH), torch.randn(2, WIDTH)


def resizing() -> Any:
    """Its first step gives an empty buffer a size, as an observer's does. torch cannot resize what NumPy holds."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not self.range.numel():
            self.range.resize_(WIDTH).zero_()
        self.range.add_(x.detach().amax(0))
        return self.linear(x) + self.range  # type: ignore[no-any-return]

    model = Calls(run)
    model.register_buffer("range", torch.empty(0))
    return model, (torch.randn(4, WIDTH),)


def asking() -> Any:
    return {"model": nn.Linear(WIDTH, WIDTH), "args": torch.randn(4, WIDTH, requires_grad=True), "loss": torch.sum}
