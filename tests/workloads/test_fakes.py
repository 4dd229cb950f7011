"""Sparse gradients and matrices on fake tensors make the calls that they make on real ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from statsnet.blocks.operator import Operator
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.workloads.compressed_fakes import NeedsValuesError
from statsnet.workloads.fakes import NeedsMemoryError, SparseFakeTensorMode, fake_tensors
from statsnet.workloads.model_errors import next_step
from statsnet.workloads.trees import parts_of

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


def matrix(layout: str) -> torch.Tensor:
    """Two elements, or blocks, in each row."""
    compressed, plain = torch.arange(0, 13, 2), torch.tensor([0, 3] * 6)
    values = torch.ones(12, 2, 2) if layout == "bsr" else torch.ones(12)
    side = 12 if layout == "bsr" else 6
    names = {"csr": torch.sparse_csr, "csc": torch.sparse_csc, "bsr": torch.sparse_bsr}
    return torch.sparse_compressed_tensor(
        compressed, plain, values, (side, side), layout=names[layout], check_invariants=False
    )


OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "product": lambda a: a @ torch.ones(a.shape[1], 4),
    "added product": lambda a: torch.sparse.addmm(torch.ones(a.shape[0], 4), a, torch.ones(a.shape[1], 4)),
    "transposed": lambda a: a.t(),
    "copied": lambda a: a.clone(),
    "cast": lambda a: a.double(),
    "scaled": lambda a: a * 2,
    "one by one": lambda a: a.to_sparse_coo(),
    "dense": lambda a: a.to_dense(),
}


def described(tensor: torch.Tensor) -> tuple[object, ...]:
    parts = [(tuple(part.shape), part.dtype) for part in parts_of(tensor)]
    return tensor.layout, tuple(tensor.shape), parts


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_compressed_fakes_store_as_much_as_real_ones(layout: str, operator: str) -> None:
    real = matrix(layout)
    expected = described(OPERATORS[operator](real))
    with SparseFakeTensorMode() as mode:
        for fake in (matrix(layout), mode.from_tensor(real)):
            assert described(OPERATORS[operator](fake)) == expected


def test_what_values_decide_is_refused() -> None:
    with SparseFakeTensorMode():
        rows = matrix("csr")
        for decided in (
            lambda: rows @ rows,
            lambda: rows + rows,
            lambda: torch.ones(4, 4).to_sparse_csr(),
            lambda: rows.to_sparse_bsr((2, 2)),
        ):
            with pytest.raises(NeedsValuesError, match="how many elements"):
                decided()
        with pytest.raises(NeedsValuesError, match="lengths of a nested tensor's rows"):
            torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(5, 2)], layout=torch.jagged)


def test_what_modules_hold_beside_parameters_is_cast_as_they_do_it() -> None:
    """A proxy's operators have operands, which its parameters are no part of."""
    with fake_tensors():
        network = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Operator(torch.neg, torch.ones(4, 4))))
        network.to(torch.bfloat16)
    assert {network[0].weight.dtype, network[1][0].operands[0].dtype} == {torch.bfloat16}  # type: ignore[index, union-attr]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("a", "b", "ends"),
    [
        ((8, 16), (2, 16, 8), (4, 8)),
        ((2, 5, 16), (16, 8), (4, 8)),
        ((2, 5, 16), (2, 16, 8), ()),
        ((16, 8), (8, 24), (3, 8)),
    ],
)
def test_grouped_products_have_the_shapes_of_real_ones(
    dtype: torch.dtype, a: tuple[int, ...], b: tuple[int, ...], ends: tuple[int, ...]
) -> None:
    def product() -> torch.Tensor:
        groups = torch.tensor(ends, dtype=torch.int32) if ends else None
        return torch._grouped_mm(torch.randn(a).to(dtype), torch.randn(b).to(dtype), groups)

    real = product()
    with fake_tensors():
        fake = product()
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


def test_an_operator_that_has_too_little_memory_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_for_real(*_: Any, **__: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    with fake_tensors():
        x = torch.ones(2)
        monkeypatch.setattr(FakeTensorMode, "__torch_dispatch__", run_for_real)
        with pytest.raises(NeedsMemoryError, match=r"aten\.relu") as caught:
            torch.relu(x)
        monkeypatch.undo()
    assert "smaller" in next_step(caught.value, "")
