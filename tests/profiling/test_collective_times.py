"""When collectives ran and who waited, from events written by hand."""

from __future__ import annotations

import pytest
from profiling_helpers import Record, call, event, flat
from torch._C._autograd import DeviceType

from statsnet.measure.profiler_events import STEP_LABEL, StepEvents
from statsnet.profiling.collective_times import Wait, in_bare_step, mean_waits
from statsnet.profiling.step_trace import joined_trace
from statsnet.profiling.timeline import Timeline, read_step
from statsnet.profiling.unseen import in_one_thread

US = 1e-6
REDUCE, MM = "c10d.allreduce_.default", "aten.mm.default"


def work(start: float, end: float, *inside: Record) -> Record:
    """Of gloo's, in a thread of its own."""
    return event("gloo:all_reduce", start, end, *inside, thread=2, asynchronous=True)


def other(name: str, start: float, end: float) -> Record:
    return event(name, start, end, thread=2, asynchronous=True)


def timeline(ops: list[str], *events: Record, device: str = "cpu", rest: tuple[Record, ...] = ()) -> Timeline:
    records = [*flat(event(STEP_LABEL, 0, 100, *events)), *flat(*rest)]
    step = StepEvents.of(records)
    own = in_one_thread(step) if device == "cpu" else step  # as the steps of a loop are read
    return read_step(own, [call(op) for op in ops], device=device)


def waits(line: Timeline) -> list[tuple[float, float, float]]:
    """Time, exposed time and exposed time alone of each, in microseconds."""
    return [tuple(round(s / US, 6) for s in (w.time_s, w.exposed_s, w.alone_s)) for w in line.waits.each]  # type: ignore[misc]


def test_a_collective_that_ends_while_something_is_computed_was_not_waited_for() -> None:
    events = (event("c10d::allreduce_", 10, 12), event("aten::mm", 20, 60))
    line = timeline([REDUCE, MM], *events, rest=(work(11, 50),))
    assert waits(line) == [(40, 0, 0)]
    assert line.op_time_s == pytest.approx([2 * US, 40 * US])
    assert line.framework_s == pytest.approx(58 * US)
    assert line.waits.each[0].start_share == pytest.approx(0.1)


def test_a_pause_in_which_it_ends_is_waiting_and_no_framework_time() -> None:
    events = (event("c10d::allreduce_", 10, 12), event("aten::mm", 20, 40), event("aten::mm", 85, 90))
    line = timeline([REDUCE, MM, MM], *events, rest=(work(11, 80),))
    assert waits(line) == [(70, 40, 40)]
    assert line.op_time_s == pytest.approx([42 * US, 20 * US, 5 * US])
    assert line.framework_s == pytest.approx((100 - 67) * US)


def test_time_in_which_two_are_waited_for_counts_once() -> None:
    events = (event("c10d::allreduce_", 10, 12), event("c10d::allreduce_", 20, 22), event("aten::mm", 90, 95))
    line = timeline([REDUCE, REDUCE, MM], *events, rest=(work(11, 50), work(21, 80)))
    assert waits(line) == [(40, 40, 40), (60, 60, 30)]
    assert sum(t or 0 for t in line.op_time_s) == pytest.approx((2 + 2 + 66 + 5) * US)  # 10 to 80, and the product


def test_waiting_within_an_operator_that_waits_is_no_computing() -> None:
    events = (
        event("_c10d_functional::all_reduce", 10, 20, event("c10d::allreduce_", 11, 19)),
        event("aten::mm", 20, 30),
        event("_c10d_functional::wait_tensor", 32, 60),
        event("aten::mm", 62, 70),
    )
    line = timeline(["_c10d_functional.all_reduce.default", MM, MM], *events, rest=(work(18, 58),))
    assert waits(line) == [(48, 28, 28)]


def test_operators_that_gloo_uses_in_its_thread_are_none_of_the_steps() -> None:
    events = (event("c10d::allreduce_", 10, 12), event("aten::mm", 70, 75))
    used = event("aten::mm", 30, 48, thread=2)
    line = timeline([REDUCE, MM], *events, rest=(work(20, 50), used))
    assert waits(line) == [(40, 40, 40)]
    assert line.op_time_s[1] == pytest.approx(5 * US)


def test_work_goes_to_calls_in_their_order_though_it_begins_later() -> None:
    events = (event("c10d::allreduce_", 1, 2), event("c10d::allreduce_", 3, 4), event("aten::mm", 10, 99))
    line = timeline([REDUCE, REDUCE, MM], *events, rest=(work(5, 40), work(6, 60)))
    assert [w[0] for w in waits(line)] == [39, 57]


