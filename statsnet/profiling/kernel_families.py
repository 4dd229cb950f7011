"""Families of GPU kernels: `library:kernel`, then the type of elements and a product's transposes if a name has them.

For example `cublas:nvjet_gemm:bf16:tn`, `nccl:all_reduce_ring_ll:f32`, `triton:pointwise`, `aten:reduce:f32`. A public
library owns the names that match its rules (kernel_rules.py); a name that no library owns is `opaque`. Of an owned name
only words of the vocabulary survive (signatures/vocabulary.txt): no tile sizes, no template arguments, and nothing that
a customer could have put in. `library:other` is a kernel of that library whose words are not known.
docs/kernel-families.md lists the families for users.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from statsnet.profiling.kernel_codes import coded_family, cutlass_code
from statsnet.profiling.kernel_names import KernelName, dtype_in, family_name, has_unknown_word, parse, public_words
from statsnet.profiling.kernel_rules import BASES, NAMESPACES, Owner, public_functions
from statsnet.signatures.vocabulary import OPAQUE_KERNEL

LONGEST_NAME = 4096
"""What comes behind is not read: some of the rules look at each letter as often as there are letters."""


@functools.lru_cache(maxsize=50_000)
def kernel_family(name: str) -> str:
    """The family of the kernel with this name; `opaque` if no public library owns it."""
    name = name.strip()[:LONGEST_NAME]
    if not name:
        return OPAQUE_KERNEL
    for read in (_generated, coded_family, _wrapped):
        if family := read(name):
            return family
    return _owned(parse(name))


# Copies, and kernels that a compiler generates.

_INDUCTOR = {
    "poi": "pointwise", "red": "reduction", "per": "persistent_reduction", "for": "foreach", "spl": "split_scan",
    "split_scan": "split_scan", "mix": "mixed_order", "unk": "inductor",
}  # fmt: skip
"""Inductor's kinds of Triton kernels (torch/_inductor/codegen: `triton_{kind}_fused_{operators}_{number}`)."""

_TEMPLATES = (("attention", r"flex_attention|flex_decoding|attention"), ("convolution", r"conv"),
              ("gemm", r"mm|bmm|addmm|baddbmm|matmul|linear|grouped_mm"))  # fmt: skip


_HLO = (
    "abs|add|and|bitcast|broadcast|ceil|clamp|compare|concatenate|constant|convert|copy|cosine|divide|dot_general|dot|"
    "dynamic_slice|dynamic_update_slice|exponential|floor|gather|iota|logistic|log|maximum|minimum|multiply|negate|not|"
    "or|pad|power|reduce_window|reduce|remainder|reverse|rsqrt|scatter|select|sine|slice|sort|sqrt|subtract|tanh|"
    "transpose|xor"
)
_XLA = re.compile(
    rf"(?:(?P<kind>loop|input|gemm)_)?(?:(?:{_HLO})_)*fusion(?:_dot(?:_general)?)?(?:_\d+)*|"
    rf"wrapped_(?:{_HLO})(?:_\d+)*|triton_(?:softmax|gemm)(?:_dot(?:_general)?)?(?:_\d+)+"
)
"""XLA's names: a kind of fusion, HLO's operators and a number. As of Inductor's, the kind alone is kept."""


