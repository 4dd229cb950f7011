"""Kernels whose names are a code: what is computed, in which types, transposed or not. cuBLAS, cuDNN, CUTLASS, Tensile,
NCCL and others name theirs so. docs/kernel-families.md says what is read from them.
"""

from __future__ import annotations

import re

from statsnet.profiling.kernel_names import dtype_in, dtypes_in, family_name, public_words, transposes_in


def coded_family(name: str) -> str | None:
    text = name.removeprefix("void ").strip()
    for pattern, read in _CODES:
        if pattern.match(text):
            return read(text)
    return None


_LETTERS = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128", "X": "tf32"}


def _tensile(text: str) -> str:
    """`Cijk_Alik_Bljk_BBS_BH_...` of rocBLAS and hipBLASLt: A is transposed if its summation index l comes first, B if
    it comes last. The letters behind are the types of inputs, output and sums."""
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
    return family_name("tensile", "gemm", dtype, transposes)


_NVJET_LETTERS = {"t": "bf16", "h": "f16", "s": "f32", "q": "f8", "o": "f4", "d": "f64", "c": "c64", "z": "c128"}


def _nvjet(text: str) -> str:
    """`nvjet_sm100_tst_128x64_..._bias_TNT`: types of inputs, sums and output; at the end the layouts of A, B and C."""
    types = re.match(r"nvjet_(?:sm\d+_)?([a-z])", text)
    layouts = re.search(r"_([NT])([NT])[NT]{1,2}$", text.split("(")[0])
    transposes = (layouts[1] + layouts[2]).lower() if layouts else None
    return family_name("cublas", "nvjet_gemm", _NVJET_LETTERS.get(types[1]) if types else None, transposes)


_KINDS = (("wgrad", r"wgrad"), ("dgrad", r"dgrad"), ("fprop", r"fprop|cudnn"), ("gemv", r"gemv"), ("gemm", r"gemm"))
_MATH = re.compile(
    r"(?:^|_)(?:fp16_|bf16_|int32_|tf32_)?(?P<type>[shdicz]|gc)(?P<size>\d+)?(?:x\d+)*(?=gemm|fprop|dgrad|wgrad|cudnn|scudnn)"
)


def _precision(code: str) -> str | None:
    """Of `s1688gemm`, `bf16_s16816gemm_bf16`, `sgemm`, `h884gemm`, `f32f32_tf32f32_f32`: what is multiplied."""
    # xmma's names hold pairs such as bf16f32.
    spaced = re.sub(r"(?<=\d)(?=(?:tf|bf|f|i|s|e)\d)", "_", code.lower())
    named = list(dtypes_in(spaced.replace("_", " ")))
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


_XMMA_LIBRARIES = {"cudnn": "cudnn", "cublas": "cublas", "cusparse": "cusparse", "kernel_trt": "tensorrt"}
"""Which library's copy of a kernel it is, by a word of its name: `..._execute_kernel__5x_cublas`."""


def _xmma(text: str) -> str:
    code = text.split("(")[0].split("<")[0]
    kind = _kind(code)
    library = next((library for word, library in _XMMA_LIBRARIES.items() if word in code), None)
    library = library or ("cublas" if kind == "gemm" else "cudnn")
    sparse = "sparse_" if "_sparse_" in code else ""
    implicit = (
        "_implicit_gemm" if "implicit_gemm" in code else "_warp_specialized" if "warp_specialized" in code else ""
    )
    indexed = "_indexed" if "_indexed_" in code else ""
    types = re.sub(r"tensor\d+x\d+x\d+|tilesize\w*?_", "_", code)
    return family_name(
        library,
        f"xmma_{sparse}{kind}{implicit}{indexed}",
        _precision(types),
        transposes_in(code) if kind == "gemm" else None,
    )


def _classic(text: str) -> str:
    """`volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn`, `ampere_scudnn_128x64_relu_small_nn_v1`."""
    code = text.split("(")[0]
    if "cudnn" not in code:
        kind = "gemv" if "gemv" in code else "gemm"
        if not re.search(r"gem[mv]", code):
            return family_name("cublas", public_words(code))
        return family_name("cublas", kind, _precision(code), transposes_in(code))
    engine = "winograd" if "winograd" in code else "dgrad" if "stridedB" in code and "splitK" not in code else "fprop"
    engine = "wgrad" if "splitK" in code and "stridedB" in code else engine
    return family_name(
        "cudnn", f"convolution_{engine}", _precision(re.sub(r"^(?:_\dx_)?cudnn_(?:(?:infer|train)_)?", "", code))
    )


def cutlass_code(text: str) -> str:
    """`cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8`, also `cutlass3x_sm90_...`."""
    code = re.split(r"[(<>,: ]", text)[0]
    kind = _kind(code)
    library = "cudnn" if kind in ("fprop", "dgrad", "wgrad") else "cutlass"
    simt = "simt_" if "_simt_" in code else ""
    third = re.search(r"_(n|t)(n|t)[nt]_", code)  # CUTLASS 3 names three layouts
    transposes = transposes_in(code) or (third[1] + third[2] if third else None)
    return family_name(library, f"cutlass_{simt}{kind}", _precision(code), transposes if kind == "gemm" else None)


def _trtllm_bmm(text: str) -> str:
    """`bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_..._TN_...`: output, weights, inputs (TensorRT-LLM, FlashInfer)."""
    found = list(dtypes_in(re.sub(r"(?<=[a-z0-9])(?=Mx|E\d)", " ", text.replace("Mx", " ")).replace("_", " ")))
    return family_name(
        "trtllm", "bmm" if text.startswith("bmm") else "gemm", found[1] if len(found) > 1 else None, transposes_in(text)
    )


