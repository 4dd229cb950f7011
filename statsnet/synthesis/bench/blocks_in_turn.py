"""Several blocks measured in turn, so that each finds the caches as in a network: full of others' data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.reference_network import FEWEST_LOOKS, ReferenceNetwork
from statsnet.measure.timing import time_once
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.motifs import mark_fused
from statsnet.profiling.operator_times import operator_times_s
from statsnet.profiling.step_trace import placed_kernels
from statsnet.profiling.timeline import Timeline, event_overhead_s, profile_step
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.statistics import agree, faster_half
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart, part_and_places
from statsnet.synthesis.bench.single_block import SEGMENTS, SingleBlock, run_in_turn, segment_name

PASSES = 5
"""Each block's operators are timed at most so many times, fewer if the first passes agree."""

MOST_SHARE, MOST_BYTES = 1 / 12, 2**31
"""Blocks in turn hold at most this share of the memory at hand, and at most so many bytes. Autograd keeps about as much
again, and the more blocks take turns, the more they have in common."""


class BlocksInTurn:
    """Measures blocks on a device; if a reference network's folder is given, beside that network."""

    def __init__(self, device: str, reference_network: str | None = None) -> None:
        self.device = device
        self._most_bytes = min(MOST_SHARE * memory_at_hand_bytes(), MOST_BYTES)
        self._flush = cache_flush(device)
        self._overhead_s = event_overhead_s()
        self._machine = QuietMachine(device)
        self._reference = ReferenceNetwork(reference_network, device) if reference_network else None

    def is_full(self, blocks: Sequence[SingleBlock]) -> bool:
        """Whether these are to be measured before there are more. A GPU's caches hold little of even one block."""
        if self.device.startswith("cuda"):
            return len(blocks) > 0
        return sum(block.nbytes for block in blocks) >= self._most_bytes

    def measure(
        self, blocks: Sequence[SingleBlock], begin: Callable[[int], object] = lambda _: None
    ) -> list[BlockMeasurement]:
        """One use of each block; all have run before. `begin` is told which one runs, while nothing is timed yet."""
        run = partial(run_in_turn, blocks, self._flush)
        calls = capture_step(partial(run, begin), device=self.device)
        for call in calls:
            call.metadata = is_metadata(call.op)
        mark_fused(calls)
        profiled = partial(profile_step, run, calls, device=self.device, event_overhead_s=self._overhead_s)
        timelines: list[Timeline] = []
        looked = len(self._reference.latency_s) if self._reference else 0
        for _ in range(PASSES):
            if self._reference:
                self._reference.look_now_and_then()
            timelines.append(self._machine.measure(profiled))
            if agree([line.step_s for line in timelines]):
                break
        while self._reference and len(self._reference.latency_s) < looked + FEWEST_LOOKS:
            self._reference.look()
        reference_s = median(faster_half(self._reference.latency_s[looked:])) if self._reference else None
        beside = [i for i, call in enumerate(calls) if call.segment is None]
        for call, time_s in zip(calls, operator_times_s(timelines, beside=beside), strict=True):
            call.time_s = time_s or 0.0
        step = _Step(calls, timelines, self.device)
        measured = [step.block(place).of_one(block.in_a_row) for place, block in enumerate(blocks)]
        if self.device.startswith("cuda"):
            measured = [self._with_waits(m, block) for m, block in zip(measured, blocks, strict=True)]
        return [replace(m, reference_latency_s=reference_s) for m in measured]

    def _with_waits(self, measured: BlockMeasurement, block: SingleBlock) -> BlockMeasurement:
        parts = dict(zip(SEGMENTS, measured.parts, strict=True))
        timed = partial(time_once, device=self.device, clock=time.perf_counter)
        for name, use in block.uses().items():
            parts[name] = replace(parts[name], framework_s=wait_per_use_s(use, parts[name].operator_time_s, timed))
        return replace(measured, block=parts["block"], optimizer=parts["optimizer"])


@dataclass(frozen=True, slots=True)
class _Step:
    """The calls of one pass with their times, and the timelines of all passes."""

    calls: Sequence[OpCall]
    timelines: Sequence[Timeline]
    device: str

    def block(self, place: int) -> BlockMeasurement:
        parts: list[BlockPart] = []
        operators: dict[int, int] = {}
        for segment in SEGMENTS:
            part, of_calls = self._part(segment_name(segment, place))
            begin = sum(len(before.operators) for before in parts)
            operators |= {i: begin + row for i, row in of_calls.items()}
            parts.append(part)
        launches = None
        if self.device.startswith("cuda"):
            launches = tuple(launches_in_order(self.timelines[0], operators))
        return BlockMeasurement(block=parts[0], optimizer=parts[1], launches=launches)

    def _part(self, segment: str) -> tuple[BlockPart, dict[int, int]]:
        """The part of a segment's calls; and for each call that moves data the index of its operators in the part."""
        indices = [i for i, call in enumerate(self.calls) if call.segment == segment]
        part, rows = part_and_places([(self.calls[i], self._implementation(i)) for i in indices], 0.0)
        between_s = [self._between_s(line, segment, indices) for line in self.timelines]
        found = {i: row for i, row in zip(indices, rows, strict=True) if row is not None}
        return replace(part, framework_s=max(median(between_s), 0.0)), found

    def _implementation(self, i: int) -> str:
        if self.device.startswith("cuda"):
            return cuda_implementation(self.timelines[0].op_kernels[i])
        return cpu_implementation(self.calls[i].kernels)

    def _between_s(self, line: Timeline, segment: str, indices: Sequence[int]) -> float:
        return line.segment_s.get(segment, 0.0) - sum(line.op_time_s[i] or 0.0 for i in indices)


def launches_in_order(timeline: Timeline, operators: Mapping[int, int]) -> list[Launch]:
    """The kernels of a step in their order. Each has the index of its call's operators."""
    return [
        Launch(
            cluster=None if call is None else operators.get(call),
            family=kernel_family(kernel.name),
            time_s=kernel.elapsed_s,
        )
        for call, kernel in placed_kernels(timeline)
        if not kernel.is_copy
    ]


IN_A_ROW = 8
TRIALS = 5


def wait_per_use_s(use: Callable[[], object], busy_s: float, timed: Callable[[Callable[[], object]], float]) -> float:
    """Seconds of one use in which no kernel runs, where many uses follow one another; `busy_s` is what its kernels
    take. `timed` runs a step and returns its seconds, from an idle device to an idle device.

    With a host that needs h for a use and kernels that need g, n uses take s + n max(h, g): the first launch's latency
    s cancels out between a row of uses and a single one.
    """

    def row() -> None:
        for _ in range(IN_A_ROW):
            use()

    use()
    per_use_s = [(timed(row) - timed(use)) / (IN_A_ROW - 1) for _ in range(TRIALS)]
    return max(median(per_use_s) - busy_s, 0.0)
