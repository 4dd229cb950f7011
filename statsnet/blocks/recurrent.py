"""Recurrent layers: some run as one operator, others as a loop over steps inside the framework."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.parameters import tensors_in


class Recurrent(Block):
    """Layers of LSTM, GRU or plain (tanh) RNN cells over `steps` positions, forwards or in both directions."""

    most_layers = 64  # a stranger's file may name any number, and each layer is a module

    def __init__(
        self, steps: int, batch: int, inputs: int, hidden: int, cell: str = "LSTM", layers: int = 1, both: bool = False
    ) -> None:
        super().__init__(steps, batch, inputs)
        if layers > self.most_layers:
            raise ValueError(f"{layers} recurrent layers in one block")
        self.cell = getattr(nn, cell)(inputs, hidden, layers, bidirectional=both)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cell.forward(self.enter(x))
        return y


LARGEST_BATCH = 256
"""Most sequences in a batch. A product of more rows is taken for a layer over all positions at once."""

STATE = {"_cudnn_rnn": 4, "miopen_rnn": 3}
"""A GPU's libraries run all layers and directions in one call: the place of its initial state among the arguments."""

CELLS = {4: "LSTM", 3: "GRU", 1: "RNN"}
"""By the number of matrices (gates) that a cell's weights hold."""


class RecurrentKind(BlockKind):
    name = "recurrent"
    module = Recurrent
    mixes = True
    words: ClassVar = {"cell": CELLS.values()}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if (name := base_name(first.op)) in STATE:
            return _all_layers(first, STATE[name])
        if name != "mkldnn_rnn_layer":
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

    def flops(self, config: Config) -> float:
        weights = sum(p.numel() for p in self.on_meta(config).parameters())
        return 2.0 * config["steps"] * config["batch"] * weights

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer time steps: each step's product, and so its kernel, stays the same."""
        steps = divided(config["steps"], divisor)
        return None if steps is None else {**config, "steps": steps}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        hidden = divided(config["hidden"], divisor)
        return None if hidden is None or hidden < 32 else {**config, "hidden": hidden}


def _all_layers(cluster: Cluster, state: int) -> Config | None:
    """By shapes alone, which also tell of inputs [steps, batch, size], batch first, or packed. None for projections,
    whose state is shorter than a gate."""
    *tokens, inputs = cluster.args[0]["shape"]
    rows, batch, hidden = cluster.args[state]["shape"]
    gates = next(t["shape"][0] for t in tensors_in([cluster.args[1]]))
    directions = next(o["shape"][-1] for o in cluster.outputs if o is not None) // hidden
    if gates % hidden or gates // hidden not in CELLS or directions not in (1, 2) or rows % directions:
        return None
    if not 1 <= rows // directions <= Recurrent.most_layers:
        return None
    config = {"steps": max(1, math.prod(tokens) // batch), "batch": batch, "inputs": inputs, "hidden": hidden}
    usual = {"cell": "LSTM", "layers": 1, "both": False}
    found = {"cell": CELLS[gates // hidden], "layers": rows // directions, "both": directions == 2}
    return config | {key: value for key, value in found.items() if value != usual[key]}


def _adds_and_squashes(motif: list[Cluster]) -> bool:
    """Whether the product is added to another (of the input) and the sum goes through a tanh."""
    return [base_name(c.op).rstrip("_") for c in motif[1:3]] == ["add", "tanh"]
