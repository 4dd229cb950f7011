"""Families of GPU kernels: `library:kernel`, then the type of its elements and a product's transposes where the name has
them. For example `cublas:nvjet_gemm:bf16:tn`, `nccl:all_reduce_ring_ll:f32`, `triton:pointwise`, `aten:reduce:f32`.

Every public library owns the names that match its rules (kernel_rules.py); a name that no library owns is `opaque`. Of an
owned name, only words of the vocabulary survive (signatures/vocabulary.py): no tile sizes, no template arguments, and
nothing that a customer could have put in. `library:other` is a kernel of that library whose words are not known.
docs/kernel-families.md lists the families for users.
"""

from __future__ import annotations

import functools
import re

from statsnet.profiling.kernel_names import (
    KernelName,
    dtype_in,
    dtypes_in,
    has_unknown_word,
    parse,
    public_words,
    transposes_in,
)
from statsnet.profiling.kernel_rules import BASES, NAMESPACES, Owner
from statsnet.signatures.vocabulary import OPAQUE_KERNEL

GEMM_WORDS = frozenset(
    {"gemm", "bgemm", "sgemm", "dgemm", "hgemm", "cgemm", "zgemm", "igemm", "qgemm", "gemmk", "gemv", "gemvx", "sgemv",
     "dgemv", "matmul", "bmm", "mm", "splitkreduce", "kreduce"}
)  # fmt: skip
CONVOLUTION_WORDS = frozenset(
    {"fprop", "dgrad", "wgrad", "conv", "convd", "convolution", "convolve", "winograd", "dwconv", "depthwise"}
)


@functools.lru_cache(maxsize=50_000)
def kernel_family(name: str) -> str:
    """The family of the kernel with this name; `opaque` if no public library owns it."""
    if not name.strip():
        return OPAQUE_KERNEL
    for family in (_generated, _dense_library, _wrapped):
        if found := family(name):
            return found
    return _owned(parse(name))


def is_gemm(family: str) -> bool:
    """Whether kernels of this family are matrix products. Convolutions are not, even those that run as products."""
    return bool(_words_of(family) & GEMM_WORDS) and not is_convolution(family)


def is_convolution(family: str) -> bool:
    """Whether kernels of this family compute a convolution or one of its gradients."""
    return bool(_words_of(family) & CONVOLUTION_WORDS)


def library_of(family: str) -> str:
    """`cublas` of `cublas:nvjet_gemm:bf16:tn`."""
    return family.partition(":")[0]


def _words_of(family: str) -> frozenset[str]:
    return frozenset(family.partition(":")[2].partition(":")[0].split("_"))


def _family(library: str, kernel: str, dtype: str | None = None, transposes: str | None = None) -> str:
    return ":".join(part for part in (library, kernel, dtype, transposes) if part)


# Copies, and kernels that a compiler generates.

_INDUCTOR = {
    "poi": "pointwise", "red": "reduction", "per": "persistent_reduction", "for": "foreach", "spl": "split_scan",
    "split_scan": "split_scan", "mix": "mixed_order", "unk": "inductor",
}  # fmt: skip
"""Inductor's kinds of Triton kernels (torch/_inductor/codegen: `triton_{kind}_fused_{operators}_{number}`)."""

_TEMPLATES = (("attention", r"flex_attention|flex_decoding|attention"), ("convolution", r"conv"),
              ("gemm", r"mm|bmm|addmm|baddbmm|matmul|linear|grouped_mm"))  # fmt: skip


def _generated(name: str) -> str | None:
    if copy := re.match(r"Memcpy ?([HDPA])(?:to|To|2)([HDPA])\b", name, re.IGNORECASE):
        return f"cuda:memcpy_{copy[1].lower()}to{copy[2].lower()}"
    if copy := re.match(r"Copy(Device|Host)To(Device|Host)$", name):
        return f"cuda:memcpy_{copy[1][0].lower()}to{copy[2][0].lower()}"
    if re.match(r"Mem(cpy|set)\b", name, re.IGNORECASE):
        return f"cuda:{name[:6].lower()}"
    if copy := re.match(r"__amd_rocclr_(copy|fill|stream)", name):
        return f"rocclr:{copy[1]}"
    kind = re.match(r"triton_(poi|red|per|tem|for|split_scan|spl|mix|unk)(?:_|$)", name)
    if kind is None:
        return "triton:inductor" if re.match(r"triton_{1,2}(?:fused_)?\d", name) else None
    if kind[1] != "tem":
        return f"triton:{_INDUCTOR[kind[1]]}"
    fused = name[kind.end() :]
    for template, operators in _TEMPLATES:
        if re.search(rf"(?:^|_)(?:{operators})(?:_|\d|$)", fused):
            return f"triton:template_{template}"
    return "triton:template"


