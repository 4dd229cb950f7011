"""The words that a signature may hold. A library's public name may be added, never a user's."""

from __future__ import annotations

import re
from pathlib import Path

from statsnet.signatures.word_lists import word_lists

_WORDS = word_lists(Path(__file__).with_suffix(".txt"))

OP_NAMESPACES = frozenset(
    {"aten", "prims", "inductor", "inductor_prims", "rngprims", "mkl", "mkldnn", "mkldnn_prepacked",
     "onednn", "quantized", "_quantized", "quantized_decomposed", "sparse", "c10d", "c10d_functional",
     "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor", "fsdp", "torch_nn"}
)  # fmt: skip
"""Operator namespaces of torch itself."""

OPAQUE_OP = "custom.opaque.default"
"""Stands for every operator of another namespace: a customer's own."""

OPS_WITH_EFFECTS = frozenset({"from_file", "save", "load", "load_tensor", "warn", "_print", "print", "annotate"})
"""Operators that reach beyond tensors, to files or the terminal. No signature holds them."""

OPTIMIZERS = frozenset(
    {"adadelta", "adafactor", "adagrad", "adam", "adamw", "adamax", "asgd", "lamb", "lars", "lbfgs", "lion",
     "muon", "nadam", "radam", "rmsprop", "rprop", "sgd", "sgdmomentum", "sparseadam",
     "custom"}
)  # fmt: skip
"""Optimizers by lower-case name without underscores; `custom` stands for a customer's own."""

CPU_KERNEL_WORDS = frozenset(_WORDS["cpu_kernels"])
"""Words of oneDNN's implementations and of MKL's routines, as their logs write them, without digits. Before a routine
may stand the letter of its type."""

KERNEL_NAMES = frozenset({"aten", "none", "unknown", "unnamed", "opaque"})

OPAQUE_KERNEL = "opaque"
"""Stands for a kernel whose name is not recognised."""

KERNEL_WORDS = frozenset(_WORDS["kernels"])
"""Words of four letters and more in the kernel names of torch, NVIDIA's and AMD's libraries, oneDNN, Triton's and of
serving and training libraries. Names of kernels are made of these, of SHORT_KERNEL_WORDS and of numbers."""

SHORT_KERNEL_WORDS = frozenset(_WORDS["short_kernels"])
"""Shorter ones, which may stand beside a word of KERNEL_WORDS."""

OP_WORDS = frozenset(_WORDS["operators"])
"""Words of operators' names and overloads in OP_NAMESPACES that are in neither list of kernels' words."""

KERNEL_FAMILY_LIBRARIES = frozenset(
    {"aiter", "aotriton", "apex", "aten", "atom", "bitsandbytes", "ck", "ck_tile", "cub", "cublas", "cuda", "cudnn",
     "cufft", "curand", "cusolver", "cusparse", "cutensor", "cutlass", "deepep", "deepgemm", "deepseek", "deepspeed",
     "dgl", "eigen", "exllama", "fast_hadamard", "fastertransformer", "fbgemm", "fla", "flash_attn", "flash_mla",
     "flashinfer", "fmha", "ggml", "gsplat", "liger", "lmdeploy", "magma", "mamba", "megatron", "migraphx",
     "minkowski", "miopen", "mmcv", "natten", "nccl", "nvshmem", "onednn", "onnxruntime", "primus", "quack", "raft",
     "rocblas", "rocclr", "rocprim", "sage_attention", "sglang", "spconv", "symm_mem", "tcnn", "tensile",
     "tensorflow", "tensorrt", "thrust", "thunderkittens", "tokenspeed", "torch_geometric", "torchao", "torchaudio",
     "torchsparse", "torchvision", "transformer_engine", "triton", "triton_kernels", "trtllm", "unsloth", "vllm",
     "xformers", "xla"}
)  # fmt: skip
"""What a family of kernels may begin with: the library that owns them (profiling/kernel_rules.py)."""

KERNEL_FAMILY_TAGS = frozenset(
    {"f64", "f32", "tf32", "bf16", "f16", "f8", "f4", "i8", "c64", "c128", "nn", "nt", "tn", "tt"}
)
"""What may follow: types of elements, and which operands of a product are transposed."""


def words(text: str) -> list[str]:
    """Lower-case words of letters: `CatArrayBatchedCopy_128x64` -> cat, array, batched, copy, x."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)]
