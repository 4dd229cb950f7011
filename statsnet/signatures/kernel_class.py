"""Kernel classes: operator kind, library implementation, dtype and layout of a call, as one string."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of
from statsnet.signatures.quantized import QUANTIZED
from statsnet.signatures.sparse import is_sparse

_KIND = {
    "mm": "gemm", "addmm": "gemm", "linear": "gemm", "mkldnn_linear": "gemm", "_mkl_linear": "gemm",
    "bmm": "batched_gemm", "baddbmm": "batched_gemm", "mv": "gemv", "addmv": "gemv",
    "mkldnn_convolution": "convolution", "_convolution": "convolution", "cudnn_convolution": "convolution",
    "miopen_convolution": "convolution", "cudnn_batch_norm": "native_batch_norm",
    "miopen_batch_norm": "native_batch_norm", "cudnn_batch_norm_backward": "native_batch_norm_backward",
    "miopen_batch_norm_backward": "native_batch_norm_backward",
    "all_gather_copy_in": "cat", "_chunk_cat": "chunk_cat",
} | {
    f"_scaled_dot_product_{how}_attention{rest}": "attention_backward" if "backward" in rest else "attention"
    for how in ("flash", "efficient", "cudnn", "fused")
    for rest in ("", "_for_cpu", "_overrideable", "_backward", "_for_cpu_backward", "_overrideable_backward")
}  # fmt: skip
"""Operators that are one to a model, of which each device, or FSDP2, has its own. What runs is the implementation."""

OF_ONE_ROW = "_as_gemv"
"""How the name of MKL's routine for a product of one row or column ends."""


def kernel_class(op: str, args: Sequence[Any], outputs: Sequence[Any], kernels: str) -> str:
    """For example `convolution|onednn:brgconv:avx512_core|float32|contiguous`."""
    kind = _kind_of(base_name(op))
    tensors = tensors_of(args) or tensors_of(outputs)
    floating = [t for t in tensors if t.dtype.startswith(("float", "bfloat"))]
    dtype = _quantized(tensors) or ((floating or tensors)[0].dtype if tensors else "none")
    return f"{kind}|{kernels}|{dtype}|{layout_of(kind, args)}"


def implementation(names: Iterable[str]) -> str:
    """Library implementations of one call, joined by `+`. A product of groups of rows takes another routine for a group
    of one row. Which groups there are depends on values, so the name leaves this routine out."""
    distinct = dict.fromkeys(names)
    return "+".join(n for n in distinct if not n.endswith(OF_ONE_ROW) or n.removesuffix(OF_ONE_ROW) not in distinct)


def class_now(stored: str, args: Sequence[Any]) -> str:
    """A class of a file, with its kind, layout and quantised dtype as they are told now: older files know fewer."""
    kind, *rest = stored.split("|")
    if len(rest) != 3:
        return stored
    kind, (kernels, dtype, _) = _kind_of(kind), rest
    quantized = _quantized(tensors_of(args))
    return "|".join([kind, implementation(kernels.split("+")), quantized or dtype, layout_of(kind, args)])


def _quantized(tensors: Sequence[TensorSpec]) -> str | None:
    """The dtype of the first quantised tensor: beside a weight of bytes stands a bias with a fraction."""
    return next((t.dtype for t in tensors if t.dtype in QUANTIZED), None)


def _kind_of(base: str) -> str:
    return _KIND.get(base, base.rstrip("_") if not base.endswith("__") else base)


def layout_of(kind: str, args: Sequence[Any]) -> str:
    """Of a product, n, t (transposed) or s (sparse) for each operand. Of any other operator, the layout of its first
    tensor of two or more axes; if that is contiguous, the first other layout among the tensors of its shape, through
    which the operator walks at the same time: a gradient, or the second operand of a sum."""
    if kind in ("gemm", "batched_gemm", "gemv"):
        operands = [a for a in args if is_tensor(a) and len(a["shape"]) >= 2][-2:]
        return "".join(map(_letter, operands)) or "n"
    spatial = [s for s in tensors_of(args) if len(s.shape) >= 2]
    if not spatial:
        return "contiguous"
    layouts = [s.layout for s in spatial if s.shape == spatial[0].shape]
    return next((layout for layout in layouts if layout != "contiguous"), "contiguous")


def _letter(operand: dict[str, Any]) -> str:
    return "s" if is_sparse(operand) else "t" if TensorSpec.from_dict(operand).layout == "transposed" else "n"
