"""Names of recorded ranges as operators that a signature may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed
from recording_files import launch, operator, write

from statsnet.recordings.kineto import read_kineto
from statsnet.recordings.operators import _COLLECTIVES, is_collective, public_name
from statsnet.signatures.privacy import assert_clean


@pytest.mark.parametrize("name", ["transformers.AcmeSecretRanker", "transformers::AcmeSecret", "aten::secret_rank",
                                  "aten.mm.default", "acme::mm", "AcmeSecret"])  # fmt: skip
def test_a_name_that_nobody_knows_is_opaque(name: str, tmp_path: Path) -> None:
    assert public_name(name) == "custom.opaque.default"
    events = [operator(name, 1000, 50, [[8, 8]], ["float"], [""]), *launch(1, 1010, "relu_kernel", 1020, 5),
              operator("aten::relu", 1100, 50, [[8, 8]], ["float"], [""])]  # fmt: skip
    data = read_kineto(write(tmp_path / "trace.json", events)).signature.to_dict()
    assert_clean(data)
    assert "ecret" not in json.dumps(data)


def test_a_public_librarys_operator_keeps_its_name() -> None:
    assert public_name("fbgemm::permute_2D_sparse_data") == "fbgemm.permute_2D_sparse_data.default"


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("nccl:all_reduce", "c10d.allreduce_.default"), ("nccl:send 0->1", "c10d.send.default"),
        ("nccl:recv 12<-3", "c10d.recv_.default"), ("nccl:_broadcast_oop", "c10d.broadcast_.default"),
        ("nccl:_reduce_oop", "c10d.reduce_.default"), ("nccl:_all_gather_base", "c10d._allgather_base_.default"),
        ("nccl:allreduce_coalesced", "c10d.allreduce_coalesced_.default"),
        ("nccl:reduce_scatter_tensor_coalesced", "c10d.reduce_scatter_tensor_coalesced_.default"),
        ("nccl:all_reduce_barrier", "c10d.barrier.default"), ("nccl:coalesced", "custom.opaque.default"),
        ("nccl:of_the_future", "custom.opaque.default"),
    ],
)  # fmt: skip
def test_collectives(name: str, op: str) -> None:
    assert is_collective(name)
    assert public_name(name) == op


def test_every_collective_is_one_of_torch() -> None:
    known = {name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names()}
    assert {op.removesuffix(".default") for op in _COLLECTIVES.values()} <= known
