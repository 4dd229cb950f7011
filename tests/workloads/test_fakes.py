"""Training with sparse gradients on fake tensors makes the calls that it makes on real ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.workloads.fakes import SparseFakeTensorMode

LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "embedding": lambda rows: nn.Embedding(rows, 8, sparse=True),
    "bag": lambda rows: nn.EmbeddingBag(rows, 8, mode="sum", sparse=True),
}
OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "SparseAdam": torch.optim.SparseAdam,
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "Adagrad": torch.optim.Adagrad,
}


def trained(layer: str, optimizer: str, *, fake: bool, rows: int = 60, looked_up: int = 40) -> list[OpCall]:
    """The second step's calls; every row that is looked up is another one."""
    with SparseFakeTensorMode() if fake else nullcontext():
        table = LAYERS[layer](rows)
        rule = OPTIMIZERS[optimizer](list(table.parameters()))

        def step() -> None:
            rule.zero_grad(set_to_none=True)
            table(torch.arange(looked_up).reshape(-1, 4)).sum().backward()
            rule.step()

        step()
        return capture_step(step, device="meta" if fake else "cpu")


def summary(calls: list[OpCall]) -> list[object]:
    return [(c.op, c.phase, c.args, c.outputs) for c in calls]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("layer", LAYERS)
def test_fake_sparse_gradients_have_the_entries_of_real_ones(layer: str, optimizer: str) -> None:
    calls = trained(layer, optimizer, fake=True)
    assert summary(calls) == summary(trained(layer, optimizer, fake=False))
    entries = {out["sparse"] for call in calls for out in call.outputs if out and "sparse" in out}
    assert entries == {40}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_table_is_allocated(layer: str) -> None:
    """The table alone would be 32 TB."""
    calls = trained(layer, "SparseAdam", fake=True, rows=10**12)
    assert any(call.op == "aten.sparse_mask.default" for call in calls)


def test_a_coalesced_fake_has_as_many_entries_as_rows() -> None:
    with SparseFakeTensorMode():
        indices, values = torch.zeros(1, 100, dtype=torch.int64), torch.zeros(100, 8)
        coalesced = torch.sparse_coo_tensor(indices, values, (60, 8), check_invariants=False).coalesce()
        assert (coalesced._nnz(), tuple(coalesced._values().shape), coalesced.is_coalesced()) == (60, (60, 8), True)


def test_dense_copies_and_gradients_are_torch_s_own() -> None:
    with SparseFakeTensorMode():
        bag = nn.EmbeddingBag(60, 8, mode="sum")
        bag(torch.arange(40).reshape(-1, 4)).sum().backward()
        assert bag.weight.grad is not None
        assert bag.weight.grad.clone().layout is torch.strided