def test_a_reduce_scatter_ends_with_the_last_of_its_sums() -> None:
    """gloo sums each tensor of a list by itself."""
    events = (event("c10d::reduce_scatter_", 1, 2), event("c10d::broadcast_", 3, 4), event("aten::mm", 10, 99))
    calls = ["c10d.reduce_scatter_.default", "c10d.broadcast_.default", MM]
    line = timeline(calls, *events, rest=(work(2, 20), work(3, 60), other("gloo:broadcast", 5, 40)))
    assert [w[0] for w in waits(line)] == [59, 37]


def test_work_goes_to_calls_of_its_operation() -> None:
    """gloo has several threads, and begins a later call's work first if another operation's waits for its own."""
    events = (event("c10d::allreduce_", 1, 2), event("c10d::broadcast_", 3, 4), event("aten::mm", 10, 99))
    line = timeline(
        [REDUCE, "c10d.broadcast_.default", MM], *events, rest=(other("gloo:broadcast", 5, 40), work(6, 60))
    )
    assert [w[0] for w in waits(line)] == [59, 37]


@pytest.mark.parametrize("name", ["my_range", "nccl:all_reduce", "gloo:broadcast"])
def test_what_ends_in_another_thread_need_not_be_a_collective_s_work(name: str) -> None:
    events = (event("c10d::allreduce_", 10, 12), event("aten::mm", 20, 60))
    line = timeline([REDUCE, MM], *events, rest=(other(name, 11, 90), work(13, 50)))
    assert waits(line) == [(40, 0, 0)]


def test_on_a_gpu_other_kernels_hide_those_of_nccl() -> None:
    def kernel(name: str, start: float, end: float, linked: int) -> Record:
        return event(name, start, end, device=DeviceType.CUDA, linked=linked)

    events = (
        event("c10d::allreduce_", 1, 3, event("cudaLaunchKernel", 2, 3, linked=1), correlation=1),
        event("aten::mm", 4, 6, event("cudaLaunchKernel", 5, 6, linked=2), correlation=2),
    )
    rest = (kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 50, 1), kernel("sgemm", 20, 40, 2))
    line = timeline([REDUCE, MM], *events, device="cuda", rest=rest)
    assert waits(line) == [(40, 20, 20)]
    assert line.op_time_s == pytest.approx([40 * US, 20 * US])


def test_an_operator_that_a_tensor_hands_on_is_joined_where_it_runs() -> None:
    inner = event("PythonSubclass", 11, 39, event("aten::mm", 20, 30))
    line = timeline([MM], event("aten::mm", 10, 40, inner))
    assert line.op_time_s == pytest.approx([10 * US])


def test_what_ends_after_the_step_was_waited_for_to_its_end_at_most() -> None:
    line = timeline([REDUCE, MM], event("c10d::allreduce_", 10, 12), event("aten::mm", 20, 60), rest=(work(11, 300),))
    assert waits(line) == [(290, 40, 40)]


def of(number: int, time_s: float) -> Wait:
    return Wait(call=number, time_s=time_s, exposed_s=time_s, alone_s=time_s, start_share=0.5)


def test_steps_that_wait_at_other_places_wait_no_longer_than_a_step() -> None:
    """Of each call the median is 3 s of a step of 6 s."""
    steps = [[of(i, 3.0 * (i != last)) for i in range(3)] for last in range(3)]
    assert [(w.call, w.alone_s) for w in mean_waits(steps)] == [(0, 2.0), (1, 2.0), (2, 2.0)]
    other_calls = [[of(i, 6.0)] for i in range(3)]
    assert sum(w.alone_s for w in mean_waits(other_calls)) == 6.0, "each step makes one of three calls"


def test_a_step_waits_no_longer_than_it_takes_however_long_recording_seems_to_take() -> None:
    """Profiled, it took 100 µs and waited for 90; it takes 80, and recording its event should have taken 20."""
    lines = [timeline([REDUCE], event("c10d::allreduce_", 5, 10), rest=(work(8, 95),)) for _ in range(2)]
    trace = joined_trace("cpu", [call(REDUCE)], [], [80 * US] * 2, lines, 20 * US)
    assert sum(w.alone_s for w in trace.waits) == pytest.approx(80 * US)


@pytest.mark.parametrize(("bare_s", "waited_s"), [(1.0, 0.75), (4.0, 3.0), (8.0, 3.0)])
def test_profiled_steps_that_others_slowed_waited_longer_than_a_bare_one(bare_s: float, waited_s: float) -> None:
    (wait,) = in_bare_step([of(0, 3.0)], bare_s, profiled_s=4.0)
    assert (wait.time_s, wait.exposed_s, wait.alone_s, wait.start_share) == (waited_s, waited_s, waited_s, 0.5)
