"""A loop of one's own whose steps do not run as a dispatch mode sees them, or not where it looks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import statsnet
from statsnet.errors import MeasurementError
from statsnet.profiling.distributed import first_steps
from statsnet.profiling.loop_steps import ROUND, Schedule

WIDTH, ROWS = 16, 4
WARMUPS, SHORTEST = first_steps(), Schedule().needed
ENOUGH = WARMUPS + 4 * len(ROUND)

Function = Callable[[torch.Tensor], torch.Tensor]


def train(function: Function, steps: int = ENOUGH, rows: int = ROWS) -> statsnet.profile:
    weight, x = nn.Parameter(torch.ones(rows, WIDTH)), torch.rand(rows, WIDTH)
    optimizer = torch.optim.SGD([weight])
    with statsnet.profile("mine") as p:
        for _ in range(steps):
            optimizer.zero_grad()
            function(x * weight).sum().backward()
            optimizer.step()
            p.step()
    return p


@pytest.mark.parametrize(("function", "ran", "not_run"), [
    (lambda x: torch.cumprod(x, 1), "aten.cumsum.default", "aten.tril.default"),
    (lambda x: torch.matrix_exp(x.T @ x), "aten.linalg_matrix_exp.default", ""),
    (lambda x: torch.linalg.eigvalsh(x.T @ x), "aten._linalg_eigh.default", ""),
])  # fmt: skip
def test_what_runs_in_a_loop_is_what_is_counted(function: Function, ran: str, not_run: str) -> None:
    signature = train(function).signature
    assert signature is not None
    operators = {cluster.op for cluster in signature.clusters}
    assert ran in operators
    assert not_run not in operators
    assert None not in signature.measurements[0].cluster_time_s


def test_a_loop_too_short_to_find_that_out_says_so() -> None:
    with pytest.raises(MeasurementError, match="operator by operator") as caught:
        train(lambda x: torch.cumprod(x, 1), SHORTEST)
    assert "longer" in caught.value.hint


def test_one_too_short_to_tell_what_a_decomposition_computes_says_so() -> None:
    with pytest.raises(MeasurementError, match="too short") as caught:
        train(lambda x: torch.linalg.eigvalsh(x.T @ x), SHORTEST)
    assert "longer" in caught.value.hint


def test_a_loop_that_computes_in_threads_is_refused() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(MeasurementError) as caught:
        train(lambda x: x + sum(pool.map(torch.exp, [x.detach()] * 8)), rows=8192)
    assert "threads of its own" in caught.value.cause


def test_a_loop_whose_steps_choose_among_operators_is_not() -> None:
    functions = [torch.sin, torch.cos, torch.tanh]
    count = iter(range(100))
    signature = train(lambda x: functions[next(count) % 3](x), WARMUPS + 6 * len(ROUND)).signature
    assert signature is not None
    assert sum(c.calls for c in signature.clusters if c.op.startswith(("aten.sin.", "aten.cos.", "aten.tanh."))) >= 1
