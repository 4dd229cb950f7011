"""Parameters alone: all of an optimizer's work in one place, not in pieces at the weights of other blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, numbers
from statsnet.blocks.embedding import LARGEST_TABLE_ELEMENTS
from statsnet.blocks.pointwise import divide_leading
from statsnet.signatures.model import Cluster


class HandedGradient(torch.autograd.Function):
    """Passes its input on. In the backward pass, a weight gets the gradient that was saved for it."""

    @staticmethod
    def forward(ctx: torch.autograd.Function, x: Tensor, weight: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: torch.autograd.Function, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradients[0], gradient, None


class Parameters(Block):
    """A weight of this shape, with a gradient of its own. In a table only the first
    `rows_read` rows have a gradient other than zero (0: all rows), because no step reads the others."""

    def __init__(self, shape: tuple, rows_read: int = 0) -> None:
        super().__init__(1)
        self.weight = nn.Parameter(numbers(*shape))
        gradient = self.weight.detach().flip(0) / self.weight.numel() ** 0.5
        if rows_read:
            gradient[rows_read:] = 0
        self.register_buffer("gradient", gradient)

    def forward(self, x: Tensor) -> Tensor:
        return HandedGradient.apply(self.enter(x), self.weight, self.gradient)


class ParametersKind(BlockKind):
    name = "parameters"
    module = Parameters
    helpers = (HandedGradient,)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        """The parameter that an optimizer's operator steps, if what it writes is as large as the parameter."""
        first = motif[0]
        shape = _stepped_shape(first)
        if first.phase != "optimizer" or not math.prod(shape) or not shape:
            return None
        if any(isinstance(a, dict) and "sparse" in a for a in first.args):
            return None  # a sparse gradient comes with its look-up, as large as the rows read
        excess = math.prod(shape) / LARGEST_TABLE_ELEMENTS
        return {"shape": (divide_leading(shape, excess) or shape) if excess > 1 else shape}

    def scaled(self, config: Config, divisor: float) -> Config | None:
        shape = divide_leading(config["shape"], divisor)
        if shape is None or "rows_read" not in config:
            return None if shape is None else {"shape": shape}
        rows_read = max(1, round(config["rows_read"] * shape[0] / config["shape"][0]))
        return {"shape": shape, "rows_read": rows_read}

    def elements_read(self, config: Config) -> int:
        return math.prod(config["shape"])


def _stepped_shape(cluster: Cluster) -> tuple[int, ...]:
    """Shape of what the operator writes. On CUDA the default optimizers step a list of parameters at once: they
    count as one, end to end."""
    listed = next((a["tensors"] for a in cluster.args if isinstance(a, dict) and "tensors" in a), None)
    if listed is not None:
        shapes = [t["shape"] for t in listed if t is not None and t["shape"]]
        return (sum(map(math.prod, shapes)),) if shapes else ()
    written = next((o for o in cluster.outputs if o is not None), None)
    return tuple(written["shape"]) if written else ()
