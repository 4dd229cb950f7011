"""Which public library owns a kernel: by its namespace, or by the function's whole name.

Names are from the libraries' own sources and from public recordings. A pattern of NAMESPACES is matched at the
beginning of the qualified name (no template arguments, no anonymous namespaces), one of BASES against the whole of the
name of the function: `acme_splitKreduce_kernel` is nobody's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from statsnet.signatures.vocabulary import words
from statsnet.signatures.word_lists import word_lists


@dataclass(frozen=True, slots=True)
class Owner:
    """The library, and the name of the kernel if the function's own words would not tell it. `path_tells`: if they tell
    nothing, the namespaces do. `only_known_words`: a name with a longer word that is not in the vocabulary is somebody
    else's, as the pattern alone is not the library's mark. Of a function without a namespace only `words` are kept:
    anybody may write more of them into a name that a pattern fits. None: all of the vocabulary."""

    library: str
    kernel: str | None = None
    path_tells: bool = False
    only_known_words: bool = False
    words: frozenset[str] | None = None


_MARKED = frozenset({"nccl", "magma", "miopen", "rocblas", "nvshmem", "natten", "quack", "spconv", "lmdeploy"})
"""Libraries whose functions begin with a mark of their own, such as `MIOpen` or `rocblas_`."""

_DEEPSEEK = """
    aux_fi_impl batched_swiglu_forward_and_per_token_cast_to_fp8_with_channels_impl
    batched_transpose cast_back_impl clean_and_count_expert expand_to_fused_with_scales_impl
    expand_to_fused_impl get_fused_mapping per_channel_cast_and_transpose per_token_cast_back_special_fmt_impl
    per_token_cast_back_impl per_channel_cast_back per_token_cast_to_fp8_with_channels per_block_cast_to_fp8
    per_token_cast_to_fp8_with_fp8_special_fmt reduce_fused_impl swiglu_and_per_channel_cast_and_transpose
    swiglu_backward swiglu_forward swiglu_forward_backward_with_weight_impl
    swiglu_weight_backward_with_weight_impl
    swiglu_forward_with_weight_and_per_token_cast_to_fp8_with_channels_impl topk_sum_and_topk_idx
    unique_group_indices_impl swiglu_forward_and_per_token_cast_to_fp8_impl topk_gate normalize_weight
    """.split()  # noqa: SIM905 (a list of quoted words is unreadable)
"""Kernels of DeepSeek's published training profile, whose namespace `cuda` anyone may use: by their whole names."""


@functools.cache
def public_functions() -> dict[str, str]:
    """Functions without a namespace that no pattern fits, mostly Triton's, with the library that defines them: those
    that public repositories hold, by their whole names (docs/kernel-families.md lists them). Names that anybody could
    have chosen are left out."""
    return {name: library for library, names in _lists("public_kernels").items() for name in names}


def _lists(file: str) -> dict[str, list[str]]:
    """Those of a file beside this one, by library."""
    return word_lists(Path(__file__).with_name(f"{file}.txt"))


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """One pattern from several."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


NAMESPACES: tuple[tuple[re.Pattern[str], Owner], ...] = (
    (re.compile(r"epilogue::impl::"), Owner("cublas", "epilogue")),
    (re.compile(r"(?:internal::)?gemvx::"), Owner("cublas", "gemv")),
    (re.compile(rf"cuda::(?:{'|'.join(_DEEPSEEK)})$"), Owner("deepseek")),
    *(
        (_any_of(patterns), Owner(library, path_tells=True))
        for library, patterns in _lists("kernel_namespaces").items()
    ),
)

_COMMON = frozenset(
    """
    adagrad adam backward bf bwd cta dgemm fast final float forward fp fused fwd half in indice indices input
    int kvcache masked mean mfma n nn nt off out output pack per qkv reduce scalar scatter sgd sgemm small
    spatial strided t tn train transposed tt unweighted update val variance vec vectorized warp weight weighted
    weights with
    """.split()  # noqa: SIM905 (a list of quoted words is unreadable)
)
"""Words that say how any library's kernel is written, not what a model is made of."""


def _words_of(patterns: Iterable[str]) -> frozenset[str]:
    """The words that stand in patterns as they are, and COMMON ones."""
    return frozenset(words(re.sub(r"\\[wd]|\(\?:|[()?*+|\[\]]", " ", " ".join(patterns)))) | _COMMON


BASES: tuple[tuple[re.Pattern[str], Owner], ...] = tuple(
    (_any_of(patterns), Owner(library, only_known_words=library not in _MARKED, words=_words_of(patterns)))
    for library, patterns in _lists("kernel_functions").items()
)
