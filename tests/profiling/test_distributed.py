"""Steps that two processes run together: what DDP, FSDP2 and tensor parallelism move, by hand."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from group_tasks import ProfileInOneGroup
from profiling_helpers import call as made_call
from profiling_helpers import captured
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from statsnet.errors import MeasurementError
from statsnet.measure.several_processes import run_in_group
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.distributed import groups_wait, lacks
from statsnet.profiling.encode import GROUPS
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.profiling.unseen import check_collectives
from statsnet.reporting.collectives import collectives_report
from statsnet.signatures.categories import COLLECTIVE, base_name, categorize
from statsnet.signatures.collectives import _TABLES, group_size, is_collective, kind_of, message_bytes
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import assert_clean
from statsnet.workloads.losses import ProjectionLoss

EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed.py"
WIDTH, BATCH = 256, 16
UP, DOWN = WIDTH * 4 * WIDTH + 4 * WIDTH, 4 * WIDTH * WIDTH + WIDTH
"""Parameters of the two layers."""

needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no gloo")


@pytest.fixture(scope="module")
def signatures() -> dict[str, Signature]:
    names = ("data_parallel", "sharded", "tensor_parallel")
    task = ProfileInOneGroup(targets=tuple(f"{EXAMPLE}:{name}" for name in names))
    return dict(zip((*names, "uneven"), run_in_group(task, 2, timeout_s=600.0), strict=True))


def moved(signature: Signature) -> Counter[tuple[str, str]]:
    """Bytes a step, by operation and phase."""
    bytes_: Counter[tuple[str, str]] = Counter()
    for cluster in signature.clusters:
        if is_collective(cluster.op):
            bytes_[kind_of(cluster.op), cluster.phase] += round(cluster.calls * message_bytes(cluster))
    return bytes_


@needs_gloo
def test_a_process_may_run_out_of_inputs(signatures: dict[str, Signature]) -> None:
    """Before each forward pass, torch's Join counts who has inputs; DDP compares buffers and gradients are summed."""
    sums = moved(signatures["uneven"])
    assert sums["all_reduce", "backward"] == 4 * (8 * 8 + 8)
    assert sums["all_reduce", "forward"] > 0


@needs_gloo
def test_collectives_are_tied_to_what_they_read_and_to_who_reads_them(signatures: dict[str, Signature]) -> None:
    tied = {
        name: {tuple(base_name(signature.clusters[i].op) for i in motif.clusters) for motif in signature.motifs}
        for name, signature in signatures.items()
    }
    assert {("mul", "allreduce_"), ("allreduce_", "copy_")} <= tied["data_parallel"]
    assert {
        ("all_gather_copy_in", "_allgather_base_"),
        ("_allgather_base_", "split_with_sizes_copy"),
        ("chunk_cat", "_reduce_scatter_base_"),
    } <= tied["sharded"]
    assert {("addmm", "all_reduce"), ("all_reduce", "mul")} <= tied["tensor_parallel"]


@needs_gloo
def test_data_parallel_sums_all_gradients(signatures: dict[str, Signature]) -> None:
    signature = signatures["data_parallel"]
    assert moved(signature) == {("all_reduce", "backward"): 4 * (UP + DOWN)}
    buckets = [c for c in signature.clusters if is_collective(c.op)]
    assert sum(c.calls for c in buckets) == 2  # of at most 1 MiB: each layer has one
    assert {c.op for c in buckets} == {"c10d.allreduce_.default"}


@needs_gloo
def test_sharding_gathers_each_layer_twice_and_scatters_its_gradients(signatures: dict[str, Signature]) -> None:
    assert moved(signatures["sharded"]) == {
        ("all_gather", "forward"): 4 * (UP + DOWN),
        ("all_gather", "backward"): 4 * (UP + DOWN),
        ("reduce_scatter", "backward"): 4 * (UP + DOWN),
    }


