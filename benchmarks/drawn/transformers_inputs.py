"""What a class of transformers is called with: tensors of sizes that its configuration tells, by parameters' names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from benchmarks.drawn.by_name import arguments

Given = dict[str, Any]

_MELS = ("num_mel_bins", "input_feat_size", "n_mels", "feature_projection_input_dim", "input_dim")
"""Names of the number of a spectrogram's bands."""

_GRID = 4
"""Groups of patches a side, where pictures come as a list of patches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a configuration says of its model's inputs; None where it says nothing. `image` is (height, width), `places`
    is the number of steps of a spectrogram behind the first layers, `spectrum` that of one that is not cut, `steps` and
    `series` are those of numbers to be forecast. Where pictures come as a list of patches, `patch` is the number of its
    values, `merged` that of patches on a side of a group. `encoded` is the width of an encoder beside the model."""

    vocabulary: int | None
    width: int | None
    image: tuple[int, int] | None
    channels: int
    frames: int | None
    mels: int
    places: int | None
    steps: int
    series: int
    spectrum: int
    patch: int
    merged: int
    encoded: int | None

    @classmethod
    def of(cls, config: Any) -> Expected:
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        vision = getattr(config, "vision_config", None) or config
        audio = getattr(config, "audio_config", None) or config
        size = getattr(vision, "image_size", None)
        channels = _first(vision, "num_channels", "in_channels", "in_chans") or 3
        side = _first(vision, "patch_size")
        return cls(
            vocabulary=getattr(text, "vocab_size", None),
            width=getattr(text, "hidden_size", None),
            image=(tuple(size) if isinstance(size, list | tuple) else (size, size)) if size else None,
            channels=getattr(vision, "num_channels", None) or 3,
            frames=getattr(vision, "num_frames", None),
            mels=_first(audio, *_MELS) or 80,
            places=getattr(audio, "max_source_positions", None),
            steps=getattr(config, "context_length", None) or 32,
            series=getattr(config, "num_input_channels", None) or 1,
            spectrum=getattr(config, "max_length", None) or 1024,
            patch=channels
            * (side if isinstance(side, int) else 14) ** 2
            * (_first(vision, "temporal_patch_size") or 1),
            merged=_first(vision, "spatial_merge_size", "merge_size") or 2,
            encoded=_first(config, "encoder_hidden_size", "cross_attention_dim"),
        )


def _first(config: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(config, name, None))), None)


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
    for given in _likely(expected, words, expected.image or side, heard):
        if given.keys() <= taken.keys():
            yield given
    if tiny:
        yield from _more(model, expected, words, expected.image or side)


def _likely(expected: Expected, words: torch.Tensor, side: tuple[int, int], heard: int) -> Iterator[Given]:
    batch, length = words.shape
    image = torch.randn(batch, expected.channels, *side)
    video = torch.randn(batch, expected.frames or 4, expected.channels, *side)
    known = {"attention_mask": torch.ones(batch, length, dtype=torch.long)}
    features = torch.randn(batch, expected.mels, 2 * (expected.places or 500))
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
    known = arguments(function, _named(expected, words, side), all_needed=False)
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in known.items() if parameters[name].default is inspect.Parameter.empty}


def _pictures(expected: Expected, batch: int, side: tuple[int, int]) -> Iterator[Given]:
    image = torch.randn(batch, expected.channels, *side)
    patches, grid = _patches(expected, batch)
    yield {"pixel_values": patches, "image_grid_thw": grid}
    yield {"pixel_values": image}
    yield {"pixel_values": image, "image_sizes": torch.tensor([side] * batch)}
    yield {"pixel_values": image[:, None]}
    yield {"pixel_values": image[:, None], "image_sizes": torch.tensor([side] * batch)}
    yield _at_places(expected, batch, "image_position_ids")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for entry in value for t in _tensors(entry)] if isinstance(value, list | tuple) else []


def _patches(expected: Expected, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures as patches one after another, and the grid of each: frames, rows, columns."""
    rows = _GRID * expected.merged
    return torch.randn(batch * rows**2, expected.patch), torch.tensor([[1, rows, rows]] * batch)


def _at_places(expected: Expected, batch: int, places: str) -> Given:
    """Pictures as patches, and the (column, row) of each."""
    rows = 12  # what groups of 2, 3 and 4 fill
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(rows)).expand(batch, -1, -1)
    return {"pixel_values": torch.rand(batch, rows**2, expected.patch), places: grid}


def _more(model: Any, expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Iterator[Given]:
    """What few classes take, and then what a class asks for by name."""
    batch = len(words)
    taken = inspect.signature(model.forward).parameters
    patches, grid = _patches(expected, batch)
    pairs = torch.rand(batch, 2, expected.channels, *side)
    frames = (batch, 2 * (expected.places or 500))
    heard = torch.ones(*frames, dtype=torch.bool)
    spectrum = torch.randn(batch, expected.mels, frames[1])
    options: list[Given] = [
        {"input_ids": words, "use_cache": False},
        {"past_values": torch.randn(batch, expected.steps, expected.series)},
        _with_times(model.config, batch),
        {"input_ids": words, "visual_feats": torch.randn(batch, 4, 2048), "visual_pos": torch.rand(batch, 4, 4)},
        {"pixel_values": pairs},
        {"input_ids": words, "pixel_values": pairs},
        {"pixel_values": patches, "grid_thw": grid},
        {"pixel_values": patches, "image_grid_thw": grid},
        {"hidden_states": patches, "grid_thw": grid},
        _at_places(expected, batch, "pixel_position_ids"),
        *({mask: heard, **of} for mask in _MASKS for of in _heard(spectrum)),
        {"input_ids": words, "input_values": torch.randn(batch, 1, 16_000)},
        {"input_values": torch.randn(batch, 1, 1920 * 8)},
        {"input_values": torch.randn(batch, 1920 * 8)},
    ]
    for given in options:
        if given.keys() <= taken.keys():
            yield given
    yield arguments(model.forward, _named(expected, words, side), all_needed=False)


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


_MASKS = ("input_features_mask", "attention_mask", "audio_mel_mask", "padding_mask")


def _heard(spectrum: torch.Tensor) -> Iterator[Given]:
    for name in ("input_features", "audio_mel"):
        yield {name: spectrum}
        yield {name: spectrum.transpose(1, 2)}


def _named(expected: Expected, words: torch.Tensor, side: tuple[int, int]) -> Mapping[str, Any]:
    batch, length = words.shape
    image = torch.randn(batch, expected.channels, *side)
    return {
        "input_ids": words,
        "decoder_input_ids": words,
        "qformer_input_ids": words,
        "pixel_values": image,
        "prompt_pixel_values": image,
        "prompt_masks": image,
        "hidden_states": torch.randn(batch, length, expected.width or 128),
        "query_embeds": torch.randn(batch, length, expected.width or 128),
        "encoder_hidden_states": torch.randn(batch, length, expected.encoded or expected.width or 128),
        "past_values": torch.randn(batch, expected.steps),
        "past_values_padding": torch.zeros(batch, expected.steps, dtype=torch.long),
        "freq": torch.zeros(batch, 1, dtype=torch.long),
    }
