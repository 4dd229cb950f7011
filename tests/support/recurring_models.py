"""Models that do something every n-th step, at first, or by chance."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import torch
from changing_models import WIDTH, Calls
from torch import nn


def random_layer() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        return self.linear(x) if random.random() < 0.5 else x

    return Calls(run), (torch.randn(4, WIDTH),)


def counting() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = self.linear(x)
        return self.linear(x) if self.count % 2 else x

    return Calls(run, count=0), (torch.randn(4, WIDTH),)


def every_fourth(counter: str = "attribute") -> Any:
    """Its layer runs once, and in every fourth step once more."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if counter == "buffer":
            self.count.add_(1)
        elif counter == "dictionary":
            self.count["steps"] += 1
        else:
            self.count += 1
        count = self.count["steps"] if counter == "dictionary" else self.count
        x = self.linear(x)
        return self.linear(x) if count % 4 == 0 else x

    counts: dict[str, Any] = {"attribute": 0, "buffer": torch.tensor(0), "dictionary": {"steps": 0}}
    return Calls(run, count=counts[counter]), (torch.randn(4, WIDTH),)


class EveryFourth(torch.optim.SGD):
    """Accumulates gradients over four steps."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        return super().step() if self.count % 4 == 0 else None


def accumulating() -> Any:
    model = nn.Linear(WIDTH, WIDTH)
    return {"model": model, "inputs": torch.randn(4, WIDTH), "optimizer": EveryFourth}


def averaging_weights() -> Any:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.update_parameters(self.linear)
        return self.linear(x)  # type: ignore[no-any-return]

    model = Calls(run)
    model.mean = AveragedModel(model.linear, multi_avg_fn=get_ema_multi_avg_fn(0.9)).requires_grad_(False)
    return model, (torch.randn(4, WIDTH),)


def settling_queue() -> Any:
    """Of the last three inputs."""
    last: deque[torch.Tensor] = deque(maxlen=3)

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        last.append(x)
        return self.linear(torch.cat(list(last)))  # type: ignore[no-any-return]

    return Calls(run), (torch.randn(4, WIDTH),)


def own_generator() -> Any:
    import numpy

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.numbers.integers(1, 3)):
            x = self.linear(x)
        return x

    return Calls(run, numbers=numpy.random.default_rng(0)), (torch.randn(4, WIDTH),)


def optimizer_inside() -> Any:
    """The first step makes the optimizer's state."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            self.linear(x).square().mean().backward()
        self.adam.step()
        self.adam.zero_grad()
        return x

    model = Calls(run)
    model.adam = torch.optim.Adam(model.linear.parameters())
    return model, (torch.randn(4, WIDTH),)


def scaled_loss() -> Any:
    """The loss and the optimizer share a scaler through a closure."""
    shared: dict[str, Any] = {}

    class Scaled:
        def __init__(self, parameters: Any) -> None:
            self.inner = torch.optim.Adam(parameters)
            self.scaler = torch.amp.GradScaler("cpu")

        def step(self) -> None:
            self.scaler.step(self.inner)
            self.scaler.update()

        def zero_grad(self) -> None:
            self.inner.zero_grad()

    def optimizer(parameters: Any) -> Any:
        shared["it"] = Scaled(parameters)
        return shared["it"]

    def loss(out: torch.Tensor) -> Any:
        return shared["it"].scaler.scale(out.square().mean())

    return {"model": nn.Linear(WIDTH, WIDTH), "args": torch.randn(4, WIDTH), "optimizer": optimizer, "loss": loss}


def every_fourth_decomposed() -> Any:
    """Whether a mode is on decides how torch computes this derivative."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = self.linear(x)
        return torch.cumprod(x, 1) if self.count % 4 == 0 else x

    return Calls(run, count=0), (torch.randn(4, WIDTH),)


def every_fourth_larger() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.linear(x.repeat(100, 1)) if self.count % 4 == 0 else self.linear(x)  # type: ignore[no-any-return]

    return Calls(run, count=0), (torch.randn(4, WIDTH),)
