"""Configurations of transformers made small, and what their models are called with. No model is built."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.drawn.scaled_configs import Scale
from benchmarks.drawn.transformers_inputs import inputs

transformers = pytest.importorskip("transformers")


def test_widths_shrink_together_and_special_words_stay_apart() -> None:
    large = transformers.BertConfig(bos_token_id=101, eos_token_id=30_000)
    small = Scale(divisor=4, layers=2).of(large)
    assert (small.hidden_size, small.intermediate_size, small.num_attention_heads) == (192, 768, 3)
    assert (small.num_hidden_layers, small.vocab_size) == (2, 1000)
    assert (small.bos_token_id, small.eos_token_id) == (101, 999)
    assert small.max_position_embeddings == large.max_position_embeddings
    assert large.hidden_size == 768


@pytest.mark.parametrize(("image", "side"), [(True, 224), (False, 336)])
def test_configurations_inside_another_shrink_too(image: bool, side: int) -> None:
    small = Scale(divisor=8, layers=2, image=image).of(transformers.LlavaConfig())
    assert (small.vision_config.hidden_size, small.vision_config.num_attention_heads) == (128, 2)
    assert (small.vision_config.image_size, small.vision_config.patch_size) == (side, 14)
    assert (small.text_config.hidden_size, small.text_config.vocab_size) == (512, 1000)
    assert small.image_token_id < 1000


def test_a_model_is_given_what_its_forward_takes_in_the_sizes_of_its_configuration() -> None:
    def forward(pixel_values: Any = None, input_ids: Any = None) -> None: ...

    config = SimpleNamespace(vocab_size=50, image_size=32, num_channels=1)
    first, *others = inputs(SimpleNamespace(config=config, forward=forward), Random(0), batch=2, tiny=True)
    assert first.keys() == {"input_ids", "pixel_values"}
    assert first["pixel_values"].shape == (2, 1, 32, 32)
    assert first["input_ids"].max() < 50
    assert {"input_ids"} in [given.keys() for given in others]


def test_a_backbone_of_another_library_becomes_one_of_transformers() -> None:
    small = Scale(divisor=8, layers=2).of(transformers.DetrConfig())
    assert small.backbone_config.model_type == "resnet"
    assert small.backbone_config.out_indices == [1, 2, 3, 4]


def test_what_a_configuration_leaves_open_is_filled_where_that_is_asked_for() -> None:
    large = transformers.Dots1Config(num_hidden_layers=2)
    assert Scale(divisor=8, layers=2).of(large).n_routed_experts is None
    small = Scale(divisor=8, layers=2, filled=True).of(large)
    assert (small.n_routed_experts, small.num_experts_per_tok) == (4, 2)
    assert small.moe_intermediate_size % 8 == 0


def test_key_value_heads_and_kinds_of_layers_that_are_left_open_are_those_of_plain_attention() -> None:
    filled = Scale(divisor=8, layers=2, filled=True)
    config = filled.of(transformers.NemotronConfig())
    assert config.num_key_value_heads == config.num_attention_heads > 1
    assert filled.of(transformers.Lfm2MoeConfig()).layer_types == ["full_attention"] * 2
