"""Capture: which calls, in which phase, from where to where."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from profiling_helpers import captured, convnet, training_step
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from statsnet.profiling.capture import capture_step
from statsnet.profiling.skew import skew_of

FORWARD = ["convolution", "native_batch_norm", "relu", "addmm"]


def bases(calls: list) -> list[str]:
    return [c.op.split(".")[1] for c in calls]


def test_inference_gives_the_models_operators_in_order() -> None:
    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        calls = captured(lambda: model(x))
    assert bases(calls) == ["convolution", "native_batch_norm", "relu", "addmm"]
    assert {c.phase for c in calls} == {"forward"}


def test_training_has_three_phases_each_with_its_operators() -> None:
    calls = captured(training_step(convnet(), torch.randn(2, 3, 8, 8)))
    phases = {p: [b for b, c in zip(bases(calls), calls, strict=True) if c.phase == p] for p in
              ("forward", "backward", "optimizer")}  # fmt: skip
    assert [b for b in phases["forward"] if b in FORWARD] == FORWARD
    assert [b for b in phases["backward"] if "backward" in b] == [
        "threshold_backward", "native_batch_norm_backward", "convolution_backward"
    ]  # fmt: skip
    assert phases["backward"].count("mm") == 1 + 1  # weight and input of the linear layer
    assert phases["optimizer"] == ["add_"] * 5  # one per parameter
    order = [c.phase for c in calls if c.phase != "input"]
    assert order == sorted(order, key=["forward", "backward", "optimizer"].index)


class Sharing(torch.optim.SGD):
    """As ZeRO's optimizer: another one's step, and then work of its own."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        torch.optim.SGD([p for group in self.param_groups for p in group["params"]], lr=0.1).step()
        torch.neg(torch.ones(2))


class Averaging(torch.optim.SGD):
    """As an optimizer of local steps: its parent's step, and then work of its own."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        torch.neg(torch.ones(2))


@pytest.mark.parametrize("kind", [Sharing, Averaging])
def test_an_optimizer_that_runs_another_step_ends_after_it(kind: type[torch.optim.SGD]) -> None:
    layer = nn.Linear(2, 2)
    torch.optim.SGD(layer.parameters(), lr=0.1)  # from the first one on, torch tells when the parent steps, too
    optimizer = kind(layer.parameters(), lr=0.1)

    def step() -> None:
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        torch.exp(torch.ones(2))

    phases = {c.op.split(".")[1]: c.phase for c in captured(step)}
    assert (phases["neg"], phases["exp"]) == ("optimizer", "forward")


def test_an_optimizer_that_raised_and_steps_again_ends_then() -> None:
    """As a loop may catch what a loss that is not finite makes of a step, and go on."""

    class Raising(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            torch.neg(torch.ones(2))
            raise FloatingPointError

    optimizer = Raising([nn.Parameter(torch.ones(2))], lr=0.1)

    def step() -> None:
        for _ in range(2):
            with contextlib.suppress(FloatingPointError):
                optimizer.step()
            torch.mm(torch.ones(2, 2), torch.ones(2, 2))

    calls = [c for c in captured(step) if "neg" in c.op or "mm" in c.op]
    assert [c.phase for c in calls] == ["optimizer", "forward"] * 2


def test_an_optimizer_that_steps_in_a_hook_of_gradients_is_none_of_backward_s_work() -> None:
    layer = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6, foreach=False)
    layer.weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    calls = captured(lambda: layer(torch.randn(2, 4)).sum().backward(), "meta")
    phases = {call.op.split(".")[1]: call.phase for call in calls}
    assert (phases["add_"], phases["mm"]) == ("optimizer", "backward")


def test_what_a_loop_does_to_gradients_before_the_step_is_the_optimizers() -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        scaler.scale(torch.exp(layer(torch.ones(1, 2))).sum()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    captured(step)  # makes the gradients
    phases = [(b, c.phase) for c in captured(step) for b in bases([c])]
    for name in ("zero_", "_foreach_norm", "_foreach_mul_", "_amp_foreach_non_finite_check_and_unscale_",
                 "_amp_update_scale_"):  # fmt: skip
        assert {phase for base, phase in phases if base in (name, f"_foreach_{name}")} == {"optimizer"}, name
    assert {phase for base, phase in phases if base in ("exp", "addmm")} == {"forward"}


def test_what_is_done_to_gradients_between_two_optimizers_is_the_second_one_s() -> None:
    """But not what follows before gradients are set to zero: the next inputs may be made there."""
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    first, second = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in layers)

    def step() -> None:
        layers[1](layers[0](torch.ones(1, 2))).sum().backward()
        first.step()
        nn.utils.clip_grad_norm_(layers[1].parameters(), 1.0)
        second.step()
        torch.exp(torch.ones(2))
        second.zero_grad(set_to_none=False)

    phases = {b: c.phase for c in captured(step) for b in bases([c])}
    assert (phases["_foreach_norm"], phases["exp"]) == ("optimizer", "forward")


def test_a_model_that_runs_between_backward_and_step_is_none_of_the_optimizers() -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        layer(torch.ones(1, 2)).sum().backward()
        torch.exp(layer(torch.ones(1, 2)))
        optimizer.step()

    assert {c.phase for c in captured(step) if bases([c])[0] in ("addmm", "exp")} == {"forward"}


def test_a_phase_that_the_step_names_goes_on_after_an_optimizer() -> None:
    """As of a wrapper that torch does not know: its optimizer's step, and then work of its own."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    enter: list[Any] = []

    def step() -> None:
        enter[0]("optimizer")
        optimizer.step()
        torch.neg(torch.ones(2))

    (call,) = (c for c in capture_step(step, device="cpu", phases=enter.append) if "neg" in c.op)
    assert call.phase == "optimizer"