# Libraries whose names are a code of their own: what is computed, in which types, transposed or not.


def _dense_library(name: str) -> str | None:
    text = name.removeprefix("void ").strip()
    for pattern, read in _CODES:
        if pattern.match(text):
            return read(text)
    return None


_LETTERS = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128", "X": "tf32"}


def _tensile(text: str) -> str:
    """`Cijk_Alik_Bljk_BBS_BH_...`: A is transposed if its summation index l comes first, B if it comes last. The letters
    behind are the types of inputs, output and sums (rocBLAS's and hipBLASLt's Tensile)."""
    operands = re.match(r"(?:Custom_)?Cijk?l?_A([a-z]+)_B([a-z]+)_([A-Za-z0-9]+)", text)
    if operands is None:
        return "tensile:postprocess" if re.match(r"(?:Custom_)?Cijk?_[A-Z0-9]+_", text) else "tensile:other"
    a, b, types = operands[1], operands[2], operands[3]
    transposes = ("t" if a.startswith("l") or a.find("l") < a.find("i") else "n") + (
        "t" if b.find("j") < b.find("l") else "n"
    )
    if types.startswith(("F8", "B8", "f8", "b8")):
        dtype: str | None = "f8"
    elif types.startswith(("I8", "4xi8", "i8")):
        dtype = "i8"
    else:
        dtype = _LETTERS.get(types[:1])
    return _family("tensile", "gemm", dtype, transposes)


_NVJET_LETTERS = {"t": "bf16", "h": "f16", "s": "f32", "q": "f8", "o": "f4", "d": "f64", "c": "c64", "z": "c128"}


def _nvjet(text: str) -> str:
    """`nvjet_sm100_tst_128x64_..._bias_TNT`: types of inputs, sums and output; at the end the layouts of A, B and C."""
    types = re.match(r"nvjet_(?:sm\d+_)?([a-z])", text)
    layouts = re.search(r"_([NT])([NT])[NT]{1,2}$", text.split("(")[0])
    transposes = (layouts[1] + layouts[2]).lower() if layouts else None
    return _family("cublas", "nvjet_gemm", _NVJET_LETTERS.get(types[1]) if types else None, transposes)


_KINDS = (("wgrad", r"wgrad"), ("dgrad", r"dgrad"), ("fprop", r"fprop|cudnn"), ("gemv", r"gemv"), ("gemm", r"gemm"))
_MATH = re.compile(
    r"(?:^|_)(?:fp16_|bf16_|int32_|tf32_)?(?P<type>[shdicz]|gc)(?P<size>\d+)?(?:x\d+)*(?=gemm|fprop|dgrad|wgrad|cudnn|scudnn)"
)


def _precision(code: str) -> str | None:
    """Of `s1688gemm`, `bf16_s16816gemm_bf16`, `sgemm`, `h884gemm`, `f32f32_tf32f32_f32`: what is multiplied."""
    # xmma's names hold pairs such as bf16f32.
    spaced = re.sub(r"(?<=\d)(?=(?:tf|bf|f|i|s|e)\d)", "_", code.lower())
    named = [t for t in dtypes_in(spaced.replace("_", " "))]
    if "tf32" in named:
        return "tf32"
    narrow = [t for t in named if t not in ("f32", "f64")]
    if narrow:
        return narrow[0]
    if math := _MATH.search(code):
        letter, size = math["type"], math["size"]
        by_letter = {"h": "f16", "d": "f64", "i": "i8", "c": "c64", "gc": "c64", "z": "c128"}
        if letter in by_letter:
            return by_letter[letter]
        # One float per letter s; with a tensor core's shape, the inputs are narrower: m16n8k8 multiplies tf32.
        return {None: "f32", "1688": "tf32", "884": "f16", "161616": "f16", "16816": "f16"}.get(size)
    return named[0] if named else None


def _kind(code: str) -> str:
    return next((kind for kind, pattern in _KINDS if re.search(pattern, code)), "other")


def _xmma(text: str) -> str:
    code = text.split("(")[0].split("<")[0]
    kind, library = _kind(code), "cudnn" if "cudnn" in code or _kind(code) != "gemm" else "cublas"
    implicit = (
        "_implicit_gemm" if "implicit_gemm" in code else "_warp_specialized" if "warp_specialized" in code else ""
    )
    indexed = "_indexed" if "_indexed_" in code else ""
    types = re.sub(r"tensor\d+x\d+x\d+|tilesize\w*?_", "_", code)
    return _family(
        library, f"xmma_{kind}{implicit}{indexed}", _precision(types), transposes_in(code) if kind == "gemm" else None
    )


