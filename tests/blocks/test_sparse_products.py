"""Products of sparse matrices as blocks: as much is stored as in the model, and no dense block stands for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from statsnet.blocks import recognise
from statsnet.blocks.operator_call import operands_of
from statsnet.signatures.kernel_class import kernel_class
from tests.support.operator_calls import call_of, check_block_and_smaller, cluster_of, config_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls these tensors a beta

GRAPH = (torch.arange(48 * 48).view(48, 48) % 5 == 0).float()
ONES = torch.ones(48, 8)

PRODUCTS: dict[str, tuple[Callable[[], object], str]] = {
    "rows of a graph": (lambda: GRAPH.to_sparse_csr() @ ONES, "aten.mm.default"),
    "places in a graph": (lambda: torch.sparse.mm(GRAPH.to_sparse(), ONES), "aten._sparse_addmm.default"),
    "a gradient": (lambda: GRAPH.to_sparse_csr().t() @ ONES, "aten.mm.default"),
    "a vector": (lambda: GRAPH.to_sparse_csr() @ torch.ones(48), "aten.mv.default"),
    "a weight": (lambda: F.linear(ONES.t(), GRAPH[:32].to_sparse_csr(), torch.ones(32)), "aten.addmm.default"),
    "a weight in blocks": (
        lambda: F.linear(ONES.t(), GRAPH[:32].to_sparse_bsr((8, 8)), torch.ones(32)),
        "aten.addmm.default",
    ),
}  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_block_stores_as_much_and_a_smaller_one_less(product: str) -> None:
    check_block_and_smaller(*PRODUCTS[product])


@pytest.mark.parametrize("product", PRODUCTS)
def test_no_dense_block_stands_for_it(product: str) -> None:
    call = call_of(*PRODUCTS[product])
    assert recognise([cluster_of(call)]) is None


def test_a_sparse_operand_has_a_kernel_class_of_its_own() -> None:
    sparse, dense = (call_of(lambda m=m: m @ ONES, "aten.mm.default") for m in (GRAPH.to_sparse_csr(), GRAPH))
    classes = [kernel_class(call.op, call.args, call.outputs, "aten") for call in (sparse, dense)]
    assert classes == ["gemm|aten|float32|sn", "gemm|aten|float32|nn"]


def test_a_spec_can_hold_no_sparse_matrix_that_torch_would_read_past() -> None:
    config = config_of(call_of(*PRODUCTS["rows of a graph"]))
    dense, (dtype, shape, strides, stored) = config["operands"]
    hostile = [
        {**config, "operator": ("add", "Tensor")},
        *(
            {**config, "operands": (dense, (dtype, shape, strides, ("stored", *s)))}
            for s in ((9, 5, 5), (9, 0, 1), (2305, 1, 1), (1.5, 1, 1), (9, -1, -1), (9, 1))
        ),
        {**config, "operands": (dense, (dtype, (48, 48, 1), strides, stored))},
    ]
    for other in hostile:
        with pytest.raises(ValueError, match="an operand is no tensor"):
            operands_of(other)
