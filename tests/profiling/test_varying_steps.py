"""Steps that are not alike: inputs and states that steps change, random layers, inputs of many shapes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from changing_models import WIDTH, asking, many_lengths, recurrent, resizing, target_of
from growing_models import (
    decaying,
    filled,
    growing_attribute,
    growing_cache,
    growing_class,
    growing_closure,
    growing_default,
    growing_episode,
    growing_from_a_number,
    growing_function,
    growing_global,
    growing_in_inference_mode,
    growing_iterator,
    growing_list,
    growing_place,
    growing_state,
    iterated,
    popped_dict,
    popped_list,
    prompt_and_next_tokens,
)
from recurring_models import counting, random_layer, scaled_loss
from torch import nn

from statsnet.errors import ModelError, WorkloadError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.measure.turns import PausingClock
from statsnet.profiling import varying
from statsnet.profiling.alike import Alike, StepsVary
from statsnet.profiling.joined_traces import mean_samples
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.profiling.trace import captured
from statsnet.profiling.varying import check_unaffected, is_known, trace_varying
from statsnet.signatures.statistics import agree
from statsnet.workloads import Successive, build, make_step


def profiled(factory: Callable[..., Any], mode: str = "inference", device: str = "cpu", **overrides: Any) -> Profile:
    target = target_of(factory)
    model = Model(target=target, mode=mode, overrides=overrides)
    return ProfileWorkload(model=model, device=device, min_time_s=0.0, repeats=2).run(Context())


@pytest.mark.parametrize("factory", [
    growing_cache, popped_list, popped_dict, growing_state, growing_list, growing_from_a_number, growing_attribute,
    growing_episode, growing_place, growing_in_inference_mode, growing_global, growing_closure, growing_class,
    growing_function, growing_default, decaying,
])  # fmt: skip
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_every_step_gets_what_the_first_one_got(factory: Callable[..., Any], mode: str) -> None:
    step = make_step(build(target_of(factory), mode=mode))
    seen: list[int] = []
    step.built.model.linear.register_forward_hook(lambda _module, args, _out: seen.append(len(args[0])))
    for index in range(6):
        step(index)
    grows_at_first = 0 if factory in (growing_cache, popped_list, popped_dict) else 2
    assert seen[grows_at_first:] == [9] * (6 - grows_at_first)


@pytest.mark.parametrize("by", ["attribute", "global"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_cache_that_is_full_after_some_steps_begins_anew(by: str, device: str) -> None:
    found = profiled(filled, device=device, by=by)
    (product,) = (c for c in found.signature.clusters if c.op == "aten.addmm.default")
    assert product.flops == 2 * 9 * WIDTH * WIDTH


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_steps_that_grow_without_an_end_are_refused(device: str) -> None:
    with pytest.raises(ModelError, match="more than the one before"):
        profiled(growing_iterator, device=device)


def test_what_an_optimizer_and_a_loss_share_stays_shared() -> None:
    found = profiled(scaled_loss, "training")
    assert {c.phase for c in found.signature.clusters} == {"forward", "backward", "optimizer"}


def test_an_input_s_gradient_is_that_of_its_step() -> None:
    step = make_step(build(target_of(asking), mode="training"))
    gradients = []
    for index in range(3):
        step(index)
        gradients.append(step.built.inputs[0][0][0].grad)
    assert torch.allclose(gradients[1], gradients[2], atol=0.01)


def test_a_rate_that_decays_is_that_of_the_first_steps() -> None:
    found = profiled(decaying)
    (product,) = (c for c in found.signature.clusters if c.op == "aten.addmm.default")
    assert product.flops == 2 * 9 * WIDTH * WIDTH
    assert any("changes its own state" in note for note in found.notes)


def test_inputs_that_only_some_steps_change_are_renewed_too() -> None:
    step = make_step(build(target_of(prompt_and_next_tokens), mode="inference"))
    rows = [len(step(index)) for index in range(9)]
    assert rows == [8, 9, 9] * 3
    assert step.renewal.changes_inputs
    assert step.built.inputs[1][1]["cache"].rows[0].shape == (8, WIDTH)  # as built: its memory is counted later


def test_a_signature_says_nothing_of_a_cache_that_has_grown() -> None:
    found = profiled(growing_cache)
    (product,) = (c for c in found.signature.clusters if c.op == "aten.addmm.default")
    assert product.flops is not None
    assert product.flops == pytest.approx(2 * 9 * WIDTH * WIDTH, rel=0.1)
    assert any("changes its inputs" in note for note in found.notes)


def test_a_step_that_changes_nothing_gets_the_inputs_themselves() -> None:
    step = make_step(build(target_of(many_lengths), mode="inference"))
    for index in range(4):
        step(index)
        step.prepare(index)
    assert not step.renewal.changes_inputs
    assert step.renewal.batches(0)[0] is step.built.inputs[0]


def test_weights_that_a_layer_keeps_in_a_list_are_no_state_of_its_own() -> None:
    step = make_step(build(target_of(recurrent), mode="training"))
    for index in range(4):
        step(index)
    assert not step.renewal.changes_state


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_buffer_that_the_first_step_gives_a_size_keeps_it(mode: str) -> None:
    step = make_step(build(target_of(resizing), mode=mode))
    for index in range(5):
        step(index)
    step.prepare(0)
    assert step.built.model.range.shape == (WIDTH,)


@pytest.mark.parametrize(("captured_calls", "more_calls", "is_refused"), [
    ([20] * 8, [2, -2] * 4, False),
    ([20] * 8, [3, -1] * 4, False),
    ([20] * 8, [12, 8] * 4, True),
    ([20] * 8, [-8, -12] * 4, False),
    ([1, 9] * 4, [8, -8] * 4, False),  # chance alone; of each round's own calls, it would be 356 % more on average
])  # fmt: skip
def test_steps_that_do_more_when_they_are_watched_less_are_refused(
    captured_calls: list[int], more_calls: list[int], is_refused: bool
) -> None:
    with pytest.raises(ModelError, match="50% more calls") if is_refused else nullcontext():
        check_unaffected(captured_calls, more_calls)


def test_iterators_are_refused() -> None:
    with pytest.raises(WorkloadError, match="is an iterator"):
        make_step(build(target_of(iterated), mode="inference"))


def test_random_layers_are_averaged_and_their_spread_is_in_the_file() -> None:
    signature = profiled(random_layer).signature
    (measurement,) = signature.measurements
    variation = measurement.variation
    assert variation is not None
    assert variation.distinct == 2
    assert 8 <= variation.steps <= 64
    calls = signature.calls_per_step
    assert calls == pytest.approx(1.5, abs=0.3)  # half of the steps have one call, the others two: ± 4 deviations
    share = calls - 1
    assert variation.work_deviation == pytest.approx((share * (1 - share)) ** 0.5 / calls, rel=1e-6)
    assert signature == type(signature).from_dict(signature.to_dict())


def test_a_model_that_counts_its_steps_is_averaged_too() -> None:
    found = profiled(counting)
    assert found.signature.measurements[0].variation is not None
    assert found.signature.calls_per_step == pytest.approx(1.5, abs=0.3)


def test_what_every_tenth_step_does_is_averaged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying a target network, say. No two of the first captured steps need show it."""
    for rounds in ("FEWEST_ROUNDS", "MOST_ROUNDS"):
        monkeypatch.setattr(varying, rounds, 20)
    linear, other, count = nn.Linear(WIDTH, WIDTH), torch.randn(128, 128), itertools.count(1)

    def step(_: int) -> None:
        linear(torch.ones(4, WIDTH))
        if next(count) % 10 == 0:
            torch.mm(other, other)

    found = trace_varying(step, device="cpu", prepare=lambda _: None, phases=None, inputs=[0])
    products = [sum(call.op.startswith("aten.mm") for call in trace.calls) for trace in found.traces]
    assert sorted(products) == [0, 1]
    assert found.times[products.index(1)] / sum(found.times) == pytest.approx(0.1, abs=0.06)