def _generated(name: str) -> str | None:
    if copy := re.match(r"Memcpy ?([HDPA])(?:to|To|2)([HDPA])\b", name, re.IGNORECASE):
        return f"cuda:memcpy_{copy[1].lower()}to{copy[2].lower()}"
    if copy := re.match(r"Copy(Device|Host)To(Device|Host)$", name):
        return f"cuda:memcpy_{copy[1][0].lower()}to{copy[2][0].lower()}"
    if copy := re.fullmatch(r"mem(cpy|set)(?:8|16|32|64|128)(?:_post|_aligned\dD)?", name):
        return f"cuda:mem{copy[1]}"  # the driver copies with kernels where a graph asks for it
    if re.match(r"Mem(cpy|set)\b", name, re.IGNORECASE):
        return f"cuda:{name[:6].lower()}"
    if copy := re.match(r"__amd_rocclr_(copy|fill|stream)", name):
        return f"rocclr:{copy[1]}"
    if re.match(r"__myl_\w+_myl\d+_\d+", name):
        return "tensorrt:myelin"  # its name lists the layers that it fuses
    if fusion := _XLA.fullmatch(name):
        return f"xla:{fusion['kind']}_fusion" if fusion["kind"] else "xla:fusion"
    kind = re.match(r"triton_(poi|red|per|tem|for|split_scan|spl|mix|unk)(?:_|$)", name)
    if kind is None:
        return "triton:inductor" if re.match(r"triton_{1,2}(?:(?:fused_)?\d|fused_|$)", name) else None
    if kind[1] != "tem":
        return f"triton:{_INDUCTOR[kind[1]]}"
    fused = name[kind.end() :]
    for template, operators in _TEMPLATES:
        if re.search(rf"(?:^|_)(?:{operators})(?:_|\d|$)", fused):
            return f"triton:template_{template}"
    return "triton:template"


# Wrappers say nothing: their argument does.


def _wrapped(name: str) -> str | None:
    parts = parse(name)
    root = parts.path[0] if parts.path else ""
    if (
        root.startswith("cutlass") and parts.base in ("Kernel", "Kernel2", "device_kernel")
    ) or parts.base == "cutlass_kernel":
        return _cutlass(parts, root)
    if root == "ck_tile" and parts.base == "kentry":
        return family_name("ck_tile", _composable(parts.template), dtype_in(parts.template))
    if root == "ck" or parts.qualified.startswith("ck::"):
        return family_name("ck", _composable(f"{parts.base} {parts.template}"), dtype_in(parts.template))
    if root in ("rocprim", "hipcub") and "trampoline" in parts.base:
        config = re.search(r"wrapped_(\w+?)_config|(\w+?)_config_selector|target_config<(\w+)", parts.template)
        return family_name("rocprim", public_words(next(filter(None, config.groups()))) if config else "other")
    return None


_CUTLASS_OWNERS = (
    ("flash_attn", r"\bflash::|\bFlash(?:Attn|_fwd|_bwd)|FlashAttn"),
    ("deepseek", r"\bdpsk::"),
    ("trtllm", r"\btensorrt_llm::"),
    ("vllm", r"\bvllm::"),
    ("fbgemm", r"\bfbgemm_gpu::"),
)


def _cutlass(parts: KernelName, root: str) -> str:
    inner = parts.template.strip()
    if re.match(r"cutlass\w*?_(?:\d|sm|tensorop|simt|wmma)", inner):
        return cutlass_code(inner)
    dtype = dtype_in(inner)
    for library, pattern in _CUTLASS_OWNERS:
        if re.search(pattern, inner):
            kind = (
                "gemm"
                if re.search(r"[Gg]emm", inner.split("<")[0])
                else public_words(inner.split("<")[0].split("::")[-1])
            )
            if library == "flash_attn":
                backward = re.search(r"Bwd|bwd", inner) is not None
                step = "preprocess_" if "Preprocess" in inner else "postprocess_" if "Postprocess" in inner else ""
                step = "combine_" if "Combine" in inner else step
                kind = f"{step}attention_backward" if backward else f"{step}attention"
            return family_name(library, kind, dtype)
    library = "cudnn" if "cudnn" in root else "cutlass"
    if re.search(r"[Ff]mha|AttentionKernel|MLA|Sm\d+Mla", inner):
        return family_name(
            library, "attention_backward" if re.search("[Bb]wd|[Bb]ackward", inner) else "attention", dtype
        )
    if found := re.search(r"Wgrad|Dgrad|Fprop|wgrad|dgrad|fprop", inner):
        return family_name(library, f"cutlass_{found[0].lower()}", dtype)
    if "ReduceSplitK" in inner or "reduction::" in inner:
        return family_name(library, "splitk_reduction", dtype)
    grouped = "grouped_" if re.search(r"[Gg]roup(?:ed|Problem|Scheduler)", inner) else ""
    return family_name(library, f"{grouped}gemm" if re.search(r"[Gg]emm|mma|Mma", inner) else "other", dtype)


