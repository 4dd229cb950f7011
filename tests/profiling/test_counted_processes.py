"""One of several processes counted without the others: its shares of parameters, its work and its collectives."""

from __future__ import annotations

import importlib
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from process_factories import (
    BATCH,
    CLASSES,
    FACTORIES,
    HEAD,
    INNER,
    LAYER,
    LAYERS,
    MICRO_BATCHES,
    PROCESSES,
    WIDTH,
)  # fmt: skip

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling import counting
from statsnet.profiling.fake_processes import fake_processes
from statsnet.profiling.laps import lap_of, look_for_laps
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.collectives import group_size, group_stride, is_collective, kind_of, message_bytes, sent_bytes
from statsnet.signatures.model import Cluster, Signature


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Signature]:
    """None of these models counts its steps: what torch numbers or notes of its own must not look so."""

    def look(*_: object) -> None:
        pytest.fail("steps are looked at for a period")

    for name in ("lap_of", "look_for_laps"):
        monkeypatch.setattr(counting, name, look)
    (tmp_path / "factories.py").write_text(FACTORIES)

    def run(name: str, processes: int = PROCESSES, mode: str = "training", **model: Any) -> Signature:
        built = Model(target=f"{tmp_path / 'factories.py'}:{name}", mode=mode, **model)
        return ProfileWorkload(model=built, device="meta", processes=processes).run(Context()).signature

    return run


def may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """At steps for a period: a model that draws numbers, or that counts its steps."""
    monkeypatch.setattr(counting, "lap_of", lap_of)
    monkeypatch.setattr(counting, "look_for_laps", look_for_laps)


def collectives(signature: Signature, kind: str) -> list[Cluster]:
    return [c for c in signature.clusters if is_collective(c.op) and kind_of(c.op) == kind]


def moved(signature: Signature, kind: str, group: int = PROCESSES) -> Counter[int]:
    """Bytes of a call -> calls a step. All are of groups of this size."""
    found: Counter[int] = Counter()
    for cluster in collectives(signature, kind):
        assert group_size(cluster) == group
        found[message_bytes(cluster)] += int(cluster.calls)
    return found


def products(signature: Signature) -> float:
    return sum(c.calls * (c.flops or 0) for c in signature.clusters if c.category == "gemm")


def padded(rows: int, columns: int = 1) -> int:
    """Numbers in a parameter whose rows are dealt out evenly."""
    return math.ceil(rows / PROCESSES) * PROCESSES * columns


LAYER_GATHERED = padded(INNER, WIDTH) + padded(INNER) + padded(WIDTH, INNER) + padded(WIDTH)
HEAD_GATHERED = padded(CLASSES, WIDTH) + padded(CLASSES)


def test_fully_sharded_training_gathers_each_layer_twice_and_scatters_its_gradients(
    count: Callable[..., Signature],
) -> None:
    signature, alone = count("fsdp"), count("alone", processes=1)
    assert (signature.processes, alone.processes) == (PROCESSES, None)
    # The outermost group keeps what it gathered until its backward.
    assert moved(signature, "all_gather") == {4 * LAYER_GATHERED: 2 * LAYERS, 4 * HEAD_GATHERED: 1}
    assert moved(signature, "reduce_scatter") == {4 * LAYER_GATHERED: LAYERS, 4 * HEAD_GATHERED: 1}
    # The first of eight has two of the head's ten rows; each layer's rows divide evenly.
    assert signature.memory.parameter_count == LAYERS * LAYER // PROCESSES + 2 * (WIDTH + 1)
    assert signature.memory.parameter_bytes == 4 * signature.memory.parameter_count
    assert products(signature) == products(alone)
    assert not [c.op for c in signature.clusters if c.flops is None]


def test_parameters_are_gathered_in_the_dtype_that_they_compute_in(count: Callable[..., Signature]) -> None:
    signature = count("fsdp_bfloat16")
    assert moved(signature, "all_gather") == {2 * LAYER_GATHERED: 2 * LAYERS, 2 * HEAD_GATHERED: 1}
    assert moved(signature, "reduce_scatter") == {4 * LAYER_GATHERED: LAYERS, 4 * HEAD_GATHERED: 1}


def test_a_cast_reaches_the_parts_that_are_gathered(count: Callable[..., Signature]) -> None:
    """Without a backward, the outermost group keeps what it gathered in an earlier step."""
    signature = count("fsdp", dtype="bfloat16", mode="inference")
    assert moved(signature, "all_gather") == {2 * LAYER_GATHERED: LAYERS}
    assert signature.memory.parameter_bytes == 2 * (signature.memory.parameter_count or 0)


