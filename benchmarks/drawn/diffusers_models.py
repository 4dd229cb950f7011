"""Classes of diffusers with random small configurations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import torch

from benchmarks.drawn.by_name import arguments, does_not_run
from benchmarks.drawn.trying import Made, first_that_runs

_MODELS = re.compile(
    r"(?!Multi|Auto(Model|encoder$)|EMA|Onnx).*(Model|Transformer|Autoencoder|UNet|VQ|ControlNet|DiT).*"
)
_HEADS = ("num_attention_heads", "num_heads", "num_cross_attention_heads")
_OPTIONAL = ("encoder_attention_mask", "guidance", "class_labels")
"""Inputs that some classes take only if they are configured so."""

LARGEST_TINY_SIDE = 64
"""Of a tiny model's images: at the 1024 pixels of some defaults, autoencoders take minutes."""

_DIVISORS = (4, 8, 16)
_WIDTHS = re.compile(
    r"(?!.*(head|patch|sample|vocab|norm|kernel)).*(dim|channels?|hidden|width|features|inner|size)s?(_.*)?|ch"
)
_COUNTED_HEADS = re.compile(r"(num|n)_.*heads.*|heads|.*_heads|nheads")
_COUNTED_LAYERS = re.compile(r".*(layers|depths?|num_.*blocks)(?!.*every).*")
_NARROWEST = 16
"""Numbers below it are no widths: colours, factors, groups."""

_PROMPT = 16
"""Tokens of a prompt."""

_LEFT_OPEN = {
    "in_channels": 4,
    "out_channels": 4,
    "patch_size": 2,
    "sample_size": 16,
    "latent_channels": 4,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "spatial_compression_ratio": 2,
}
"""What some classes need, and have no default for."""


def names() -> list[str]:
    """Classes that are models by their name; one that is none does not run."""
    import diffusers.models

    return sorted(name for name in dir(diffusers.models) if name[0].isupper() and _MODELS.fullmatch(name))


def build(name: str, seed: str, batch: int, tiny: bool = False) -> Made:
    """The class with arguments that the seed decides; else with fewer heads and layers, or with fewer layers alone.
    Raises WorkloadError if it runs with none of these."""
    import diffusers

    model_class = getattr(diffusers, name, None)
    if model_class is None:
        raise does_not_run(name, "diffusers does not export it")

    def model(smaller: str) -> Any:
        return model_class(**_settings(model_class, Random(f"{seed} sizes"), smaller, tiny))

    makes: list[Callable[[], Any]] = [partial(model, smaller) for smaller in ("widths", "heads", "layers")]
    if tiny:
        makes += [partial(lambda by: model_class(**_divided(model_class, by)), by) for by in _DIVISORS]
        makes += [lambda: model_class(**_divided(model_class, _DIVISORS[-1]) | _left_open(model_class))]
    return first_that_runs(
        name,
        makes,
        lambda made: _inputs(made, Random(f"{seed} inputs"), batch, tiny),
        refit=batch if tiny else None,
    )


def _settings(model_class: Any, random: Random, smaller: str, tiny: bool) -> dict[str, Any]:
    """Changed defaults of the constructor. Every value is drawn, so that none depends on what the class takes."""
    heads, head_dim = random.choice((2,) if tiny else (2, 3, 4, 6)), random.choice((16,) if tiny else (16, 32, 64))
    layers, channels = random.choice((1,) if tiny else (1, 2, 3)), random.choice((32,) if tiny else (32, 48, 64))
    per_block, context = random.choice((1,) if tiny else (1, 2)), random.choice((32,) if tiny else (64, 96, 128))
    side = random.choice((8,) if tiny else (16, 24, 32, 48))
    hidden, rotated = heads * head_dim, head_dim * 3 // 16 * 2
    wanted: dict[str, Any] = {
        "num_attention_heads": heads,
        "attention_head_dim": head_dim,
        "num_heads": heads,
        "head_dim": head_dim,
        "hidden_size": hidden,
        "dim": hidden,
        "inner_dim": hidden,
        "ffn_dim": 2 * hidden,
        "intermediate_size": 2 * hidden,
        "cross_attention_dim": context,
        "joint_attention_dim": context,
        "caption_channels": context,
        "text_embed_dim": context,
        "text_dim": context,
        "caption_projection_dim": hidden,
        "cross_attention_input_dim": context,
        "cross_attention_head_dim": head_dim,
        "num_cross_attention_heads": heads,
        "pooled_projection_dim": context,
        "sample_size": side,
        "sample_height": side,
        "sample_width": side,
        "norm_num_groups": 8,
        "axes_dims_rope": (head_dim - 2 * rotated, rotated, rotated),
        "base_dim": channels,
        "base_channels": channels,
        "embedding_dim": context,
    }
    fewer = re.compile(r"(num|n)_.*layers|num_blocks|depth")
    parameters = inspect.signature(model_class.__init__).parameters
    if "block_out_channels" in parameters:  # these networks mistake one for the other
        del wanted["num_attention_heads"]
    settings: dict[str, Any] = {}
    for name, parameter in parameters.items():
        default = parameter.default
        is_lengths = isinstance(default, list | tuple) and default and all(type(n) is int for n in default)
        if fewer.fullmatch(name) and type(default) is int:
            settings[name] = layers
        elif name == "layers_per_block" and type(default) is int:
            settings[name] = per_block
        elif "layers" in name and is_lengths:
            settings[name] = type(default)([1] * len(default))
        elif smaller != "layers" and "block_out_channels" in name and is_lengths:
            settings[name] = tuple(channels * min(2**place, 4) for place in range(len(default)))
        elif name in wanted and (smaller == "widths" or (smaller == "heads" and name in _HEADS)):
            settings[name] = wanted[name]
    return settings


