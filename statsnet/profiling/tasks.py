"""What profiling does in a process of its own: a workload's signature, and the replay of one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from statsnet import environment
from statsnet.measure.gpu_power import drawn_by
from statsnet.measure.ncu import run_in_range
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.compiled_step import trace_compiled_step
from statsnet.profiling.gpu_activity import launches_of
from statsnet.profiling.kernels import kernel_class
from statsnet.profiling.memory import memory_record
from statsnet.profiling.replay import count_clusters, replay_clusters
from statsnet.profiling.trace import StepTrace, trace_step
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Measurement, Signature
from statsnet.workloads import BuiltWorkload, Step, build, make_step
from statsnet.workloads.settings import Setting, autocast, convert_module, record, setting_of, wrap_step

Progress = Callable[[dict[str, Any]], None]

AS_A_WHOLE = frozenset({"compile", "graphs"})
"""Settings under which a step runs in one piece (see recorded_step.py)."""

MAX_VARIANTS = 4
"""Distinct inputs that are profiled one by one where shapes vary from step to step."""


def profile_workload(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Job: target, mode, preset, batch, dtype, device, overrides, seed, optimizer, loss, setting. Result: signature; of
    a GPU also `launches`, its kernels in their order."""
    progress({"stage": "building the model", "done": 0.0})
    built, step = _built(job)
    if built.device == "meta":
        signature, bare_s = _count(built, step, job)
        return {"signature": signature.to_dict(), "measured_s": bare_s}
    return _measure(built, step, job, progress)


def count_workload(job: dict[str, Any]) -> dict[str, Any]:
    """Make the steps whose kernels `profile_workload` names in `launches`, for the same job, within ncu.RANGE."""
    built, step = _built(job)
    setting = setting_of(job)
    if "compile" in setting.in_process:
        convert_module(setting, built.model)
    variants = built.input_groups()[:MAX_VARIANTS]

    def steps() -> None:
        for group in variants:
            step(group[0])

    with autocast(setting, built.device):
        run_in_range(steps, built.device)
    return {}


def _built(job: dict[str, Any]) -> tuple[BuiltWorkload, Step]:
    built = build(
        job["target"],
        mode=job["mode"],
        preset=job.get("preset"),
        batch=job.get("batch"),
        dtype=job.get("dtype", "float32"),
        device=job.get("device", "cpu"),
        overrides=job.get("overrides", {}),
        seed=job.get("seed", 0),
    )
    convert_module(_as_it_stands(setting_of(job)), built.model)
    return built, make_step(built, optimizer=job.get("optimizer"))


def _as_it_stands(setting: Setting) -> Setting:
    """The setting, but for what makes one piece of a step."""
    kept = {key: value for key, value in setting.in_process.items() if key not in AS_A_WHOLE}
    return replace(setting, in_process=kept)


def _count(built: BuiltWorkload, step: Step, job: dict[str, Any]) -> tuple[Signature, float]:
    """Counts on fake tensors: nothing is allocated and nothing is timed."""
    begin = time.perf_counter()
    if job["mode"] == "training":
        step(0)  # makes the optimizer's state
    calls: list[OpCall] = []

    def captured() -> None:
        calls.extend(capture_step(lambda: step(0), device="meta", phases=_phases(step)))

    # in one run: a step of long recurrent layers takes minutes on fake tensors
    memory = _memory(built, captured, step.optimizer, "meta")
    for call in calls:
        call.metadata = is_metadata(call.op)
    trace = StepTrace(device="meta", calls=calls, implementations=["unknown"] * len(calls))
    signature = build_signature(
        [trace],
        memory=memory,
        environment=None,
        shares=[1.0],
        **_identity(built, step, job),
    )
    return signature, time.perf_counter() - begin


