"""The timeline: times of events joined to captured calls.

The CUDA events are written from torch's and CUPTI's documentation, not recorded on a GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from profiling_helpers import Record, call, convnet, event, flat, training_step
from torch._C._autograd import DeviceType
from torch.profiler import profile

from statsnet.errors import ModelError
from statsnet.measure.profiler_events import STEP_LABEL, StepEvents, profiling
from statsnet.profiling import trace as trace_module
from statsnet.profiling.capture import OpCall
from statsnet.profiling.timeline import Timeline, event_overhead_s, read_step
from statsnet.profiling.trace import trace_step

US = 1e-6


def cpu_step(*roots: Record, length: float = 100.0) -> list[Record]:
    return flat(event(STEP_LABEL, 0.0, length, *roots))


def read_events(records: list[Record], calls: list[OpCall], **options: Any) -> Timeline:
    return read_step(StepEvents.of(records), calls, **options)


def test_operator_and_framework_time_of_a_cpu_step() -> None:
    linear = event("aten::linear", 10, 40, event("aten::t", 11, 13), event("aten::addmm", 15, 35))
    events = cpu_step(linear, event("aten::relu", 50, 60, event("aten::clamp_min", 51, 59)))
    line = read_events(events, [call("aten.addmm.default"), call("aten.relu.default")], device="cpu")
    assert line.op_time_s == pytest.approx([20 * US, 10 * US])
    assert line.step_s == pytest.approx(100 * US)
    assert line.framework_s == pytest.approx(70 * US)
    assert (line.idle_s, line.unmatched, line.events) == (0.0, 0, 5)


def test_recording_of_events_is_taken_off() -> None:
    relu = event("aten::relu", 50, 60, event("aten::clamp_min", 51, 59))
    line = read_events(cpu_step(relu), [call("aten.relu.default")], device="cpu", event_overhead_s=2 * US)
    assert line.op_time_s == pytest.approx([8 * US])  # the event's own recording lies outside it
    assert line.framework_s == pytest.approx((100 - 2 * 2 - 8) * US)


def test_events_before_and_after_the_step_are_left_out() -> None:
    events = [
        event("aten::relu", -20, -10),
        *cpu_step(event("aten::relu", 5, 9)),
        event("aten::relu", 101, 102),
    ]
    line = read_events(events, [call("aten.relu.default")], device="cpu")
    assert line.op_time_s == pytest.approx([4 * US])


def test_views_are_not_joined() -> None:
    calls = [call("aten.view.default", metadata=True), call("aten.relu.default")]
    line = read_events(cpu_step(event("aten::relu", 5, 9)), calls, device="cpu")
    assert line.op_time_s[0] is None
    assert line.unmatched == 0


def test_a_composite_of_the_same_name_as_a_call_is_entered_where_the_order_asks_for_it() -> None:
    inner = [event("aten::scalar_tensor", 11, 12), event("aten::where", 13, 20)]
    line = read_events(
        cpu_step(event("aten::where", 10, 22, *inner)),
        [call("aten.scalar_tensor.default"), call("aten.where.self")],
        device="cpu",
    )
    assert line.op_time_s == pytest.approx([1 * US, 7 * US])


def test_another_order_is_joined_by_name() -> None:
    events = cpu_step(event("aten::mm", 0, 3), event("aten::exp", 10, 15), event("aten::mm", 20, 27))
    calls = [
        call("aten.mm.default"),
        call("aten.mm.default"),
        call("aten.exp.default"),
        call("aten.neg.default"),
    ]
    line = read_events(events, calls, device="cpu")
    assert line.op_time_s == [pytest.approx(3 * US), pytest.approx(7 * US), pytest.approx(5 * US), None]
    assert line.unmatched == 1


@pytest.mark.parametrize(
    ("recorded", "op"),
    [("aten::add_", "aten.add.Tensor"), ("aten::_index_put_impl_", "aten.index_put.default")],
)
def test_the_engine_works_in_place_where_the_capture_does_not(recorded: str, op: str) -> None:
    line = read_events(cpu_step(event(recorded, 0, 3)), [call(op, phase="backward")], device="cpu")
    assert line.op_time_s == pytest.approx([3 * US])


@pytest.mark.parametrize("in_order", [True, False])
def test_the_copy_that_autograd_saves_has_a_time_of_its_own(in_order: bool) -> None:
    clamp = event("aten::hardtanh_", 10, 30, event("aten::clone", 12, 18))
    others = [] if in_order else [call("aten.neg.default")]
    line = read_events(
        cpu_step(clamp), [*others, call("aten.clone.default"), call("aten.hardtanh_.default")], device="cpu"
    )
    assert line.op_time_s[-2:] == pytest.approx([6 * US, 14 * US])
    assert line.framework_s == pytest.approx(80 * US)


def test_operators_of_other_libraries_are_joined_by_the_name_they_are_recorded_under() -> None:
    events = cpu_step(event("acme::secret", 0, 4), event("torchvision::nms", 5, 9))
    calls = [call("custom.opaque.default", event="acme::secret"), call("torchvision.nms.default")]
    assert read_events(events, calls, device="cpu").op_time_s == pytest.approx([4 * US, 4 * US])


def test_segments_are_added_up_by_name() -> None:
    ranges = [event("segment:a", 0, 10, event("aten::mm", 1, 9)), event("segment:a", 20, 25)]
    line = read_events(cpu_step(*ranges), [call("aten.mm.default")], device="cpu", event_overhead_s=1 * US)
    assert line.segment_s == pytest.approx({"a": (10 - 2 + 5 - 1) * US})


def test_operator_and_idle_time_of_a_cuda_step() -> None:
    launch = event("cudaLaunchKernel", 12, 14, thread=77, correlation=90, linked=2)
    mm = event("aten::mm", 10, 20, launch, correlation=2)
    relu = event("aten::relu", 25, 30, event("aten::clamp_min", 26, 29, correlation=4), correlation=3)
    gpu = {"device": DeviceType.CUDA}
    on_device = [
        event("ampere_sgemm_128x64_nn", 15, 45, linked=2, **gpu),
        event("relu", 50, 55, linked=3, **gpu),
        event("relu_tail", 54, 58, linked=4, **gpu),  # overlaps on another stream
        event(STEP_LABEL, 0, 100, annotation=True, **gpu),
        event("segment:a", 0, 60, annotation=True, linked=2, **gpu),
    ]
    line = read_events(
        [*cpu_step(mm, relu), *on_device],
        [call("aten.mm.default"), call("aten.relu.default")],
        device="cuda",
    )
    assert line.op_time_s == pytest.approx([30 * US, 9 * US])
    assert [(k.name, k.elapsed_s) for k in line.op_kernels[0]] == [("ampere_sgemm_128x64_nn", pytest.approx(30 * US))]
    assert line.idle_s == pytest.approx((100 - 30 - 8) * US)
    assert line.framework_s == 0.0


def test_a_call_without_a_kernel_takes_no_time_on_a_gpu() -> None:
    line = read_events(cpu_step(event("aten::mm", 0, 9)), [call("aten.mm.default")], device="cuda")
    assert line.op_time_s == [0]


def test_threads_nest_apart_and_what_ends_on_another_thread_is_left_out() -> None:
    backward = event("aten::mm", 20, 30, event("aten::copy_", 22, 24, thread=2), thread=2)
    records = [
        *cpu_step(event("aten::exp", 10, 40)),
        *flat(backward),
        event("recv", 5, 90, asynchronous=True),
    ]
    step = StepEvents.of(records)
    assert [e.name for e in step.roots] == ["aten::exp", "aten::mm"]
    assert [[c.name for c in e.children] for e in step.roots] == [[], ["aten::copy_"]]
    assert [e.name for e in step.inside] == ["aten::exp", "aten::mm", "aten::copy_"]


def test_kernels_that_were_launched_before_the_step_are_no_part_of_it() -> None:
    """Such as a barrier's. One that was launched in the step stays, though the device's clock is behind."""
    records = [
        event("c10d::barrier", -9, -8, correlation=1), event("aten::mm", 1, 5, correlation=2),
        event("nccl", -7, 40, device=DeviceType.CUDA, linked=1), event("gemm", -1, 9, device=DeviceType.CUDA, linked=2),
        event("early", -5, -4, device=DeviceType.CUDA), event("late", 50, 60, device=DeviceType.CUDA),
    ]  # fmt: skip
    step = StepEvents.of([event(STEP_LABEL, 0, 100, correlation=9), *records])
    assert [kernel.name for kernel in step.on_device] == ["gemm", "late"]


def test_what_a_collective_does_in_a_thread_of_its_own_is_its_own() -> None:
    """Its works may overlap, and hold operators at their very ends."""
    works = [event("gloo:all_reduce", *span, thread=2, asynchronous=True) for span in ((10, 20), (15, 30), (50, 60))]
    operators = [event("aten::add_", start, start + 1, thread=2) for start in (9, 10, 25, 30, 31, 50, 61)]
    own = event("gloo:all_reduce", 5, 95, thread=1, asynchronous=True)
    inside = StepEvents.of([event(STEP_LABEL, 0, 100), event("aten::mul", 12, 13), *operators, *works, own]).inside
    assert [(e.name, e.start_ns // 1000) for e in inside] == [
        ("aten::add_", 9), ("aten::mul", 12), ("aten::add_", 31), ("aten::add_", 61),
    ]  # fmt: skip


def test_no_event_that_torch_itself_builds_is_missing() -> None:
    step = training_step(convnet(), torch.randn(2, 3, 8, 8))
    with profiling("cpu", record_shapes=True) as session:
        step()
    theirs = Counter((e.name, str(e.input_shapes)) for e in session.events())  # type: ignore[union-attr]
    ours = StepEvents.take(session)
    our_events = Counter((e.name, str(e.shapes)) for e in (ours.step, *ours.inside))
    assert not theirs - our_events
    # torch folds an event and the only one inside it, of the same name
    assert {name for name, _ in our_events} == {name for name, _ in theirs}
    assert sum(len(e.children) for e in (ours.step, *ours.inside)) == len(ours.inside)


def test_a_session_is_empty_once_it_is_read() -> None:
    with profiling("cpu") as session:
        torch.ones(3).exp()
    StepEvents.take(session)
    assert session.profiler is not None
    assert session.profiler.kineto_results is None


def test_a_step_with_a_profiler_of_its_own_is_refused() -> None:
    with profiling("cpu") as session, profile():
        torch.ones(3).exp()
    with pytest.raises(ModelError, match="cannot be profiled"):
        StepEvents.take(session)


@pytest.mark.parametrize("inplace", ["nothing", "relu6"])
def test_every_call_of_a_real_training_step_has_a_time(inplace: str) -> None:
    model = convnet()
    if inplace == "relu6":
        model[2] = torch.nn.ReLU6(inplace=True)
    step = training_step(model, torch.randn(2, 3, 8, 8))
    trace = trace_step(lambda _: step(), repeats=2)
    assert trace.unmatched_calls == 0
    assert [(c.op, c.time_s) for c in trace.calls if not c.metadata and not (c.time_s or 0) > 0] == []
    assert len(trace.step_latency_s) == len(trace.profiled_latency_s) == 2
    assert all(s > 0 for s in (*trace.step_latency_s, *trace.warmup_latency_s, trace.framework_time_s))
    explained_s = trace.op_time_s + (trace.framework_time_s or 0.0)
    assert trace.unexplained_share == pytest.approx(abs(trace.latency_s - explained_s) / trace.latency_s)


@pytest.mark.parametrize(("little", "runs"), [(0.0, 2), (math.inf, 1)])
def test_a_long_step_to_which_recording_adds_little_runs_once_for_both_times(
    little: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first pair has shown that both times are alike."""
    for name, value in {"LONG_STEP_S": 0.0, "SETTLING_TIME_S": 0.0, "LITTLE": little, "ALIKE": math.inf}.items():
        monkeypatch.setattr(trace_module, name, value)
    ran = []
    trace = trace_step(lambda number: ran.append(torch.ones(number + 1).exp()), warmup=1, repeats=4)
    pairs = len(trace.profiled_latency_s)
    assert len(trace.all_steps_s) == pairs >= 3
    further = 0 if runs == 1 else pairs - 1
    assert len(ran) == 1 + 1 + 1 + pairs + 1 + further, "warm-up, capture, first session, profiled steps, bare ones"


@pytest.mark.parametrize(
    ("bare", "profiled", "alike"),
    [
        ([1.0, 1.3], [1.3, 1.01], [False, True]),
        ([1.3, 1.0], [1.0, 1.3], [False, True]),
        ([1.0, 1.2], [1.1, 1.1], [False, False]),
    ],
    ids=["others ran in one of each pair", "they ran in the other one first", "recording takes a tenth"],
)
def test_the_fastest_steps_tell_whether_both_kinds_are_alike(
    bare: list[float], profiled: list[float], alike: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_module, "own_s", lambda line, *_: line.step_s)
    runs, lines = iter(bare), (SimpleNamespace(step_s=s) for s in profiled)
    pair = trace_module._Pair(
        run=lambda: next(runs), profile=lambda _: next(lines), overhead_s=0.0, on_cpu=True, is_long=True
    )
    found = []
    for _ in profiled:
        pair.measure()
        found.append(pair.are_alike)
    assert found == alike


def test_recording_an_event_costs_microseconds() -> None:
    """On a busy machine some of the calls wait for a core: for a hundred times as long as recording them takes."""
    assert 0 <= event_overhead_s(calls=200) < 1e-3
