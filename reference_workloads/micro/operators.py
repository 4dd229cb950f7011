"""Single operators, one after the other, each on a view of the same random numbers.

The suites time every operator by itself, so its input may lie where those of the others lie; only the weights
have memory of their own.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

CELLS = {"vanilla": partial(nn.RNN, nonlinearity="relu"), "lstm": nn.LSTM, "gru": nn.GRU}


class Operator(nn.Module):
    """A layer and the shape of what goes in; a training step computes the gradient of that, too."""

    def __init__(self, layer: nn.Module, *shape: int) -> None:
        super().__init__()
        self.layer = layer
        self.shape = shape

    def forward(self, numbers: Tensor) -> Tensor:
        x = numbers[: math.prod(self.shape)].view(self.shape)
        return self.layer(x.detach().requires_grad_() if self.training else x)


class Operators(nn.Module):
    """Runs the operators of the mode's set and returns their outputs."""

    def __init__(self, training: list[Operator], inference: list[Operator]) -> None:
        super().__init__()
        self.training_set = nn.ModuleList(training)
        self.inference_set = nn.ModuleList(inference)

    def forward(self, numbers: Tensor) -> list[Tensor]:
        """numbers: (as many as the largest input has,)."""
        chosen = self.training_set if self.training else self.inference_set
        return [operator(numbers) for operator in chosen]


class Product(nn.Module):
    """The product of a weight, (m, k), and an input, (k, n); "t" in the layout: stored transposed."""

    def __init__(self, m: int, k: int, layout: str = "nn") -> None:
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(torch.empty((k, m) if layout[0] == "t" else (m, k)))
        nn.init.normal_(self.weight, std=k**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.t() if self.layout[0] == "t" else self.weight
        return weight @ (x.t() if self.layout[1] == "t" else x)


class Recurrent(nn.Module):
    """A recurrent layer over (time, batch, inputs); returns the states of all times."""

    def __init__(self, cell: str, inputs: int, hidden: int) -> None:
        super().__init__()
        self.layer = CELLS[cell](inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def workload(training: list[Operator], inference: list[Operator] | None = None) -> tuple[nn.Module, Tensor]:
    """The operators of both modes (the same ones where one list is given) and the numbers they work on."""
    model = Operators(training, training if inference is None else inference)
    largest = max(math.prod(operator.shape) for operator in (*model.training_set, *model.inference_set))
    return model, torch.randn(largest)
