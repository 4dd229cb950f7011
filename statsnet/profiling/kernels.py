"""The library implementation of a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from statsnet.measure.device_kernels import Kernel
from statsnet.profiling.kernel_families import kernel_family
from statsnet.signatures.kernel_class import implementation
from statsnet.signatures.public_names import safe_kernel


def cpu_implementation(names: tuple[str, ...]) -> str:
    """Library implementations of one call, joined by `+`; `aten` if torch's own kernel ran. A name that is not known to
    be public, which a model may have printed, counts as `opaque`."""
    return implementation(map(safe_kernel, names)) if names else "aten"


def cuda_implementation(kernels: Sequence[Kernel]) -> str:
    """Family of the kernel that took the most time; `none` if nothing was launched."""
    if not kernels:
        return "none"
    time_by_family: Counter[str] = Counter()
    for kernel in kernels:
        time_by_family[kernel_family(kernel.name)] += kernel.elapsed_s  # type: ignore[assignment]
    return time_by_family.most_common(1)[0][0]
