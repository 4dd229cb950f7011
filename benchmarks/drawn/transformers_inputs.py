"""What a class of transformers is called with: tensors of sizes that its configuration tells, by parameters' names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from benchmarks.drawn.by_name import arguments
from benchmarks.drawn.transformers_expected import Expected, Given, at_places, patches
from benchmarks.drawn.transformers_rare_inputs import named, rare


def inputs(model: Any, random: Random, batch: int, tiny: bool) -> Iterator[Given]:
    """What the model may take, the likeliest first."""
    expected = Expected.of(model.config)
    length = random.choice((8, 16) if tiny else (16, 32, 48, 64, 100, 128, 200, 256))
    vocabulary = max(expected.vocabulary or 1000, 8)
    words = torch.randint(3, vocabulary - 2, (batch, length))
    side = (128 if tiny else random.choice((96, 128, 160, 224)),) * 2
    heard = 8_000 if tiny else random.choice((8_000, 16_000, 32_000))
    taken = inspect.signature(model.forward).parameters
    if tiny:
        yield from _with_pictures(model, expected, words, expected.image or side)
        if {
            "input_ids",
            "mm_token_type_ids",
        } <= taken.keys():  # some take words alone in inference, but not in training
            yield {"input_ids": words, "mm_token_type_ids": torch.zeros_like(words)}
    needed = _needed(model.forward, expected, words, expected.image or side) if tiny else {}
    for given in _likely(expected, words, expected.image or side, heard):
        if given.keys() <= taken.keys():
            yield needed | given
    if tiny:
        yield from rare(model, expected, words, expected.image or side)


def _likely(expected: Expected, words: torch.Tensor, side: tuple[int, int], heard: int) -> Iterator[Given]:
    batch, length = words.shape
    image = torch.randn(batch, expected.channels, *side)
    video = torch.randn(batch, expected.frames or 4, expected.channels, *side)
    known = {"attention_mask": torch.ones(batch, length, dtype=torch.long)}
    features = torch.randn(batch, expected.mels, expected.frames_heard)
    decoder = {"decoder_input_ids": words[:, : max(length // 2, 4)]}
    yield {"input_ids": words, "pixel_values": image}
    yield {"input_ids": words, **known}
    yield {"input_ids": words, **decoder}
    yield {"input_ids": words}
    yield {"input_ids": words, "bbox": torch.zeros(batch, length, 4, dtype=torch.long)}
    yield {"pixel_values": image}
    yield {"pixel_values": image, **decoder}
    yield {"pixel_values": image, "pixel_mask": torch.ones(batch, *side, dtype=torch.long)}
    yield {"pixel_values": video}
    yield {"pixel_values_videos": video}
    yield {"input_ids": words, "pixel_values": video}
    yield {"input_features": features, **decoder}
    yield {"input_features": features}
    yield {"input_features": features.transpose(1, 2), **decoder}
    yield {"input_features": features.transpose(1, 2)}
    yield {"input_values": torch.randn(batch, heard)}
    yield {"input_values": torch.randn(batch, heard), **decoder}
    yield {"input_values": torch.randn(batch, 1, heard)}
    yield {"input_values": torch.randn(batch, expected.spectrum, expected.mels)}
    yield {"inputs_embeds": torch.randn(batch, length, expected.width or 128)}


def _with_pictures(model: Any, expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Iterator[Given]:
    """Words among which a picture's features have their places: as many as the model's own vision part makes of it."""
    mark = getattr(model.config, "image_token_id", None)
    features_of = getattr(model, "get_image_features", None)
    taken = inspect.signature(model.forward).parameters
    if mark is None or features_of is None or "input_ids" not in taken:
        return
    needed = _needed(features_of, expected, words, side)
    for picture in _pictures(expected, len(words), side):
        picture = needed | picture
        try:
            with torch.no_grad():
                made = features_of(**picture)
            features = _tensors(getattr(made, "pooler_output", None)) or _tensors(made)
            count = sum(t.numel() // (expected.width or t.shape[-1]) for t in features) // len(words)
        except Exception:  # this form of picture is another model's
            continue
        marked = torch.full((len(words), count), mark)
        ids = torch.cat([words[:, :2], marked, words[:, 2:]], dim=1)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **picture}
        if "mm_token_type_ids" in taken:
            given["mm_token_type_ids"] = (ids == mark).long()
        yield {name: value for name, value in given.items() if name in taken}


def _needed(function: Any, expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Given:
    """What the function does not run without, by name."""
    known = arguments(function, named(expected, words, side), all_needed=False)
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in known.items() if parameters[name].default is inspect.Parameter.empty}


def _pictures(expected: Expected, batch: int, side: tuple[int, int]) -> Iterator[Given]:
    image = torch.randn(batch, expected.channels, *side)
    flat, grid = patches(expected, batch)
    yield {"pixel_values": flat, "image_grid_thw": grid}
    yield {"pixel_values": image}
    yield {"pixel_values": image, "image_sizes": torch.tensor([side] * batch)}
    yield {"pixel_values": image[:, None]}
    yield {"pixel_values": image[:, None], "image_sizes": torch.tensor([side] * batch)}
    yield at_places(expected, batch, "image_position_ids")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for entry in value for t in _tensors(entry)] if isinstance(value, list | tuple) else []
