"""Memory against input size, over the sizes in which a workload was profiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from statsnet.analysis.database import NamedSignature


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size of a workload. `activation_bytes` are freed within a step, `peak_bytes` is the most it holds at once;
    `counted` means that its step ran only on fake tensors."""

    name: str
    preset: str
    batch: int | None
    input_bytes: int
    activation_bytes: int
    peak_bytes: int | None
    counted: bool


def memory_by_size(signatures: Iterable[NamedSignature]) -> dict[str, list[Size]]:
    """Sizes of each workload by growing input, workloads by name. Those of unknown memory are left out. Among sizes
    with equal inputs, a measured one is preferred to a counted one."""
    by_workload: dict[str, dict[int, Size]] = defaultdict(dict)
    for named in sorted(signatures, key=lambda n: not n.signature.measurements):
        signature, memory = named.signature, named.signature.memory
        if memory.activation_bytes is None or memory.input_bytes is None:
            continue
        size = Size(
            name=named.name,
            preset=(signature.workload.preset if signature.workload else None) or "",
            batch=signature.batch,
            input_bytes=memory.input_bytes,
            activation_bytes=memory.activation_bytes,
            peak_bytes=memory.peak_bytes,
            counted=not signature.measurements,
        )
        by_workload[size.name].setdefault(size.input_bytes, size)
    return {name: [sizes[key] for key in sorted(sizes)] for name, sizes in sorted(by_workload.items())}
