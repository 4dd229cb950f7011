"""Recurrent layers that run as one operator."""

from __future__ import annotations

from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Recurrent(Block):
    """One direction of one LSTM layer over `steps` positions."""

    def __init__(self, steps: int, batch: int, inputs: int, hidden: int) -> None:
        super().__init__(steps, batch, inputs)
        self.cell = nn.LSTM(inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cell(self.enter(x))
        return y


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

    def steady(self, config: Config) -> bool:
        return False  # its gates let about a tenth of a gradient through

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer time steps: each step's product, and so its kernel, stays what it was."""
        steps = divided(config["steps"], divisor)
        return None if steps is None else {**config, "steps": steps}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        hidden = divided(config["hidden"], divisor)
        return None if hidden is None or hidden < 32 else {**config, "hidden": hidden}
