"""Configurations of transformers made small, and what their models are called with. No model is built."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.drawn.scaled_configs import Scale
from benchmarks.drawn.transformers_expected import Expected
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


@pytest.mark.parametrize(("image", "side"), [(224, 224), (None, 336)])
def test_configurations_inside_another_shrink_too(image: int | None, side: int) -> None:
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


def test_sizes_of_stages_that_a_class_does_not_compute_shrink_too() -> None:
    large = transformers.Sam2HieraDetConfig()
    small = Scale(divisor=8, layers=2).of(large)
    assert small.embed_dim_per_stage == [size // 8 for size in large.embed_dim_per_stage]
    assert small.embed_dim_per_stage[0] == small.hidden_size
    assert max(small.blocks_per_stage) == 2


@pytest.mark.parametrize("filled", [False, True])
def test_a_filled_configuration_splits_rotary_embeddings_by_time_and_space(filled: bool) -> None:
    small = Scale(divisor=8, layers=2, filled=filled).of(transformers.Glm4vTextConfig())
    sections = (small.rope_parameters or {}).get("mrope_section")
    head_dim = small.hidden_size // small.num_attention_heads
    assert (sum(sections) == head_dim // 2) if filled else sections is None


def test_a_filled_configuration_has_what_its_model_reads_undeclared() -> None:
    assert not hasattr(transformers.DbrxConfig().attn_config, "rope_theta")
    assert Scale(divisor=8, layers=2, filled=True).of(transformers.DbrxConfig()).attn_config.rope_theta > 0


def test_a_picture_in_rows_of_patches_comes_with_their_number() -> None:
    def forward(pixel_values: Any, pixel_attention_mask: Any, spatial_shapes: Any) -> None: ...

    config = SimpleNamespace(patch_size=4, num_channels=1)
    given = list(inputs(SimpleNamespace(config=config, forward=forward), Random(0), batch=2, tiny=True))
    (rows,) = (each for each in given if "spatial_shapes" in each)
    assert rows["pixel_values"].shape == (2, int(rows["spatial_shapes"][0].prod()), 16)


def test_a_spectrum_of_which_there_may_be_over_half_a_minute_is_short() -> None:
    def forward(input_features: Any) -> None: ...

    config = SimpleNamespace(max_source_positions=5000, num_mel_bins=8)
    given = list(inputs(SimpleNamespace(config=config, forward=forward), Random(0), batch=2, tiny=True))
    assert {tuple(each["input_features"].shape) for each in given if each} == {(2, 8, 200), (2, 200, 8)}


def test_lists_of_each_layers_sizes_are_cut_to_the_layers_that_remain() -> None:
    large = transformers.Gemma3nTextConfig()
    small = Scale(divisor=8, layers=2).of(large)
    assert len(large.intermediate_size) == large.num_hidden_layers
    assert len(small.intermediate_size) == small.num_hidden_layers == len(set(large.layer_types))
    assert small.intermediate_size[0] == large.intermediate_size[0] // 8


@pytest.mark.parametrize("count", [1, 2])
def test_so_many_layers_of_each_kind_remain_as_are_asked_for(count: int) -> None:
    small = Scale(divisor=8, layers=2, of_each_kind=count).of(transformers.ZambaConfig())
    assert {kind: small.layers_block_type.count(kind) for kind in small.layers_block_type} == {
        "linear_attention": count,
        "hybrid": count,
    }


def test_a_backbone_hands_out_the_stages_that_the_larger_one_does() -> None:
    small = Scale(divisor=8, layers=2).of(transformers.OneFormerConfig())
    assert small.backbone_config.out_features == ["stage1", "stage2", "stage3", "stage4"]


def test_a_filled_backbone_hands_out_all_of_its_stages() -> None:
    large = transformers.ResNetConfig()
    assert large.out_features == ["stage4"]
    assert Scale(divisor=8, layers=2, filled=True).of(large).out_features == large.stage_names[1:]


def test_rotary_embeddings_of_each_kind_of_layer_are_filled_by_kind() -> None:
    small = Scale(divisor=8, layers=2, filled=True).of(transformers.CohereCompassTextConfig())
    sections = small.rope_parameters["full_attention"]["mrope_section"]
    assert sum(sections) == small.head_dim // 2


def test_rotary_embeddings_are_those_of_the_smaller_heads() -> None:
    small = Scale(divisor=8, layers=2, filled=True).of(transformers.Ernie4_5_VLMoeConfig()).text_config
    head_dim = small.hidden_size // small.num_attention_heads
    assert head_dim != 128  # 20 heads are 2 of them, not 2.5
    assert sum(small.rope_parameters["mrope_section"]) == head_dim // 2


def test_a_filled_hybrid_has_what_its_model_reads_undeclared_too() -> None:
    config = transformers.T5Gemma2EncoderConfig()
    assert Scale(divisor=8, layers=2, filled=True).of(config).text_config.dropout_rate == 0


def given_to(config: SimpleNamespace, forward: Any) -> list[dict[str, Any]]:
    return list(inputs(SimpleNamespace(config=config, forward=forward), Random(0), batch=2, tiny=True))


def shapes(given: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in given.items()}


def part(**fields: Any) -> SimpleNamespace:
    """A configuration inside another one."""
    return SimpleNamespace(to_dict=dict, **fields)


def test_what_a_part_says_of_pictures_and_words_holds_for_the_whole() -> None:
    def forward(pixel_values: Any = None, input_ids: Any = None) -> None: ...

    config = SimpleNamespace(vocab_size=500, encoder=part(vocab_size=30, backbone=part(image_size=48)))
    first, *_ = given_to(config, forward)
    assert first["pixel_values"].shape == (2, 3, 48, 48)
    assert first["input_ids"].max() < 30


def test_what_a_model_does_not_run_without_is_given_beside_all_that_is_likely() -> None:
    def forward(pixel_values: Any, qformer_input_ids: Any, input_ids: Any = None) -> None: ...

    given = [shapes(each) for each in given_to(SimpleNamespace(image_size=32), forward)]
    for side in ((3, 32, 32), (4, 3, 32, 32)):
        assert {"pixel_values": (2, *side), "qformer_input_ids": (2, 16)} in given


def test_a_picture_and_its_prompt_are_the_halves_of_one() -> None:
    def forward(pixel_values: Any, prompt_pixel_values: Any, prompt_masks: Any) -> None: ...

    halves = [given for given in given_to(SimpleNamespace(image_size=[64, 32]), forward) if "prompt_masks" in given]
    assert {tuple(tensor.shape) for given in halves for tensor in given.values()} == {(2, 3, 32, 32)}


def test_what_is_inside_from_another_library_is_made_small_by_its_own_sizes() -> None:
    small = Scale(divisor=8, layers=2).of(transformers.PeVideoEncoderConfig())
    assert small.vision_config.architecture == "vit_pe_core_large_patch14_336"
    assert small.vision_config.model_args["depth"] == 2


def test_videos_and_objects_looked_for_are_few() -> None:
    assert Scale(divisor=8, layers=2).of(transformers.TvpConfig()).num_frames == 8
    assert Scale(divisor=8, layers=2).of(transformers.RfDetrConfig()).num_queries == 100


def test_what_follows_from_another_field_is_left_where_a_configuration_leaves_it_open() -> None:
    filled = Scale(divisor=8, layers=2, filled=True)
    config = filled.of(transformers.Qwen4ExpTextConfig())
    assert config.indexer_head_dim == config.head_dim
    assert filled.of(transformers.DeepseekOcr2TextConfig()).mlp_layer_types == ["dense"] * 2


def test_an_odd_number_is_no_width() -> None:
    small = Scale(divisor=8, layers=2).of(transformers.SuperPointConfig())
    assert (small.keypoint_decoder_dim, small.descriptor_decoder_dim) == (65, 32)


def test_a_sound_beside_words_is_as_long_as_they_are() -> None:
    def forward(input_ids: Any, input_features: Any) -> None: ...

    given = given_to(SimpleNamespace(audio_length_per_tok=8, num_mel_bins=5), forward)
    assert {"input_ids": (2, 16), "input_features": (2, 5, 128)} in [shapes(each) for each in given]


def test_the_inner_width_of_experts_is_aligned_even_if_odd() -> None:
    small = Scale(divisor=8, layers=2, filled=True).of(transformers.DeepseekV2Config(moe_intermediate_size=1407))
    assert small.moe_intermediate_size == 168


def test_a_side_that_windows_divide_is_cut_to_a_multiple_of_theirs() -> None:
    small = Scale(divisor=8, layers=2, filled=True).of(transformers.LwDetrConfig())
    assert small.backbone_config.image_size == 192
    assert small.projector_scale_factors == (1.0,)


def test_the_side_that_parts_see_of_a_picture_shrinks_with_theirs() -> None:
    small = Scale(divisor=8, layers=2).of(transformers.DepthProConfig())
    assert small.patch_size == small.image_model_config.image_size == 224
    assert max(small.intermediate_hook_ids) < small.patch_model_config.num_hidden_layers == 2
    assert Expected.of(small).image == (896, 896)


def test_a_backbone_that_declares_its_stages_hands_out_all_where_it_is_filled() -> None:
    small = Scale(divisor=8, layers=2, filled=True).of(transformers.UVDocConfig())
    assert small.backbone_config.out_features == [f"stage{n}" for n in range(1, 7)]


def test_large_networks_of_timm_become_small_ones() -> None:
    pytest.importorskip("timm")
    scale = Scale(divisor=8, layers=2, filled=True)
    assert scale.of(transformers.FastVlmConfig()).vision_config.architecture == "resnet18"
    assert scale.of(transformers.PerceptionLMConfig()).vision_config.model_args["embed_dim"] == 128