def _measure(built: BuiltWorkload, step: Step, job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    begin = time.perf_counter()
    variants = built.input_groups()[:MAX_VARIANTS]
    kind = environment.select(built.device)
    setting = setting_of(job)
    whole = AS_A_WHOLE & setting.in_process.keys()
    limits = {"repeats": max(2, 5 // len(variants)), "min_time_s": job.get("min_time_s", 2.0) / len(variants)}

    def run(index: int) -> Any:
        with autocast(setting, built.device):
            return step(index)

    traces = [
        trace_step(
            run,
            device=kind,
            warmup=3 if number == 0 else 1,
            phases=_phases(step),
            on_progress=lambda stage, done: progress({"stage": stage, "done": done}),
            inputs=group,
            **({"repeats": 2} if whole else limits),
        )
        for number, group in enumerate(variants)
    ]
    turn = itertools.cycle(range(len(built.inputs)))
    repeated: Callable[[], Any] = lambda: run(next(turn))  # noqa: E731
    if whole:
        step.on_phase = None
        convert_module(setting, built.model)
        pieces = [wrap_step(setting, _in_turn(step, group), built.device) for group in variants]
        traces = [
            trace_compiled_step(piece, alone, **limits) for piece, alone in zip(pieces, traces, strict=True)
        ]
        order = itertools.cycle(pieces)
        repeated = lambda: next(order)()  # noqa: E731
    described = environment.describe(built.device)
    described["settings"] |= record(setting)
    shares = [len(group) for group in variants]
    weights = [share / sum(shares) for share in shares]
    signature = build_signature(
        traces,
        shares=weights,
        memory=_memory(built, lambda: step(0), step.optimizer, kind),
        environment=described,
        power=drawn_by(repeated, built.device) if kind == "cuda" else None,
        **_identity(built, step, job),
    )
    found = {"signature": signature.to_dict(), "measured_s": time.perf_counter() - begin}
    if kind == "cuda":
        found["launches"] = [launch.to_dict() for launch in launches_of(traces, weights)]
    return found


def _in_turn(step: Step, group: Sequence[int]) -> Callable[[], Any]:
    turn = itertools.cycle(group)
    return lambda: step(next(turn))


def _memory(built: BuiltWorkload, run: Callable[[], Any], optimizer: Any, kind: str) -> dict[str, int | None]:
    return memory_record(built.model, built.inputs[:1], run, device=kind, optimizer=optimizer)


def _identity(built: BuiltWorkload, step: Step, job: dict[str, Any]) -> dict[str, Any]:
    """A shipped workload whose sizes were set by hand is the user's own: its name would stand for another model. So is
    one whose step was run otherwise than it stands: by its name it would be timed as it stands."""
    shipped = built.workload if built.workload and built.workload.builtin else None
    shipped = None if job.get("overrides") or setting_of(job).in_process else shipped
    return {
        "mode": job["mode"],
        "dtype": built.dtype,
        "batch": built.batch,
        "optimizer": step.optimizer_name if job["mode"] == "training" else None,
        "workload": {"domain": shipped.domain, "name": shipped.name, "preset": built.preset or ""}
        if shipped
        else None,
    }


def _phases(step: Step) -> Callable[[Callable[[str], None] | None], None]:
    def install(callback: Callable[[str], None] | None) -> None:
        step.on_phase = callback

    return install


def replay(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Job: signature (a dict), device. Result: the signature's measurement in this environment by replay; of a GPU also
    `launches`, the kernels of a call of each cluster."""
    torch.manual_seed(0)
    signature = Signature.from_dict(job["signature"])
    device = job.get("device", "cpu")
    found = replay_clusters(
        signature.clusters,
        device=environment.select(device),
        progress=lambda done: progress({"stage": "replaying operators", "done": done}),
    )
    recorded = signature.measurements[0] if signature.measurements else None
    slower = _slower(signature, found.times, recorded)
    per_step = _fill_gaps(signature, found.times, recorded, slower)
    # What lies between operators is the model's own and cannot be replayed: as much slower as its operators.
    framework = (recorded.framework_time_s or 0.0) * slower if recorded else 0.0
    implementations = [k or "unknown" for k in found.kernels]
    measurement = {
        "environment": environment.describe(device),
        "step_latency_s": [sum(t or 0.0 for t in per_step) + framework],
        "warmup_latency_s": [],
        "profiled_latency_s": [],
        "cluster_time_s": per_step,
        "kernels": implementations,
        "kernel_class": [
            kernel_class(c.op, list(c.args), list(c.outputs), k)
            for c, k in zip(signature.clusters, implementations, strict=True)
        ],
        "launches": recorded.launches if recorded else sum(c.calls for c in signature.clusters),
        "framework_time_s": framework,
        "idle_time_s": 0.0,
        "unexplained_share": 0.0,
        "coefficient_of_variation": 0.0,
        "source": "replay",
    }
    launches = [launch.to_dict() for launch in found.launches]
    return {
        "measurement": measurement,
        "failures": found.failures,
        **({"launches": launches} if measurement["environment"]["device"] == "cuda" else {}),
    }


def count_replay(job: dict[str, Any]) -> dict[str, Any]:
    """Run the operators whose kernels `replay` names in `launches`, for the same job, within ncu.RANGE."""
    torch.manual_seed(0)
    signature = Signature.from_dict(job["signature"])
    count_clusters(signature.clusters, device=environment.select(job.get("device", "cpu")))
    return {}


def _slower(signature: Signature, times: list[float | None], recorded: Measurement | None) -> float:
    """How many times as long the operators take here as where they were recorded."""
    if recorded is None:
        return 1.0
    pairs = [
        (t * c.calls, r)
        for t, c, r in zip(times, signature.clusters, recorded.cluster_time_s, strict=True)
        if t is not None and r is not None
    ]
    return sum(t for t, _ in pairs) / max(sum(r for _, r in pairs), 1e-12)


def _fill_gaps(
    signature: Signature, times: list[float | None], recorded: Measurement | None, slower: float
) -> list[float | None]:
    """Seconds per step; a cluster that could not be replayed keeps its recorded time, scaled as the others were."""
    per_step = [None if t is None else t * c.calls for t, c in zip(times, signature.clusters, strict=True)]
    if recorded is None:
        return per_step
    return [
        r * slower if t is None and r is not None else t
        for t, r in zip(per_step, recorded.cluster_time_s, strict=True)
    ]
