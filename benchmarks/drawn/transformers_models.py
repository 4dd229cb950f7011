"""Classes of transformers with random small configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from benchmarks.drawn.by_name import does_not_run
from benchmarks.drawn.mended_configs import mended
from benchmarks.drawn.scaled_configs import ALL_LAYERS, MOST_FRAMES, Scale
from benchmarks.drawn.transformers_inputs import inputs
from benchmarks.drawn.trying import Made, first_that_runs

TASKS = (
    "", "CAUSAL_LM", "MASKED_LM", "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "IMAGE_CLASSIFICATION",
    "SEQ_TO_SEQ_CAUSAL_LM", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "AUDIO_CLASSIFICATION", "CTC", "BACKBONE",
    "VIDEO_CLASSIFICATION", "OBJECT_DETECTION", "QUESTION_ANSWERING", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ",
)  # fmt: skip
"""Of transformers' own lists of classes; the empty one is that of models without a head."""

_LAYERS = re.compile(r"(num|n)_.*layers?|.*_layers|n_layer|num_blocks|depth")
_WIDTHS = (
    "hidden_size", "d_model", "n_embd", "embed_dim", "embedding_size", "dim", "hidden_dim", "encoder_hidden_size",
    "decoder_hidden_size", "word_embed_proj_dim", "n_embed",
)  # fmt: skip
_INNER = (
    "intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner", "ffn_hidden_size",
    "encoder_intermediate_size", "dim_feedforward",
)  # fmt: skip
_HEADS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
)  # fmt: skip
_OF_A_HEAD = ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "mamba_d_head", "index_head_dim")
_EXPANDED = ("expand", "mamba_expand")
"""How much wider than a model its state-space layers are: heads of one width fit both if they are not."""
_ACTIVATIONS = ("hidden_act", "activation_function", "hidden_activation")
_BY_LAYER = ("layer_types", "mlp_layer_types", "attention_types")
"""Lists that say of each layer what it is."""
LARGEST_SIDE = 224
"""Of a tiny model's images: on 1024 pixels and more, segmentation takes minutes."""
_SCALES: tuple[dict[str, Any], ...] = (
    {"divisor": 8, "layers": 2},
    {"divisor": 4, "layers": 4},
    {"divisor": 8, "layers": 2, "image": None},
    {"divisor": 8, "layers": 2, "filled": True},
    {"divisor": 4, "layers": 2, "filled": True},
    {"divisor": 8, "layers": 2, "filled": True, "of_each_kind": 2},
    {"divisor": 16, "layers": 2, "filled": True},
    {"divisor": 4, "layers": ALL_LAYERS, "image": 256},
    {"divisor": 4, "layers": ALL_LAYERS, "image": None},
)
"""See Scale."""
_NARROWER = 0.5
"""How often lists of widths, as of hierarchical models, are halved."""


def names(heads: bool = True) -> list[str]:
    """Classes that can be built here: those in transformers' lists of models by task, each once; without heads, those
    in the list of base models alone."""
    from transformers.models.auto import modeling_auto

    found: dict[str, None] = {}
    for task in TASKS if heads else TASKS[:1]:
        mapping = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES" if task else "MODEL_MAPPING_NAMES", {})
        for name in mapping.values():
            found.update(dict.fromkeys([name] if isinstance(name, str) else name))
    return sorted(found)


def build(name: str, seed: str, batch: int, tiny: bool = False) -> Made:
    """The class with a configuration that the seed decides: all sizes, else those alone that leave widths as they are.
    A tiny one may also have all widths divided by one number. Raises WorkloadError if it runs with none of them."""
    import transformers

    model_class = getattr(transformers, name, None)
    if model_class is None:
        raise does_not_run(name, "transformers does not export it")

    def model(widths: bool, images: bool) -> Any:
        return model_class(_Draw(seed, tiny).change(model_class.config_class(), widths, images))

    def scaled(scale: dict[str, Any]) -> Any:
        return model_class(Scale(**scale).of(model_class.config_class()))

    makes = [partial(model, True, False), partial(model, False, False)]
    if tiny:
        makes.insert(1, partial(model, False, True))
        makes = [partial(model, True, True), *(partial(scaled, scale) for scale in _SCALES), *makes]
    return first_that_runs(
        name,
        makes,
        lambda model: inputs(model, Random(f"{seed} inputs"), batch, tiny),
        refit=batch if tiny else None,
        mend=_mends,
    )


def _mends(model: Any, error: str) -> Iterator[Callable[[], Any]]:
    return (partial(type(model), config) for config in mended(model.config, error))


