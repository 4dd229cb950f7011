"""Operator categories: which kind of work an ATen operator does, by its base name.

The tables hold operators without the marks that do not change the kind of work: the in-place underscore
(`relu_`), the list prefix (`_foreach_mul`) and, unless listed, the endings `_forward` and `_backward`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from statsnet.signatures.word_lists import word_lists

COLLECTIVE = "collective"
CATEGORIES = (
    "convolution", "gemm", "attention", "recurrent", "embedding", "normalization", "softmax",
    "activation", "elementwise", "pooling", "reduction", "fft", "data_arrangement", "sort", "optimizer",
    COLLECTIVE, "other",
)  # fmt: skip

FUSABLE = frozenset({"normalization", "activation", "elementwise", "softmax"})
"""Categories whose operators a compiler attaches to the operator that feeds them."""

_NAMES = word_lists(Path(__file__).with_suffix(".txt"))
_METADATA = frozenset(_NAMES.pop("metadata"))
SPECIAL_FUNCTIONS = tuple(_NAMES.pop("special_functions"))

_PREFIXES = {
    "attention": (
        "_scaled_dot_product_", "_flash_attention_", "_efficient_attention_", "_cudnn_attention_",
        "flex_attention",
    ),
    "recurrent": (
        "_thnn_fused_", "_thnn_differentiable_", "mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn", "_lstm_",
    ),
    "convolution": (
        "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_depthwise",
        "_conv_depthwise", "slow_conv", "_slow_conv", "cudnn_convolution", "miopen_convolution",
        "miopen_depthwise", "mkldnn_convolution", "qconv",
    ),
    "data_arrangement": ("upsample_", "_upsample_"),
    "pooling": ("max_pool", "mkldnn_max_pool", "fractional_max_pool"),
}  # fmt: skip

_COLLECTIVE_NAMESPACES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor"})
_WITHOUT_DATA = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
"""What comes with collectives and moves nothing itself."""
_BOOKKEEPING_NAMESPACES = frozenset({"profiler", "prim"})

_CATEGORY_OF = dict.fromkeys(_METADATA, "data_arrangement") | {
    name: category for category, names in (*_NAMES.items(), ("elementwise", SPECIAL_FUNCTIONS)) for name in names
}


def base_name(op: str) -> str:
    """`"aten.add_.Tensor"` -> `"add_"`: the operator without its library and overload."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def namespace(op: str) -> str:
    """`"aten.add_.Tensor"` -> `"aten"`; empty if the name has no library."""
    return op.split(".")[0] if "." in op else ""


@lru_cache(maxsize=4096)
def categorize(op: str, phase: str) -> str:
    """The category of an operator call, one of CATEGORIES; `other` where the operator is not known.

    Whatever runs in phase `optimizer` is the optimizer's work, by whatever operators it is done.
    """
    if namespace(op) in _COLLECTIVE_NAMESPACES:
        return COLLECTIVE
    if phase == "optimizer":
        return "optimizer"
    stem = _stem(op)
    return (
        _lookup(stem)
        or _lookup(re.sub(r"_backward.*$", "", stem))
        or _lookup(re.sub(r"_forward$", "", stem))
        or "other"
    )


@lru_cache(maxsize=4096)
def is_metadata(op: str) -> bool:
    """Whether the operator moves no data: views, empty allocations, questions about a tensor.

    Operators that sometimes copy (`reshape`, `contiguous`, `to`) are not metadata; their cost may be zero.
    """
    if namespace(op) in _BOOKKEEPING_NAMESPACES:
        return True
    if namespace(op) in _COLLECTIVE_NAMESPACES and base_name(op) not in _WITHOUT_DATA:
        return False
    return _stem(op) in _METADATA


def _stem(op: str) -> str:
    name = base_name(op)
    if name in ("max", "min") and op.endswith(".other"):
        return f"{name}_other"  # the binary maximum shares its name with the reduction
    name = name.removeprefix("_foreach_")
    return name if name.endswith("__") else name.removesuffix("_")


def _lookup(stem: str) -> str | None:
    if stem in _CATEGORY_OF:
        return _CATEGORY_OF[stem]
    return next((category for category, prefixes in _PREFIXES.items() if stem.startswith(prefixes)), None)
