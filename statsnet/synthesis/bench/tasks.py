"""Tasks of synthesis: blocks measured one by one, an idle step, and a whole network."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.profiler import record_function

from statsnet import environment
from statsnet.errors import StatsNetError
from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.gpu_power import drawn_by
from statsnet.measure.ncu import run_in_range
from statsnet.measure.network_file import load_network
from statsnet.measure.rank_ends import GROUP_TIMEOUT_S
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.task import Context, CountableTask, Event, Progress, Task
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall
from statsnet.profiling.collective_record import with_collectives
from statsnet.profiling.distributed import alone, joined
from statsnet.profiling.gpu_activity import Launch, launches_of
from statsnet.profiling.marks import around_forwards, blocks_of
from statsnet.profiling.memory import memory_record
from statsnet.profiling.motifs import mark_fused
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.tasks import WithSignature
from statsnet.profiling.trace import trace_step
from statsnet.proxy.towers import Placed
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart, part_of
from statsnet.synthesis.bench.blocks_in_turn import BlocksInTurn
from statsnet.synthesis.bench.single_block import IdleStep, SingleBlock, in_a_row, run_in_turn
from statsnet.synthesis.program.elsewhere import Elsewhere
from statsnet.workloads.settings import convert_module, record, wrap_step


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTimes:
    """Seconds that a training step takes with nothing to do: `block` for entering and leaving autograd, and one entry
    for each optimizer; and the reference network's median step meanwhile."""

    idle_s: dict[str, float]
    reference_latency_s: float | None


@dataclass(frozen=True, kw_only=True)
class MeasureIdleStep(Task[IdleTimes]):
    """A training step with nothing to do; if a reference network's folder is given, beside that network."""

    optimizers: tuple[str, ...]
    dtype: str
    reference_network: str | None = None
    device: str = "cpu"

    def run(self, context: Context) -> IdleTimes:
        torch.manual_seed(0)
        device, dtype = environment.select(self.device), getattr(torch, self.dtype)
        in_turn = BlocksInTurn(device, self.reference_network)
        idle_s: dict[str, float] = {}
        looked_s: list[float] = []
        for optimizer in self.optimizers:
            step = IdleStep(optimizer, dtype=dtype, device=device)
            step.run()
            (measured,) = in_turn.measure([step])
            idle_s[optimizer] = measured.optimizer.framework_s
            idle_s["block"] = min(measured.block.framework_s, idle_s.get("block", math.inf))
            looked_s += [measured.reference_latency_s] if measured.reference_latency_s else []
        return IdleTimes(idle_s=idle_s, reference_latency_s=median(looked_s) if looked_s else None)


@dataclass(frozen=True, kw_only=True)
class MeasureBlocks(CountableTask[list[BlockMeasurement]]):
    """Each block in turn with others, as it would run inside a network; if a reference network's folder is given,
    beside that network. It says which block it begins. A block that raises an exception does not end the others."""

    blocks: tuple[Placed, ...]
    mode: str
    dtype: str
    device: str = "cpu"
    reference_network: str | None = None

    def run(self, context: Context) -> list[BlockMeasurement]:
        torch.manual_seed(0)
        in_turn = BlocksInTurn(environment.select(self.device), self.reference_network)
        measured: dict[int, BlockMeasurement] = {}
        ready: dict[int, SingleBlock] = {}
        total = len(self.blocks)
        for number, placed in enumerate(self.blocks):
            stage = f"measuring block {number + 1} of {total}"
            context.say(Event(progress=Progress(stage=stage, done=number / total), item=number))
            try:
                ready[number] = self._block(placed, in_turn.device)
                ready[number].run()
            except StatsNetError:
                raise
            except Exception as error:
                ready.pop(number, None)
                measured[number] = _refused(error, in_turn.device)
            if in_turn.is_full([*ready.values()]):
                measured |= _measured(ready, in_turn, context)
                ready.clear()
        measured |= _measured(ready, in_turn, context)
        return [measured[number] for number in range(total)]

    def launch(self, context: Context) -> None:
        torch.manual_seed(0)
        device = environment.select(self.device)
        flush = cache_flush(device)
        for placed in self.blocks:
            with suppress(Exception):  # as in `run`
                run_in_range(partial(run_in_turn, [self._block(placed, device)], flush), device)

    def _block(self, placed: Placed, device: str) -> SingleBlock:
        dtype, row = getattr(torch, self.dtype), in_a_row(placed, device)
        return SingleBlock(placed, mode=self.mode, dtype=dtype, device=device, in_a_row=row)


