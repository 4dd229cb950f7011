"""What synthesis measures in fresh processes: candidates one by one, and the whole proxy."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function

from statsnet import environment
from statsnet.blocks import KINDS
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.costs import cost_of
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation, kernel_class
from statsnet.profiling.memory import memory_record
from statsnet.profiling.timeline import event_overhead_s, profile_step
from statsnet.profiling.trace import StepTrace, trace_step
from statsnet.running.proxy_folder import load_network
from statsnet.running.yardstick import Yardstick
from statsnet.signatures.categories import categorize, is_metadata
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.synthesis.zipf import zipf_indices
from statsnet.workloads.optimizers import make_optimizer

Progress = Callable[[dict[str, Any]], None]
FLUSH_BYTES = 2**26
REPEATS = 5


class BlockBench:
    """One candidate alone, run as it would inside a network: cold cache, warm input, fresh indices."""

    def __init__(self, row: dict[str, Any], *, mode: str, dtype: torch.dtype, device: str) -> None:
        kind = KINDS[row["kind"]]
        config = {k: tuple(v) if isinstance(v, list) else v for k, v in row["config"].items()}
        self.module: nn.Module = kind.build(config).to(device=device, dtype=dtype)
        self.module.train(mode == "training")
        self.training = mode == "training"
        self.optimizer = None
        self.indices: list[torch.Tensor] = []
        index_range = kind.index_range(config)
        if index_range is None:
            self.source = torch.randn(tuple(self.module.shape), device=device, dtype=dtype)  # type: ignore[arg-type]
            self.x = self.source.clone().requires_grad_(self.training)
        else:
            count, rows = index_range
            generator = torch.Generator().manual_seed(0)
            self.indices = [
                zipf_indices(count, rows, config["skew"], generator).to(device) for _ in range(2 * REPEATS)
            ]
        self.turn = 0
        self.framework_warmer = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device=device, dtype=dtype)
        self.warm_input = torch.ones(8, 8, device=device, dtype=dtype)
        with torch.no_grad():
            y = self.module(self._input())
        self.grad = torch.randn_like(y) / y.numel() ** 0.5
        if getattr(self.module, "joined", False):
            self.grad = torch.cat([self.grad, self.grad], -1)[..., : y.shape[-1]]
        stepped = [p for name, p in self.module.named_parameters() if name not in ("other", "kept")]
        if self.training and stepped and row["optimizer"]:
            self.optimizer = make_optimizer(row["optimizer"], stepped, sparse=bool(config.get("sparse")))

    def _input(self) -> torch.Tensor:
        if self.indices:
            self.turn += 1
            return self.indices[self.turn % len(self.indices)]
        with torch.no_grad():
            self.x.copy_(self.source)
        return self.x

    def run(self) -> None:
        self._warm_framework()
        self.module.zero_grad(set_to_none=True)
        x = self._input()
        with record_function("segment:block"):
            if self.training:
                self._backward(self.module(x), x)
            else:
                with torch.no_grad():
                    self.module(x)
        if self.optimizer is not None:
            with record_function("segment:optimizer"):
                self.optimizer.step()

    def _backward(self, y: torch.Tensor, x: torch.Tensor) -> None:
        """As in the middle of a network: what comes in gets a gradient, but none is kept."""
        weights = list(self.module.parameters())
        wanted = [*([] if self.indices else [x]), *weights]
        gradients = torch.autograd.grad(y, wanted, self.grad)
        for weight, gradient in zip(weights, gradients[len(wanted) - len(weights) :], strict=True):
            weight.grad = gradient

    def _warm_framework(self) -> None:
        """A flushed cache has lost the interpreter's and the dispatcher's code too; inside a network it has not."""
        with torch.set_grad_enabled(self.training):
            y = self.framework_warmer(self.warm_input)
        if self.training:
            y.sum().backward()


class _IdleBench(BlockBench):
    """A block without operators, and an optimizer whose parameter has no gradient."""

    def __init__(self, optimizer: str, *, dtype: torch.dtype, device: str) -> None:
        row = {"kind": "parameters", "config": {"shape": (1,)}, "optimizer": optimizer}
        super().__init__(row, mode="training", dtype=dtype, device=device)

    def _backward(self, y: torch.Tensor, x: torch.Tensor) -> None:
        super()._backward(y, x)
        self.module.zero_grad(set_to_none=True)


def measure_idle(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Seconds that a training step takes with nothing to do: `block`, autograd's way in and out, and each optimizer's
    own. Job: optimizers, device, dtype."""
    torch.manual_seed(0)
    device, dtype = environment.select(job["device"]), getattr(torch, job["dtype"])
    flush = torch.empty(FLUSH_BYTES // 4, device=device)
    found: dict[str, float] = {}
    for optimizer in job["optimizers"]:
        parts = _measure_one(
            _IdleBench(optimizer, dtype=dtype, device=device), flush, device, event_overhead_s()
        )
        found[optimizer] = parts["optimizer"]["framework_s"]
        found["block"] = min(parts["block"]["framework_s"], found.get("block", math.inf))
    return found


def measure_candidates(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Columns of the solver: for each candidate the time, FLOPs and bytes of its operators by class."""
    torch.manual_seed(0)
    device = environment.select(job["device"])
    overhead = event_overhead_s()
    flush = torch.empty(FLUSH_BYTES // 4, device=device)
    rows: list[dict[str, Any]] = []
    total = len(job["candidates"])
    for number, row in enumerate(job["candidates"]):
        progress({"stage": f"measuring block {number + 1} of {total}", "done": number / total})
        bench = BlockBench(row, mode=job["mode"], dtype=getattr(torch, job["dtype"]), device=device)
        rows.append(_measure_one(bench, flush, device, overhead))
    return {"columns": rows}


def _measure_one(bench: BlockBench, flush: torch.Tensor, device: str, overhead: float) -> dict[str, Any]:
    def once() -> None:
        flush.fill_(1.0)
        bench.run()

    once()
    once()
    calls = capture_step(once, device=device)
    for call in calls:
        call.metadata = is_metadata(call.op)

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
    parts = {}
    for segment in ("block", "optimizer"):
        chosen = [(c, k) for c, k in zip(calls, implementations, strict=True) if c.segment == segment]
        parts[segment] = part_of(chosen, timeline.segment_s.get(segment, 0.0) / REPEATS)
    return parts


def part_of(calls: list[tuple[OpCall, str]], segment_s: float) -> dict[str, Any]:
    """Operators of one segment, those of equal class and intensity merged; and what is left as framework time."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    spent = 0.0
    for call, implementation in calls:
        if call.metadata:
            continue
        phase = call.phase
        cost = cost_of(call.op, call.args, call.outputs)
        flops, nbytes = (cost.flops, cost.bytes_read + cost.bytes_written) if cost else (0.0, 0.0)
        row = {
            "category": categorize(call.op, phase),
            "kernel_class": kernel_class(call.op, call.args, call.outputs, implementation),
            "shape_class": shape_class(call.op, call.args, call.outputs),
            "phase": phase,
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
        spent += call.time_s or 0.0
    return {"operators": list(merged.values()), "framework_s": max(segment_s - spent, 0.0)}


def trace_proxy(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The whole proxy measured by the method of the workloads.

    Job: folder, device, dtype, and where wanted yardstick, the folder of a network. Result: its signature as a dict,
    the seconds it takes to build, per tower and block what `measure_candidates` gives for a candidate's block, here in
    place, and the yardstick's `yardstick_latency_s` meanwhile.
    """
    device = environment.select(job["device"])
    begin = time.perf_counter()
    network = load_network(job["folder"])
    proxy = network.build(device)
    step = network.make_step(proxy, device)
    build_s = time.perf_counter() - begin
    yardstick = Yardstick(job["yardstick"], device) if "yardstick" in job else None
    trace = trace_step(
        lambda _: step(),
        device=device,
        warmup=5,
        repeats=10,
        min_time_s=job.get("min_time_s", 2.0),
        on_progress=lambda stage, done: progress({"stage": stage, "done": done}),
        while_capturing=lambda: marked_blocks(proxy),
        between=yardstick.look if yardstick else lambda: None,
    )
    signature = build_signature(
        [trace],
        mode=network.MODE,
        dtype=job["dtype"],
        memory=memory_record(proxy, [], step, device=device),
        environment=environment.describe(job["device"]),
    )
    return {
        "signature": signature.to_dict(),
        "build_s": build_s,
        "blocks": blocks_in_place([len(tower) for tower in getattr(proxy, "towers", ())], trace),
        **({"yardstick_latency_s": median(yardstick.latency_s)} if yardstick else {}),
    }


@contextmanager
def marked_blocks(proxy: nn.Module) -> Iterator[None]:
    """Every block's forward in a segment named by its tower and place."""
    open_ranges: list[record_function] = []
    handles = []

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            open_ranges.append(record_function(f"segment:{name}"))
            open_ranges[-1].__enter__()

        return hook

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    for i, tower in enumerate(getattr(proxy, "towers", ())):
        for j, block in enumerate(tower):
            handles.append(block.register_forward_pre_hook(enter(f"{i}.{j}")))
            handles.append(block.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def blocks_in_place(towers: list[int], trace: StepTrace) -> list[list[dict[str, Any]]]:
    """Per tower, of so many blocks each, and block: its operators. What lies between operators cannot be told apart in
    place."""
    calls: dict[str | None, list[tuple[OpCall, str]]] = defaultdict(list)
    for call, implementation in zip(trace.calls, trace.implementations, strict=True):
        calls[call.segment].append((call, implementation))
    return [[part_of(calls[f"{i}.{j}"], 0.0) for j in range(count)] for i, count in enumerate(towers)]
