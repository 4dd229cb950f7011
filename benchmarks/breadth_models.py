"""Factories of benchmarks/breadth.py: classes of public libraries at a small size, built as their users would.

A model is made from its default configuration with fewer layers and smaller widths, as far as it then still runs.
Inputs are tried by what `forward` takes. What does not run by itself is no case: it raises
`does_not_run`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.drawn.by_name import does_not_run, first_that_runs, reason_of
from benchmarks.drawn.transformers_models import Expected

BATCH, TOKENS, VOCABULARY, LAYERS = 2, 32, 1000, 2
LARGEST = 600_000_000
"""A model with more parameters, after it was made small, is no case."""

_LAYERS = re.compile(r"(num|n)_.*layers?|.*_layers|.*num_blocks|depth")
_WIDTHS = {
    "hidden_size": 128, "d_model": 128, "n_embd": 128, "embed_dim": 128, "embedding_size": 128, "dim": 128,
    "intermediate_size": 256, "ffn_dim": 256, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "d_ff": 256,
    "n_inner": 256,
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "d_kv": 32,
    "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip


def transformers_names() -> list[str]:
    """Base model classes, each once, of the model types that can be built here."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    names = (name if isinstance(name, str) else name[0] for name in MODEL_MAPPING_NAMES.values())
    return sorted(dict.fromkeys(names))


def transformers_model(name: str = "BertModel") -> Any:
    """A base model class of transformers."""
    import transformers

    def made(shrink: Callable[[Any], Any]) -> nn.Module:
        model_class = getattr(transformers, name)
        return model_class(shrink(model_class.config_class()))  # type: ignore[no-any-return]

    makes = [partial(made, shrink) for shrink in (_small, _shallow)]
    return first_that_runs(name, makes, lambda model: _inputs(model, model.config), LARGEST)


def _shallow(config: Any) -> Any:
    return _changed(config, {})


def _small(config: Any) -> Any:
    return _changed(config, _WIDTHS)


def _changed(config: Any, widths: dict[str, int]) -> Any:
    """The configuration, and those inside, with fewer layers, a small vocabulary and these widths at most."""
    counts: set[int] = set()
    for key, value in list(vars(config).items()):
        if isinstance(value, bool):
            continue
        if hasattr(value, "to_dict"):
            _changed(value, widths)
        elif isinstance(value, int) and _LAYERS.fullmatch(key) and value > LAYERS:
            counts.add(value)
            setattr(config, key, LAYERS)
        elif isinstance(value, int) and key in widths and value > widths[key]:
            setattr(config, key, widths[key])
        elif isinstance(value, int) and key == "vocab_size" and value > VOCABULARY:
            setattr(config, key, VOCABULARY)
        elif key.endswith("_token_id") and isinstance(value, int) and value >= VOCABULARY:
            setattr(config, key, VOCABULARY - 1)
        elif key == "depths" and isinstance(value, list | tuple):
            setattr(config, key, type(value)(min(depth, 1) for depth in value))
    for key, value in list(vars(config).items()):  # a kind for each layer
        if isinstance(value, list) and len(value) in counts:
            setattr(config, key, value[:LAYERS])
    return config


