"""What synthesis measures in fresh processes: candidates one by one, and the whole proxy."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function

from statsnet import environment
from statsnet.measure.gpu_power import drawn_by
from statsnet.measure.ncu import run_in_range
from statsnet.measure.network_file import load_network
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.costs import cost_of
from statsnet.profiling.gpu_activity import Launch, launches_of
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation, kernel_class, kernel_family
from statsnet.profiling.memory import memory_record
from statsnet.profiling.motifs import mark_fused
from statsnet.profiling.timeline import Timeline, event_overhead_s, profile_step
from statsnet.profiling.trace import StepTrace, trace_step
from statsnet.signatures.categories import categorize, is_metadata
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.synthesis.single_block import REPEATS, SEGMENTS, BlockBench, IdleBench

Progress = Callable[[dict[str, Any]], None]
FLUSH_BYTES = 2**26


def measure_idle(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Seconds that a training step takes with nothing to do: `block`, autograd's way in and out, and each optimizer's
    own. Job: optimizers, device, dtype."""
    torch.manual_seed(0)
    device, dtype = environment.select(job["device"]), getattr(torch, job["dtype"])
    flush = torch.empty(FLUSH_BYTES // 4, device=device)
    quiet_machine = QuietMachine(device)
    found: dict[str, float] = {}
    for optimizer in job["optimizers"]:
        bench = IdleBench(optimizer, dtype=dtype, device=device)
        parts = quiet_machine.measure(partial(_measure_one, bench, flush, device, event_overhead_s()))
        found[optimizer] = parts["optimizer"]["framework_s"]
        found["block"] = min(parts["block"]["framework_s"], found.get("block", math.inf))
    return found


def measure_candidates(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Columns of the solver: for each candidate the time, FLOPs and bytes of its operators by class."""
    torch.manual_seed(0)
    device = environment.select(job["device"])
    overhead = event_overhead_s()
    flush = torch.empty(FLUSH_BYTES // 4, device=device)
    quiet_machine = QuietMachine(device)
    rows: list[dict[str, Any]] = []
    total = len(job["candidates"])
    for number, row in enumerate(job["candidates"]):
        stage = f"measuring block {number + 1} of {total}"
        progress({"stage": stage, "done": number / total, "block": number})
        bench = BlockBench(row, mode=job["mode"], dtype=getattr(torch, job["dtype"]), device=device)
        rows.append(quiet_machine.measure(partial(_measure_one, bench, flush, device, overhead)))
    return {"columns": rows}


def _flushed(bench: BlockBench, flush: torch.Tensor) -> None:
    flush.fill_(1.0)
    bench.run()


def _measure_one(bench: BlockBench, flush: torch.Tensor, device: str, overhead: float) -> dict[str, Any]:
    once = partial(_flushed, bench, flush)
    once()
    once()
    calls = capture_step(once, device=device)
    for call in calls:
        call.metadata = is_metadata(call.op)
    mark_fused(calls)

    def repeated() -> None:
        for _ in range(REPEATS):
            once()

    timeline = profile_step(repeated, calls * REPEATS, device=device, event_overhead_s=overhead)
    n = len(calls)
    for index, call in enumerate(calls):
        samples = [t for r in range(REPEATS) if (t := timeline.op_time_s[r * n + index]) is not None]
        call.time_s = median(samples) if samples else 0.0
    implementations = [
        cuda_implementation(timeline.op_kernels[i]) if device == "cuda" else cpu_implementation(c.kernels)
        for i, c in enumerate(calls)
    ]
    parts: dict[str, Any] = {}
    rows: dict[int, int] = {}
    for segment in SEGMENTS:
        places = [i for i, c in enumerate(calls) if c.segment == segment]
        operators, of_call = _merged([(calls[i], implementations[i]) for i in places])
        begin = sum(len(part["operators"]) for part in parts.values())
        rows |= {i: begin + row for i, row in zip(places, of_call, strict=True) if row is not None}
        parts[segment] = _part(operators, timeline.segment_s.get(segment, 0.0) / REPEATS)
    if device == "cuda":
        parts["launches"] = [launch.to_dict() for launch in first_launches(timeline, len(calls), rows)]
    return parts


def first_launches(timeline: Timeline, count: int, rows: Mapping[int, int]) -> list[Launch]:
    """The kernels of the first of several equal steps, of `count` calls each, in their order, each with the row of its
    call in `rows`."""
    later = [kernels for kernels in timeline.op_kernels[count:] if kernels]
    ends_ns = later[0][0].start_ns if later else math.inf
    places = {id(kernel): i for i, kernels in enumerate(timeline.op_kernels[:count]) for kernel in kernels}
    return [
        Launch(
            cluster=rows.get(places.get(id(kernel), -1)),
            family=kernel_family(kernel.name),
            time_s=kernel.elapsed_s,
        )
        for kernel in timeline.on_device
        if not kernel.is_copy and kernel.start_ns < ends_ns
    ]


def count_measured(job: dict[str, Any]) -> dict[str, Any]:
    """Make each candidate's step, as `measure_candidates` does for the same job, within ncu.RANGE: the kernels are
    those that it names in `launches`, one candidate after the other."""
    torch.manual_seed(0)
    device = environment.select(job["device"])
    flush = torch.empty(FLUSH_BYTES // 4, device=device)
    for row in job["candidates"]:
        bench = BlockBench(row, mode=job["mode"], dtype=getattr(torch, job["dtype"]), device=device)
        run_in_range(partial(_flushed, bench, flush), device)
    return {}


def part_of(calls: list[tuple[OpCall, str]], segment_s: float) -> dict[str, Any]:
    """Operators of one segment, those of equal class and intensity merged; and what is left as framework time."""
    return _part(_merged(calls)[0], segment_s)


def _part(operators: list[dict[str, Any]], segment_s: float) -> dict[str, Any]:
    spent_s = sum(row["time_s"] for row in operators)
    return {"operators": operators, "framework_s": max(segment_s - spent_s, 0.0)}


def _merged(calls: list[tuple[OpCall, str]]) -> tuple[list[dict[str, Any]], list[int | None]]:
    """The rows, and of each call its row (None: it only looks at its argument in another way)."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    of_call: list[int | None] = []
    for call, implementation in calls:
        if call.metadata:
            of_call.append(None)
            continue
        phase = call.phase
        cost = cost_of(call.op, call.args, call.outputs)
        flops, nbytes = (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, 0.0)
        row = {
            "category": categorize(call.op, phase),
            "kernel_class": kernel_class(call.op, call.args, call.outputs, implementation),
            "shape_class": shape_class(call.op, call.args, call.outputs),
            "phase": phase,
            "fused": float(call.fused),
        }
        key = (*row.values(), f"{flops / nbytes if nbytes else 0:.3g}")
        entry = merged.setdefault(
            key, {**row, "time_s": 0.0, "flops": 0.0, "bytes": 0.0, "weights": 0, "calls": 0}
        )
        entry["time_s"] += call.time_s or 0.0
        entry["flops"] += flops
        entry["bytes"] += nbytes
        entry["weights"] += weight_bytes(call.op, phase, call.args)
        entry["calls"] += 1
        of_call.append(list(merged).index(key))
    return list(merged.values()), of_call


def trace_proxy(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The whole proxy measured by the method of the workloads.

    Job: folder, device, dtype, and where wanted reference_network, the folder of a network. Result: its signature as a
    dict, the seconds it takes to build, per tower and block what `measure_candidates` gives for a candidate's block,
    here in place, and `reference_latency_s` meanwhile; of a GPU also `launches`, its kernels in their order.
    """
    device = environment.select(job["device"])
    begin = time.perf_counter()
    network = load_network(job["folder"])
    proxy = network.build(device)
    step = network.make_step(proxy, device)
    build_s = time.perf_counter() - begin
    reference_network = (
        ReferenceNetwork(job["reference_network"], device) if "reference_network" in job else None
    )
    trace = trace_step(
        lambda _: step(),
        device=device,
        warmup=5,
        repeats=10,
        min_time_s=job.get("min_time_s", 2.0),
        on_progress=lambda stage, done: progress({"stage": stage, "done": done}),
        while_capturing=lambda: marked_blocks(proxy),
        between=reference_network.look if reference_network else lambda: None,
    )
    signature = build_signature(
        [trace],
        mode=network.MODE,
        dtype=job["dtype"],
        memory=memory_record(proxy, [], step, device=device),
        environment=environment.describe(job["device"]),
        power=drawn_by(step, job["device"]) if device == "cuda" else None,
    )
    launches = [launch.to_dict() for launch in launches_of([trace], [1.0])]
    return {
        "signature": signature.to_dict(),
        "build_s": build_s,
        **({"launches": launches} if device == "cuda" else {}),
        "blocks": blocks_in_place([len(tower) for tower in getattr(proxy, "towers", ())], trace),
        **({"reference_latency_s": median(reference_network.latency_s)} if reference_network else {}),
    }


def count_traced(job: dict[str, Any]) -> dict[str, Any]:
    """Make the step whose kernels `trace_proxy` names in `launches`, for the same job, within ncu.RANGE."""
    device = environment.select(job["device"])
    network = load_network(job["folder"])
    step = network.make_step(network.build(device), device)
    run_in_range(step, device)
    return {}


@contextmanager
def marked_blocks(proxy: nn.Module) -> Iterator[None]:
    """Every block's forward in a segment named by its tower and place. It is run without the module's call, so that no
    hook would see it."""

    def marked(forward: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with record_function(f"segment:{name}"):
                return forward(*args)

        return run

    places = [
        (block, f"{i}.{j}")
        for i, tower in enumerate(getattr(proxy, "towers", ()))
        for j, block in enumerate(tower)
    ]
    for block, name in places:
        block.forward = marked(block.forward, name)
    try:
        yield
    finally:
        for block, _ in places:
            del block.forward


def blocks_in_place(towers: list[int], trace: StepTrace) -> list[list[dict[str, Any]]]:
    """Per tower, of so many blocks each, and block: its operators. What lies between operators cannot be told apart in
    place."""
    calls: dict[str | None, list[tuple[OpCall, str]]] = defaultdict(list)
    mark_fused(trace.calls)
    for call, implementation in zip(trace.calls, trace.implementations, strict=True):
        calls[call.segment].append((call, implementation))
    return [[part_of(calls[f"{i}.{j}"], 0.0) for j in range(count)] for i, count in enumerate(towers)]
