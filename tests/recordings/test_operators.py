"""Names of recorded ranges as operators that a signature may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed
from recording_files import launch, operator, span, write

from statsnet.recordings.kineto import read_kineto
from statsnet.recordings.operators import _COLLECTIVES, is_collective, public_name
from statsnet.recordings.process_groups import Noted, noted_in_node, noted_in_timeline
from statsnet.signatures.collectives import group_size, group_stride, message_bytes
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


COMMS = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16",
         "Process Group Ranks": "[0, 4]", "Group size": 2, "Global rank stride": 4}  # fmt: skip


@pytest.mark.parametrize(
    ("world", "stride", "backend"), [(8, 4, "nccl"), (2, None, "cpu:gloo,cuda:nccl"), (2, None, "undefined")]
)
@pytest.mark.parametrize("around", ["c10d::allreduce_", "nccl:all_reduce"])
def test_sizes_and_group_are_those_that_the_process_group_notes(
    around: str, world: int, stride: int | None, backend: str, tmp_path: Path
) -> None:
    """Also where the collective's own arguments were not recorded."""
    names = ["record_param_comms", "nccl:all_reduce"] if around.startswith("nccl") else [around, "record_param_comms"]
    kinds = {"nccl:all_reduce": "user_annotation"}
    events = [
        operator("aten::relu", 1000, 50, [[8, 8]], ["float"], [""]), *launch(1, 1010, "relu_kernel", 1020, 5),
        *(span(kinds.get(name, "cpu_op"), name, 1100 + i, 50 - 2 * i, **(COMMS if name.startswith("rec") else {}))
          for i, name in enumerate(names)),
        *launch(2, 1110, "ncclDevKernel_AllReduce", 1120, 30),
    ]  # fmt: skip
    head = {"distributedInfo": {"backend": backend, "rank": 0, "world_size": world}}
    signature = read_kineto(write(tmp_path / "trace.json", events, **head)).signature
    (found,) = (c for c in signature.clusters if c.op == "c10d.allreduce_.default")
    assert (message_bytes(found), group_size(found), group_stride(found)) == (2000, 2, stride)
    known = signature.measurements[0].collectives
    assert known is not None
    assert (signature.processes, known.processes, known.backend) == (world, world, "nccl")
    assert [(c.time_s, c.exposed_time_s) for c in known.calls] == [(pytest.approx(30e-6), pytest.approx(30e-6))]


@pytest.mark.parametrize("world", [-3, 10**12, "many", None])
def test_what_can_be_no_number_of_processes_is_left_out(world: object, tmp_path: Path) -> None:
    events = [operator("aten::relu", 1000, 50, [[8, 8]], ["float"], [""]), *launch(1, 1010, "relu_kernel", 1020, 5)]
    head = {"distributedInfo": {"world_size": world}}
    assert read_kineto(write(tmp_path / "trace.json", events, **head)).signature.processes is None


def test_a_number_that_the_host_reads_has_its_bytes(tmp_path: Path) -> None:
    item = operator("aten::_local_scalar_dense", 1000, 50, [[]], ["float"], [""])
    found = read_kineto(write(tmp_path / "trace.json", [item, *launch(1, 1010, "copy", 1020, 5)]))
    assert [c.bytes_moved for c in found.signature.clusters] == [8]


@pytest.mark.parametrize("wrong", [{"Group size": -1}, {"Group size": "two"}, {"Collective name": "wait"}])
def test_what_is_no_group_is_left_out(wrong: dict[str, object]) -> None:
    assert noted_in_timeline(COMMS) == Noted(2, 4, 1000, "bfloat16")
    assert noted_in_timeline({**COMMS, **wrong}) is None
    partly = {"In msg nelems": [], "Out msg nelems": 2**60, "dtype": {}, "Global rank stride": 0}
    assert noted_in_timeline({**COMMS, **partly}) == Noted(2, 1)


def test_an_execution_traces_node_notes_the_same() -> None:
    attributes = {"collective_name": "allreduce", "dtype": "BFloat16", "in_msg_nelems": 1000, "out_msg_nelems": 1000,
                  "global_rank_stride": 4, "pg_size": 2}  # fmt: skip
    assert noted_in_node(attributes) == noted_in_timeline(COMMS)


def test_every_collective_is_one_of_torch() -> None:
    known = {name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names()}
    assert {op.removesuffix(".default") for op in _COLLECTIVES.values()} <= known