def test_steps_that_compute_in_threads_are_refused_in_the_first_round() -> None:
    linear, other, steps = nn.Linear(WIDTH, WIDTH), torch.randn(128, 128), list[int]()

    def step(number: int) -> None:
        steps.append(number)
        linear(torch.ones(4, WIDTH))
        thread = threading.Thread(target=torch.mm, args=(other, other))
        thread.start()
        thread.join()

    with pytest.raises(ModelError) as refused:
        trace_varying(step, device="cpu", prepare=lambda _: None, phases=None, inputs=[0])
    assert "threads of its own" in refused.value.cause
    assert len(steps) < varying.FEWEST_ROUNDS


def test_of_slow_steps_the_profiled_ones_show_whether_they_are_alike() -> None:
    lengths, linear = itertools.count(1), nn.Linear(WIDTH, WIDTH)
    turn = Successive(lambda _: linear(torch.ones(next(lengths), WIDTH)), itertools.repeat(0), lambda _: None)

    def alike(step_s: float) -> Alike:
        return Alike(lambda _, by: captured(turn, device="cpu", phases=None, by=by), turn, "cpu", step_s)

    slow = alike(1.0)
    slow.look()
    with pytest.raises(StepsVary):
        slow.profile(0.0)
    with pytest.raises(StepsVary):
        alike(0.1)  # captured once more at once