def _classic(text: str) -> str:
    """`volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn`, `ampere_scudnn_128x64_relu_small_nn_v1`."""
    code = text.split("(")[0]
    if "cudnn" not in code:
        kind = "gemv" if "gemv" in code else "gemm"
        if not re.search(r"gem[mv]", code):
            return _family("cublas", public_words(code))
        return _family("cublas", kind, _precision(code), transposes_in(code))
    engine = "winograd" if "winograd" in code else "dgrad" if "stridedB" in code and "splitK" not in code else "fprop"
    engine = "wgrad" if "splitK" in code and "stridedB" in code else engine
    return _family("cudnn", f"convolution_{engine}", _precision(re.sub(r"^(cudnn_(infer|train)_|cudnn_)", "", code)))


def _cutlass_code(text: str) -> str:
    """`cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8`, also `cutlass3x_sm90_...`."""
    code = re.split(r"[(<>,: ]", text)[0]
    kind = _kind(code)
    library = "cudnn" if kind in ("fprop", "dgrad", "wgrad") else "cutlass"
    simt = "simt_" if "_simt_" in code else ""
    third = re.search(r"_(n|t)(n|t)[nt]_", code)  # CUTLASS 3 names three layouts
    transposes = transposes_in(code) or (third[1] + third[2] if third else None)
    return _family(library, f"cutlass_{simt}{kind}", _precision(code), transposes if kind == "gemm" else None)


def _trtllm_bmm(text: str) -> str:
    """`bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_..._TN_...`: output, weights, inputs (TensorRT-LLM, FlashInfer)."""
    found = list(dtypes_in(re.sub(r"(?<=[a-z0-9])(?=Mx|E\d)", " ", text.replace("Mx", " ")).replace("_", " ")))
    return _family(
        "trtllm", "bmm" if text.startswith("bmm") else "gemm", found[1] if len(found) > 1 else None, transposes_in(text)
    )


def _matmul_ogs(text: str) -> str:
    """`_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu`: output, inputs and weights of mixtures of experts."""
    types = re.search(r"_((?:[a-z]+\d+\w*?)x(?:[a-z]+\d+\w*?)x(?:[a-z]+\d+\w*?))(?:_|$)", text)
    swiglu = "_swiglu" if "swiglu" in text else ""
    return _family("triton", f"matmul{swiglu}", dtype_in(types[1].split("x")[1]) if types else None)


def _igemm(text: str) -> str:
    """MIOpen's assembly engines: `igemm_fwd_gtcx2_nhwc_bf16_...`, backward to data (`bwd`) and to weights (`wrw`)."""
    direction = re.match(r"igemm(?:_v\d\w*?)?_(fwd|bwd|wrw)", text)
    kind = {"fwd": "fprop", "bwd": "dgrad", "wrw": "wgrad"}[direction[1]] if direction else "convolution"
    return _family("miopen", f"igemm_{kind}", dtype_in(text.replace("_", " ")))


def _nccl(text: str) -> str:
    code = re.sub(r"^\w*?Kernel_", "", text.split("(")[0])
    return _family("nccl", public_words(re.sub(r"_(u?int\d+_t|u?int\d+|[fui]\d+|bf16|half|float|double|__nv_\w+)(?=_|$)", "", code)),
                   dtype_in(code.replace("_", " ")))  # fmt: skip


def _fmha(text: str) -> str:
    """xFormers' `fmha_cutlassF_bf16_aligned_64x64_rf_sm80`, TensorRT-LLM's `fmhaSm100aKernel_QkvE4m3...`, cuDNN's."""
    code = text.split("(")[0].split("<")[0]
    is_backward = re.search(r"cutlassB|bprop|bwd|backward|dgrad", code) is not None
    spaced = re.sub(r"(Qkv|Q|K|V|O)(?=E\d|B[Ff]|F[Pp]|H\d?)", " ", code).replace("_", " ")
    library = (
        "cudnn"
        if "cudnn" in code
        else "trtllm"
        if code.startswith("fmhaSm")
        else "xformers"
        if "cutlass" in code
        else "fmha"
    )
    return _family(library, "attention_backward" if is_backward else "attention", dtype_in(spaced))


_ARCHITECTURE = r"(?:cudnn_(?:infer_|train_)?)?(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+)"
_CODES = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (r"(?:Custom_)?Cijk?l?_[A-Z]", _tensile),
        (r"nvjet_", _nvjet),
        (r"(?:[a-z_]*_)?(?:sm\d+_)xmma_", _xmma),
        (r"sm\d+_[a-z0-9_]*(?:fmha|flash|sdpa)", _fmha),
        (rf"{_ARCHITECTURE}_[a-z0-9_]*(?:gemm|cudnn|gemv)", _classic),
        (r"cutlass(?:3x)?_(?:sm)?\w*(?:gemm|fprop|dgrad|wgrad)", _cutlass_code),
        (r"(?:bmm|gemm)_(?:Bfloat16|Fp16|Fp32|Mx|E\dm\d|Float)\w*_t\d+x\d+", _trtllm_bmm),
        (r"_(?:p_)?matmul_ogs(?:_|$)", _matmul_ogs),
        (r"igemm_(?:v\d\w*_)?(?:fwd|bwd|wrw)_", _igemm),
        (r"(?:nccl|rccl|mscclpp|msccl)\w*Kernel", _nccl),
        (r"(?:cudnn_generated_)?fmha|cudnn_generated_fort_native_sdpa", _fmha),
    )
)


