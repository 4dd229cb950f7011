"""What ran on the device during a step: kernels, copies and fills, as CUPTI recorded them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Dims = tuple[int, int, int]

Span = tuple[int, int]
"""Begin and end, in nanoseconds of the profiler's clock."""

COPIES = ("Memcpy", "Memset")
"""CUPTI's names of copies and fills. They are no kernels: they have no grid and no counters."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: its full name, when it ran (nanoseconds of the profiler's clock), its stream, the blocks in its grid
    and the threads in a block (None for copies and fills)."""

    name: str
    start_ns: int
    end_ns: int
    stream: int = 0
    grid: Dims | None = None
    block: Dims | None = None

    @property
    def elapsed_s(self) -> float:
        return (self.end_ns - self.start_ns) * 1e-9

    @property
    def is_copy(self) -> bool:
        return self.name.startswith(COPIES)


def kernel_of(record: Any) -> Kernel:
    """From one of Kineto's records. Grid and block are in the text that Kineto writes to trace files."""
    metadata = getattr(record, "metadata_json", str)() or ""
    return Kernel(
        name=record.name(),
        start_ns=record.start_ns(),
        end_ns=record.end_ns(),
        stream=record.device_resource_id(),
        grid=_dims(metadata, "grid"),
        block=_dims(metadata, "block"),
    )


def busy_s(kernels: Iterable[Kernel]) -> float:
    """Seconds in which at least one of them ran."""
    return sum(end - start for start, end in union((k.start_ns, k.end_ns) for k in kernels)) * 1e-9


def gaps_s(kernels: Iterable[Kernel]) -> list[float]:
    """Lengths of the pauses, in which none ran, between the first and the last of them."""
    spans = union((k.start_ns, k.end_ns) for k in kernels)
    return [(later[0] - earlier[1]) * 1e-9 for earlier, later in pairwise(spans)]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans in order, none of which touch."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _dims(metadata: str, name: str) -> Dims | None:
    dims = re.search(rf'"{name}"\s*:\s*\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]', metadata)
    return (int(dims[1]), int(dims[2]), int(dims[3])) if dims else None
