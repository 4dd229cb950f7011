"""`statsnet.profile` around a loop of one's own."""

from __future__ import annotations

import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
from profiling_helpers import call, event, flat
from torch import nn

import statsnet
from statsnet.errors import DeviceError, MeasurementError, UsageError, warn
from statsnet.measure.profiler_events import STEP_LABEL, Event, StepEvents
from statsnet.profiling.api import profile
from statsnet.profiling.distributed import first_steps
from statsnet.profiling.joining import StepJoin, Variant, nearest_variants
from statsnet.profiling.loop_steps import MAX_ROUNDS, ROUND, Schedule
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.storage import load_signature

US = 1e-6
WARMUPS, ENOUGH = first_steps(), Schedule().needed


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU6(inplace=True), nn.Linear(32, 16))


def train(steps: int, lengths: list[int], **options: object) -> profile:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    with statsnet.profile("mine", model=net, **options) as p:  # type: ignore[arg-type]
        for i in range(steps):
            optimizer.zero_grad()
            net(torch.randn(lengths[i % len(lengths)], 16)).square().mean().backward()
            optimizer.step()
            p.step()
    return p


def test_a_training_loop_of_fixed_shapes(tmp_path: Path) -> None:
    p = train(11, [4], output=tmp_path / "mine.json", batch=4)
    signature = p.signature
    assert signature is not None
    assert load_signature(tmp_path / "mine.json").id == signature.id
    assert_clean(signature.to_dict())
    assert (signature.mode, signature.dtype, signature.optimizer, signature.batch) == (
        "training", "float32", "adamw", 4
    )  # fmt: skip
    assert signature.workload is None
    assert signature.shape_variants == 1
    assert {c.phase for c in signature.clusters} == {"forward", "backward", "optimizer"}
    calls = {c.op: c.calls for c in signature.clusters if c.phase == "forward"}
    assert calls["aten.addmm.default"] == 1.0  # one of each of two shapes
    assert signature.memory.parameter_count == 2 * 16 * 32 + 16 + 32
    measurement = signature.measurements[0]
    assert all(t is not None and t > 0 for t in measurement.cluster_time_s)
    assert len(measurement.step_latency_s) == len(measurement.profiled_latency_s) == 3
    assert len(measurement.warmup_latency_s) == WARMUPS
    assert p.estimated_share == 0.0


def test_a_loop_keeps_its_gradients() -> None:
    net = model()
    with statsnet.profile("mine", model=net) as p:
        for _ in range(first_steps() + len(ROUND)):
            net(torch.randn(4, 16)).square().mean().backward()
            p.step()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_an_inference_loop(capfd: pytest.CaptureFixture[str]) -> None:
    net = model().eval()
    with torch.no_grad(), statsnet.profile("mine", optimizer="sgd") as p:
        for i in range(ENOUGH):
            net(torch.ones(2, 16))
            print(f"step {i}", flush=True)
            p.step()
    assert p.signature is not None
    assert p.signature.mode == "inference"
    assert p.signature.optimizer is None
    assert p.signature.memory.parameter_count == 0
    assert p.signature.memory.activation_bytes is None
    assert capfd.readouterr().out.splitlines() == [f"step {i}" for i in range(ENOUGH)]


def test_shapes_that_vary() -> None:
    p = train(WARMUPS + 8 * len(ROUND), [4, 8])
    signature = p.signature
    assert signature is not None
    assert signature.shape_variants == 2
    rows = Counter()
    for c in signature.clusters:
        if c.op == "aten.addmm.default":
            rows[c.args[1]["shape"][0]] += c.calls  # type: ignore[assignment]
    assert set(rows) == {4, 8}
    assert sum(rows.values()) == pytest.approx(2.0)  # two linear layers in each step
    assert p.estimated_share == 0.0
    assert None not in signature.measurements[0].cluster_time_s


def test_shapes_that_never_come_back_are_estimated_and_that_is_said() -> None:
    p = train(WARMUPS + 4 * len(ROUND), list(range(4, 40)))
    assert p.signature is not None
    assert p.signature.shape_variants == 4
    assert 0 < p.estimated_share < 1
    assert None not in p.signature.measurements[0].cluster_time_s


