"""Steps that run as a whole: launched as a graph (events that are played), and compiled for real on a CPU."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from profiling_helpers import call

from statsnet.errors import MeasurementError
from statsnet.measure.device_kernels import Kernel
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling import compiled_step
from statsnet.profiling.compiled_step import trace_compiled_step
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of_mix
from statsnet.workloads.settings import parse_setting

US = 1e-6
NCF = ProfileWorkload(model=Model(target="recsys/ncf", preset="tiny", mode="inference"), min_time_s=0.0)


def alone() -> StepTrace:
    calls = [call("aten.mm.default", time_s=30 * US), call("aten.relu.default", time_s=4 * US)]
    kernels = [(0, Kernel("sgemm", 0, 30_000)), (1, Kernel("relu<4>", 60_000, 64_000))]
    return StepTrace(
        device="cuda", calls=calls, implementations=["sgemm", "relu"], on_device=[*kernels], kernels_launched=2,
        step_latency_s=[100 * US],
    )  # fmt: skip


def play(monkeypatch: pytest.MonkeyPatch, *kernels: Kernel, step_s: float) -> None:
    """The whole step takes so long, and these run in it."""
    step = SimpleNamespace(elapsed_s=step_s)
    events = SimpleNamespace(step=step, on_device=[*kernels], inside=[])
    monkeypatch.setattr(compiled_step, "timed", lambda _step, _device: lambda: step_s)
    monkeypatch.setattr(compiled_step, "profiling", lambda _device: nullcontext())
    monkeypatch.setattr(compiled_step, "StepEvents", SimpleNamespace(take=lambda _session: events))


def test_a_graphs_kernels_are_those_of_the_step_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Kernel("sgemm", 0, 28_000), Kernel("relu<8>", 29_000, 32_000), step_s=40 * US)
    trace = trace_compiled_step(lambda: None, alone())
    assert [c.time_s for c in trace.calls] == pytest.approx([28 * US, 3 * US])
    assert trace.idle_time_s == pytest.approx(9 * US)
    assert trace.unexplained_share == pytest.approx(0.0)
    assert [place for place, _ in trace.on_device] == [0, 1]
    assert trace.latency_s == pytest.approx(40 * US)


def test_of_a_compilers_kernels_no_operator_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Kernel("triton_poi_fused_mm_relu_0", 0, 30_000), step_s=40 * US)
    trace = trace_compiled_step(lambda: None, alone())
    assert [c.time_s for c in trace.calls] == [None, None]
    assert [place for place, _ in trace.on_device] == [None]
    assert (trace.kernels_launched, trace.unexplained_share) == (1, None)


@pytest.fixture(scope="module")
def compiled() -> Signature:
    return NCF.run(Context(setting=parse_setting("compile=inductor"))).signature


def test_a_compiled_step_has_counts_and_a_time(compiled: Signature) -> None:
    (measurement,) = compiled.measurements
    assert measurement.latency_s > 0
    assert set(measurement.cluster_time_s) == {None}
    assert measurement.environment["settings"]["compile"] == "inductor"
    assert compiled.flops_per_step > 0
    assert Signature.from_dict(compiled.to_dict()) == compiled


def test_no_proxy_is_made_of_it(compiled: Signature) -> None:
    member: Any = MixMember(name="recsys/ncf", weight=1.0, signature=compiled, source="database", path=None)  # type: ignore[arg-type]
    with pytest.raises(MeasurementError, match="timed as a whole only"):
        target_of_mix(Mix(mode="inference", members=(member,)))


def test_an_eager_step_under_autocast_has_its_operators_in_that_dtype() -> None:
    signature = NCF.run(Context(setting=parse_setting("dtype=bfloat16"))).signature
    products = [c for c in signature.clusters if c.category == "gemm"]
    assert {c.outputs[0]["dtype"] for c in products} == {"bfloat16"}
    assert signature.measurements[0].environment["settings"]["dtype"] == "bfloat16"
    assert signature.workload is None  # its name would stand for the step as it is
    assert torch.is_autocast_enabled("cpu") is False
