"""Which names of operators and kernels are public. Anybody may register operators in a library's namespace, and print
what looks like a library's log; so not the namespace decides but every word, or the whole name."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from statsnet.signatures.categories import CATEGORIES, base_name
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.signatures.vocabulary import (
    CPU_KERNEL_WORDS,
    KERNEL_FAMILY_LIBRARIES,
    KERNEL_FAMILY_TAGS,
    KERNEL_NAMES,
    KERNEL_WORDS,
    OP_NAMESPACES,
    OP_WORDS,
    OPAQUE_KERNEL,
    OPAQUE_OP,
    OPS_WITH_EFFECTS,
    OPTIMIZERS,
    SHORT_KERNEL_WORDS,
    words,
)
from statsnet.signatures.word_lists import word_lists


def safe_op(op: str) -> str:
    """The operator's name if it is of torch's or a public library's namespace and made of public words, else
    `custom.opaque.default`."""
    return op if is_public_op(op) else OPAQUE_OP


def safe_kernel(name: str) -> str:
    """A kernel's name if it is a family or from a library's log, made of public words; else `opaque`."""
    return name if is_public_kernel(name) else OPAQUE_KERNEL


def safe_optimizer(name: str) -> str:
    """The optimizer's class as signatures spell it; `custom` if no library publishes it."""
    return name.lower() if is_public_optimizer(name) else "custom"


def is_public_optimizer(name: str) -> bool:
    """Whether a library publishes an optimizer of this name."""
    return name.lower().replace("_", "") in OPTIMIZERS


@functools.lru_cache(maxsize=4096)
def is_public_op(op: str) -> bool:
    """Whether this is `namespace.name.overload` of an operator that acts on tensors alone: in a namespace of torch's
    own, of torch's words; in another library's, where anybody may register operators, one that the library owns."""
    if op == OPAQUE_OP:
        return True
    match = re.fullmatch(r"([a-z0-9_]+)\.([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)", op)
    if match is None or not words(match[2]) or match[2] in OPS_WITH_EFFECTS:
        return False
    library, name, overload = match.groups()
    if library in OP_NAMESPACES:
        return _has_known_words(f"{name}_{overload}")
    return _is_of_library(library, name) and _has_known_words(overload)


def _has_known_words(text: str) -> bool:
    known = (w in OP_WORDS or w in KERNEL_WORDS or w in SHORT_KERNEL_WORDS for w in words(text))
    return not _NUMBER.search(text) and all(known)


_NUMBER = re.compile(r"\d{3}")
"""No operator of torch has one in its name."""

_FBGEMM_LOOKUP = re.compile(
    r"(dense|split|ssd|int_nbit_split)_embedding(_(backward|nobag|uvm|caching|weighted|unweighted|vbe))*_codegen"
    r"(_(forward|backward|lookup|function|grad|indice|weights|none|exact|approx|rowwise|partial|weighted|unweighted|vbe|gwd"
    r"|adagrad|adam|lamb|lars|sgd|with|counter|cpu|cuda|pt2|kernel|meta|autograd))+"
)
"""FBGEMM makes one operator for each optimizer, each kind of table and each device."""


@functools.cache
def _operators_of_libraries() -> dict[str, frozenset[str]]:
    """By namespace: the operators that a public library defines there, by their whole names."""
    lists = word_lists(Path(__file__).with_name("public_operators.txt"))
    return {library: frozenset(names) for library, names in lists.items()}


def _is_of_library(library: str, name: str) -> bool:
    is_listed = name in _operators_of_libraries().get(library, ())
    return is_listed or (library == "fbgemm" and _FBGEMM_LOOKUP.fullmatch(name) is not None)


@functools.lru_cache(maxsize=4096)
def is_public_kernel(text: str) -> bool:
    """Names joined by `+`: each a family, or from oneDNN's or MKL's log."""
    return all(part in KERNEL_NAMES or _is_family(part) or _is_logged(part) for part in text.split("+"))


def is_kernel_class(text: str, ops: frozenset[str]) -> bool:
    """`kind|kernel|dtype|layout`, the kind being one of these operators' or a category."""
    parts = text.split("|")
    if len(parts) != 4:
        return False
    kind, kernel, dtype, layout = parts
    known = kind in CATEGORIES or kind in _KINDS or kind in {_kind(op) for op in ops}
    return known and is_public_kernel(kernel) and dtype in {*ITEM_SIZE, "none"} and layout in _LAYOUTS


_KINDS = frozenset(
    {"batched_gemm", "cat", "gemv", "attention_backward", "native_batch_norm", "native_batch_norm_backward"}
)
_LAYOUTS = frozenset(
    {"contiguous", "channels_last", "expanded", "transposed", "strided"} | {a + b for a in "nts" for b in ("", *"nts")}
)


def _kind(op: str) -> str:
    base = base_name(op)
    return base if base.endswith("__") else base.rstrip("_")


def _is_family(text: str) -> bool:
    """`library:kernel`, then tags, as `profiling.kernel_families` makes them."""
    library, *kernel = text.split(":")
    if library not in KERNEL_FAMILY_LIBRARIES or not 1 <= len(kernel) <= 3:
        return False
    known = all(word in KERNEL_WORDS or word in SHORT_KERNEL_WORDS for word in kernel[0].split("_"))
    return known and all(tag in KERNEL_FAMILY_TAGS for tag in kernel[1:])


def _is_logged(text: str) -> bool:
    """`onednn:brgconv_strided:avx2` or `mkl:sgemm`, as `profiling.kernel_log` writes them."""
    match = re.fullmatch(r"(?:(?:onednn|mkl):)?([a-z0-9_:.]{1,100})", text)
    if match is None:
        return False
    parts = re.split("[:_.]", match[1])
    if text.startswith("mkl:") and _LAPACK.fullmatch(parts[0]):
        parts = parts[1:]
    return all(not re.search(r"\d{4}", part) and all(map(_is_logged_word, words(part))) for part in parts)


_LAPACK = re.compile(
    r"[sdcz](b[di]|d[it]|g[begt]|h[begpst]|op|or|p[bopt]|s[bpty]|t[bpr]|un)"
    r"(mm3?m?|m[mv]|r[k2u]k?|s[mv]x?|trf[23]?|tf2|trs2?|tri2?|con|equb?|rfs|ls|ls[dsty]|qrf|qrt|qp3|q[lr]f|lqf|rqf|gqr|glq|mqr|mlq"
    r"|g[bht]r|hrd|brd|trd|gtr|ev|ev[dirx]|es|esx|sdd|svd|svdx?|svj|bal|bak|eqr|ein|edc|dc|qr|gvd?|gvx|exc|sen|sna|syl)"
)
"""The names of BLAS and LAPACK: the type of number, the type of matrix, what is done with it (LAPACK Users' Guide,
section 2.2.3)."""


def _is_logged_word(word: str) -> bool:
    return word in CPU_KERNEL_WORDS or (word[0] in "sdcz" and len(word) > 3 and word[1:] in CPU_KERNEL_WORDS)
