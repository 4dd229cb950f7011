"""Calls that run inside of others, before or after their own work; and models that run late, or learn their sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from profiling_helpers import Calls, call, event, flat, profiled
from torch import nn

from statsnet.errors import WorkloadError
from statsnet.measure.profiler_events import STEP_LABEL, StepEvents
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.profiling.timeline import read_step
from statsnet.profiling.unseen import unseen_in

WIDTH, ROWS = 32, 8
PRODUCT = 2 * ROWS * WIDTH * WIDTH

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def saved_in_half() -> Any:
    """Hooks convert what autograd saves: of an operator's inputs before it is captured, of its result after it."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
            return self.b(torch.tanh(self.a(x)))

    return Calls(run), (torch.randn(ROWS, WIDTH),)


def complex_weights() -> Any:
    """Gradients multiply with conjugates, each of which is made real inside of the product that needs it."""
    state = nn.Parameter(torch.randn(WIDTH, dtype=torch.cfloat))
    return Calls(lambda self, x: torch.fft.irfft(torch.fft.rfft(x, 2 * WIDTH - 2) * self.state), state=state), (
        torch.randn(ROWS, WIDTH),
    )


def sparse_graph() -> Any:
    """The gradient transposes the sparse matrix, which copies it: a view as a rule."""
    graph = torch.sparse_coo_tensor(torch.randint(0, ROWS, (2, 20)), torch.rand(20), (ROWS, ROWS)).coalesce()
    return Calls(lambda self, a, x: self.b(torch.sparse.mm(a, self.a(x)))), (graph, torch.randn(ROWS, WIDTH))


def jagged_rows() -> Any:
    rows = torch.nested.nested_tensor([torch.randn(3, WIDTH), torch.randn(ROWS - 3, WIDTH)], layout=torch.jagged)
    return Calls(lambda self, x: self.b(torch.relu(self.a(x))).values()), (rows,)


def gradients_of_each_row() -> Any:
    """Each transformation of torch.func calls an operator once more: `mse_loss` holds `mse_loss` and `mean`."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        def loss(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(nn.functional.linear(row, weight), row)

        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(self.a.weight.detach(), x)

    return Calls(run), (torch.randn(ROWS, WIDTH),)


def yielding() -> Any:
    """Nothing runs until somebody goes through what it gives."""

    def run(self: Any, x: torch.Tensor) -> Any:
        yield (x := self.a(x))
        yield self.b(x)

    return Calls(run), (torch.randn(ROWS, WIDTH),)


def yielding_within() -> Any:
    return Calls(lambda self, x: {"rows": [map(self.a, (x, x))]}), (torch.randn(ROWS, WIDTH),)


@dataclass(frozen=True)
class Streamed:
    rows: Iterator[torch.Tensor]
    number: Iterator[int]


def yielding_in_fields() -> Any:
    return Calls(lambda self, x: Streamed(map(self.a, (x, x)), itertools.count())), (torch.randn(ROWS, WIDTH),)


def lazy() -> Any:
    return nn.Sequential(nn.LazyLinear(WIDTH), nn.LazyBatchNorm1d(), nn.LazyLinear(WIDTH)), (torch.randn(ROWS, WIDTH),)


@pytest.mark.parametrize(("factory", "mode", "products"), [
    (saved_in_half, "training", 5), (sparse_graph, "training", 5), (jagged_rows, "training", 5),
    (yielding, "inference", 2), (yielding, "training", 5), (yielding_within, "inference", 2),
    (yielding_in_fields, "inference", 2), (yielding_in_fields, "training", 4),
    (lazy, "inference", 2), (lazy, "training", 5), (gradients_of_each_row, "inference", 2),
])  # fmt: skip
def test_what_runs_inside_of_other_calls_late_or_first_is_captured(
    factory: Callable[..., Any], mode: str, products: int
) -> None:
    """All products are of the same size, forward and in both gradients, but for the first layer's input."""
    signature = profiled(factory, mode).signature
    gemms = [c for c in signature.clusters if c.category == "gemm" and "sparse" not in str(c.args)]
    assert sum(c.calls * (c.flops or 0.0) for c in gemms) == pytest.approx(products * PRODUCT, rel=0.02)
    assert signature.measurements[0].unmatched_calls == 0


def test_lazy_layers_are_counted_without_data() -> None:
    model = Model(target=f"{__file__}:lazy", mode="training")
    counted = ProfileWorkload(model=model, device="meta").run(Context()).signature
    real = profiled(lazy, "training").signature
    assert counted.flops_per_step == real.flops_per_step
    assert counted.memory.parameter_bytes == real.memory.parameter_bytes
    assert (counted.memory.activation_bytes or 0) <= (real.memory.activation_bytes or 0)


def test_products_with_conjugates_are_captured() -> None:
    signature = profiled(complex_weights, "training").signature
    products = [c for c in signature.clusters if c.op == "aten.mul.Tensor" and "complex64" in str(c.args)]
    assert sum(c.flops * c.calls for c in products if c.flops) == 6 * 2 * ROWS * WIDTH
    assert signature.measurements[0].unmatched_calls == 0


def lazy_and_wrong() -> Any:
    return nn.Sequential(nn.LazyLinear(WIDTH), nn.Linear(7, 7)), (torch.randn(ROWS, WIDTH),)


def test_a_lazy_model_that_its_inputs_do_not_fit_is_refused() -> None:
    model = Model(target=f"{__file__}:lazy_and_wrong", mode="inference")
    with pytest.raises(WorkloadError, match="do not learn their sizes"):
        model.build("cpu")


def test_inner_calls_before_and_after_an_operator_s_own_are_joined() -> None:
    saved = event("aten::mul", 10, 30, event("aten::clone", 12, 18))
    hooked = event("aten::tanh", 40, 60, event("aten::_to_copy", 50, 58))
    records = flat(event(STEP_LABEL, 0, 100, event("aten::mm", 0, 9), saved, hooked))
    calls = [call(f"aten.{name}.default") for name in ("mm", "clone", "mul", "tanh", "_to_copy")]
    timeline = read_step(StepEvents.of(records), calls, device="cpu")
    assert timeline.op_time_s == pytest.approx([9e-6, 6e-6, 14e-6, 12e-6, 8e-6])
    assert not unseen_in(StepEvents.of(records), calls, device="cpu").by_name