class _Draw:
    """One draw of sizes, the same for a configuration and for those inside it."""

    def __init__(self, seed: str, tiny: bool) -> None:
        random = Random(f"{seed} sizes")
        self.heads = random.choice((2, 4) if tiny else (2, 3, 4, 6, 8, 12))
        self.head_dim = random.choice((16,) if tiny else (16, 32, 32, 48, 64))
        self.layers = random.choice((1, 2) if tiny else (1, 2, 3, 4, 6))
        self.inner = random.choice((1, 2, 3, 4, 4))
        self.words = random.choice((200, 300) if tiny else (1000, 2000, 5000, 10_000, 30_000))
        self.sharing = random.choice([n for n in (1, 2, 3, 4) if self.heads % n == 0])
        self.experts = random.choice((2, 4) if tiny else (4, 6, 8))
        self.activation = random.choice(("gelu", "relu", "silu", "gelu_new", ""))
        self.narrower = tiny or random.random() < _NARROWER
        self.tiny = tiny

    def change(self, config: Any, widths: bool, images: bool) -> Any:
        """The configuration with these sizes. Where a list says something of each layer, it is cut."""
        if self.tiny and getattr(config, "pad_token_id", 0) is None:
            config.pad_token_id = 0  # classifiers of sequences ask for it
        for key, value in list(vars(config).items()):
            if isinstance(value, bool) or value is None:
                continue
            if hasattr(value, "to_dict"):
                self.change(value, widths, images)
            elif key in ("image_size", "max_img_size") and images and isinstance(value, int | list | tuple):
                setattr(config, key, _smaller(value))
            elif isinstance(value, int):
                setattr(config, key, self._number(key, value, widths))
            elif self.tiny and widths and isinstance(value, dict) and "mrope_section" in value:
                setattr(config, key, {**value, "mrope_section": self._sections()})
            elif isinstance(value, str) and key in _ACTIVATIONS and self.activation:
                setattr(config, key, self.activation)
            elif isinstance(value, list | tuple) and key == "depths":
                setattr(config, key, type(value)(min(depth, self.layers) for depth in value))
            elif widths and self.narrower and key in ("hidden_sizes", "embed_dims", "neck_hidden_sizes"):
                setattr(config, key, type(value)(size // 2 for size in value))
        kinds = [key for key in _BY_LAYER if isinstance(vars(config).get(key), list)]
        if self.tiny and kinds:
            self._keep_one_of_each(config, kinds)
        for key in kinds if not self.tiny else ():
            setattr(config, key, getattr(config, key)[: self.layers])
        return config

    def _sections(self) -> list[int]:
        """Of half a head: places in time, height and width."""
        of_space = self.head_dim * 3 // 16
        return [self.head_dim // 2 - 2 * of_space, of_space, of_space]

    def _keep_one_of_each(self, config: Any, kinds: list[str]) -> None:
        """One layer of each kind that there is, in place of the first layers: a hybrid model stays one."""
        layers = list(zip(*(getattr(config, key) for key in kinds), strict=False))
        chosen = sorted({layers.index(layer) for layer in layers})
        for key in kinds:
            setattr(config, key, [getattr(config, key)[place] for place in chosen])
        config.num_hidden_layers = len(chosen)

    def _number(self, key: str, value: int, widths: bool) -> int:
        if _LAYERS.fullmatch(key):
            return min(self.layers, value) or value
        if key == "vocab_size" or (self.tiny and key.endswith("_vocab_size")):
            return min(self.words, value)
        if key == "num_frames" and self.tiny:
            return min(value, MOST_FRAMES)
        if key.endswith("_token_id"):
            return min(value, self.words - 1)
        return self._width(key, value) if widths else value

    def _width(self, key: str, value: int) -> int:
        hidden = self.heads * self.head_dim
        if key in _WIDTHS:
            return hidden
        if key in _INNER:
            return hidden * self.inner
        if key in _HEADS:
            return self.heads
        if self.tiny and key in _OF_A_HEAD:
            return self.head_dim
        if self.tiny and key == "qk_head_dim":
            return 2 * self.head_dim
        if self.tiny and key in _EXPANDED:
            return 1
        if key == "num_key_value_heads":
            return self.heads // self.sharing
        if key in ("head_dim", "d_kv", "kv_channels"):
            return self.head_dim
        if key in ("num_experts", "n_routed_experts", "num_local_experts"):
            return min(self.experts, value)
        if key in ("num_experts_per_tok", "num_selected_experts"):
            return min(2, value)
        if key in ("moe_intermediate_size", "shared_expert_intermediate_size"):
            return hidden
        return value


def _smaller(size: Any) -> Any:
    return min(size, LARGEST_SIDE) if isinstance(size, int) else type(size)(min(n, LARGEST_SIDE) for n in size)
