"""Counting on fake tensors: the same counts as a real step, without its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from profiling_helpers import tiny_signature

from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.model import Signature

EXAMPLES = Path(__file__).parents[2] / "examples"


def count(**model: Any) -> Signature:
    return ProfileWorkload(model=Model(**model), device="meta").run(Context()).signature


@pytest.mark.parametrize(
    ("name", "mode"),
    [("cv/alexnet", "inference"), ("cv/alexnet", "training"), ("recsys/ncf", "training"),
     ("speech/deepspeech2", "inference")],
)  # fmt: skip
def test_counts_equal_those_of_a_real_step(name: str, mode: str) -> None:
    real = tiny_signature(name, mode)
    counted = count(target=name, preset="tiny", mode=mode)

    def rows(signature: Signature) -> list[tuple]:
        # Adam's scalars depend on the number of the step.
        return [
            (c.op, c.phase, c.calls, [a for a in c.args if not isinstance(a, float)], c.outputs, c.flops,
             c.bytes_moved)
            for c in signature.clusters
        ]  # fmt: skip

    assert rows(counted) == rows(real)
    assert counted.measurements == ()
    assert counted.memory.parameter_count == real.memory.parameter_count
    assert counted.memory.activation_bytes is not None
    assert real.memory.activation_bytes is not None
    # A library's own workspace cannot be counted on fake tensors.
    assert 0 < counted.memory.activation_bytes <= real.memory.activation_bytes


def test_layers_of_llama_70b_are_counted_without_their_memory() -> None:
    """A few of the eighty. docs/how-to/large-models.md runs them all in a test of its own."""
    pytest.importorskip("transformers")
    tokens, hidden, inner, layers, key_value, vocabulary = 512, 8192, 28_672, 6, 1024, 128_256
    signature = count(
        target=f"{EXAMPLES / 'llama_70b.py'}:llama_70b",
        mode="inference",
        dtype="bfloat16",
        overrides={"sequence": str(tokens), "layers": str(layers)},
    )
    per_layer = 2 * hidden**2 + 2 * hidden * key_value + 3 * hidden * inner + 2 * hidden
    parameters = layers * per_layer + 2 * vocabulary * hidden + hidden
    assert signature.memory.parameter_count == parameters
    assert signature.memory.parameter_bytes == 2 * parameters
    multiplied = parameters - vocabulary * hidden  # a token's row of the input table is read
    assert signature.flops_per_step == pytest.approx(2 * multiplied * tokens, rel=0.02)


def masked() -> Any:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=50,
    )  # fmt: skip
    ids = torch.ones(1, 8, dtype=torch.long)
    return LlamaModel(config), (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_a_mask_that_is_kept_for_want_of_values_is_told() -> None:
    pytest.importorskip("transformers")
    model = Model(target=f"{__file__}:masked", mode="inference")
    notes = ProfileWorkload(model=model, device="meta").run(Context()).notes
    assert [note for note in notes if "mask" in note] == [notes[-1]]
