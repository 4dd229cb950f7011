"""Every call is seen: higher-order operators, scripts, exported programs; or refused in a sentence that says why."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
import torch
from profiling_helpers import Calls, call, captured, event, flat, profiled, training_step
from torch import nn

from statsnet.errors import MeasurementError, ModelError
from statsnet.measure.profiler_events import PACKAGED, STEP_LABEL, StepEvents, profiling
from statsnet.profiling import laps
from statsnet.profiling.capture import capture_step
from statsnet.profiling.costs import cost_of
from statsnet.profiling.timeline import read_step
from statsnet.profiling.unseen import Unseen, look_for_unseen, unseen_in

WIDTH, ROWS = 32, 8
PRODUCT = 2 * ROWS * WIDTH * WIDTH

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def branch(self: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.abs().sum() > 0, lambda t: self.a(self.b(t)), lambda t: self.a(t), (x,))


def loop(self: Any, x: torch.Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, torch.tanh(self.a(t))), (torch.tensor(0), x))[1]


def scanned(self: Any, x: torch.Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    def body(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        carry = torch.tanh(carry @ self.weight + row)
        return carry, carry.clone()

    return scan(body, torch.zeros(ROWS, WIDTH), x.expand(4, ROWS, WIDTH))[1]


def attention(self: Any, x: torch.Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    q = self.a(x).view(1, 1, ROWS, WIDTH)
    return flex_attention(q, q, q)


@pytest.mark.parametrize(("function", "flops"), [(branch, 2 * PRODUCT), (loop, 3 * PRODUCT), (scanned, 4 * PRODUCT),
                                                 (attention, PRODUCT + 2 * 2 * ROWS * ROWS * WIDTH)])  # fmt: skip
def test_higher_order_operators_are_captured_in_parts(function: Callable[..., Any], flops: int) -> None:
    model, x = Calls(function), torch.randn(ROWS, WIDTH)
    with torch.no_grad():
        model(x)
        calls = capture_step(lambda: model(x), device="meta")
    counted = [
        cost.flops
        for each in calls
        if each.op.split(".")[1] in ("mm", "addmm", "bmm") and (cost := cost_of(each.op, each.args, each.outputs))
    ]
    bias = sum(each.op == "aten.addmm.default" for each in calls) * ROWS * WIDTH
    assert sum(counted) in (flops, flops + bias)
    assert not any("cond" in each.op or "while" in each.op or "flex" in each.op for each in calls)


POOL = ThreadPoolExecutor(2)
MANY_ROWS = 8192
"""So many that threads compute for much of the step on a busy machine too."""


def threaded(self: Any, x: torch.Tensor) -> Any:
    return sum(POOL.map(lambda layer: layer(x), [self.a, self.b] * 8))


def idle_thread(self: Any, x: torch.Tensor) -> Any:
    POOL.submit(sum, [1, 2]).result()
    return self.a(self.b(x))


def with_threads() -> Any:
    return Calls(threaded), (torch.randn(MANY_ROWS, WIDTH),)


def with_threads_now_and_then_longer() -> Any:
    """No seed makes a step the same again: it counts."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = threaded(self, x)
        return torch.tanh(x) if self.count % 2 else x

    model = Calls(run)
    model.count = 0  # type: ignore[assignment]
    return model, (torch.randn(MANY_ROWS, WIDTH),)


def with_idle_thread() -> Any:
    return Calls(idle_thread), (torch.randn(256, WIDTH),)


def scripted() -> Any:
    return torch.jit.script(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())), (torch.randn(ROWS, WIDTH),)


def exported() -> Any:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    return torch.export.export(model, (torch.randn(ROWS, WIDTH),)).module(), (torch.randn(ROWS, WIDTH),)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


def own_function() -> Any:
    return Calls(lambda self, x: Product.apply(self.a(x), self.weight)), (torch.randn(ROWS, WIDTH),)


