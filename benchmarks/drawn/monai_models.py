"""Networks of monai with random small sizes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import torch
from torch import nn

from benchmarks.drawn.by_name import arguments
from benchmarks.drawn.trying import Made, first_that_runs


def names() -> list[str]:
    """Classes of networks; of several names for one, the first."""
    from monai.networks import nets

    found = {
        value: name
        for name, value in sorted(vars(nets).items(), reverse=True)
        if inspect.isclass(value) and issubclass(value, nn.Module)
    }
    return sorted(found.values())


def build(name: str, seed: str, batch: int, tiny: bool = False) -> Made:
    """The class on images of two or three dimensions, with arguments that the seed decides."""
    from monai.networks import nets

    network = getattr(nets, name)
    random = Random(f"{seed} sizes")
    dims = random.choice((2, 2, 3))
    sides = {2: (64,) if tiny else (64, 96, 128, 192), 3: (32,) if tiny else (32, 48, 64)}[dims]
    known = _known(random, dims, random.choice(sides), tiny)
    drawn = {key: value for key, value in known.items() if random.random() < 0.7 or key in _TOGETHER}
    parameters = inspect.signature(network.__init__).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)

    def with_needed(some: dict[str, Any]) -> nn.Module:
        chosen = {**{key: known[key] for key in needed if key in known}, **some}
        passed_on = {key: known[key] for key in ("spatial_dims", "in_channels")} if takes_any else {}
        return network(**{**passed_on, **arguments(network.__init__, chosen)})  # type: ignore[no-any-return]

    together = {key: known[key] for key in _TOGETHER}
    several = {**together, "strides": known["strides"] + (2,), "kernel_size": (3,) * (len(known["strides"]) + 1)}
    makes = [partial(with_needed, some) for some in (drawn, together, several)]
    refit = batch if tiny else None
    return first_that_runs(name, makes, lambda model: _inputs(model, known, batch, tiny), refit)


_TOGETHER = ("spatial_dims", "dimensions", "in_channels", "img_size", "image_size", "in_shape", "spatial_size",
             "roi_size", "image_shape", "in_channel", "pretrained")  # fmt: skip
"""Arguments on which the inputs depend; and weights are never fetched."""


def _known(random: Random, dims: int, side: int, tiny: bool) -> dict[str, Any]:
    levels = random.choice((2, 3) if tiny else (3, 4))
    first = random.choice((8,) if tiny else (8, 16, 24, 32))
    widths = tuple(first * 2**level for level in range(levels))
    heads, channels, classes = random.choice((2, 4)), random.choice((1, 2, 3)), random.choice((2, 3, 5))
    hidden = 12 * heads * random.choice((1,) if tiny else (2, 4, 8))
    size = (side,) * dims
    return {
        "spatial_dims": dims,
        "dimensions": dims,
        "in_channels": channels,
        "in_channel": channels,
        "out_channels": classes,
        "num_classes": classes,
        "n_classes": classes,
        "channels": widths,
        "strides": (2,) * (levels - 1),
        "kernel_size": random.choice((3, 3, 5)),
        "num_res_units": random.choice((0, 1, 2)),
        "features": (*widths[:1] * 2, *(w for w in (widths * 2)[:3]), widths[0]),
        "img_size": size,
        "image_size": size,
        "spatial_size": size,
        "image_shape": size,
        "in_shape": (channels, *size),
        "out_shape": size,
        "latent_size": 32,
        "latent_shape": (32,),
        "start_shape": (widths[0], *(side // 4,) * dims),
        "classes": classes,
        "roi_size": size,
        "patch_size": random.choice((8, 16)),
        "feature_size": random.choice((12,) if tiny else (12, 24)),
        "hidden_size": hidden,
        "mlp_dim": 2 * hidden,
        "num_layers": random.choice((2,) if tiny else (2, 3, 4)),
        "num_heads": heads,
        "init_filters": first,
        "growth_rate": random.choice((8, 16)),
        "init_features": first,
        "block_config": (2, 2) if tiny else random.choice(((2, 3, 4), (3, 6, 4), (4, 4))),
        "block": "basic",
        "layers": (1, 1, 1, 1),
        "block_inplanes": (first, first * 2, first * 4, first * 8),
        "n_input_channels": channels,
        "dropout_prob": 0.0,
        "filters": widths,
        "upsample_kernel_size": (2,) * (levels - 1),
        "attention_levels": (*(False,) * (levels - 1), True),
        "norm_num_groups": 4,
        "num_head_channels": first,
        "num_channels": first,
        "num_channel_initial": first,
        "depth": levels - 1,
        "extract_levels": (0,),
        "out_kernel_initializer": "kaiming_uniform",
        "out_activation": None,
        "model_name": "efficientnet-b0",
        "backbone": "efficientnet-b0",
        "pretrained": False,
        "dropout_dim": 1,
        "num_layers_d": 2,
        "hidden_channels": widths,
        "encode_channels": widths,
        "decode_channels": widths,
        "input_image_size": size,
        "groups": 1,
        "reduction": 4,
        "in_planes": channels,
        "planes": first,
    }


def _inputs(model: nn.Module, known: dict[str, Any], batch: int, tiny: bool) -> Iterator[dict[str, Any]]:
    first = next(iter(inspect.signature(model.forward).parameters))
    dims, size = known["spatial_dims"], known["img_size"]
    others = {"timesteps": torch.full((batch,), 5)}
    for channels in dict.fromkeys((known["in_channels"], 1, 3)):
        for shape in ((channels, *size), (channels, *size[:1] * (5 - dims)), (channels * math.prod(size),)):
            given = {first: torch.randn(batch, *shape), **others}
            yield arguments(model.forward, given, all_needed=not tiny)
