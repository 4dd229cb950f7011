"""Large tensors repeat their first numbers; small ones are drawn as ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from torch import nn

from statsnet.workloads.drawing import DRAWN, drawn_in_part


def test_a_large_table_repeats_its_first_numbers() -> None:
    with drawn_in_part():
        weight = nn.Embedding(2 * DRAWN // 8, 8).weight.detach().view(-1)
    assert torch.equal(weight[:1000], weight[DRAWN : DRAWN + 1000])
    assert weight.std().item() == pytest.approx(1.0, abs=0.01)
    assert weight[:DRAWN].unique().numel() > DRAWN // 2


def test_rows_of_a_table_differ() -> None:
    with drawn_in_part():
        weight = nn.Embedding(200_000, 16).weight.detach()
    assert len({tuple(row[:4].tolist()) for row in weight}) == len(weight)


def test_small_tensors_are_drawn_as_without_it() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(100, 100)
    torch.manual_seed(0)
    with drawn_in_part():
        drawn = nn.Linear(100, 100)
    assert torch.equal(plain.weight, drawn.weight)


@pytest.mark.parametrize("initialise", [nn.init.kaiming_uniform_, nn.init.xavier_normal_, nn.init.trunc_normal_])
def test_initialisers_keep_their_distribution(initialise: Callable[[torch.Tensor], object]) -> None:
    plain, drawn = (nn.Parameter(torch.empty(1500, 1000)) for _ in range(2))
    initialise(plain)
    with drawn_in_part():
        initialise(drawn)
    assert drawn.std().item() == pytest.approx(plain.std().item(), rel=0.02)
    assert abs(drawn.mean().item()) < 0.02 * drawn.std().item()


def test_what_is_not_one_block_of_memory_is_drawn_whole() -> None:
    narrow = nn.Parameter(torch.zeros(3000, 1000)[:, ::2])
    with drawn_in_part():
        nn.init.normal_(narrow)
    numbers = narrow.detach().flatten()
    assert not torch.equal(numbers[: len(numbers) - DRAWN], numbers[DRAWN:])


def test_what_is_no_parameter_is_drawn_whole() -> None:
    with drawn_in_part():
        rows = torch.empty(2 * DRAWN).uniform_(0, 1e7)
    assert not torch.equal(rows[:DRAWN], rows[DRAWN:])


def test_a_row_set_to_zero_stays_so() -> None:
    with drawn_in_part():
        weight = nn.Embedding(300_000, 8, padding_idx=7).weight
    assert weight[7].abs().sum() == 0
    assert weight.requires_grad


def test_torch_draws_as_ever_afterwards() -> None:
    with drawn_in_part():
        assert "normal_" in vars(torch.Tensor)
    assert not {"normal_", "uniform_"} & vars(torch.Tensor).keys()


def test_of_two_threads_that_build_at_once_the_last_one_takes_it_back() -> None:
    begun, goes_on = Event(), Event()

    def build() -> None:
        with drawn_in_part():
            begun.set()
            goes_on.wait(60)

    with ThreadPoolExecutor(1) as threads:
        with drawn_in_part():
            other = threads.submit(build)
            assert begun.wait(60)
        is_drawn_in_part = "normal_" in vars(torch.Tensor)
        goes_on.set()
        other.result()
    assert is_drawn_in_part
    assert not {"normal_", "uniform_"} & vars(torch.Tensor).keys()


def test_a_leaf_that_needs_gradients_is_refused_as_ever() -> None:
    weight = nn.Parameter(torch.empty(DRAWN + 1))
    with drawn_in_part(), pytest.raises(RuntimeError, match="leaf"):
        weight.normal_()
