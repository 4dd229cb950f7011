"""What a configuration of transformers says of its model's inputs, and pictures as patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

Given = dict[str, Any]

_MELS = ("num_mel_bins", "input_feat_size", "n_mels", "feature_projection_input_dim", "input_dim")
"""Names of the number of a spectrogram's bands."""

_SIDES = ("image_size", "max_img_size")
"""Names of the height and width of a picture."""

_GRID = 4
"""Groups of patches a side, where pictures come as a list of patches."""

_PLACES = 100
"""Steps of a spectrum behind the first layers, where a configuration does not say how many there may be."""

_MOST_FRAMES = 3000
"""Of a spectrum: half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a configuration says of its model's inputs; None where it says nothing. `image` is (height, width)
    before a model makes it smaller, `places` is the number of steps of a spectrogram behind the first layers,
    `spectrum` that of one that is not cut, `steps` and `series` are those of numbers to be forecast. Where pictures
    come as a list of patches, `patch` is the number of its values, `patch_side` its side, `merged` that of patches
    on a side of a group. `encoded` is the width of an encoder beside the model, `queries` how many words a picture
    takes the places of, `tasks` how many words name a task, `sound_of_a_word` how many steps of a spectrum each
    word is told beside."""

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
    patch_side: int
    merged: int
    encoded: int | None
    queries: int | None
    sound_of_a_word: int | None
    tasks: int | None

    @classmethod
    def of(cls, config: Any) -> Expected:
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        vision = getattr(config, "vision_config", None) or config
        audio = getattr(config, "audio_config", None) or config
        size = _inside(vision, *_SIDES)
        if isinstance(size, int):
            size = int(size / min(getattr(config, "scaled_images_ratios", None) or [1]))
        channels = _first(vision, "num_channels", "in_channels", "in_chans") or 3
        side = _first(vision, "patch_size")
        side = side if isinstance(side, int) else 14
        return cls(
            vocabulary=min(_all_inside(config, "vocab_size"), default=None),
            width=_first(text, "hidden_size", "d_model"),
            image=(tuple(size) if isinstance(size, list | tuple) else (size, size)) if size else None,
            channels=getattr(vision, "num_channels", None) or 3,
            frames=getattr(vision, "num_frames", None),
            mels=_first(audio, *_MELS) or 80,
            places=getattr(audio, "max_source_positions", None),
            steps=getattr(config, "context_length", None) or 32,
            series=getattr(config, "num_input_channels", None) or 1,
            spectrum=getattr(config, "max_length", None) or 1024,
            patch_side=side,
            patch=channels * side**2 * (_first(vision, "temporal_patch_size") or 1),
            merged=_first(vision, "spatial_merge_size", "merge_size") or 2,
            encoded=_first(config, "encoder_hidden_size", "cross_attention_dim"),
            queries=_first(config, "latent_query_num"),
            sound_of_a_word=_first(config, "audio_length_per_tok"),
            tasks=_first(config, "task_seq_len"),
        )

    @property
    def frames_heard(self) -> int:
        """Steps of a spectrum: the first layers of most models halve them. If it could be longer than half a minute, a
        short one is given."""
        steps = 2 * (self.places or _PLACES)
        return steps if steps <= _MOST_FRAMES else 2 * _PLACES


def _first(config: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(config, name, None))), None)


def _inside(config: Any, *names: str) -> Any:
    """The same of a configuration or of the first of its parts that has one, where a model is made of several."""
    parts = (part for part in vars(config).values() if hasattr(part, "to_dict"))
    return _first(config, *names) or next((value for part in parts if (value := _inside(part, *names))), None)


def _all_inside(config: Any, name: str) -> list[int]:
    """The same of a configuration and all of its parts: what all of them know is known to each."""
    parts = (part for part in vars(config).values() if hasattr(part, "to_dict"))
    own = getattr(config, name, None)
    return [value for part in parts for value in _all_inside(part, name)] + ([own] if own else [])


def patches(expected: Expected, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures as patches one after another, and the grid of each: frames, rows, columns."""
    rows = _GRID * expected.merged
    return torch.randn(batch * rows**2, expected.patch), torch.tensor([[1, rows, rows]] * batch)


def at_places(expected: Expected, batch: int, places: str) -> Given:
    """Pictures as patches, and the (column, row) of each."""
    rows = 12  # what groups of 2, 3 and 4 fill
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(rows)).expand(batch, -1, -1)
    return {"pixel_values": torch.rand(batch, rows**2, expected.patch), places: grid}
