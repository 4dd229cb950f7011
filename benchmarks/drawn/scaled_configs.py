"""A configuration of transformers with all widths and heads divided by one number, so that what must fit still fits.

Classes compute some sizes from others when they are built, so configurations are built anew from the fields that their
classes declare, those inside them too. What is no width keeps its value: kernels, patches, the width of a head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import product
from typing import Any

_WIDTHS = re.compile(
    r"(.*_)?(hidden_sizes?|d_model|n_embd|n_embed|embed_dims?|embedding_(size|dim)|hidden_dim|dim|width|emb_dim"
    r"|intermediate_sizes?|inner_(size|dim)|n_inner|ffn_dim|d_ff|d_inner|dim_feedforward|ffn_hidden_size|projection_dim"
    r"|proj_dim|output_dim|out_dim|lora_rank|in_channels|out_channels|channels|filters|mlp_dim|conv_dim|codebook_dim"
    r"|lru_width|dim_ff|ff_dim|expand_dim|fpn_dim|feature_size|out_features|pooler_size|embed_dim_per_stage|d_latents"
    r"|channel_list|adapter_input_size)"
)
_HEADS = re.compile(
    r"(.*_)?(num|n)_.*heads(_per_stage)?|(.*_)?(n_head|num_heads|attention_heads|heads|n_heads|encoder_heads)"
)
_OF_A_HEAD = re.compile(
    r"(.*_)?(head_dim|head_size|d_head|d_kv|kv_channels|headdim)|rotary_dim|rope_dim|qk_.*|v_head.*"
)
_LAYERS = re.compile(
    r"(num|n)_.*(layers?|blocks)|.*_layers|n_layer|depth|num_blocks|layers|.*_depth|.*_attends_per_block"
)
_EXPERTS = re.compile(r"(.*_)?(num|n)_(.*_)?experts")
_BY_STAGE = ("depths", "num_layers", "layers", "stage_depths", "blocks_per_stage")
_PLAIN = {"layer_types": "full_attention", "mlp_layer_types": "dense"}
"""What each layer is where a configuration leaves it open."""
_ADAPTS_ITSELF = {"layer_types", "mlp_layer_types", "layers_block_type"}
_ASKED_FOR = {"pad_token_id": 0, "prediction_length": 24, "default_language": "en_XX"}
"""What some models do not run without, and some configurations leave open."""
ALL_LAYERS = 1000
"""More than any model has."""
_MOST_WORDS = 1000
_LARGEST_SIDE = 224
_NARROWEST = 16
"""Numbers below it are no widths: colours of a picture, factors, groups."""
_ALIGNED = 8
"""Products of matrices for several experts want rows of 16 bytes, so the widths inside of experts are multiples."""
_ONE_A_CHANNEL = 128
"""So many groups of a convolution are as many as it has channels."""
_USUAL_OF_TIMM = "resnet50"
_IN_WINDOWS = 64
"""A side that windows divide is a multiple: most have four of 16 pixels."""
_MOST_EXPERTS = 4
_CHOSEN_EXPERTS = 2
MOST_FRAMES = 8
"""Of a tiny model's videos."""
_MOST_QUERIES = 100
"""Objects looked for: no more than small pictures have places."""
_MOST_TABLE = 20_000
"""Rows of a table that hashes words; more would make it the largest part of a small model."""

_LEFT_OPEN = {
    "vocab_size": 1000,
    "mask_token_id": 4,
    "n_shared_experts": 1,
    "n_routed_experts": _MOST_EXPERTS,
    "num_local_experts": _MOST_EXPERTS,
    "num_experts": _MOST_EXPERTS,
    "num_experts_per_tok": _CHOSEN_EXPERTS,
    "top_k_experts": _CHOSEN_EXPERTS,
    "moe_intermediate_size": 64,
    "n_group": 1,
    "topk_group": 1,
    "sliding_window": 16,
    "backbone": "resnet18",
    "clip_qkv": 8.0,
    "image_token_id": 4,
    "image_token_index": 4,
    "video_token_index": 6,
    "vocabulary_map": {"<image>": 4, "<|extra_200|>": 5},
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
    "projector_scale_factors": (1.0,),
}
"""The same, where a configuration is filled."""

_AS_ANOTHER = {"indexer_head_dim": "head_dim", "num_key_value_heads": "num_attention_heads"}
"""The same as another field."""

_NOT_DECLARED = {"rope_theta": 10_000.0, "dropout_rate": 0.0}
"""What some models read though their configurations do not declare it, where a configuration is filled."""