_COMPOSABLE = (
    ("rmsnorm", r"[Rr]ms[Nn]orm"), ("layernorm", r"[Ll]ayer[Nn]orm"), ("batchnorm", r"[Bb]atch[Nn]orm"),
    ("moe_gemm", r"[Mm]oe.{0,40}[Gg]emm"), ("moe_sorting", r"[Mm]oe[Ss]orting"),
    ("moe_smoothquant", r"[Mm]oe[Ss]mooth"),
    ("gemm", r"[Gg]emm|Flatmm"), ("softmax", r"[Ss]oftmax"), ("reduce", r"[Rr]educe"), ("topk_softmax", r"[Tt]opk"),
    ("elementwise", r"[Ee]lementwise|binary|permute"), ("pooling", r"[Pp]ool"),
)  # fmt: skip


def _composable(text: str) -> str:
    """What a kernel of AMD's Composable Kernel computes."""
    if re.search(r"[Ff]mha|FlashAttn|attention", text):
        return "attention_backward" if re.search(r"Bwd|bwd", text) else "attention"
    if re.search(r"conv", text[:400]) or "bwd_weight" in text[:400]:
        return "conv_wgrad" if "bwd_weight" in text else "conv_dgrad" if "bwd_data" in text else "conv_fprop"
    return next((kind for kind, pattern in _COMPOSABLE if re.search(pattern, text)), "other")


# Everything else: a namespace or a function's own name tells the library.


def _owned(parts: KernelName) -> str:
    plain = _SPECIALISED.sub("", parts.base)
    bare = plain if parts.path else plain.lstrip("_")  # Triton's functions begin with a _ as their authors please
    for base in dict.fromkeys((parts.base, plain, bare)):
        owner = _owner(replace(parts, base=base))
        if owner and (base in (parts.base, plain) or owner.library in _WRITES_TRITON):
            kernel = owner.kernel or public_words(base, owner.words)
            if kernel == "other" and owner.path_tells and parts.path:
                kernel = public_words("_".join(parts.path[1:]))
            return family_name(owner.library, kernel, dtype_in(parts.template))
    return OPAQUE_KERNEL


_WRITES_TRITON = frozenset({
    "aiter", "atom", "fla", "flash_attn", "flashinfer", "liger", "lmdeploy", "mamba", "primus", "quack",
    "sage_attention", "sglang", "tokenspeed", "torchao", "transformer_engine", "triton", "triton_kernels", "trtllm",
    "unsloth", "vllm", "xformers",
})  # fmt: skip
"""Libraries with kernels in Triton."""

_SPECIALISED = re.compile(r"_0d(?:\d|d|c|e)*$|_[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{0,60}?\d.*$", re.DOTALL)
"""How compilers end the names of Triton's kernels: with the places of specialised arguments (`_0d1d2de`), or as AITER
does with its constants (`_BLOCK_SIZE_M_128_EVEN_K_1_cache_modifier_CG`)."""


def _owner(parts: KernelName) -> Owner | None:
    if parts.base == "kernel" and re.search(r"\bcublasGemv", parts.template):
        return Owner("cublas", "gemv")  # Nsight Compute leaves out its namespace
    for pattern, owner in NAMESPACES:
        if pattern.match(parts.qualified):
            return owner
    fitting = next((owner for pattern, owner in BASES if pattern.fullmatch(parts.base)), None)
    if fitting and not (fitting.only_known_words and has_unknown_word(parts.base)):
        return fitting
    library = None if parts.path else public_functions().get(parts.base)
    return Owner(library) if library else None
