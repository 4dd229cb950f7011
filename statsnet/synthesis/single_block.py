"""One block alone, run as it would be inside a network, and a training step with nothing to do."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import record_function

from statsnet.blocks import KINDS
from statsnet.blocks.base import SIDE_INPUTS, laid_out, with_tuples
from statsnet.blocks.operator import Operator, spread
from statsnet.blocks.zipf import zipf_indices
from statsnet.proxy.towers import Placed
from statsnet.workloads.optimizers import make_optimizer

REPEATS = 3
SEGMENTS = ("block", "optimizer")


class SingleBlock:
    """A block that runs as it would inside a network: cold cache, warm input, fresh indices."""

    def __init__(self, placed: Placed, *, mode: str, dtype: torch.dtype, device: str) -> None:
        kind = KINDS[placed.kind]
        config = with_tuples(placed.config)
        with torch.device(device):
            self.module: nn.Module = kind.build(config).to(dtype=dtype)
        self.module.train(mode == "training")
        self.training = mode == "training" and not kind.ends_tower(config)
        self.optimizer = None
        self.indices: list[torch.Tensor] = []
        index_range = kind.index_range(config)
        if isinstance(self.module, Operator):
            self.source, self.x = self.module.samples(2)
        elif index_range is None:
            self.source = torch.randn(tuple(self.module.shape), device=device, dtype=dtype)  # type: ignore[arg-type]
            self.x = self.source.clone().requires_grad_(self.training)
        else:
            (count, rows), skew = index_range, float(placed.config["skew"])
            generator = torch.Generator().manual_seed(0)
            self.indices = [zipf_indices(count, rows, skew, generator).to(device) for _ in range(2 * REPEATS)]
        self.turn = 0
        self.framework_warmer = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device=device, dtype=dtype)
        self.warm_input = torch.ones(8, 8, device=device, dtype=dtype)
        with torch.no_grad():
            y = self.module(self._input())
        if not self.training:
            return
        self.grad = laid_out(torch.randn_like(y) / y.numel() ** 0.5, self.module)
        stepped = [p for name, p in self.module.named_parameters() if name not in SIDE_INPUTS]
        if stepped and placed.optimizer:
            self.optimizer = make_optimizer(placed.optimizer, stepped, sparse=bool(config.get("sparse")))

    def _input(self) -> torch.Tensor:
        if self.indices:
            return self._next_indices()
        with torch.no_grad():
            spread(self.x).copy_(spread(self.source))
        return self.x

    def _next_indices(self) -> torch.Tensor:
        self.turn += 1
        return self.indices[self.turn % len(self.indices)]

    def run(self) -> None:
        self._warm_framework()
        self.module.zero_grad(set_to_none=True)
        x = self._input()
        with record_function("segment:block"):
            self._use(x)
        if self.optimizer is not None:
            with record_function("segment:optimizer"):
                self.optimizer.step()

    def uses(self) -> dict[str, Callable[[], object]]:
        """What runs in each segment, after the first `run`, to be run any number of times."""
        block: dict[str, Callable[[], object]] = {
            "block": lambda: self._use(self._next_indices() if self.indices else self.x)
        }
        return block if self.optimizer is None else {**block, "optimizer": self.optimizer.step}

    def _use(self, x: torch.Tensor) -> None:
        if self.training:
            self._backward(self.module.forward(x), x)
        else:
            with torch.no_grad():
                self.module.forward(x)  # as the network runs it

    def _backward(self, y: torch.Tensor, x: torch.Tensor) -> None:
        """As in the middle of a network: the input gets a gradient, but it is not kept."""
        weights = list(self.module.parameters())
        wanted = [*([] if self.indices else [x]), *weights]
        gradients = torch.autograd.grad(y, wanted, self.grad)
        for weight, gradient in zip(weights, gradients[len(wanted) - len(weights) :], strict=True):
            weight.grad = gradient

    def _warm_framework(self) -> None:
        """Flushing the caches also removes the interpreter's and dispatcher's code, which a network keeps there."""
        with torch.set_grad_enabled(self.training):
            y = self.framework_warmer(self.warm_input)
        if self.training:
            y.sum().backward()


class IdleStep(SingleBlock):
    """A block without operators, and an optimizer whose parameter has no gradient."""

    def __init__(self, optimizer: str, *, dtype: torch.dtype, device: str) -> None:
        placed = Placed(kind="parameters", config={"shape": (1,)}, optimizer=optimizer)
        super().__init__(placed, mode="training", dtype=dtype, device=device)

    def _backward(self, y: torch.Tensor, x: torch.Tensor) -> None:
        super()._backward(y, x)
        self.module.zero_grad(set_to_none=True)