def test_of_three_steps_two_must_agree() -> None:
    assert agree([1.0, 1.5, 1.01])
    assert not agree([1.0, 1.5, 1.05])
    assert not agree([1.0, 1.0])


def test_steps_that_are_alike_have_no_variation() -> None:
    found = profiled(growing_list)
    assert found.signature.measurements[0].variation is None
    assert found.signature.measurements[0].unmatched_calls == 0


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_inputs_of_many_shapes_are_represented_in_whatever_order_they_come(device: str) -> None:
    up = profiled(many_lengths, device=device)
    down = profiled(many_lengths, device=device, descending=True)
    sample = up.signature.inputs
    assert sample is not None
    assert sample.distinct == 20
    assert sum(sample.stands_for) == 20
    assert len(sample.stands_for) == up.signature.shape_variants == 8
    assert up.signature.flops_per_step == down.signature.flops_per_step
    assert up.signature.memory.input_bytes == down.signature.memory.input_bytes == 80 * WIDTH * 4  # the largest
    exact = 2 * WIDTH * WIDTH * sum(range(4, 84, 4)) / 20
    assert up.signature.flops_per_step == pytest.approx(exact, rel=0.06)  # the bias is counted too


def test_rounds_go_on_for_varying_work_and_not_for_a_noisy_machine() -> None:
    """Of n rounds of 1 and 3, half the interval of the mean is 1.96 / (2 sqrt n) of it: 5 % takes 384 rounds."""
    steady, varying, noisy = [1.0] * 24, [1.0, 3.0] * 32, [1e-3, 3e-3] * 12
    assert is_known(steady[:8], steady[:8])
    assert not is_known(steady[:22], noisy[:22])
    assert is_known(steady, noisy)
    assert is_known(steady[:8], noisy[:8], taken_s=100.0), "slow steps"
    assert not is_known(varying, [1e-3] * 64)


def test_a_clock_that_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = iter([0.0, 1.0, 5.0, 6.0, 6.0, 6.0, 8.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(shown))
    clock = PausingClock()
    assert clock() == 0.0
    clock.pause(lambda: None)  # from 1 to 5
    assert clock() == 2.0
    clock.pause(lambda: None)  # takes no time
    assert clock() == 4.0


def test_samples_stand_for_an_average_step() -> None:
    assert mean_samples([1.0, 3.0, 1.0, 3.0], 2) == [2.0, 2.0]
    assert mean_samples([1.0], 5) == [1.0]
