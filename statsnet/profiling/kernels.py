"""Kernel classes: operator kind, library implementation, dtype and layout of a call, as one string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from statsnet.measure.device_kernels import Kernel
from statsnet.profiling.kernel_families import kernel_family
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of

_KIND = {
    "mm": "gemm", "addmm": "gemm", "linear": "gemm", "mkldnn_linear": "gemm", "_mkl_linear": "gemm",
    "bmm": "batched_gemm", "baddbmm": "batched_gemm", "mv": "gemv", "addmv": "gemv",
    "mkldnn_convolution": "convolution", "_convolution": "convolution",
}  # fmt: skip


def kernel_class(op: str, args: list[Any], outputs: list[Any], implementation: str) -> str:
    """For example `convolution|onednn:brgconv:avx512_core|float32|contiguous`."""
    base = base_name(op)
    kind = _KIND.get(base, base.rstrip("_") if not base.endswith("__") else base)
    tensors = tensors_of(args) or tensors_of(outputs)
    floating = [t for t in tensors if t.dtype.startswith(("float", "bfloat"))]
    dtype = (floating or tensors)[0].dtype if tensors else "none"
    return f"{kind}|{implementation}|{dtype}|{_layout(kind, args)}"


def _layout(kind: str, args: list[Any]) -> str:
    specs = [TensorSpec.from_dict(a) for a in args if is_tensor(a)]
    if kind in ("gemm", "batched_gemm", "gemv"):
        operands = [s for s in specs if len(s.shape) >= 2][-2:]
        return "".join("t" if s.layout == "transposed" else "n" for s in operands) or "n"
    spatial = [s for s in specs if len(s.shape) >= 2]
    return spatial[0].layout if spatial else "contiguous"


def cpu_implementation(names: tuple[str, ...]) -> str:
    """Library implementations of one call, joined by `+`; `aten` if torch's own kernel ran."""
    return "+".join(names) if names else "aten"


def cuda_implementation(kernels: Sequence[Kernel]) -> str:
    """Family of the kernel that took the most time; `none` if nothing was launched."""
    if not kernels:
        return "none"
    time_by_family: Counter[str] = Counter()
    for kernel in kernels:
        time_by_family[kernel_family(kernel.name)] += kernel.elapsed_s  # type: ignore[assignment]
    return time_by_family.most_common(1)[0][0]
