"""What few classes of transformers take: series, sounds and forms of pictures that one or two of them know."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from benchmarks.drawn.by_name import arguments
from benchmarks.drawn.transformers_expected import Expected, Given, at_places, patches

_MASKS = ("input_features_mask", "attention_mask", "audio_mel_mask", "padding_mask")

_ROWS = 8
"""Rows and columns of patches, where a model is told how many there are."""


def rare(model: Any, expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Iterator[Given]:
    """What few classes take, and then what a class asks for by name."""
    taken = inspect.signature(model.forward).parameters
    options = (
        {"input_ids": words, "use_cache": False},
        *_series(model.config, expected, len(words)),
        *_words_with_pictures(expected, words, side),
        *_patches_in_rows(expected, words),
        *_sounds(expected, words),
    )
    for given in options:
        if given.keys() <= taken.keys():
            yield given
    yield arguments(model.forward, named(expected, words, side), all_needed=False)


def _series(config: Any, expected: Expected, batch: int) -> Iterator[Given]:
    yield {"past_values": torch.randn(batch, expected.steps, expected.series)}
    yield _with_times(config, batch)


def _with_times(config: Any, batch: int) -> Given:
    """Numbers to be forecast, those before them that a model looks back to, and what is known of each one's time."""
    ahead = getattr(config, "prediction_length", None) or 1
    behind = (getattr(config, "context_length", None) or ahead) + max(getattr(config, "lags_sequence", None) or [0])
    known = getattr(config, "num_time_features", 0)
    return {
        "past_values": torch.randn(batch, behind),
        "past_time_features": torch.randn(batch, behind, known),
        "past_observed_mask": torch.ones(batch, behind),
        "future_values": torch.randn(batch, ahead),
        "future_time_features": torch.randn(batch, ahead, known),
    }


def _words_with_pictures(expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Iterator[Given]:
    batch, length = words.shape
    image = torch.randn(batch, expected.channels, *side)
    pairs = torch.rand(batch, 2, expected.channels, *side)
    boxes = torch.rand(batch, length, 4)
    yield {"input_ids": words, "visual_feats": torch.randn(batch, 4, 2048), "visual_pos": torch.rand(batch, 4, 4)}
    yield {"pixel_values": pairs}
    yield {"input_ids": words, "pixel_values": pairs, "image_attention_mask": torch.ones(batch, length, 2)}
    if expected.queries:
        # A picture's features take the places of as many words.
        marked = torch.arange(length + expected.queries).expand(batch, -1) < expected.queries
        longer = words[:, :1].expand(-1, length + expected.queries)
        yield {"input_ids": longer, "pixel_values": image, "image_embeds_position_mask": marked}
    yield {"input_ids": words, "pixel_values": pairs}
    yield {"input_ids": words, "pixel_values": image, "bbox": boxes, "decoder_input_ids": words}
    video, sound = torch.randn(batch, 4, expected.channels, *side), torch.randn(batch, 1, 8_000)
    yield {"pixel_values_videos": video, "input_values": sound}
    yield {"input_ids": words, "pixel_values_videos": video, "input_values": sound}
    half = image[:, :, : side[0] // 2]
    yield {"pixel_values": half, "prompt_pixel_values": half, "prompt_masks": half}  # one above the other is a picture
    if expected.tasks:
        yield {"pixel_values": image, "task_inputs": words[:, :1].expand(-1, expected.tasks)}


def _patches_in_rows(expected: Expected, words: torch.Tensor) -> Iterator[Given]:
    """Pictures as patches, with as many rows and columns as the model is told."""
    batch = len(words)
    flat, grid = patches(expected, batch)
    yield {"pixel_values": flat, "grid_thw": grid}
    yield {"pixel_values": flat, "grid_thw": grid, "merge_sizes": torch.full((batch,), expected.merged)}
    yield {"pixel_values": flat, "image_grid_thw": grid}
    yield {"hidden_states": flat, "grid_thw": grid}
    yield at_places(expected, batch, "pixel_position_ids")
    count, patch = _ROWS**2, expected.patch_side
    square = torch.randn(len(flat), expected.channels, patch, patch)
    yield {"pixel_values": square, "grid_thw": grid}
    sides = torch.full((batch, 2), _ROWS)
    rows = {
        "pixel_values": torch.randn(batch, count, expected.channels * patch**2),
        "pixel_attention_mask": torch.ones(batch, count, dtype=torch.long),
        "spatial_shapes": sides,
    }
    yield {"input_ids": words, **rows}
    yield rows
    group = expected.merged * patch
    groups = torch.randn(batch * count, group, group, expected.channels)
    yield {"pixel_values": groups, "image_grid_thw": torch.tensor([[1, _ROWS, _ROWS]] * batch)}
    strip = torch.randn(1, expected.channels, patch, batch * count * patch)
    yield {"pixel_values": strip, "target_sizes": sides.int()}


def _sounds(expected: Expected, words: torch.Tensor) -> Iterator[Given]:
    batch = len(words)
    length = expected.frames_heard
    heard = torch.ones(batch, length, dtype=torch.bool)
    spectrum = torch.randn(batch, expected.mels, length)
    for mask in _MASKS:
        for name in ("input_features", "audio_mel"):
            yield {mask: heard, name: spectrum}
            yield {mask: heard, name: spectrum.transpose(1, 2)}
    if expected.sound_of_a_word:
        beside = torch.randn(batch, expected.mels, words.shape[1] * expected.sound_of_a_word)
        yield {"input_ids": words, "input_features": beside}
    picture = spectrum.transpose(1, 2)[:, None]
    yield {"input_ids": words, "input_features": picture, "is_longer": torch.zeros(batch, 1, dtype=torch.bool)}
    yield {"input_ids": words, "input_features": spectrum}
    yield {"input_ids": words, "input_features": spectrum.transpose(1, 2)}
    yield {"input_ids": words, "input_values": torch.randn(batch, 1, 16_000)}
    yield {"input_values": torch.randn(batch, 1, 1920 * 8)}
    yield {"input_values": torch.randn(batch, 1920 * 8)}
    yield {"hidden_states": torch.randn(batch, 1, 1920 * 8)}


def _words_by_role(words: torch.Tensor) -> Given:
    """Names of classes to be found, one for each picture, and what is to be done with them."""
    roles = ("classes", "tasks")
    heard = {f"{role}_attention_mask": torch.ones_like(words) for role in roles}
    counts = torch.ones(len(words), dtype=torch.long)
    return {**{f"{role}_input_ids": words for role in roles}, **heard, "classes_structure": counts}


def named(expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Mapping[str, Any]:
    """A value for each name that means the same in every class that needs it."""
    batch, length = words.shape
    image = torch.randn(batch, expected.channels, *side)
    return {
        "input_ids": words,
        "decoder_input_ids": words,
        "qformer_input_ids": words,
        "pixel_values": image,
        "inputs": torch.randn(batch, length, expected.width or 128),
        "hidden_states": torch.randn(batch, length, expected.width or 128),
        "query_embeds": torch.randn(batch, length, expected.width or 128),
        "encoder_hidden_states": torch.randn(batch, length, expected.encoded or expected.width or 128),
        "past_values": torch.randn(batch, expected.steps),
        "past_values_padding": torch.zeros(batch, expected.steps, dtype=torch.long),
        **_words_by_role(words),
        "freq": torch.zeros(batch, 1, dtype=torch.long),
    }
