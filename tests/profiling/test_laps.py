"""What a model does in every n-th step alone is averaged into its signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from changing_models import WIDTH, target_of
from recurring_models import (
    accumulating,
    averaging_weights,
    counting,
    every_fourth,
    every_fourth_decomposed,
    every_fourth_larger,
    optimizer_inside,
    own_generator,
    random_layer,
    settling_queue,
)

from statsnet.errors import WorkloadError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling import laps
from statsnet.profiling.capture import OpCall
from statsnet.profiling.laps import Lap, lap_of, look_for_laps
from statsnet.profiling.step_notes import cut_note
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.profiling.varying import _Turns


def profiled(factory: Callable[..., Any], mode: str = "inference", device: str = "cpu", **overrides: str) -> Profile:
    target = target_of(factory)
    model = Model(target=target, mode=mode, overrides=overrides)
    return ProfileWorkload(model=model, device=device, min_time_s=0.0, repeats=2).run(Context())


@pytest.fixture(autouse=True)
def _as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laps, "LONGEST_S", math.inf)


def products(profile: Profile) -> float:
    return sum(c.calls for c in profile.signature.clusters if c.op == "aten.addmm.default")


def of(order: Sequence[int]) -> Lap:
    """A lap of such steps, the n-th of which has n calls."""
    call = OpCall(op="aten.relu.default", phase="forward", args=[], outputs=[])
    return lap_of(lambda step: [call] * order[step], range(len(order)))


@pytest.mark.parametrize(("order", "begin", "period", "returns"), [
    ([1, 1, 1, 1, 1, 1], 0, 1, False),
    ([1, 2, 1, 2, 1], 0, 2, True),
    ([1, 1, 1, 2, 1, 1, 1, 2, 1], 0, 4, True),
    ([3, 1, 2, 1, 2, 1, 2], 1, 2, True),
    ([1, 2, 2, 2, 2, 2], 1, 1, False),
    ([1, 1, 2, 1, 1, 1, 1, 1], 0, None, True),
    ([1, 2, 3, 4, 5, 6], 0, None, False),
])  # fmt: skip
def test_steps_repeat_themselves_or_go_on(order: list[int], begin: int, period: int | None, returns: bool) -> None:
    found = of(order)
    assert (found.begin, found.period, found.returns) == (begin, period, returns)
    assert found.settles == (order == [1, 2, 2, 2, 2, 2])


def test_a_period_is_averaged_and_no_more() -> None:
    assert [(len(each.calls), each.times) for each in of([1, 1, 1, 2, 1, 1, 1, 2, 1, 1]).averaged()] == [(1, 3), (2, 1)]


def test_a_model_that_fails_on_the_way_ends_the_lap() -> None:
    def capture(draw: int) -> list[OpCall]:
        if draw == 3:
            raise WorkloadError("the cache is full")
        return []

    assert lap_of(capture, range(9)).order == [0, 0, 0]


@pytest.mark.parametrize(("with_one_draw", "steps", "is_found"), [
    ([1, 1, 1, 2] * 5, 20, True),
    ([1, 2, 1, 1] * 5, 20, True),  # a counter that nobody puts back is at another place
    ([1] * 20, 20, False),  # only chance or inputs made it seem so
    ([1, 1, 2, 2, 1, 2] * 4, 20, False),  # chance that no seed rules
    ([1, 1, 1, 2] * 5, 8, False),
])  # fmt: skip
def test_a_period_is_one_that_comes_again(
    with_one_draw: list[int], steps: int, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laps, "MOST_STEPS", steps)
    call = OpCall(op="aten.relu.default", phase="forward", args=[], outputs=[])
    places = iter(with_one_draw)
    step: Any = SimpleNamespace(renewal=SimpleNamespace(start_again=lambda: None, settle=lambda: None, lap=1))
    found = look_for_laps(
        step, lambda draw: [call] * (2 if draw % 4 == 3 else 1), lambda _: [call] * next(places), math.inf
    )
    assert found.goes_on == is_found


@pytest.mark.parametrize("counter", ["attribute", "buffer", "dictionary"])
def test_what_every_fourth_step_does_counts_a_quarter(counter: str) -> None:
    found = profiled(every_fourth, counter=counter)
    assert products(found) == 1.25
    assert found.signature.measurements[0].variation is not None
    assert found.signature.measurements[0].unmatched_calls == 0


def test_so_does_what_an_optimizer_does() -> None:
    found = profiled(accumulating, "training")
    updates = [c for c in found.signature.clusters if c.phase == "optimizer" and c.op == "aten.add_.Tensor"]
    assert sum(c.calls for c in updates) == 2 / 4  # the weight and the bias


@pytest.mark.parametrize(("factory", "calls"), [(every_fourth, 1.25), (counting, 1.5)])
def test_without_times_too(factory: Callable[..., Any], calls: float) -> None:
    assert products(profiled(factory, device="meta")) == calls


def test_what_the_first_step_alone_does_is_left_out() -> None:
    """A mean of weights begins with a copy of them."""
    found = profiled(averaging_weights, "training")
    assert [c.calls for c in found.signature.clusters if "lerp" in c.op] == [1]
    assert found.signature.measurements[0].variation is None
    assert any("in its first steps" in note for note in found.notes)


def test_without_times_chance_is_averaged() -> None:
    found = profiled(random_layer, device="meta")
    assert products(found) == pytest.approx(1.5, abs=0.3)
    assert any("steps are not alike: the average of 40" in note for note in found.notes)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_queue_counts_as_long_as_it_becomes(device: str) -> None:
    found = profiled(settling_queue, device=device)
    (product,) = (c for c in found.signature.clusters if c.op == "aten.addmm.default")
    assert product.flops == 2 * 12 * WIDTH * WIDTH


def test_without_times_a_generator_of_the_model_s_own_is_averaged() -> None:
    assert products(profiled(own_generator, device="meta")) == pytest.approx(1.5, abs=0.3)


def test_without_times_what_the_first_step_makes_is_left_out() -> None:
    counted, real = (profiled(optimizer_inside, device=device).signature for device in ("meta", "cpu"))
    assert counted.calls_per_step == real.calls_per_step


def test_a_lap_counts_what_runs_where_a_capture_changes_that() -> None:
    found = profiled(every_fourth_decomposed, "training")
    assert found.signature.measurements[0].unmatched_calls == 0
    assert [c.calls for c in found.signature.clusters if c.op == "aten.cumprod.default"] == [0.25]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_memory_of_a_lap_is_that_of_its_largest_step(device: str) -> None:
    assert profiled(every_fourth_larger, device=device).signature.memory.activation_bytes == 2 * 400 * WIDTH * 4


@pytest.mark.parametrize(("lap", "between"), [(4, 3), (20, 3), (20, 2), (7, 2)])
def test_each_step_of_a_lap_is_profiled_in_its_turn(lap: int, between: int) -> None:
    turns = _Turns(lap)
    step = turns.counted(lambda _: None)
    profiled_steps, ran = [], 0
    for _ in range(lap):
        ahead = turns.to_skip(between) + between
        for _ in range(ahead):
            step(0)
        turns.profiled()
        step(0)
        ran += ahead + 1
        profiled_steps.append((ran - 1) % lap)
    assert sorted(profiled_steps) == list(range(lap))


def test_steps_that_there_was_no_time_for_are_told() -> None:
    assert "compare 7 of them" in next(cut_note(Lap(variants=(), order=[0] * 7, is_cut=True)))
    assert not list(cut_note(Lap(variants=(), order=[0] * 7)))
    assert not list(cut_note(None))
