"""What a measuring process does: time a workload, or time a proxy, by the same rules."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import torch

from statsnet.environment import describe
from statsnet.measure.gpu_power import ATTEMPTS, Meter, slowed_down
from statsnet.measure.network_file import load_network
from statsnet.measure.process import Progress
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.runtimes import exported_proxy, exported_workload
from statsnet.measure.timing import PRECISION, measure, precision, time_once, warm_up
from statsnet.workloads.settings import RUNTIME, convert_module, record, setting_of, wrap_step

WINDOW_S = 0.4
WARM_UP_S = 5.0
"""Of processes that take turns: a window of steps, one step at least; and the longest warm-up."""

FLUSHED_RUNS = 30
"""Steps at most that are timed with the L2 cache flushed before each."""

GENERATED = {"cpu": "cpp_fused", "cuda": "triton_"}
"""Part of the names that Inductor gives to its kernels."""


def time_workload(job: dict[str, Any], progress: Progress = lambda _: None) -> dict[str, Any]:
    """Time a workload's step; successive steps take its inputs in turn.

    `job`: target, mode, and where wanted preset, batch, dtype, overrides, seed, optimizer, device, threads,
    setting, min_runs, min_time_s, max_time_s, in_turn, reference_network. Returns an entry of a result's
    `processes`, and `environment`; with a `reference_network`, the folder of a network that takes turns with it for `max_time_s`, also
    `reference_latency_s`, one for each of `window_latency_s`.
    """
    from statsnet.workloads import build, make_step

    options = {key: job[key] for key in ("preset", "batch", "dtype", "overrides", "seed") if key in job}
    built = build(job["target"], mode=job["mode"], device=job.get("device", "cpu"), **options)
    setting = setting_of(job)
    convert_module(setting, built.model)
    if runtime := setting.in_process.get(RUNTIME):
        return _timed(exported_workload(runtime, built), job, progress)
    step = make_step(built, optimizer=job.get("optimizer"))
    turn = count()
    return _timed(lambda: step(next(turn)), job, progress)


def time_proxy(job: dict[str, Any], progress: Progress = lambda _: None) -> dict[str, Any]:
    """Time a proxy's step.

    `job`: folder, and where wanted network_sha256, device, threads, setting, min_runs, min_time_s,
    max_time_s, in_turn. Returns as `time_workload`.
    """
    device = job.get("device", "cpu")
    network = load_network(job["folder"], sha256=job.get("network_sha256"))
    setting = setting_of(job)
    proxy = convert_module(setting, network.build(device))
    if runtime := setting.in_process.get(RUNTIME):
        return _timed(exported_proxy(runtime, network, proxy, device), job, progress)
    return _timed(network.make_step(proxy, device), job, progress)


def _timed(step: Callable[[], Any], job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    device = job.get("device", "cpu")
    setting = setting_of(job)
    limits = {key: job[key] for key in ("min_runs", "min_time_s", "max_time_s") if key in job}
    wrapped = wrap_step(setting, step, device)
    compiled = "compile" in setting.in_process
    if compiled:
        wrapped()  # what the compiler takes is no part of a step
    if job.get("in_turn"):
        process = take_turns(
            wrapped, sys.stdin, progress, device=device, limit_s=job.get("max_time_s", WARM_UP_S)
        )
    elif "reference_network" in job:
        process = _beside(
            ReferenceNetwork(job["reference_network"], device), wrapped, device, job["max_time_s"]
        )
    elif device.startswith("cuda"):
        process = measure_on_gpu(wrapped, device, **limits)
    else:
        quiet_machine = QuietMachine(device)
        process = quiet_machine.measure(partial(measure, wrapped, device=device, **limits))
        process["warnings"] += quiet_machine.warnings
    if compiled:
        process["generated_share"] = _generated_share(wrapped, device)
    environment = describe(device)
    environment["settings"] |= record(setting)
    return {**process, "environment": environment}


def measure_on_gpu(step: Callable[[], object], device: str, **limits: Any) -> dict[str, Any]:
    """As `measure`, with what the GPU drew (`power`, see power.py) and `flushed_latency_s`: some steps more, before
    each of which its L2 cache is overwritten.

    A run in which the GPU was slowed down is made again, ATTEMPTS times in all, and is not stable if it was in the last
    one too, or held at its power cap.
    """
    attempts = 0
    while attempts < ATTEMPTS:
        attempts += 1
        with Meter(device) as meter:
            process = measure(step, device=device, **limits)
        power = meter.record(len(process["latency_s"]) + len(process["warmup_latency_s"]))
        if not slowed_down(power):
            break
    process["power"] = power
    _mark_throttled(process)
    flushed = _flushed(step, device, runs=min(len(process["latency_s"]), FLUSHED_RUNS))
    return {**process, "attempts": attempts, "flushed_latency_s": flushed}


def _flushed(step: Callable[[], object], device: str, runs: int) -> list[float]:
    cache_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    flush = torch.empty(2 * cache_bytes, dtype=torch.uint8, device=device)
    times = []
    for _ in range(runs):
        flush.zero_()
        times.append(time_once(step, device, time.perf_counter))
    return times


def _beside(
    reference_network: ReferenceNetwork, step: Callable[[], object], device: str, time_s: float
) -> dict[str, Any]:
    process = take_turns(
        step, reference_network.looks(time_s), lambda _: None, device=device, limit_s=time_s / 2
    )
    return {**process, "reference_latency_s": reference_network.latency_s}


def take_turns(
    step: Callable[[], object],
    commands: Iterable[Any],
    report: Progress,
    *,
    device: str = "cpu",
    limit_s: float = WARM_UP_S,
) -> dict[str, Any]:
    """Warm up for `limit_s` at most, then time a window of steps for each of `commands` (in_turn.py sends
    lines).

    Returns an entry of a result's `processes` with `window_latency_s`, and on a GPU `power` over the windows; one whose
    GPU was slowed down in any is not stable.
    """
    on_gpu = device.startswith("cuda")
    meter = Meter(device)
    timed = partial(time_once, step, device, time.perf_counter)
    warmup, settled = warm_up(timed, window_s=WINDOW_S / 2, limit_s=limit_s)
    usual_s = median(warmup[-3:])
    quiet_machine = QuietMachine(device)
    times: list[float] = []
    windows: list[float] = []

    def one_window() -> list[float]:
        if usual_s < WINDOW_S / 4:
            timed()  # brings back what the others' turns drove out of the caches
        with meter if on_gpu else nullcontext():
            end = time.perf_counter() + WINDOW_S
            window = [timed()]
            while time.perf_counter() < end:
                window.append(timed())
        return window

    report({"ready": True})
    for _ in commands:
        window = quiet_machine.measure(one_window)
        times += window
        windows.append(median(window))
        report({"window_s": windows[-1], "waited_s": quiet_machine.waited_s})
    process = {
        "latency_s": times,
        "warmup_latency_s": warmup,
        "stable": settled and precision(times) < PRECISION,
        "warnings": [
            *([] if settled else ["the warm-up did not settle: raise --max-time"]),
            *quiet_machine.warnings,
        ],
        "window_latency_s": windows,
    }
    if on_gpu:
        process["power"] = meter.record(max(len(times), 1))
        _mark_throttled(process)
    return process


def _mark_throttled(process: dict[str, Any]) -> None:
    if throttled := process["power"]["throttled"]:
        process["stable"] = False
        cause = f"the GPU was throttled ({', '.join(throttled)})"
        process["warnings"].append(f"{cause}: cool it, raise its power limit, or lock its clocks lower")


def _generated_share(step: Callable[[], Any], device: str) -> float:
    """Share of a step's time that is spent in kernels which Inductor generated."""
    kind = device.partition(":")[0]
    step()
    with profiling(kind) as session:
        step()
    found = StepEvents.take(session)
    ran: list[Any] = [*found.on_device] if kind == "cuda" else found.inside
    generated_s = sum(each.elapsed_s for each in ran if GENERATED[kind] in each.name)
    return min(generated_s / found.step.elapsed_s, 1.0)