def test_gathered_parameters_are_freed_layer_by_layer(count: Callable[..., Signature]) -> None:
    """No more than the head, this layer and the next are there at once, with what passes between layers."""
    memory = count("fsdp", mode="inference").memory
    most = 2 * LAYER_GATHERED + HEAD_GATHERED
    assert memory.activation_bytes is not None
    assert 4 * LAYER < memory.activation_bytes < 4 * (2 * most + 4 * BATCH * INNER) < 4 * 2 * LAYERS * LAYER


def test_tensor_parallel_layers_share_the_work_and_add_up_what_they_give(count: Callable[..., Signature]) -> None:
    signature, alone = count("tensor_parallel", batch=16), count("alone", processes=1, batch=16)
    head = 2 * 2 * 16 * WIDTH * CLASSES + 2 * 16 * WIDTH * CLASSES
    assert products(signature) == pytest.approx((products(alone) - head) / PROCESSES + head)
    # Each layer's output in the forward; in the backward the gradient of its input, which the first one does not need.
    assert moved(signature, "all_reduce") == {4 * 16 * WIDTH: 2 * LAYERS - 1}
    parts = (WIDTH * INNER + INNER + INNER * WIDTH) // PROCESSES + WIDTH
    assert signature.memory.parameter_count == LAYERS * parts + HEAD