def test_too_few_steps(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=f"4 steps, {ENOUGH} are needed"):
        train(4, [4], output=tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []


def test_just_enough_steps() -> None:
    assert train(ENOUGH, [4]).signature is not None


def fail_after(steps: int, output: Path) -> None:
    with statsnet.profile("mine", output=output) as p:
        for _ in range(steps):
            torch.ones(3).exp()
            p.step()
        raise ZeroDivisionError


def test_an_exception_passes_through_and_nothing_is_written(tmp_path: Path) -> None:
    for number in range(ENOUGH + 1):  # in each kind of step
        with pytest.raises(ZeroDivisionError):
            fail_after(number, tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []
    assert train(ENOUGH, [4]).signature is not None


def test_one_profile_at_a_time() -> None:
    with statsnet.profile("outer") as outer:
        for _ in range(ENOUGH):
            torch.ones(3).exp()
            outer.step()
        with pytest.raises(UsageError, match="inside another"), statsnet.profile("inner"):
            pass
        with pytest.raises(UsageError, match="outside"):
            statsnet.profile("idle").step()
    assert outer.signature is not None
    with pytest.raises(UsageError, match="outside"):
        outer.step()


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceError), statsnet.profile("mine", device="tpu"):
        pass


def test_a_schedule_gives_every_round_each_kind_in_changing_order_and_ends() -> None:
    schedule = Schedule()
    kinds = [schedule.next() for _ in range(WARMUPS + len(ROUND) * MAX_ROUNDS + 2)]
    assert kinds[:WARMUPS] == ["warmup"] * WARMUPS
    assert kinds[-2:] == ["none"] * 2
    rounds = [tuple(kinds[i : i + 3]) for i in range(WARMUPS, len(kinds) - 2, 3)]
    assert rounds[0] == ROUND
    assert all(sorted(r) == sorted(ROUND) for r in rounds)
    assert len(set(rounds)) == 6


def tensor(*shape: int) -> dict:
    return {"shape": list(shape), "dtype": "float32"}


def step_of(*roots: object) -> StepEvents:
    return StepEvents.of(flat(event(STEP_LABEL, 0, 100, *roots)))  # type: ignore[arg-type]


def test_times_are_joined_call_by_call_else_by_shapes_else_estimated() -> None:
    join = StepJoin(device="cpu", event_overhead_s=0.0)
    first = [call("aten.exp.default", args=[tensor(4)]), call("aten.exp.default", args=[tensor(4)])]
    other = [call("aten.exp.default", args=[tensor(8)])]
    unseen = [call("aten.exp.default", args=[tensor(40)]), call("aten.neg.default", args=[tensor(40)])]
    for calls in (first, other, other, unseen):
        join.add_captured(calls)
    assert [v.times for v in join.variants] == [1, 2, 1]
    four = {"input_shapes": [[4]]}
    join.add_profiled(step_of(event("aten::exp", 0, 2, **four), event("aten::exp", 10, 14, **four)))
    join.add_profiled(step_of(event("aten::exp", 0, 9, input_shapes=[[8]]), event("aten::exp", 20, 26, **four)))
    joined = join.finish()
    assert [c.time_s for c in first] == pytest.approx([2 * US, 4 * US])
    assert other[0].time_s == pytest.approx(9 * US)
    per_element = ((2 + 4 + 6) / 3 + 9) / (4 + 8)
    assert unseen[0].time_s == pytest.approx(40 * per_element * US)
    assert unseen[1].time_s is None
    total = 6 + 2 * 9 + 40 * per_element
    assert joined.estimated_share == pytest.approx(40 * per_element / total)
    assert joined.framework_s == pytest.approx((94 + 85) / 2 * US)


def test_phases_of_a_pooled_step_are_told_apart() -> None:
    join = StepJoin(device="cpu", event_overhead_s=0.0)
    calls = [call("aten.mul.Tensor", phase, args=[tensor(4)]) for phase in ("forward", "backward", "optimizer")]
    join.add_captured(calls)
    shapes = {"input_shapes": [[4]]}
    join.add_profiled(
        step_of(
            event(
                "autograd::engine::evaluate_function: MulBackward0",
                20,
                30,
                event("aten::mul", 21, 23, **shapes),
            ),
            event("aten::mul", 40, 41, **shapes),  # as a clipped gradient
            event("Optimizer.step#SGD.step", 50, 60, event("aten::mul", 51, 54, **shapes)),
            event("aten::mul", 70, 75, **shapes),
        )
    )
    join.finish()
    assert [c.time_s for c in calls] == pytest.approx([5 * US, 2 * US, 2 * US])


@pytest.mark.parametrize("every", [2, 3])
def test_the_optimizers_share_is_that_of_all_steps(every: int) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters())
    steps, optimized = 40, 0
    with statsnet.profile("mine", model=net) as p:
        for i in range(steps):
            net(torch.randn(4, 16)).square().mean().backward()
            if i % every == every - 1:
                optimizer.step()
                optimizer.zero_grad()
                optimized += i >= WARMUPS
            p.step()
    assert p.signature is not None
    calls = sum(c.calls for c in p.signature.clusters if (c.op, c.phase) == ("aten.add_.Tensor", "optimizer"))
    parameters = len(list(net.parameters()))
    assert calls == pytest.approx(parameters * optimized / (steps - WARMUPS), rel=1e-6)


