"""Takes the name of a GPU kernel apart: namespaces, function, template arguments, words, type of elements.

Profilers write C++ names as the demangler does (`void at::native::reduce_kernel<512, 1, ...>(...)`), mangled
(`_ZN2ck16...`), or plain (`ampere_sgemm_128x64_nn`). Every step here takes time linear in the name's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from statsnet.signatures.vocabulary import KERNEL_WORDS, SHORT_KERNEL_WORDS, words

LONGEST_NAME = 20_000
"""Templates make names of some thousand letters; what is longer is cut."""


@dataclass(frozen=True, slots=True)
class KernelName:
    """`void a::b::f<x, y>(int)` -> path ("a", "b"), base "f", template "x, y"."""

    path: tuple[str, ...]
    base: str
    template: str

    @property
    def qualified(self) -> str:
        """`a::b::f`"""
        return "::".join((*self.path, self.base))


def parse(name: str) -> KernelName:
    """The parts of a kernel's name, anonymous namespaces left out."""
    name = name[:LONGEST_NAME].strip().removesuffix("[clone .kd]").strip().removesuffix(".kd")
    if name.startswith("_Z"):
        return _from_mangled(name)
    for unnamed in ("(anonymous namespace)::", "<unnamed>::", "_GLOBAL__N_::"):
        name = name.replace(unnamed, "")
    outside, template = _split_templates(name)
    function = outside.split("(", 1)[0].split()
    parts = function[-1].split("::") if function else [""]
    return KernelName(path=tuple(p for p in parts[:-1] if p), base=parts[-1], template=template)


def _split_templates(name: str) -> tuple[str, str]:
    """The name up to its parameters without template arguments, and the arguments of its last part."""
    outside: list[str] = []
    template: list[str] = []
    depth = parentheses = 0
    for i, letter in enumerate(name):
        if depth and letter in "()":  # `<(8 > 0), void>`: what stands in parentheses closes no template
            parentheses += 1 if letter == "(" else -1
        elif parentheses <= 0 and letter == "<":
            depth += 1
            if depth == 1:
                template, parentheses = [], 0
                continue
        elif parentheses <= 0 and letter == ">" and name[i - 1] != "-":
            depth = max(0, depth - 1)
            if depth == 0:
                continue
        if depth:
            template.append(letter)
        elif letter == "(":
            break
        else:
            outside.append(letter)
    return "".join(outside), "".join(template)


_MANGLED_PART = re.compile(r"L[a-z]n?\d+E|DF\d+[b_x]?|S[0-9A-Z]*_|(?P<length>\d+)|(?P<end>[IE])|.", re.DOTALL)
_BUILT_IN = {"f": "float", "d": "double", "t": "bf16"}  # AMD's libraries keep bfloat16 in unsigned shorts


def _from_mangled(name: str) -> KernelName:
    """The same from an Itanium-mangled name: its path, and all other identifiers as template arguments."""
    path: list[str] = []
    arguments: list[str] = []
    place, in_path = 2, True
    if name[2:3] == "N":
        place = 3
    while place < len(name):
        match = _MANGLED_PART.match(name, place)
        assert match is not None
        place = match.end()
        if match["length"]:
            # Of `42Conv`, the digits may belong to a substitution before; a length beyond the end cannot be one.
            length = int(match["length"][:4])
            identifier, place = name[place : place + length], place + length
            if not identifier.startswith("_GLOBAL__N_"):
                (path if in_path else arguments).append(identifier)
            if in_path and name[2:3] != "N":
                in_path = False
        elif match["end"] and in_path:
            in_path = False
    types = [_BUILT_IN[letters[0]] for letters in re.findall(r"I(?:Li\d+E)*([fdt]+)", name)]
    types += ["bf16"] if "DF16b" in name else ["half"] if "Dh" in name or "DF16_" in name else []
    return KernelName(path=tuple(path[:-1]), base=path[-1] if path else "", template=" ".join([*types, *arguments]))


_SAY_NOTHING = frozenset({"kernel", "kernels", "krnl", "kern", "void", "impl", "cuda", "hip", "gpu", "kentry"})
MOST_WORDS = 8


def public_words(identifier: str, among: frozenset[str] | None = None) -> str:
    """The words of an identifier that signatures may hold, joined by `_`; `other` if there is none.

    Of single letters, only a product's N and T are kept; with `among`, only the words in it.
    """
    known = [w for w in words(identifier) if w in KERNEL_WORDS or w in SHORT_KERNEL_WORDS]
    known = [w for w in known if among is None or w in among]
    telling = [w for w in dict.fromkeys(known) if w not in _SAY_NOTHING and (len(w) > 1 or w in "nt")][:MOST_WORDS]
    return "_".join(telling) or "other"


def has_unknown_word(identifier: str) -> bool:
    """Whether a word of four letters or more is not in the vocabulary."""
    return any(len(w) > 3 and w not in KERNEL_WORDS and w not in _SAY_NOTHING for w in words(identifier))


_DTYPES = (
    ("bf16", r"bfloat16(?:_t)?|BFloat16|__nv_bfloat162?|__hip_bfloat16|nv_bfloat16|hip_bfloat16|Bfloat16|bf16|BF16"),
    (
        "f8",
        r"Float8_\w+|float_e[45]m[23]_t|float_ue8m0_t|__nv_fp8\w*|__hip_fp8\w*|[eE][45][mM][23]\w*|fp8\w*|FP8\w*|f8",
    ),
    ("f4", r"float_e2m1_t|__nv_fp4\w*|E2m1|e2m1|mxfp4|nvfp4|fp4"),
    ("f16", r"Half|__half2?|half_t|half2?|fp16|FP16|f16|_Float16|float16"),
    ("tf32", r"tf32|tfloat32_t|TF32"),
    ("f64", r"double|f64|fp64"),
    ("f32", r"float[234]?|f32|fp32|FP32"),
    ("i8", r"int8_t|signed char|s8|i8|int8"),
)
_DTYPE = re.compile("|".join(rf"(?P<{dtype}>(?<![A-Za-z0-9])_?(?:{spelt})(?![A-Za-z0-9]))" for dtype, spelt in _DTYPES))


def dtype_in(text: str) -> str | None:
    """The first type of elements that a text names, as a short tag: `c10::BFloat16, float` -> `bf16`."""
    match = _DTYPE.search(text)
    return match.lastgroup if match else None


def dtypes_in(text: str) -> Iterator[str]:
    """All of them in order."""
    return (match.lastgroup for match in _DTYPE.finditer(text) if match.lastgroup)


def transposes_in(text: str) -> str | None:
    """`ampere_sgemm_128x64_nt` -> `nt`: whether the first and the second operand are read transposed."""
    match = re.search(r"_(nn|nt|tn|tt)(?=_|$|\d|[nt]_)", text, re.IGNORECASE)
    return match[1].lower() if match else None


def family_name(library: str, kernel: str, dtype: str | None = None, transposes: str | None = None) -> str:
    """`library:kernel`, with the tags that are known."""
    return ":".join(part for part in (library, kernel, dtype, transposes) if part)