def _divided(model_class: Any, by: int) -> dict[str, Any]:
    """Changed defaults: all widths and numbers of heads divided by one number, so that what must fit still fits, and
    one layer of each kind."""
    settings: dict[str, Any] = {}
    for name, parameter in inspect.signature(model_class.__init__).parameters.items():
        default = parameter.default
        is_list = isinstance(default, list | tuple) and default and all(type(n) is int for n in default)
        if type(default) is not int and not is_list:
            continue
        if _COUNTED_LAYERS.fullmatch(name):
            settings[name] = type(default)([1] * len(default)) if is_list else min(default, 1)
        elif _COUNTED_HEADS.fullmatch(name) or _WIDTHS.fullmatch(name):
            settings[name] = type(default)(_part(n, by, name) for n in default) if is_list else _part(default, by, name)
    return settings


def _left_open(model_class: Any) -> dict[str, Any]:
    parameters = inspect.signature(model_class.__init__).parameters
    return {
        n: v
        for n, v in _LEFT_OPEN.items()
        if n in parameters and parameters[n].default in (None, inspect.Parameter.empty)
    }


def _part(number: int, by: int, name: str) -> int:
    if _COUNTED_HEADS.fullmatch(name):
        return max(1, number // by)
    return max(_NARROWEST // 2, number // by) if number >= 4 * _NARROWEST else number


def _inputs(model: Any, random: Random, batch: int, tiny: bool) -> Iterator[dict[str, Any]]:
    """What the model may take: images, videos, signals or tokens, beside a prompt of each width that it may expect."""
    config = dict(model.config)
    channels = config.get("in_channels") or config.get("num_channels") or 3
    size = config.get("sample_size")
    side = size if isinstance(size, int) else (8 if tiny else random.choice((16, 24, 32)))
    side = min(side, LARGEST_TINY_SIDE) if tiny else side
    frames, tokens = random.choice((1,) if tiny else (4, 5, 9)), (side // 2) ** 2
    shapes = [
        (batch, channels, side, side),
        (batch, tokens, channels),
        (batch, channels, frames, side, side),
        (batch, frames, channels, side, side),
        (batch, channels, 64 * side),
        (batch, 64 * side, channels),
        *([(batch, channels, 8 * side, 8 * side)] if tiny else []),  # some autoencoders divide a side by 32
    ]
    keys = ("cross_attention_dim", "joint_attention_dim", "caption_channels", "text_embed_dim", "text_dim",
            "cross_attention_input_dim", "encoder_hid_dim", "text_in_dim")  # fmt: skip
    contexts = dict.fromkeys(value for key in keys if isinstance(value := config.get(key), int))
    pooled = config.get("pooled_projection_dim") or 64
    for shape in shapes:
        for context in contexts or [config.get("hidden_size") or 64]:
            data = torch.randn(shape)
            known = {
                "sample": data,
                "x": data,
                "hidden_states": data,
                "timestep": torch.full((batch,), 5),
                "timesteps": torch.full((batch,), 5),
                "timestep_ratio": torch.full((batch,), 0.5),
                "inputs_embeds": torch.randn(batch, _PROMPT, context),
                "proj_embedding": torch.randn(batch, config.get("embedding_dim") or context),
                "clip_text_pooled": torch.randn(batch, 1, config.get("clip_text_pooled_in_channels") or context),
                "image_latents": data,
                "fps": torch.full((batch,), 8),
                "added_time_ids": torch.zeros(batch, 3),
                "original_size": torch.full((batch, 2), 8.0 * side),
                "target_size": torch.full((batch, 2), 8.0 * side),
                "crop_coords": torch.zeros(batch, 2),
                "encoder_hidden_states": torch.randn(batch, _PROMPT, context),
                "encoder_attention_mask": torch.ones(batch, _PROMPT),
                "pooled_projections": torch.randn(batch, pooled),
                "guidance": torch.ones(batch),
                "img_ids": torch.zeros(tokens, 3),
                "txt_ids": torch.zeros(_PROMPT, 3),
                "controlnet_cond": torch.randn(batch, 3, 8 * side, 8 * side),
                "conditioning_scale": 1.0,
                "class_labels": torch.ones(batch, dtype=torch.long),
                "num_frames": frames,
                "height": side,
                "width": side,
            }
            if tiny:
                known |= {
                    "encoder_hidden_states_t5": torch.randn(batch, _PROMPT, context),
                    "encoder_hidden_states_mask": torch.ones(batch, _PROMPT, dtype=torch.bool),
                    "img_shapes": [[(1, side // 2, side // 2)]] * batch,
                }
            taken = arguments(model.forward, known, all_needed=not tiny)
            for left_out in ((), _OPTIONAL[:2], _OPTIONAL):
                yield {name: value for name, value in taken.items() if name not in left_out}