def test_both_at_once(count: Callable[..., Signature]) -> None:
    signature = count("both")
    in_pairs = (WIDTH * INNER + INNER + INNER * WIDTH) // 2 + WIDTH
    assert moved(signature, "all_gather", PROCESSES // 2)[4 * in_pairs] == 2 * LAYERS
    assert moved(signature, "all_reduce", 2) == {4 * BATCH * WIDTH: 2 * LAYERS - 1}
    assert {group_stride(c) for c in collectives(signature, "all_gather")} == {2}
    assert {group_stride(c) for c in collectives(signature, "all_reduce")} == {1}


@pytest.mark.parametrize("name", ["data_parallel", "accumulated"])
def test_data_parallel_training_reduces_every_gradient_once(name: str, count: Callable[..., Signature]) -> None:
    signature = count(name)
    parameters = LAYERS * LAYER + HEAD
    sums = moved(signature, "all_reduce")
    assert sum(size * calls for size, calls in sums.items()) == 4 * parameters
    assert 1 < sums.total() <= 4 * parameters / 0.1e6 + 1
    assert {c.phase for c in signature.clusters if is_collective(c.op)} == {"backward"}
    assert signature.memory.parameter_count == parameters


@pytest.mark.parametrize("processes", [2, 4])
def test_a_ring_hands_keys_and_values_on(count: Callable[..., Signature], processes: int) -> None:
    signature = count("ring", processes)
    for kind in ("send", "receive"):  # keys and values, forward; their gradients, backward
        assert moved(signature, kind, processes) == {4 * BATCH * WIDTH: 4 * (processes - 1)}


@pytest.mark.parametrize(("name", "processes", "group"), [("pipeline", 2, 2), ("pipeline", 4, 4), ("scheduled", 4, 2)])
def test_a_stage_sends_each_micro_batch_and_its_copies_add_up_their_gradients(
    count: Callable[..., Signature], name: str, processes: int, group: int
) -> None:
    signature = count(name, processes)
    for kind in ("send", "receive"):
        assert moved(signature, kind, group) == {4 * BATCH * WIDTH // MICRO_BATCHES: MICRO_BATCHES}
    gradients = collectives(signature, "all_reduce")
    assert sum(c.calls * message_bytes(c) for c in gradients) == 4 * LAYER
    assert {group_size(c) for c in gradients} == {processes // 2}


def test_a_stage_that_would_ask_for_sizes_is_told_to_know_them(count: Callable[..., Signature]) -> None:
    with pytest.raises(WorkloadError, match="a stage of a pipeline cannot be counted") as raised:
        count("of_unknown_sizes", 4)
    assert "output_args" in raised.value.hint


def test_all_reduces_move_the_published_sizes() -> None:
    """Those of DeepBench's table. Around a ring, each of 64 processes sends 63 of 64 parts twice."""
    from reference_workloads.micro.table import rows

    model = Model(target="micro/deepbench_all_reduce", preset="standard", mode="inference")
    signature = ProfileWorkload(model=model, device="meta", processes=64).run(Context()).signature
    expected = Counter(4 * int(row["elements"]) for row in rows("deepbench_all_reduce"))
    assert moved(signature, "all_reduce", 64) == expected
    sums = collectives(signature, "all_reduce")
    assert sum(c.calls * (c.bytes_read or 0) for c in sums) == sum(expected.elements())
    assert sum(c.calls * (sent_bytes(c) or 0) for c in sums) == 2 * 63 / 64 * sum(expected.elements())


@pytest.mark.parametrize(
    ("mesh", "ranks"),
    [
        (lambda: torch.arange(8).view(2, 4), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (lambda: torch.arange(8).view(2, 4).T, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        (lambda: torch.arange(8)[2:4], [2, 3]),
        (lambda: [0, 2, 4, 6], [0, 2, 4, 6]),
        (lambda: torch.tensor([0, 3]), [0, 3]),
    ],
)
def test_meshes_are_made_of_tensors_without_values(mesh: Callable[[], Any], ranks: list[Any]) -> None:
    from torch.distributed.device_mesh import DeviceMesh

    from statsnet.workloads.fakes import fake_tensors

    with fake_processes(8), fake_tensors():
        made = DeviceMesh("cuda", mesh())
        assert made.mesh.tolist() == ranks
        assert made.device_type == "cpu"


def test_nothing_is_left_of_the_others() -> None:
    with fake_processes(4):
        dist.init_process_group("gloo")  # as a script does
        assert (dist.get_rank(), dist.get_world_size()) == (0, 4)
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("module", "name", "factory", "what"),
    [
        ("torch.distributed", "_verify_params_across_processes", "data_parallel", "data parallel training"),
        ("torch._C._distributed_c10d", "_create_work_from_future", "data_parallel", "data parallel training"),
        ("torch.distributed.tensor.placement_types", "shard_dim_alltoall", "fsdp", "a device mesh"),
        ("torch.distributed.pipelining._utils", "InferenceMode", "scheduled", "a stage of a pipeline"),
    ],
)
def test_a_torch_without_a_private_name_refuses_only_what_needs_it(
    count: Callable[..., Signature],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    factory: str,
    what: str,
) -> None:
    monkeypatch.delattr(importlib.import_module(module), name)
    with pytest.raises(WorkloadError, match=f"{what} cannot be counted") as raised:
        count(factory)
    assert name in raised.value.cause
    assert moved(count("ring", 2), "send", 2)


def test_collectives_are_counted_where_torch_numbers_them_otherwise(
    count: Callable[..., Signature], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._C._distributed_c10d import FakeWork
    from torch.distributed import _meta_registrations as works

    def made(args: Any, return_first_arg: bool = True) -> Any:
        work = FakeWork()
        work.seq_id = random.randint(1, 10**9)
        return (args[0], work.boxed()) if return_first_arg else work.boxed()

    expected = count("ring", 2)
    may_look(monkeypatch)
    monkeypatch.setattr(works, "create_fakework", made)
    monkeypatch.delattr(works, "generate_unique_id")
    assert count("ring", 2).clusters == expected.clusters


def test_a_hook_that_has_not_begun_is_told(count: Callable[..., Signature], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums whole gradients first, then two factors of rank 1 of each matrix, and all vectors."""
    may_look(monkeypatch)
    matrices, vectors = LAYERS * 2 * (WIDTH + INNER) + WIDTH + CLASSES, LAYERS * (WIDTH + INNER) + CLASSES
    sums = moved(count("power_sgd"), "all_reduce")
    assert sum(size * calls for size, calls in sums.items()) == 4 * (matrices + vectors)
    with pytest.raises(MeasurementError, match="not like later ones") as raised:
        count("power_sgd", overrides={"begins": 1000})
    assert "start_powerSGD_iter=2" in raised.value.hint


def test_who_asks_for_others_alone_is_told_how_to_have_them(count: Callable[..., Signature]) -> None:
    with pytest.raises(WorkloadError) as raised:
        count("fsdp", processes=1)
    assert "--nproc N" in raised.value.hint


def test_who_needs_a_gpu_to_build_is_told_what_to_ask(count: Callable[..., Signature]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(WorkloadError) as raised:
        count("for_gpus_alone")
    assert "torch.cuda.is_available()" in raised.value.hint
