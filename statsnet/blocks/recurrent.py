"""Recurrent layers: some run as one operator, others as a loop over steps inside the framework."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Recurrent(Block):
    """One direction of one layer of LSTM, GRU or plain (tanh) RNN cells over `steps` positions."""

    def __init__(self, steps: int, batch: int, inputs: int, hidden: int, cell: str = "LSTM") -> None:
        super().__init__(steps, batch, inputs)
        self.cell = getattr(nn, cell)(inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cell.forward(self.enter(x))
        return y


LARGEST_BATCH = 256
"""Most sequences in a batch. A product of more rows is taken for a layer over all positions at once."""


class RecurrentKind(BlockKind):
    name = "recurrent"
    module = Recurrent
    mixes = True

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) not in ("mkldnn_rnn_layer", "_cudnn_rnn"):
            return None
        shape = first.args[0]["shape"]
        hidden = next(o["shape"][-1] for o in first.outputs if o is not None)
        return {"steps": shape[0], "batch": shape[1], "inputs": shape[2], "hidden": hidden}

    def from_step(self, motif: list[Cluster]) -> Config | None:
        """One step of a layer, if this motif may be the product of its hidden state: ATen runs the steps of GRUs and
        plain RNNs one by one, without the interpreter in between."""
        first = motif[0]
        places = {"addmm": (1, 2), "linear": (0, 1)}.get(base_name(first.op))
        if places is None or first.phase != "forward":
            return None
        shapes: list[Any] = [first.args[i]["shape"] for i in places]
        hidden, batch = shapes[0][-1], math.prod(shapes[0][:-1])
        outputs = math.prod(shapes[1]) // hidden
        cell = {3 * hidden: "GRU", hidden: "RNN"}.get(outputs)
        if cell is None or batch > LARGEST_BATCH or (cell == "RNN" and not _adds_and_squashes(motif)):
            return None
        return {"steps": 1, "batch": batch, "inputs": hidden, "hidden": hidden, "cell": cell}

    def steady(self, config: Config) -> bool:
        return False  # its gates let about a tenth of a gradient through

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer time steps: each step's product, and so its kernel, stays the same."""
        steps = divided(config["steps"], divisor)
        return None if steps is None else {**config, "steps": steps}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        hidden = divided(config["hidden"], divisor)
        return None if hidden is None or hidden < 32 else {**config, "hidden": hidden}


def _adds_and_squashes(motif: list[Cluster]) -> bool:
    """Whether the product is added to another (of the input) and the sum goes through a tanh."""
    return [base_name(c.op).rstrip("_") for c in motif[1:3]] == ["add", "tanh"]