def test_a_composite_operator_with_an_implementation_for_the_device_is_one_call() -> None:
    calls = captured(training_step(nn.Sequential(nn.Linear(4, 4), nn.SiLU()), torch.randn(2, 4)))
    assert [base for base in bases(calls) if "silu" in base] == ["silu", "silu_backward"]


def test_producers_follow_storage_through_views_and_in_place_calls() -> None:
    x = torch.randn(4, 6)
    calls = capture_step(lambda: (x.exp().t().add_(1.0).relu(), x.neg()), device="cpu")
    ops = bases(calls)
    assert ops == ["exp", "t", "add_", "relu", "neg"]
    assert [c.producers for c in calls] == [(), (0,), (0,), (2,), ()]


def test_segments_name_the_calls_inside_a_range() -> None:
    def step() -> None:
        x = torch.ones(3)
        with torch.profiler.record_function("segment:7"):
            with torch.profiler.record_function("not a segment"):
                x.exp()
            x.neg()
        x.abs()

    assert [(b, c.segment) for c in captured(step) for b in bases([c]) if b != "ones"] == [
        ("exp", "7"), ("neg", "7"), ("abs", None)
    ]  # fmt: skip


def test_sparse_gradients_are_not_copied_by_the_capture_itself() -> None:
    table = nn.Embedding(50, 4, sparse=True)
    step = training_step(table, torch.tensor([1, 2, 3]))
    assert "clone" not in bases(captured(step))


@pytest.mark.parametrize("train", [False, True])
def test_fake_tensors_give_the_same_calls_as_real_ones(train: bool) -> None:
    def calls() -> list:
        model, x = convnet().train(train), torch.randn(2, 3, 8, 8)
        if train:
            return captured(training_step(model, x))
        with torch.no_grad():
            return captured(lambda: model(x))

    with FakeTensorMode():
        fake = calls()
    real = calls()
    assert [(c.op, c.phase, c.args, c.outputs) for c in fake] == [(c.op, c.phase, c.args, c.outputs) for c in real]


def test_skew_of_uniform_and_of_repeated_indices() -> None:
    once = skew_of(np.arange(1000))
    assert (once.distinct_share, once.top1pct_share, once.zipf) == (1.0, 0.01, 0.0)
    same = skew_of(np.zeros(100, dtype=np.int64))
    assert (same.distinct_share, same.top1pct_share) == (0.01, 1.0)


def test_skew_finds_the_exponent_of_a_zipf_law() -> None:
    ranks = np.arange(1, 101)
    counts = np.round(1e6 / ranks**1.2).astype(int)
    skew = skew_of(np.repeat(ranks, counts))
    assert skew.zipf == pytest.approx(1.2, abs=0.01)
    assert skew.top1pct_share == float(f"{counts[0] / counts.sum():.2g}"), "two digits: more would tell the batch"


def test_embedding_calls_carry_their_skew() -> None:
    table = nn.Embedding(10, 4)
    (lookup,) = [c for c in captured(lambda: table(torch.tensor([1, 1, 1, 2]))) if "embedding" in c.op]
    assert lookup.skew is not None
    assert lookup.skew.distinct_share == 0.5