def _measured(ready: Mapping[int, SingleBlock], in_turn: BlocksInTurn, context: Context) -> dict[int, BlockMeasurement]:
    """These blocks, in turn. If one of them raises an exception after it has run once, each by itself."""
    if not ready:
        return {}
    numbers = [*ready]
    try:
        found = in_turn.measure([*ready.values()], lambda place: context.say(Event(item=numbers[place])))
        return dict(zip(numbers, found, strict=True))
    except StatsNetError:
        raise
    except Exception as error:
        refused = _refused(error, in_turn.device)
        if len(ready) == 1:
            return dict.fromkeys(ready, refused)
        for block in ready.values():
            block.forget()
        each = [_measured({number: block}, in_turn, context) for number, block in ready.items()]
        return {number: one for some in each for number, one in some.items()}


def _refused(error: Exception, device: str) -> BlockMeasurement:
    """Raises what a GPU raises for good after an invalid access: then the process must end, and no later block is to
    blame."""
    if device.startswith("cuda"):
        torch.ones(1, device=device).add_(1)
        torch.cuda.synchronize(device)
    return BlockMeasurement.of_refused(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTrace(WithSignature):
    """A network measured as a whole: its signature, the seconds it takes to build, and by tower and block the operators
    in place. `reference_latency_s` is the reference network's undisturbed step meanwhile; `launches` are a GPU's
    kernels in their order."""

    signature: Signature
    build_s: float
    blocks: tuple[tuple[BlockPart, ...], ...]
    reference_latency_s: float | None = None
    launches: tuple[Launch, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TraceNetwork(CountableTask[NetworkTrace]):
    """Measures the network in a folder in the same way as workloads, operator by operator; if a reference network's
    folder is given, beside that network. With `network_sha256`, it refuses any other source. With
    `together` it is one of several processes, and measures their collectives too."""

    folder: str
    dtype: str
    network_sha256: str | None = None
    device: str = "cpu"
    min_time_s: float = 1.0
    reference_network: str | None = None
    together: bool = False

    def run(self, context: Context) -> NetworkTrace:
        with joined(self.device, GROUP_TIMEOUT_S) if self.together else nullcontext(self.device) as device:
            return replace(self, device=device)._traced(context)

    def _traced(self, context: Context) -> NetworkTrace:
        device = environment.select(self.device)
        begin = time.perf_counter()
        network = load_network(self.folder, sha256=self.network_sha256)
        proxy = convert_module(context.setting, network.build(device))
        step = wrap_step(context.setting, network.make_step(proxy, device), device)
        build_s = time.perf_counter() - begin
        reference = ReferenceNetwork(self.reference_network, device) if self.reference_network else None
        memory: dict[str, int | None] = {}
        trace = trace_step(
            lambda _: step(),
            device=device,
            warmup=2,
            repeats=4,
            min_time_s=self.min_time_s,
            on_progress=lambda stage, done: context.report(Progress(stage=stage, done=done)),
            while_capturing=lambda: marked_blocks(proxy),
            between=reference.look_now_and_then if reference else lambda: None,
            first_session=lambda: memory.update(memory_record(proxy, [], step, device=device)),
        )
        if reference:
            reference.look()
        described = environment.describe(self.device)
        described["settings"] |= record(context.setting)
        signature = build_signature(
            [trace],
            mode=network.MODE,
            dtype=self.dtype,
            memory=memory,
            environment=described,
            power=drawn_by(step, self.device) if device == "cuda" and alone() else None,
        )
        signature = with_collectives(signature, [trace], [1.0])
        launches = launches_of([trace], [1.0])
        in_place = blocks_in_place([len(tower) for tower in getattr(proxy, "towers", ())], trace)
        return NetworkTrace(
            signature=signature,
            build_s=build_s,
            blocks=tuple(tuple(parts) for parts in in_place),
            reference_latency_s=reference.undisturbed_s if reference else None,
            launches=tuple(launches) if device == "cuda" else None,
        )

    def launch(self, context: Context) -> None:
        device = environment.select(self.device)
        network = load_network(self.folder, sha256=self.network_sha256)
        run_in_range(network.make_step(network.build(device), device), device)


def marked_blocks(proxy: nn.Module) -> AbstractContextManager[None]:
    """Puts every block's forward into a segment named by its tower and index."""
    return around_forwards((block, partial(record_function, f"segment:{i}.{j}")) for i, j, block in blocks_of(proxy))


def blocks_in_place(towers: list[int], trace: StepTrace, elsewhere: Elsewhere | None = None) -> list[list[BlockPart]]:
    """The operators of each block, by tower and block; `towers` holds the numbers of blocks. In place, nobody can tell
    which block the time between operators belongs to."""
    calls: dict[str | None, list[tuple[OpCall, str]]] = defaultdict(list)
    mark_fused(trace.calls)
    for call, implementation in zip(trace.calls, trace.implementations, strict=True):
        calls[call.segment].append((call, implementation))
    return [[part_of(calls[f"{i}.{j}"], 0.0, elsewhere) for j in range(count)] for i, count in enumerate(towers)]