@needs_gloo
def test_tensor_parallel_sums_activations_and_runs_a_part_of_each_product(signatures: dict[str, Signature]) -> None:
    signature = signatures["tensor_parallel"]
    assert moved(signature) == {("all_reduce", "forward"): 4 * BATCH * WIDTH}
    products = [c for c in signature.clusters if c.category == "gemm" and c.phase == "forward"]
    assert sum(c.calls * c.flops for c in products if c.flops) == 2 * 2 * BATCH * WIDTH * 4 * WIDTH / 2
    assert signature.memory.parameter_bytes == 4 * ((UP + 4 * WIDTH * WIDTH) // 2 + WIDTH)  # the last bias is whole


@needs_gloo
@pytest.mark.parametrize("name", ["data_parallel", "sharded", "tensor_parallel"])
def test_what_is_told_of_the_processes(signatures: dict[str, Signature], name: str) -> None:
    signature = signatures[name]
    assert_clean(signature.to_dict())
    assert Signature.from_dict(signature.to_dict()) == signature
    clusters = {i for i, c in enumerate(signature.clusters) if is_collective(c.op)}
    assert {group_size(signature.clusters[i]) for i in clusters} == {2}
    assert all(c.flops is not None and c.bytes_moved is not None for c in signature.clusters)
    (measurement,) = signature.measurements
    known = measurement.collectives
    assert known is not None
    assert (known.processes, known.backend) == (2, "gloo")
    assert len(known.rank_step_latency_s) == len(known.rank_waiting_s) == 2
    assert known.rank_step_latency_s[0] == measurement.latency_s
    assert known.rank_waiting_s[0] == known.exposed_time_s
    assert {call.cluster for call in known.calls} == clusters
    assert all(0 <= call.exposed_time_s <= call.time_s for call in known.calls)
    assert not measurement.unmatched_calls
    assert signature.workload is None
    assert len(collectives_report(signature, measurement)) == 2


@needs_gloo
def test_places_follow_the_phases(signatures: dict[str, Signature]) -> None:
    signature = signatures["sharded"]
    known = signature.measurements[0].collectives
    assert known is not None
    places: dict[str, list[float]] = {}
    for call in known.calls:
        cluster = signature.clusters[call.cluster]
        places.setdefault(f"{kind_of(cluster.op)} {cluster.phase}", []).append(call.start_share)
    assert max(places["all_gather forward"]) < min(places["all_gather backward"])
    assert max(places["all_gather forward"]) < min(places["reduce_scatter backward"])


@needs_gloo
def test_a_group_is_encoded_by_its_size() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x, parts = torch.zeros(6), [torch.zeros(6)]
        group = dist.group.WORLD.group_name
        ops = torch.ops._c10d_functional
        calls = captured(
            lambda: (
                dist.all_reduce(x),
                dist.all_gather(parts, x),
                ops.wait_tensor(ops.all_gather_into_tensor(x, 1, group)),
                dist.broadcast(x, 0),
                dist.reduce_scatter(x, parts),
                ops.wait_tensor(ops.all_reduce(x, "sum", group)),
            )
        )
    finally:
        dist.destroy_process_group()
    moving = [c for c in calls if is_collective(c.op)]
    assert [kind_of(c.op) for c in moving] == [
        "all_reduce", "all_gather", "all_gather", "broadcast", "reduce_scatter", "all_reduce"
    ]  # fmt: skip
    assert {group_size(c) for c in moving} == {1}
    assert {message_bytes(c) for c in moving} == {24}
    assert moving[1].args[0] == {"tensors": [{"shape": [6], "dtype": "float32"}]}


@needs_gloo
def test_a_group_that_a_factory_makes_waits_no_longer_than_that_of_all() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with groups_wait(7.0):
            group: Any = dist.new_group([0])
        assert group._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=7)
    finally:
        dist.destroy_process_group()


def test_a_torch_that_gives_groups_no_timeout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dist.distributed_c10d, "_get_default_timeout")
    with groups_wait(7.0):
        assert not lacks(), "this process is alone"
        monkeypatch.setattr("statsnet.profiling.distributed.alone", lambda: False)
        assert "--group-timeout holds for the group of all processes only" in lacks()[0]