@dataclass(kw_only=True)
class Scale:
    """Widths and heads are divided by `divisor`, at most `layers` are kept, pictures are no larger than `image`,
    and `filled` says whether what models compute from other fields if it is left open is given. `of_each_kind` is how
    many layers of each kind remain of a hybrid model.
    The special words of one model get numbers in the smaller vocabulary, each its own, which `words` notes: another
    model has another Scale."""

    divisor: int
    layers: int
    image: int | None = _LARGEST_SIDE
    filled: bool = False
    of_each_kind: int = 1
    words: dict[int, int] = field(default_factory=dict)

    def of(self, config: Any) -> Any:
        """The configuration at this size."""
        given = dict(self._values(config))
        given.pop("_out_indices", None)
        stages = {"out_features": given.pop("_out_features", None) or (_all_stages(config) if self.filled else None)}
        layers = _of_fewer_layers(config, given, self.of_each_kind, self.layers)
        made = _first_valid(type(config), given, [layers, stages])
        return _with_undeclared(made) if self.filled else made

    def _inner(self, config: Any) -> Any:
        """One inside another. That of a backbone of the library timm becomes one of transformers' own."""
        if config.model_type == "timm_backbone":
            return _residual_network(config.out_indices)
        small = self._of_timm(config) if hasattr(config, "architecture") else None
        made = self.of(config)
        return type(config)(**{**config.to_dict(), **made.to_dict(), **small}) if small else made

    def _of_timm(self, config: Any) -> dict[str, Any] | None:
        """A small network in place of one of the library timm, which has its own sizes; None for what is small."""
        is_left_open = config.architecture == _USUAL_OF_TIMM and not config.model_args and self.filled
        if config.architecture.startswith("vit") or is_left_open:
            sizes = {"embed_dim": 128, "num_heads": 2, "depth": self.layers, "img_size": 128, "patch_size": 16}
            return {
                "architecture": "vit_tiny_patch16_224" if is_left_open else config.architecture,
                "model_args": sizes,
            }
        return None if config.architecture == _USUAL_OF_TIMM else {"architecture": "resnet18", "model_args": {}}

    def _values(self, config: Any) -> Iterator[tuple[str, Any]]:
        usual, has = vars(type(config)()), vars(config)  # an attribute may be ambiguous: one for each layer
        inner = getattr(config, "sub_configs", None) or {}
        for each in fields(config):
            if not each.init:
                continue
            actual, default = has.get(each.name), _default(each)
            if each.name in inner or hasattr(actual, "to_dict"):
                if hasattr(actual, "to_dict"):
                    yield each.name, self._inner(actual)
                continue
            was_given = actual != usual.get(each.name)
            value = actual if was_given or _is_list_of_sizes(each.name, actual) else default
            if value is None:
                value = _ASKED_FOR.get(each.name)
            if self.filled and (value is None or value == ()):
                value = _left_open(each, config, self) or value
            is_side = each.name == "patch_size" and value in _sides_inside(config)
            scaled = self._scaled("image_size" if is_side else each.name, value)
            if each.name == "image_size" and scaled != value and "num_windows" in has:
                scaled -= scaled % _IN_WINDOWS
            if was_given or scaled != default:
                yield each.name, scaled

    def _scaled(self, name: str, value: Any) -> Any:
        if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
            if name in _BY_STAGE:
                return type(value)(self._depth(entry) for entry in value)
            return type(value)(self._scaled(name, entry) for entry in value)
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if name.endswith(("_token_id", "_token_index", "_token")):
            return self._word(value)
        if "vocab_size" in name or name.endswith("_vocab"):
            return min(value, _MOST_TABLE if "base" in name else _MOST_WORDS)
        if name.endswith(("image_size", "img_size")) and self.image:
            return min(value, self.image)
        if _EXPERTS.fullmatch(name):
            return min(value, _MOST_EXPERTS)
        if name in ("num_experts_per_tok", "num_selected_experts", "moe_topk", "moe_k", "top_k_experts"):
            return min(value, _CHOSEN_EXPERTS)
        if name.endswith("_hook_ids"):
            return min(value, self.layers - 1)
        if name == "num_frames":
            return min(value, MOST_FRAMES)
        if name == "num_queries":
            return min(value, _MOST_QUERIES)
        if name in ("n_group", "topk_group"):
            return min(value, 1)
        if name == "num_kv_shared_layers":
            return 0  # the layers that they share with may be gone
        if _LAYERS.fullmatch(name):
            return self._depth(value)
        return self.number(name, value)

    def _depth(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._depth(entry) for entry in value)
        return min(value, self.layers)

    def number(self, name: str, value: int) -> int:
        """A single whole number of a configuration, smaller if its name tells of a width or a count of heads."""
        if _OF_A_HEAD.fullmatch(name):
            return value
        if _HEADS.fullmatch(name):
            return max(1, value // self.divisor)
        is_inner = "intermediate" in name
        is_width = is_inner or value % 2 == 0  # an odd number counts something else
        if _WIDTHS.fullmatch(name) and value >= _NARROWEST and is_width:
            width = max(_NARROWEST // 2, value // self.divisor)
            return width - width % _ALIGNED if is_inner else width
        if name.endswith("groups") and value >= _ONE_A_CHANNEL:
            return value // self.divisor
        return value

    def _word(self, value: int) -> int:
        if value < _MOST_WORDS // 2:
            return value
        return self.words.setdefault(value, _MOST_WORDS - 1 - len(self.words))


def _sides_inside(config: Any) -> list[Any]:
    """Of pictures of the configurations inside: a model may cut its own into some for them."""
    return [part.image_size for part in vars(config).values() if hasattr(part, "image_size")]


def _first_valid(config_class: type, given: Mapping[str, Any], more: Sequence[Mapping[str, Any]]) -> Any:
    """A configuration with as much as its class takes of what it may have beside the given fields: a class may compute
    some of it, or check it against others."""
    for chosen in product(*([wanted, {}] for wanted in more)):
        extra = {name: value for part in chosen for name, value in part.items() if value is not None}
        if extra:
            with suppress(Exception):
                return config_class(**{**given, **extra})
    return config_class(**given)


def _all_stages(config: Any) -> list[str] | None:
    """What a backbone may hand out; the last one alone is the default, but not what most models ask for."""
    names = getattr(config, "stage_names", None)
    return names[1:] if names else None


def _residual_network(stages: Sequence[int]) -> Any:
    """A small one that hands out these of its stages."""
    from transformers import ResNetConfig

    sizes: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [32, 64, 64, 64], "depths": [1, 1, 1, 1]}
    return ResNetConfig(**sizes | {"out_indices": list(stages)})


def _left_open(each: Field[Any], config: Any, scale: Scale) -> Any:
    """A value for a field that a configuration leaves open, from its other fields where it follows from them."""
    name = each.name
    if name == "head_dim":
        return _width_of_a_head(config, scale)
    if name == "rope_parameters":
        places = _places_in_space(config, scale)
        by_kind = str(each.type).startswith("dict[str,")
        return dict.fromkeys(vars(config).get("layer_types") or (), places) if by_kind else places
    if name in _AS_ANOTHER:
        return vars(config).get(_AS_ANOTHER[name])
    if name in _PLAIN:
        return [_PLAIN[name]] * scale.layers
    return _LEFT_OPEN.get(name)


def _is_list_of_sizes(name: str, value: Any) -> bool:
    """Whether a class gives each stage its size, which it does not compute from the first."""
    has_sizes = _WIDTHS.fullmatch(name) or _HEADS.fullmatch(name) or name in _BY_STAGE
    is_list = isinstance(value, list | tuple) and not any(isinstance(entry, str) for entry in value)
    return bool(has_sizes) and is_list


def _with_undeclared(config: Any) -> Any:
    """The configuration with what its model reads and it lacks."""
    heads = {"num_key_value_heads": vars(config).get("num_attention_heads")}
    for name, value in (_NOT_DECLARED | heads).items():
        if value is not None and name not in vars(config) and name not in (config.attribute_map or {}):
            setattr(config, name, value)
    return config


def _width_of_a_head(config: Any, scale: Scale) -> int | None:
    """Of those of the smaller configuration."""
    width, heads = (vars(config).get(name) for name in ("hidden_size", "num_attention_heads"))
    if not isinstance(width, int) or not isinstance(heads, int):
        return None
    return scale.number("hidden_size", width) // scale.number("num_attention_heads", heads)


def _places_in_space(config: Any, scale: Scale) -> Any:
    """Rotary embeddings that know time, height and width; a text's model takes no notice of the latter two."""
    known = vars(config).get("rope_parameters") or {}
    size = vars(config).get("head_dim") or _width_of_a_head(config, scale)
    if not size or any(isinstance(value, dict) for value in known.values()):
        return None
    half = (int(size * known.get("partial_rotary_factor", 1)) + 1) // 2
    of_space = half * 3 // 8
    plain = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [half - 2 * of_space, of_space, of_space]}
    return {**plain, **known}


def _default(each: Any) -> Any:
    if each.default is not MISSING:
        return each.default
    return each.default_factory() if each.default_factory is not MISSING else None


def _of_fewer_layers(config: Any, given: Mapping[str, Any], count: int, most: int) -> Mapping[str, Any]:
    """Lists that say something of each layer, cut to the layers that remain. Where they say what each layer is, these
    are so many of each kind, so that a hybrid model stays one; else the first."""
    declared = {each.name for each in fields(config) if each.init}
    total = vars(config).get("num_hidden_layers")
    now = {name: value for name, value in vars(config).items() if name in declared} | dict(given)
    lists = {name: value for name, value in now.items() if isinstance(value, list) and len(value) == total}
    kinds = [lists[name] for name in sorted(lists.keys() & _ADAPTS_ITSELF)]
    chosen = [*range(min(most, len(next(iter(lists.values()), []))))]
    if kinds:
        layers = list(zip(*kinds, strict=True))
        chosen = [place for place, layer in enumerate(layers) if layers[:place].count(layer) < count]
    kept = {name: [value[place] for place in chosen] for name, value in lists.items()}
    return kept | ({"num_hidden_layers": len(chosen)} if kept and "num_hidden_layers" in declared else {})