@cache
def own_product() -> Any:
    @torch.library.custom_op("acme_products::twice", mutates_args=())
    def twice(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return 2 * (x @ weight)

    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return 2 * gradient @ weight.t(), 2 * x.t() @ gradient

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    twice.register_autograd(backward, setup_context=keep)
    return twice


def own_operator() -> Any:
    twice = own_product()
    inputs = (torch.randn(2000 * ROWS, WIDTH),)  # a step in which dispatching takes nothing
    return Calls(lambda self, x: twice(self.a(x), self.weight)), inputs


def selectively_checkpointed() -> Any:
    """Products are kept, all else is computed again."""
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def policy(ctx: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        is_kept = op is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        def part(x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.b(torch.tanh(self.a(x))))

        contexts = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
        return checkpoint(part, x, use_reentrant=False, context_fn=contexts)

    return Calls(run), (torch.randn(2000 * ROWS, WIDTH),)  # a step in which dispatching takes nothing


def forward_mode() -> Any:
    return Calls(lambda self, x: torch.func.jvp(self.a, (x,), (x,))[1]), (torch.randn(ROWS, WIDTH),)


def hessian() -> Any:
    return Calls(lambda self, x: torch.func.hessian(lambda t: torch.tanh(self.a(t)).sum())(x)), (torch.randn(WIDTH),)


def with_scores_of_its_own() -> Any:
    return Calls(attention), (torch.randn(ROWS, WIDTH),)


@pytest.mark.parametrize("factory", [with_threads, with_threads_now_and_then_longer])
def test_threads_of_the_models_own_are_refused(factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laps, "MOST_STEPS", laps.FEWEST_STEPS)  # its steps are long
    with pytest.raises(MeasurementError, match="cannot be told operator by operator") as caught:
        profiled(factory)
    assert "threads of its own" in caught.value.cause
    assert "one after another" in caught.value.hint


def test_threads_that_compute_nothing_are_not() -> None:
    assert profiled(with_idle_thread).signature.flops_per_step == 2 * 2 * 256 * WIDTH * WIDTH


@pytest.mark.parametrize("rows", [(ROWS,), (ROWS - 3, ROWS)])
def test_derivatives_of_higher_order_operators_are_captured(rows: tuple[int, ...]) -> None:
    """Each operator that runs, and none of those that torch traces in every step. (The derivative of a condition
    computes what it needs of the forward pass again.) Once torch has seen two numbers of rows, it traces with an
    unknown one."""
    torch._dynamo.reset()
    model = Calls(branch)
    for number in rows:
        step = training_step(model, torch.randn(number, WIDTH))
        step()
    calls = captured(step)
    assert sum(each.op.split(".")[1] in ("mm", "addmm") for each in calls) == 7
    unseen, events = look_for_unseen(step, calls, device="cpu")
    assert (unseen.unmatched, unseen.is_too_much) == (0, False)
    assert len(events.inside) > 10 * len(calls)


def test_events_of_a_traced_derivative_are_not_taken_for_work() -> None:
    traced = event("ScanAutogradOp", 0, 60, event("aten::mm", 1, 20))
    unseen = unseen_in(StepEvents.of(flat(event(STEP_LABEL, 0, 100, traced))), [call("aten.mm.default")], device="cpu")
    with pytest.raises(MeasurementError) as caught:
        unseen.check()
    assert "without data" in caught.value.cause


def only_unwatched() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("no modes, please")
        return self.a(x)

    return Calls(run), (torch.randn(ROWS, WIDTH),)


def test_a_step_that_fails_only_while_it_is_captured_says_so() -> None:
    with pytest.raises(MeasurementError, match="not while its operators are captured") as caught:
        profiled(only_unwatched)
    assert "no modes, please" in caught.value.cause


@pytest.mark.parametrize("factory", [forward_mode, hessian])
def test_forward_mode_is_refused(factory: Callable[..., Any]) -> None:
    with pytest.raises(MeasurementError) as caught:
        profiled(factory)
    assert "forward mode" in caught.value.cause


@pytest.mark.parametrize(("factory", "mode", "products"), [
    (scripted, "training", 2), (exported, "training", 2), (exported, "inference", 1), (own_function, "training", 5),
    (selectively_checkpointed, "training", 5), (own_operator, "inference", 2), (own_operator, "training", 5),
    (with_scores_of_its_own, "inference", 1),
])  # fmt: skip
def test_scripts_programs_and_functions_are_captured(factory: Callable[..., Any], mode: str, products: int) -> None:
    signature = profiled(factory, mode).signature
    assert sum(c.calls for c in signature.clusters if c.op in ("aten.mm.default", "aten.addmm.default")) == products
    assert signature.measurements[0].unmatched_calls == 0
    assert "custom.opaque.default" not in {c.op for c in signature.clusters}


def test_an_operator_that_is_registered_again_is_still_seen_inside() -> None:
    """As by a model's file that is imported anew. torch forgets it when it collects the first registration."""
    for _ in range(2):
        own_product.cache_clear()
        model, inputs = own_operator()
        gc.collect()
        assert [each.op for each in captured(lambda: model(*inputs)) if not each.metadata] == [  # noqa: B023
            "aten.addmm.default", "aten.mm.default", "aten.mul.Tensor",
        ]  # fmt: skip


def test_a_package_that_was_compiled_ahead_is_refused_whatever_is_seen_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a whole network, torch shows the copies of its products' biases."""
    copy = event("aten::copy_", 10, 20)
    records = flat(event(STEP_LABEL, 0, 100, event(PACKAGED, 5, 95, copy)))
    unseen = unseen_in(StepEvents.of(records), [call("aten.copy_.default")], device="cpu")
    assert unseen.time_share == pytest.approx(0.9)
    with pytest.raises(MeasurementError, match=r"90\.0%") as caught:
        unseen.check()
    assert "AOTInductor" in caught.value.cause

    class Loader:
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    monkeypatch.setattr(torch._C._aoti, "AOTIModelPackageLoader", Loader)
    with profiling("cpu") as session:
        Loader().run(torch.zeros(2))
    assert PACKAGED in {each.name for each in StepEvents.take(session).inside}


def test_what_the_capture_lacks_is_named_with_its_share() -> None:
    records = flat(event(STEP_LABEL, 0, 100, event("aten::mm", 0, 40), event("aten::exp", 50, 80),
                         event("Torch-Compiled Region: 0/0", 80, 90)))  # fmt: skip
    unseen = unseen_in(StepEvents.of(records), [call("aten.mm.default")], device="cpu")
    assert unseen.by_name == pytest.approx({"aten::exp": 30e-6, "Torch-Compiled Region: 0/0": 10e-6})
    assert unseen.time_share == pytest.approx(0.4)
    with pytest.raises(MeasurementError, match=r"40\.0%") as caught:
        unseen.check()
    assert "aten::exp 30.0%" in caught.value.cause
    assert "compile" in caught.value.hint


def test_what_runs_in_some_steps_alone_is_beside_the_calls_of_others() -> None:
    records = flat(event(STEP_LABEL, 0, 100, event("aten::mm", 0, 40), event("aten::exp", 50, 80)))
    assert read_step(StepEvents.of(records), [call("aten.mm.default")], device="cpu").beside == {"aten::exp"}


def test_threads_count_by_what_operators_take_however_long_they_are_awaited() -> None:
    records = flat(event(STEP_LABEL, 0, 10_000, event("aten::mm", 0, 100)), event("aten::exp", 20, 60, thread=7))
    unseen = unseen_in(StepEvents.of(records), [call("aten.mm.default")], device="cpu")
    assert (unseen.time_share, unseen.thread_share) == pytest.approx((0.004, 40 / 140))
    with pytest.raises(MeasurementError, match=r"28\.6%") as caught:
        unseen.check()
    assert "threads of its own" in caught.value.cause


def test_views_and_composite_operators_are_nothing_unseen() -> None:
    linear = event("aten::linear", 0, 60, event("aten::t", 1, 20), event("aten::addmm", 20, 50))
    records = flat(event(STEP_LABEL, 0, 100, linear, event("aten::reshape", 60, 99)))
    unseen = unseen_in(StepEvents.of(records), [call("aten.addmm.default")], device="cpu")
    assert not unseen.by_name
    unseen.check()


def test_calls_that_no_step_made_are_unmatched() -> None:
    records = flat(event(STEP_LABEL, 0, 100, event("aten::mm", 0, 40)))
    unseen = unseen_in(StepEvents.of(records), [call("aten.mm.default"), call("aten.exp.default")], device="cpu")
    assert (unseen.unmatched, unseen.call_share) == (1, 0.5)
    with pytest.raises(ModelError, match=r"50\.0%"):
        unseen.check()


@pytest.mark.parametrize(("unmatched", "refused"), [(2, False), (3, True)])
def test_a_fiftieth_may_be_missing(unmatched: int, refused: bool) -> None:
    unseen = Unseen(step_s=1.0, unmatched=unmatched, timed=100)
    if refused:
        with pytest.raises(MeasurementError):
            unseen.check()
    else:
        unseen.check()