# Wrappers say nothing: their argument does.


def _wrapped(name: str) -> str | None:
    parts = parse(name)
    root = parts.path[0] if parts.path else ""
    if (
        root.startswith("cutlass")
        and parts.base in ("Kernel", "Kernel2", "device_kernel")
        or parts.base == "cutlass_kernel"
    ):
        return _cutlass(parts, root)
    if root == "ck_tile" and parts.base == "kentry":
        return _family("ck_tile", _composable(parts.template), dtype_in(parts.template))
    if root == "ck" or parts.qualified.startswith("ck::"):
        return _family("ck", _composable(f"{parts.base} {parts.template}"), dtype_in(parts.template))
    if root in ("rocprim", "hipcub") and "trampoline" in parts.base:
        config = re.search(r"wrapped_(\w+?)_config|(\w+?)_config_selector|target_config<(\w+)", parts.template)
        return _family("rocprim", public_words(next(filter(None, config.groups()))) if config else "other")
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
        return _cutlass_code(inner)
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
            return _family(library, kind, dtype)
    library = "cudnn" if "cudnn" in root else "cutlass"
    if re.search(r"[Ff]mha|AttentionKernel|MLA|Sm\d+Mla", inner):
        return _family(library, "attention_backward" if re.search("[Bb]wd|[Bb]ackward", inner) else "attention", dtype)
    if found := re.search(r"Wgrad|Dgrad|Fprop|wgrad|dgrad|fprop", inner):
        return _family(library, f"cutlass_{found[0].lower()}", dtype)
    if "ReduceSplitK" in inner or "reduction::" in inner:
        return _family(library, "splitk_reduction", dtype)
    grouped = "grouped_" if re.search(r"[Gg]roup(?:ed|Problem|Scheduler)", inner) else ""
    return _family(library, f"{grouped}gemm" if re.search(r"[Gg]emm|mma|Mma", inner) else "other", dtype)


def _composable(text: str) -> str:
    """What a kernel of AMD's Composable Kernel computes."""
    if re.search(r"[Ff]mha|FlashAttn|attention", text):
        return "attention_backward" if re.search(r"Bwd|bwd", text) else "attention"
    if re.search(r"conv", text[:400]) or "bwd_weight" in text[:400]:
        return "conv_wgrad" if "bwd_weight" in text else "conv_dgrad" if "bwd_data" in text else "conv_fprop"
    for kind, pattern in (("rmsnorm", r"[Rr]ms[Nn]orm"), ("layernorm", r"[Ll]ayer[Nn]orm"), ("batchnorm", r"[Bb]atch[Nn]orm"),
                          ("moe_gemm", r"[Mm]oe.{0,40}[Gg]emm"), ("moe_sorting", r"[Mm]oe[Ss]orting"), ("moe_smoothquant", r"[Mm]oe[Ss]mooth"),
                          ("gemm", r"[Gg]emm|Flatmm"), ("softmax", r"[Ss]oftmax"), ("reduce", r"[Rr]educe"), ("topk_softmax", "[Tt]opk"),
                          ("elementwise", r"[Ee]lementwise|binary|permute"), ("pooling", r"[Pp]ool")):  # fmt: skip
        if re.search(pattern, text):
            return kind
    return "other"


# Everything else: a namespace or a function's own name tells the library.


def _owned(parts: KernelName) -> str:
    owner = _owner(parts)
    if owner is None:
        return OPAQUE_KERNEL
    kernel = owner.kernel or public_words(parts.base)
    if kernel == "other" and owner.path_tells and parts.path:
        kernel = public_words("_".join(parts.path[1:]))
    return _family(owner.library, kernel, dtype_in(parts.template))


def _owner(parts: KernelName) -> Owner | None:
    qualified = parts.qualified
    for pattern, owner in NAMESPACES:
        if pattern.match(qualified):
            return owner
    # Triton's kernels may end with the places of their arguments that are specialised: `_0d1d2de`.
    base = re.sub(r"_0d(?:\d|d|c|e)*$", "", parts.base)
    for pattern, owner in BASES:
        if pattern.fullmatch(base):
            return None if owner.only_known_words and has_unknown_word(base) else owner
    return None
