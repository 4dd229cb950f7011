"""What a block costs as measured: its operators in groups of equal class, and the time between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statsnet.errors import first_line, lacks_memory
from statsnet.profiling.capture import OpCall
from statsnet.profiling.costs import cost_of
from statsnet.profiling.gpu_activity import Launch
from statsnet.signatures.categories import categorize
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.program.elsewhere import Elsewhere, Fate, mean_fate


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOperators:
    """Operators of equal class, phase and intensity: seconds, FLOPs, bytes, bytes of weights and calls in one use.
    `counters` are their known GPU counters, means over their time; `fate` is theirs on other devices, if any is known.
    """

    category: str
    kernel_class: str
    shape_class: str
    phase: str
    fused: float
    joined: float
    time_s: float
    flops: float
    bytes: float
    weights: float
    calls: float
    counters: Mapping[str, float] | None = None
    fate: Fate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPart:
    """A block's own operators, or those of its optimizer. `framework_s` is the time between them."""

    operators: tuple[MeasuredOperators, ...]
    framework_s: float

    @property
    def operator_time_s(self) -> float:
        return sum(row.time_s for row in self.operators)

    def scale_times(self, factor: float) -> BlockPart:
        """The same on a machine that takes `factor` times as long."""
        rows = tuple(replace(row, time_s=factor * row.time_s) for row in self.operators)
        return replace(self, operators=rows, framework_s=factor * self.framework_s)

    def of_one(self, blocks: int) -> BlockPart:
        """The mean of so many blocks, where this is their sum."""
        rows = tuple(
            replace(
                row,
                time_s=row.time_s / blocks,
                flops=row.flops / blocks,
                bytes=row.bytes / blocks,
                weights=row.weights / blocks,
                calls=row.calls / blocks,
            )
            for row in self.operators
        )
        return replace(self, operators=rows, framework_s=self.framework_s / blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMeasurement:
    """One use of a block outside of any network, in turn with others. `launches` are a GPU's kernels in their order,
    each with the index of its operators among those of both parts. `reference_latency_s` is the reference network's
    step meanwhile. `refused` is the exception of a block that does not run; nothing can be made of it. It was measured
    `in_a_row` with so many like it, which entered and left autograd, and an optimizer's step, together."""

    block: BlockPart
    optimizer: BlockPart
    launches: tuple[Launch, ...] | None = None
    reference_latency_s: float | None = None
    refused: str | None = None
    in_a_row: int = 1

    @classmethod
    def of_refused(cls, error: Exception) -> BlockMeasurement:
        """Of a block that raises this."""
        nothing = BlockPart(operators=(), framework_s=0.0)
        return cls(block=nothing, optimizer=nothing, refused=f"{type(error).__name__}: {first_line(error)}")

    @property
    def lacked_memory(self) -> bool:
        """Whether it may run when more memory is free."""
        return self.refused is not None and lacks_memory(self.refused)

    @property
    def parts(self) -> tuple[BlockPart, BlockPart]:
        return self.block, self.optimizer

    @property
    def operator_time_s(self) -> float:
        return sum(part.operator_time_s for part in self.parts)

    def of_one(self, blocks: int) -> BlockMeasurement:
        """The mean of so many blocks in a row, where this is their sum."""
        return replace(self, block=self.block.of_one(blocks), optimizer=self.optimizer.of_one(blocks), in_a_row=blocks)

    def at(self, speed: MachineSpeed) -> BlockMeasurement:
        """The same at this speed of the machine."""
        factor = 1 / speed.drift(self.reference_latency_s)
        block, optimizer = (part.scale_times(factor) for part in self.parts)
        return replace(self, block=block, optimizer=optimizer, reference_latency_s=speed.reference_latency_s)


def part_of(calls: Sequence[tuple[OpCall, str]], segment_s: float, elsewhere: Elsewhere | None = None) -> BlockPart:
    """The part of one segment's calls, each with its implementation. The segment's seconds that its operators do not
    take are framework time."""
    return part_and_places(calls, segment_s, elsewhere)[0]


def part_and_places(
    calls: Sequence[tuple[OpCall, str]], segment_s: float, elsewhere: Elsewhere | None = None
) -> tuple[BlockPart, list[int | None]]:
    """As `part_of`; and for each call the index of its operators in the part (None: it moves no data)."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    fates: dict[tuple[Any, ...], list[tuple[float, Fate]]] = defaultdict(list)
    rows_of: dict[tuple[Any, ...], int] = {}
    places: list[int | None] = []
    for call, implementation in calls:
        if call.metadata:
            places.append(None)
            continue
        cost = cost_of(call.op, call.args, call.outputs)
        flops, nbytes = (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, 0.0)
        kinds = {
            "category": categorize(call.op, call.phase),
            "kernel_class": kernel_class(call.op, call.args, call.outputs, implementation),
            "shape_class": shape_class(call.op, call.args, call.outputs),
            "phase": call.phase,
            "fused": float(call.fused),
            "joined": float(call.joined),
        }
        key = (*kinds.values(), f"{flops / nbytes if nbytes else 0:.3g}")
        entry = merged.setdefault(key, {**kinds, "time_s": 0.0, "flops": 0.0, "bytes": 0.0, "weights": 0, "calls": 0})
        entry["time_s"] += call.time_s or 0.0
        entry["flops"] += flops
        entry["bytes"] += nbytes
        entry["weights"] += weight_bytes(call.op, call.phase, call.args)
        entry["calls"] += 1
        if elsewhere is not None:
            fates[key].append((call.time_s or 0.0, elsewhere.fate(call.op, call.phase, call.args, call.outputs)))
        places.append(rows_of.setdefault(key, len(rows_of)))
    rows = tuple(MeasuredOperators(**entry, fate=mean_fate(fates[key])) for key, entry in merged.items())
    spent_s = sum(row.time_s for row in rows)
    return BlockPart(operators=rows, framework_s=max(segment_s - spent_s, 0.0)), places