def _inputs(model: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Keyword arguments that may be what the model takes, the likeliest first."""
    taken = inspect.signature(model.forward).parameters
    expected = Expected.of(config)
    words = torch.randint(3, min(expected.vocabulary or VOCABULARY, VOCABULARY) - 2, (BATCH, TOKENS))
    height, width = expected.image or (224, 224)
    channels, frames, mels = expected.channels, expected.frames or 8, expected.mels
    longest = 2 * (expected.places or 1500)
    image = torch.randn(BATCH, channels, height, width)
    ids: dict[str, Any] = {"input_ids": words}
    if "decoder_input_ids" in taken:
        ids["decoder_input_ids"] = words[:, :16]
    decoder = {k: v for k, v in ids.items() if k == "decoder_input_ids"}
    options: list[dict[str, Any]] = [
        {**ids, "pixel_values": image},
        ids,
        {**ids, "bbox": torch.zeros(BATCH, TOKENS, 4, dtype=torch.long)},
        {"pixel_values": image},
        {**decoder, "pixel_values": image},
        {"pixel_values": torch.randn(1, frames, channels, height, width)},
        {"pixel_values_videos": torch.randn(1, frames, channels, height, width)},
        {"pixel_values": image, "pixel_mask": torch.ones(BATCH, height, width, dtype=torch.long)},
        {**decoder, "input_features": torch.randn(BATCH, mels, longest)},
        {**decoder, "input_features": torch.randn(BATCH, 128, mels)},
        {**decoder, "input_values": torch.randn(BATCH, 16_000)},
        {"input_values": torch.randn(BATCH, 1, 16_000)},
        {"input_values": torch.randn(BATCH, expected.spectrum, mels)},
        {**ids, "input_values": torch.randn(BATCH, 16_000)},
        {"inputs_embeds": torch.randn(BATCH, TOKENS, expected.width or 128)},
    ]
    for keywords in options:
        if keywords.keys() <= taken.keys():
            yield keywords


DIFFUSERS: dict[str, tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "UNet2DModel": ({"sample_size": 32, "block_out_channels": (32, 64),
                     "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "norm_num_groups": 8},
                    lambda: {"sample": torch.randn(BATCH, 3, 32, 32), "timestep": 10}),
    "UNet2DConditionModel": ({"sample_size": 32, "block_out_channels": (32, 64), "cross_attention_dim": 64,
                              "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                              "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "norm_num_groups": 8},
                             lambda: {"sample": torch.randn(BATCH, 4, 32, 32), "timestep": 10,
                                      "encoder_hidden_states": torch.randn(BATCH, 16, 64)}),
    "AutoencoderKL": ({"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2,
                       "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8},
                      lambda: {"sample": torch.randn(BATCH, 3, 32, 32)}),
    "AutoencoderTiny": ({}, lambda: {"sample": torch.randn(BATCH, 3, 32, 32)}),
    "VQModel": ({"norm_num_groups": 8}, lambda: {"sample": torch.randn(BATCH, 3, 32, 32)}),
    "DiTTransformer2DModel": ({"num_layers": 2, "sample_size": 16, "num_attention_heads": 4, "attention_head_dim": 32},
                              lambda: {"hidden_states": torch.randn(BATCH, 4, 16, 16), "timestep": torch.tensor([5, 9]),
                                       "class_labels": torch.tensor([1, 2])}),
    "PriorTransformer": ({"num_layers": 2, "num_attention_heads": 4, "attention_head_dim": 32, "embedding_dim": 64,
                          "num_embeddings": 7, "additional_embeddings": 4},
                         lambda: {"hidden_states": torch.randn(BATCH, 64), "timestep": 3,
                                  "proj_embedding": torch.randn(BATCH, 64),
                                  "encoder_hidden_states": torch.randn(BATCH, 7, 64)}),
    "UNet1DModel": ({"sample_size": 64}, lambda: {"sample": torch.randn(BATCH, 2, 64), "timestep": 4}),
}  # fmt: skip


def diffusers_model(name: str = "UNet2DModel") -> Any:
    """A model of diffusers with a small configuration."""
    import diffusers

    settings, inputs = DIFFUSERS[name]
    make = partial(getattr(diffusers, name), **settings)
    return first_that_runs(name, [make], lambda _: [inputs()], LARGEST)


def module_names() -> list[str]:
    """torch.nn's modules, from torch's own list of test inputs (it needs the package expecttest)."""
    from torch.testing._internal.common_modules import module_db

    return sorted({info.name for info in module_db})


def torch_module(name: str = "nn.Linear") -> Any:
    """A module of torch.nn with the first of torch's own test inputs."""
    from torch.testing._internal.common_modules import module_db

    info = next(info for info in module_db if info.name == name)
    failure = "no inputs"
    for entry in info.module_inputs_func(info, torch.device("cpu"), torch.float32, requires_grad=False, training=True):
        try:
            made = entry.constructor_input
            model = info.module_cls(*made.args, **made.kwargs)
            forward = entry.forward_input
            if forward is not None:
                with torch.no_grad():
                    model(*forward.args, **forward.kwargs)
                return model, forward.args, forward.kwargs
        except Exception as error:
            failure = reason_of(error)
    raise does_not_run(name, failure)


class Operator(nn.Module):
    """One functional operator; `scale` gives training a parameter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, first: Any, *args: Any, **kwargs: Any) -> Any:
        scaled = first * self.scale if isinstance(first, torch.Tensor) and first.is_floating_point() else first
        return self.function(scaled, *args, **kwargs)


def operator_names() -> list[str]:
    """Operators of OpInfo's list that take float32 (it needs the package expecttest)."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted({_named(info) for info in op_db if torch.float32 in info.dtypes})


def _named(info: Any) -> str:
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else str(info.name)


def torch_operator(name: str = "nn.functional.linear") -> Any:
    """An operator with the largest of OpInfo's first samples."""
    from torch.testing._internal.common_methods_invocations import op_db

    info = next(info for info in op_db if _named(info) == name)
    try:
        samples = [s for s, _ in zip(info.sample_inputs("cpu", torch.float32), range(8), strict=False)]
        sample = max(samples, key=lambda s: s.input.numel() if isinstance(s.input, torch.Tensor) else 0)
        model = Operator(info.op)
        with torch.no_grad():
            model(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        raise does_not_run(name, reason_of(error)) from error
    return model, (sample.input, *sample.args), dict(sample.kwargs)
