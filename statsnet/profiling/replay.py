"""Runs operators again from their signature alone, without the model, to time clusters on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import torch

from statsnet.errors import lacks_memory
from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.ncu import run_in_range
from statsnet.profiling.capture import capture_step
from statsnet.profiling.costs.attention import as_on
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.made_up import arguments
from statsnet.profiling.operator_schemas import is_replayable, misfit
from statsnet.profiling.replay_limits import TimeLimit, memory_limit, needed_bytes, require_memory
from statsnet.profiling.timeline import event_overhead_s, profile_step
from statsnet.signatures.model import Cluster
from statsnet.workloads.torch_operators import overload
from statsnet.workloads.trees import all_tensors, stored_bytes

CHUNK_BYTES = 2**30
REPEATS = 3


@dataclass(slots=True)
class Replay:
    """Seconds per call and implementation of each cluster; None if it could not be run (`failures` has the reasons).
    `launches` are, on a GPU, the kernels of one call of each cluster, in the clusters' order."""

    times: list[float | None]
    kernels: list[str | None]
    launches: list[Launch] = field(default_factory=list)
    failures: list[list[str]] = field(default_factory=list)
    lacked_memory: bool = False


def why_not_run(cluster: Cluster) -> str | None:
    """Why this call is not run again; None where it may be."""
    if not is_replayable(cluster.op):
        return "not an operator whose work is known"
    return misfit(cluster.op, cluster.args)


def call_of(cluster: Cluster, device: str) -> partial[Any]:
    """The call of a cluster, with made-up arguments, as this device runs it."""
    cluster = as_on(device, cluster)
    positional, keyword = arguments(cluster, device)
    return partial(overload(cluster.op), *positional, **keyword)


@torch.no_grad()
def replay_clusters(clusters: tuple[Cluster, ...], *, device: str, progress: Callable[[float], None]) -> Replay:
    """Run a call of each cluster several times, one after another as in a step. On a GPU the caches are flushed before
    each time. On a CPU they are not: flushing takes the operators' code out of the caches, too, and made steps of 10 to
    20 ms 1.8 to 1.9 times as long as their models' (without: 1.2 to 1.6). Steps of 80 ms to 1 s take 0.9 to 1.3 times
    as long either way.

    Raises MeasurementError for a call that needs more memory than there is, and if all together take longer than
    `replay_limits.REPLAY_LIMIT_S`. The process ends if an operator takes longer than `OPERATOR_LIMIT_S`.
    """
    limit = TimeLimit()
    try:
        with memory_limit(device):
            return _replayed(clusters, device, progress, limit)
    finally:
        limit.stop()


def _replayed(
    clusters: tuple[Cluster, ...], device: str, progress: Callable[[float], None], limit: TimeLimit
) -> Replay:
    replay = Replay([None] * len(clusters), [None] * len(clusters))
    refused = [why_not_run(cluster) for cluster in clusters]
    needed = [0 if why else _needed_bytes(c, limit) for c, why in zip(clusters, refused, strict=True)]
    require_memory(clusters, needed, device)
    overhead_s = event_overhead_s()
    flush = cache_flush(device) if device == "cuda" else lambda: None
    chunk: list[tuple[int, partial[Any]]] = []
    held = 0
    for index, cluster in enumerate(clusters):
        if (why := refused[index]) is not None:
            replay.failures.append([cluster.op, why])
            continue
        limit.begin(cluster.op)
        try:
            call = call_of(cluster, device)
            call()
        except Exception as error:  # an operator of another version or library: reported, not fatal
            name = type(error).__name__
            replay.failures.append([cluster.op, name])
            replay.lacked_memory |= lacks_memory(f"{name}: {error}")
            continue
        chunk.append((index, call))
        held += sum(map(stored_bytes, all_tensors([call.args, call.keywords])))
        if held > CHUNK_BYTES or index == len(clusters) - 1:
            _time_chunk(chunk, flush, device, overhead_s, replay)
            chunk, held = [], 0
            progress((index + 1) / len(clusters))
    if chunk:
        _time_chunk(chunk, flush, device, overhead_s, replay)
    return replay


def _needed_bytes(cluster: Cluster, limit: TimeLimit) -> int:
    limit.begin(cluster.op)
    return needed_bytes(cluster, lambda: call_of(cluster, "meta")())


@torch.no_grad()
def count_clusters(clusters: tuple[Cluster, ...], *, device: str) -> None:
    """Run one call of each cluster that can be run, within ncu.RANGE. The kernels are those of `Replay.launches`."""
    for cluster in clusters:
        if why_not_run(cluster) is not None:
            continue
        try:
            call = call_of(cluster, device)
            call()
        except Exception:  # an operator that could not be timed either
            continue
        run_in_range(call, device)


def _time_chunk(
    chunk: list[tuple[int, partial[Any]]],
    flush: Callable[[], object],
    device: str,
    overhead_s: float,
    replay: Replay,
) -> None:
    def run_chunk() -> None:
        for index, call in chunk:
            flush()
            with torch.profiler.record_function(f"segment:{index}"):
                call()

    calls = capture_step(run_chunk, device=device)
    profiled = partial(profile_step, run_chunk, calls, device=device, event_overhead_s=overhead_s)
    timelines = [profiled() for _ in range(REPEATS)]
    for i, call in enumerate(calls):
        if not call.segment:
            continue
        index = int(call.segment)
        samples = [time_s for line in timelines if (time_s := line.op_time_s[i]) is not None]
        if not samples:
            continue
        replay.times[index] = (replay.times[index] or 0.0) + median(samples)
        launched = timelines[-1].op_kernels[i]
        replay.kernels[index] = cuda_implementation(launched) if device == "cuda" else cpu_implementation(call.kernels)
        replay.launches += [
            Launch(cluster=index, family=kernel_family(k.name), time_s=k.elapsed_s)
            for k in sorted(launched, key=lambda k: k.start_ns)
            if not k.is_copy
        ]