_TYPE = r"[a-z]{1,8}\d{1,4}[a-wyz0-9]{0,12}"
"""Of bounded length, so that a long name is searched in linear time."""

_THREE_TYPES = re.compile(rf"_({_TYPE}x{_TYPE}x{_TYPE})(?:_|$)")


def _matmul_ogs(text: str) -> str:
    """`_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu`: output, inputs and weights of mixtures of experts."""
    types = _THREE_TYPES.search(text)
    swiglu = "_swiglu" if "swiglu" in text else ""
    return family_name("triton", f"matmul{swiglu}", dtype_in(types[1].split("x")[1]) if types else None)


def _igemm(text: str) -> str:
    """MIOpen's assembly engines: `igemm_fwd_gtcx2_nhwc_bf16_...`, backward to data (`bwd`) and to weights (`wrw`)."""
    direction = re.match(r"igemm(?:_v\d\w*?)?_(fwd|bwd|wrw)", text)
    kind = {"fwd": "fprop", "bwd": "dgrad", "wrw": "wgrad"}[direction[1]] if direction else "convolution"
    return family_name("miopen", f"igemm_{kind}", dtype_in(text.replace("_", " ")))


def _flydsl(text: str) -> str:
    """`mfma_moe1_silu_mul_afp8_wfp4_fp8_t128x256x256_...`: AITER's experts; types of activations, weights, output."""
    dtype = re.search(r"_w(fp8|fp4|bf16|f16|int8|int4)", text)
    return family_name("aiter", "moe_gemm", dtype_in(dtype[1]) if dtype else None)


_NCCL_TYPE = re.compile(r"_(u?int\d+_t|u?int\d+|[fui]\d+|bf16|half|float|double|__nv_\w+)(?=_|$)")


def _nccl(text: str) -> str:
    """`ncclDevKernel_AllReduce_Sum_bf16_RING_LL`, in older versions `ncclKernel_AllReduce_RING_LL_Sum_float`."""
    code = re.sub(r"^\w*?Kernel_", "", text.split("(")[0])
    return family_name("nccl", public_words(_NCCL_TYPE.sub("", code)), dtype_in(code.replace("_", " ")))


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
    return family_name(library, "attention_backward" if is_backward else "attention", dtype_in(spaced))


_CUTE_MODULES = (
    ("flash_attn", "flash_attn|flash_attention"), ("flashinfer", "flashinfer"), ("quack", "quack"), ("vllm", "vllm"),
    ("sglang", "sglang|sgl_kernel"), ("trtllm", "tensorrt_llm"), ("cudnn", "cudnn"), ("fla", "fla(?:ops|modules)|cula"),
    ("transformer_engine", "transformer_engine"), ("fbgemm", "fbgemm"), ("torchao", "torchao"),
    ("aten", "torch_inductor"), ("cutlass", "cutlass"),
)  # fmt: skip
"""Beginnings of modules, written without dots, whose classes CuTe's Python compiles."""


def _cute_dsl(text: str) -> str | None:
    """`kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensorptrbf16gmem...`:
    module and class, then the arguments. Of a module that is no public library's, None."""
    code = re.sub(r"^kernel_cutlass_(?:kernel_)?_*", "", text)
    if re.match(r"(?:device_kernel_)?tensorptr", code):
        return family_name("cutlass", "other", None)  # no module in its name, nor any other word
    library = next((library for library, modules in _CUTE_MODULES if re.match(modules, code)), None)
    if library is None:
        return None
    path, _, arguments = code.partition("_object_at")
    dtype = re.search(r"ptr_?(bf16|tf32|f16|f32|f64|f8|f4|i8)", arguments)
    name = re.search(r"[A-Z]\w*$", path)
    kind = public_words(re.sub(r"_?[Ss]m\d+", "", name[0] if name else path))
    if re.search(r"Flash(?:Attention|Decode)|MLA|Fmha|FMHA", path):
        step = next((f"{s.lower()}_" for s in ("Preprocess", "Postprocess", "Combine") if s in path), "")
        kind = f"{step}attention_backward" if re.search("Backward|Bwd", path) else f"{step}attention"
    return family_name(library, kind, dtype[1] if dtype else None)


_ARCHITECTURE = (
    r"(?:_\dx_)?(?:trt_|cudnn_(?:infer_|train_)?)?"
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+)"
)
_CODES = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (r"(?:Custom_)?Cijk?l?_[A-Z]", _tensile),
        (r"nvjet_", _nvjet),
        (r"sm\d+_xmma_", _xmma),
        (r"sm\d+_[a-z0-9_]*(?:fmha|flash|sdpa)", _fmha),
        (rf"{_ARCHITECTURE}_[a-z0-9_]*(?:gemm|cudnn|gemv)", _classic),
        (r"cutlass(?:3x)?_(?:sm)?\w*(?:gemm|fprop|dgrad|wgrad)", cutlass_code),
        (r"(?:bmm|gemm)_(?:Bfloat16|Fp16|Fp32|Mx|E\dm\d|Float)\w*_t\d+x\d+", _trtllm_bmm),
        (r"_(?:p_)?matmul_ogs(?:_|$)", _matmul_ogs),
        (r"igemm_(?:v\d\w*_)?(?:fwd|bwd|wrw)_", _igemm),
        (r"kernel_cutlass_", _cute_dsl),
        (r"mfma_moe\d_", _flydsl),
        (r"(?:nccl|rccl|mscclpp|msccl)\w*Kernel", _nccl),
        (r"(?:cudnn_generated_)?fmha|cudnn_generated_fort_native_sdpa", _fmha),
    )
)
