"""Recurrent layers from the operators that they are: steps in a loop, and all layers in one call of a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from statsnet.blocks import KINDS, readings, recognise
from statsnet.signatures.model import Cluster

Motifs = Callable[[Callable[[], Any]], list[list[Cluster]]]
r = torch.randn


@pytest.mark.parametrize(("cell", "steps"), [("GRU", 5), ("RNN", 3)])
def test_steps_that_the_framework_runs_in_a_loop_are_recurrent_layers(cell: str, steps: int, motifs: Motifs) -> None:
    """ATen runs a GRU as products and element-wise work; the block is the layer itself, so it is what ran."""
    layer, x = getattr(nn, cell)(8, 6), r(steps, 4, 8)
    configs = [c for m in motifs(lambda: layer(x)) for kind, c in readings(m) if kind == "recurrent"]
    assert configs == [{"steps": 1, "batch": 4, "inputs": 6, "hidden": 6, "cell": cell}] * steps
    block, y = KINDS["recurrent"].build({**configs[0], "steps": steps}), r(steps, 4, 6)
    mine = sorted(c.op for m in motifs(lambda: block(y)) for c in m)
    assert mine == sorted(c.op for m in motifs(lambda: layer(x)) for c in m)


@pytest.mark.parametrize(("layer", "rows"), [(nn.Linear(8, 24), 512), (nn.Sequential(nn.Linear(8, 8), nn.Tanh()), 4)])
def test_other_layers_are_no_steps(layer: nn.Module, rows: int, motifs: Motifs) -> None:
    kinds = [kind for m in motifs(lambda: layer(r(rows, 8))) for kind, _ in readings(m)]
    assert "linear" in kinds and "recurrent" not in kinds


def library_layer(op: str, x: list[int], y: list[int], state: list[int], gates: int) -> Cluster:
    """All layers in one call, as cuDNN and MIOpen run them; MIOpen has no buffer of weights."""
    tensors = [{"shape": s, "dtype": "float32"} for s in (x, [gates, x[-1]], [gates, state[-1]], [gates], state, y)]
    given, *weights, initial, result = tensors
    buffer = [weights[0]] if op == "_cudnn_rnn" else []
    args = (given, {"tensors": weights}, 4, *buffer, initial, None, 3, state[-1])
    return Cluster(
        op=f"aten.{op}.default", phase="forward", category="recurrent", calls=1.0, args=args, outputs=(result, initial),
    )  # fmt: skip


@pytest.mark.parametrize("op", ["_cudnn_rnn", "miopen_rnn"])
@pytest.mark.parametrize(
    ("x", "y", "state", "gates", "more"),
    [
        ([6, 2, 4], [6, 2, 5], [1, 2, 5], 20, {}),
        ([6, 2, 4], [6, 2, 10], [2, 2, 5], 15, {"cell": "GRU", "both": True}),
        ([6, 2, 4], [6, 2, 5], [3, 2, 5], 5, {"cell": "RNN", "layers": 3}),
        ([2, 6, 4], [2, 6, 10], [4, 2, 5], 20, {"layers": 2, "both": True}),
        ([12, 4], [12, 5], [1, 2, 5], 20, {}),
    ],
    ids=["LSTM", "both directions", "three layers", "batch first", "packed"],
)
def test_all_layers_in_one_call(
    op: str, x: list[int], y: list[int], state: list[int], gates: int, more: dict[str, Any]
) -> None:
    config = KINDS["recurrent"].from_motif([library_layer(op, x, y, state, gates)])
    assert config == {"steps": 6, "batch": 2, "inputs": 4, "hidden": 5, **more}
    cell = KINDS["recurrent"].build(config).cell
    assert (cell.weight_ih_l0.shape[0], cell.bidirectional) == (gates, "both" in more)


def test_a_layer_with_a_projection_is_left_to_others() -> None:
    assert KINDS["recurrent"].from_motif([library_layer("_cudnn_rnn", [6, 2, 4], [6, 2, 3], [1, 2, 3], 20)]) is None


@pytest.mark.parametrize("state", [[2 * 10**9, 2, 5], [0, 2, 5], [5, 2, 5]])
def test_a_number_of_layers_that_no_model_has_is_no_layer(state: list[int]) -> None:
    """Each layer is a module: a stranger's file must not make one in billions."""
    assert KINDS["recurrent"].from_motif([library_layer("_cudnn_rnn", [6, 2, 4], [6, 2, 10], state, 20)]) is None
    with pytest.raises(ValueError, match="recurrent layers"):
        KINDS["recurrent"].on_meta({"steps": 6, "batch": 2, "inputs": 4, "hidden": 5, "layers": 10**9})


def test_a_layer_without_its_weights_is_left_to_others() -> None:
    whole = library_layer("_cudnn_rnn", [6, 2, 4], [6, 2, 5], [1, 2, 5], 20)
    bare = Cluster(
        op=whole.op, phase="forward", category="recurrent", calls=1.0, args=(whole.args[0], None, *whole.args[2:]),
        outputs=whole.outputs,
    )  # fmt: skip
    assert recognise([bare]) is None
