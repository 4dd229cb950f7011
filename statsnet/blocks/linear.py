"""Matrix products with a weight: linear layers and GPT-2's transposed ones."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided, numbers, side_input
from statsnet.blocks.conv import OF_ACTIVATIONS, activation_behind, adds_a_branch
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec

ALIGNED_ROWS = 16
"""Compilers such as IREE compute so many rows of a product at once. They take longer, often much, for a number of rows
that leaves a rest."""

FARTHEST_ROWS = 0.05
"""Rows are not changed by more than this share of them in order to leave no rest."""


class Linear(Block):
    """rows × inputs times inputs × outputs, with optional addition of a side input and activation behind it;
    `weight_first_axis_in` stores the weight as inputs × outputs. If it has several `uses`, it runs so often, each time
    on other rows, as in a loop over time steps. Its weight then stays in a cache, and the weight's gradients are added
    up. The results of these uses are `stacked` along an axis of their own, or else follow each other."""

    def __init__(
        self, rows: int, inputs: int, outputs: int, bias: bool = True, activation: str = "",
        weight_first_axis_in: bool = False, uses: int = 1, residual: bool = False, stacked: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(*((uses, rows) if stacked else (rows * uses,)), inputs)
        shape = (inputs, outputs) if weight_first_axis_in else (outputs, inputs)
        self.weight = nn.Parameter(numbers(*shape) / math.sqrt(inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.weight_first_axis_in = weight_first_axis_in
        self.activation = getattr(F, activation) if activation else None
        self.rows, self.uses, self.stacked = rows, uses, stacked
        self.side_input = side_input(rows, outputs) if residual else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        if self.stacked:
            return torch.stack([self.layer(part) for part in x.unbind()])
        return self.layer(x) if self.uses == 1 else torch.cat([self.layer(part) for part in x.split(self.rows)])

    def layer(self, x: Tensor) -> Tensor:
        if not self.weight_first_axis_in:
            y = F.linear(x, self.weight, self.bias)
        elif self.bias is None:
            y = x @ self.weight
        else:
            y = torch.addmm(self.bias, x, self.weight)
        if self.side_input is not None:
            y = y + self.side_input
        return y if self.activation is None else self.activation(y)


class LinearKind(BlockKind):
    name = "linear"
    module = Linear
    mixes = True
    helpers = (side_input,)
    words = OF_ACTIVATIONS

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        base = base_name(first.op)
        operands = {"addmm": (1, 2), "mm": (0, 1), "linear": (0, 1)}.get(base)
        if operands is None:
            return None
        x, weight = (TensorSpec.from_dict(first.args[i]) for i in operands)
        config: Config = {
            "rows": math.prod(x.shape[:-1]),
            "inputs": x.shape[-1],
            "outputs": weight.shape[0] if base == "linear" else weight.shape[1],
            "bias": base == "addmm" or (base == "linear" and first.args[2] is not None),
            "activation": activation_behind(motif),
            "weight_first_axis_in": base != "linear" and weight.layout == "contiguous" and min(weight.shape) > 1,
        }
        return {**config, "residual": True} if any(map(adds_a_branch, motif[1:2])) else config

    def with_uses(self, config: Config, uses: int) -> Config | None:
        """Without the addition: a loop adds another branch each time, and a block has one."""
        layer = {name: value for name, value in config.items() if name != "residual"}
        return {**layer, "uses": uses}

    def uses(self, config: Config) -> int:
        return int(config.get("uses", 1))

    def flops(self, config: Config) -> float:
        return 2.0 * config["rows"] * config["inputs"] * config["outputs"] * self.uses(config)

    def scaled(self, config: Config, divisor: float) -> Config | None:
        if self.uses(config) > 1:  # each product, and so its kernel, stays the same
            uses = divided(self.uses(config), divisor)
            return None if uses is None or uses < 2 else {**config, "uses": uses}
        rows = _fewer_rows(config["rows"], divisor)
        return None if rows is None or rows < 2 <= config["rows"] else {**config, "rows": rows}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Fewer outputs; once few are left, fewer inputs. With few rows, a layer takes as long as reading its weight
        does, so that fewer rows would not make it shorter."""
        outputs, inputs, factor = config["outputs"], config["inputs"], divisor
        while factor > 1 and max(outputs, inputs) >= 128:
            if outputs >= min(inputs, 128):
                outputs = outputs // 2
            else:
                inputs = inputs // 2
            factor //= 2
        return {**config, "outputs": outputs, "inputs": inputs} if factor == 1 else None


def _fewer_rows(rows: int, divisor: float) -> int | None:
    """rows ÷ divisor; a multiple of the power of two, up to ALIGNED_ROWS, that `rows` is a multiple of."""
    kept, step = divided(rows, divisor), math.gcd(rows, ALIGNED_ROWS)
    if kept is None:
        return None
    aligned = step * round(kept / step)
    return aligned if abs(aligned - kept) <= FARTHEST_ROWS * kept else kept