def test_a_kind_of_step_that_was_never_captured_is_an_error() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters())

    def loop() -> None:
        with statsnet.profile("mine") as p:
            for i in range(ENOUGH):
                net(torch.randn(4, 16)).square().mean().backward()
                if i == ENOUGH - 1:  # the last of the first round is left alone
                    optimizer.step()
                p.step()

    with pytest.raises(MeasurementError, match="never captured"):
        loop()


def test_a_rare_kind_of_step_counts_as_the_others() -> None:
    """A GradScaler now and then leaves an optimizer's step out."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters())
    p = statsnet.profile("mine")

    def loop() -> None:
        with p:
            for i in range(WARMUPS + 12 * len(ROUND)):
                net(torch.randn(4, 16)).square().mean().backward()
                if i != WARMUPS + 2:  # the last of the first round is left alone
                    optimizer.step()
                p.step()

    with pytest.warns(UserWarning, match="had 1 step of a kind that was never captured"):
        loop()
    assert p.signature is not None
    calls = sum(c.calls for c in p.signature.clusters if (c.op, c.phase) == ("aten.add_.Tensor", "optimizer"))
    assert calls == pytest.approx(len(list(net.parameters())))


def test_a_rare_kind_that_does_more_is_not_left_out() -> None:
    """With gradient accumulation, few steps have an optimizer."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters())

    def loop() -> None:
        with statsnet.profile("mine") as p:
            for i in range(WARMUPS + 12 * len(ROUND)):
                net(torch.randn(4, 16)).square().mean().backward()
                if i == WARMUPS + 2:
                    optimizer.step()
                p.step()

    with pytest.raises(MeasurementError, match="had 1 step of a kind that was never captured"):
        loop()


def test_that_nothing_can_be_written_is_known_before_the_loop(tmp_path: Path) -> None:
    begun = False
    with pytest.raises(UsageError, match="is a folder"), statsnet.profile("mine", output=tmp_path):
        begun = True
    assert not begun


def test_a_loop_of_two_dtypes_is_mixed() -> None:
    wide, narrow = nn.Linear(16, 16), nn.Linear(16, 16).bfloat16()
    both = nn.ModuleList([wide, narrow])
    for known in (both, None):
        with torch.no_grad(), statsnet.profile("mine", model=known) as p:
            for _ in range(8):
                narrow(wide(torch.randn(4, 16)).bfloat16())
                p.step()
        assert p.signature is not None
        assert p.signature.dtype == "mixed"


def test_what_is_no_argument_is_refused_before_the_loop() -> None:
    with pytest.raises(UsageError, match="is no value for batch"):
        statsnet.profile("mine", batch=-1)
    with pytest.raises(UsageError, match="is no model"):
        statsnet.profile("mine", model=torch.nn.Linear)  # type: ignore[arg-type]
    assert statsnet.profile("mine", device=torch.device("cpu"), batch=numpy.int64(4))._batch == 4  # type: ignore[arg-type]


def test_a_step_of_another_thread_is_refused_and_the_next_loop_is_not() -> None:
    def end_a_step(p: statsnet.profile) -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(p.step).result()

    with pytest.raises(UsageError, match="another thread"), statsnet.profile("mine") as p:
        end_a_step(p)
    with pytest.raises(ZeroDivisionError), statsnet.profile("mine"):
        raise ZeroDivisionError
    with pytest.raises(UsageError, match="profiled before"), p:
        pass


def test_where_warnings_are_errors_what_was_measured_is_kept() -> None:
    with warnings.catch_warnings(record=True) as shown:  # a filter's exception is shown as a warning is
        warnings.simplefilter("error")
        warn("a busy machine", stacklevel=1)
    assert [str(each.message) for each in shown] == ["a busy machine"]


def test_a_step_is_compared_with_the_captured_ones_that_are_most_like_it() -> None:
    """Of loops of other lengths, and of steps of other shapes; additions in place are additions."""

    def made(length: int, rows: int) -> Variant:
        return Variant.of([call("aten.add.Tensor", args=[{"shape": [rows, 4], "dtype": "float32"}] * 2)] * length)

    def step(length: int, rows: int) -> StepEvents:
        events = [Event("aten::add_", i, i + 1, [[rows, 4], [rows, 4], []]) for i in range(length)]
        return StepEvents(step=Event(STEP_LABEL, 0, length, []), inside=events, roots=events, on_device=[])

    by_length = [made(length, 8) for length in range(1, 9)]
    assert nearest_variants(by_length, step(5, 8))[0] == 4
    by_rows = [made(3, rows) for rows in range(1, 11)]
    assert nearest_variants(by_rows, step(3, 7))[0] == 6
