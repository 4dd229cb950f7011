"""Counts beside torch's own: FLOPs with FlopCounterMode, calls with the profiler."""

from __future__ import annotations

import io
import random
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch
from profiling_helpers import Calls, call
from torch import nn

from statsnet.cli.output import print_report
from statsnet.errors import ModelError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.check import Check, CheckWorkload, OperatorCheck, compared
from statsnet.profiling.unseen import Unseen
from statsnet.reporting.check import check_report

WIDTH, ROWS = 32, 8


def layers() -> Any:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)), (torch.randn(ROWS, WIDTH),)


def shown(check: Check) -> str:
    with redirect_stdout(io.StringIO()) as text:
        print_report(check_report(check))
    return text.getvalue()


def checked(factory: Any, mode: str = "inference") -> Check:
    return CheckWorkload(model=Model(target=f"{__file__}:{factory.__name__}", mode=mode)).run(Context())


@pytest.mark.parametrize(("mode", "products"), [("inference", 2), ("training", 5)])
def test_linear_layers_agree(mode: str, products: int) -> None:
    check = checked(layers, mode)
    assert check.flops == check.torch_flops == products * 2 * ROWS * WIDTH * WIDTH
    assert check.flops_agree
    assert check.calls_agree
    assert not check.unseen.unmatched
    assert {o.op for o in check.operators} <= {"aten.addmm", "aten.mm"}


@pytest.mark.parametrize(("causal", "why"), [(True, "causal"), (False, "masked and padded")])
def test_attention_is_excepted_by_name(causal: bool, why: str) -> None:
    spec = {"shape": [1, 2, 64, 16], "dtype": "float32"}
    log = {"shape": [1, 2, 64], "dtype": "float32"}
    attention = call(
        "aten._scaled_dot_product_flash_attention.default", args=[spec, spec, spec, 0.0, causal, False, 1.0],
        outputs=[spec, log],
    )  # fmt: skip
    dense = 2.0 * 2 * 2 * 64 * 64 * 16 * (1.0 if causal else 1.2)
    check = compared([attention], {"aten._scaled_dot_product_flash_attention": dense}, "", Unseen(step_s=1.0, timed=1))
    (row,) = check.operators
    assert not row.agrees
    assert why in row.exception
    assert row.flops < row.torch_flops
    assert check.flops_agree
    assert "not compared: torch counts these" in shown(check)


def jagged() -> Any:
    rows = torch.nested.nested_tensor([torch.randn(n, WIDTH) for n in (3, ROWS - 3)], layout=torch.jagged)
    return layers()[0], (rows,)


@pytest.mark.parametrize(("mode", "products"), [("inference", 2), ("training", 5)])
def test_a_jagged_batch_costs_its_rows(mode: str, products: int) -> None:
    check = checked(jagged, mode)
    assert check.flops == check.torch_flops == products * 2 * ROWS * WIDTH * WIDTH
    assert check.calls_agree


def thin_convolution() -> Any:
    return nn.Conv2d(1, 64, 1), (torch.randn(2, 1, 8, 8),)


def test_a_biass_gradient_is_excepted_in_a_first_layer_too() -> None:
    check = checked(thin_convolution, "training")
    (row,) = [o for o in check.operators if o.op == "aten.convolution_backward"]
    assert row.flops == 1.5 * row.torch_flops  # of each output: a multiply-add and an add
    assert "bias" in row.exception
    assert check.flops_agree


def forces() -> Any:
    """A model that takes the gradient of an energy, and one product of it twice."""
    return Calls(lambda net, x: torch.func.grad(lambda y: torch.tanh(net.a(y)).sum())(x)), (torch.randn(ROWS, WIDTH),)


def test_gradients_in_a_forward_are_counted_by_both() -> None:
    check = checked(forces)
    assert check.torch_failed == ""
    assert check.flops == check.torch_flops == 2 * 2 * ROWS * WIDTH * WIDTH


def searching() -> Any:
    """Its optimizer evaluates the loss as often as the line search asks for, less and less as it converges."""
    net, x, wanted = nn.Linear(WIDTH, 1), torch.randn(ROWS, WIDTH), torch.randn(ROWS, 1)

    def optimizer(parameters: Any) -> Any:
        return torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe")

    return {"model": net, "args": x, "loss": lambda y: (y - wanted).square().mean(), "optimizer": optimizer}


def test_steps_of_an_optimizer_that_searches_are_alike() -> None:
    check = checked(searching, "training")
    assert check.flops == check.torch_flops > 2 * 2 * 2 * ROWS * WIDTH  # more than one evaluation
    assert (check.calls_agree, check.unseen.unmatched) == (True, 0)


def drawing_for_itself() -> Any:
    draws = random.Random(0)

    def run(net: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(draws.randrange(1, 40)):
            x = net.a(x)
        return x

    return Calls(run), (torch.randn(ROWS, WIDTH),)


def test_a_step_that_is_another_each_time_is_no_difference() -> None:
    with pytest.raises(ModelError, match="no two steps are alike"):
        checked(drawing_for_itself)


def test_what_differs_is_said() -> None:
    spec = {"shape": [WIDTH, WIDTH], "dtype": "float32"}
    product = call("aten.mm.default", args=[spec, spec], outputs=[spec])
    unseen = Unseen(step_s=1.0, by_name={"aten::exp": 0.1}, unmatched=1, timed=1)
    check = compared([product, call("mine.odd.default")], {"aten.mm": WIDTH**3 * 2.1}, "", unseen)
    assert not check.flops_agree
    assert not check.calls_agree
    assert check.uncounted == (("mine.odd", 1),)
    assert check.operators == (OperatorCheck(op="aten.mm", calls=1, flops=2.0 * WIDTH**3, torch_flops=2.1 * WIDTH**3),)
    assert "1 call" in shown(check)


def test_a_counter_that_fails_is_no_difference() -> None:
    check = compared([], {}, "it raises", Unseen(step_s=1.0))
    assert check.flops_agree
    assert not check.operators