@needs_gloo
def test_a_sharded_output_is_projected_as_this_process_holds_it() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        local = torch.ones(4, 2, requires_grad=True)
        sharded = DTensor.from_local(local, init_device_mesh("cpu", (1,)), [Shard(0)])
        calls = captured(lambda: ProjectionLoss()(sharded).backward())
    finally:
        dist.destroy_process_group()
    assert local.grad is not None
    assert local.grad.abs().min() > 0
    assert not any(is_collective(c.op) for c in calls)


def test_collectives_that_a_hook_begins_elsewhere_are_not_lost_silently() -> None:
    calls = [made_call("c10d.allreduce_.default"), made_call("aten.mm.default")]
    check_collectives(1, calls)
    with pytest.raises(MeasurementError, match="2 of the step's 3 collectives run in threads"):
        check_collectives(3, calls)
    parts = {"tensors": [{"shape": [6], "dtype": "float32", "times": 2}]}
    calls += [made_call("c10d.reduce_scatter_.default", args=[parts, parts, 2])]
    calls += [made_call("c10d.monitored_barrier_.default", args=[{"shape": [1], "dtype": "float32"}, 2])]
    check_collectives(1 + 2 + 2, calls)  # a sum for each part; an answer from the other process, and one to it


LOCAL = """
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hooks


def make(begins: int):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    state = hooks.PostLocalSGDState(None, dist.group.WORLD, start_localSGD_iter=begins)
    model.register_comm_hook(state, hooks.post_localSGD_hook)
    return model, torch.ones(2, 4)
"""


@needs_gloo
@pytest.mark.parametrize("begins", [2, 1000])
def test_steps_before_a_hook_begins_are_refused(tmp_path: Path, begins: int) -> None:
    (tmp_path / "local.py").write_text(LOCAL)
    model = Model(target=f"{tmp_path}/local.py:make", mode="training", overrides={"begins": begins})
    task = ProfileWorkload(model=model, min_time_s=0.0, repeats=2)
    told = pytest.raises(MeasurementError, match="not like later ones") if begins > 2 else nullcontext()
    try:
        with told as raised:
            task.run(Context())
    finally:
        dist.destroy_process_group()
    assert raised is None or "start_localSGD_iter=2" in raised.value.hint


UNLIKE = """
import torch
import torch.distributed as dist


def make():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    inputs = [((torch.ones(2 + i, 4),), {}) for i in range(1 + dist.get_rank())]
    return {"model": model, "inputs": inputs}
"""


@needs_gloo
def test_processes_whose_inputs_have_other_numbers_of_shapes_are_refused(tmp_path: Path) -> None:
    """One would run a step more, and wait for the other."""
    (tmp_path / "unlike.py").write_text(UNLIKE)
    model = Model(target=f"{tmp_path}/unlike.py:make", mode="training")
    task = ProfileWorkload(model=model, min_time_s=0.0, repeats=2, group_timeout_s=20.0)
    with pytest.raises(MeasurementError, match="do not run the same steps") as raised:
        run_in_group(task, 2, timeout_s=120.0)
    assert "1 and 2 different sets of input shapes" in raised.value.cause and "pad" in raised.value.hint


def test_operators_after_the_last_node_of_autograd_are_backward_ones() -> None:
    layer = nn.Linear(2, 2)

    def step() -> None:
        def last() -> None:
            torch.neg(torch.ones(2))

        def queue(gradient: torch.Tensor) -> None:
            torch.autograd.Variable._execution_engine.queue_callback(last)

        handle = layer.weight.register_hook(queue)
        layer(torch.ones(1, 2)).sum().backward()
        handle.remove()

    assert [c.phase for c in captured(step) if c.op == "aten.neg.default"] == ["backward"]


def test_each_collective_has_its_group_where_the_table_says() -> None:
    schemas = {s.name.replace("::", "."): s for s in torch._C._jit_get_all_schemas() if not s.overload_name}
    for library, rows in _TABLES.items():
        for name, (_, place) in rows.items():
            assert categorize(f"{library}.{name}.default", "optimizer") == COLLECTIVE
            if schema := schemas.get(f"{library}.{name}"):
                assert schema.arguments[place].name in GROUPS, schema
    assert is_collective("symm_mem.two_shot_all_reduce_.default")
    assert not is_collective("symm_mem._async_input_mm.default"), "it computes, too"
