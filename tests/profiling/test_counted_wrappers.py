"""torch's own wrappers counted without the other processes: what they decide by values, and what they ask of a mesh."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.fake_processes import fake_processes
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.collectives import is_collective, kind_of, message_bytes
from statsnet.signatures.model import Signature
from statsnet.signatures.operators import dtype_of
from statsnet.workloads.fakes import fake_tensors

WIDTH, LAYERS, PROCESSES = 16, 3, 8
LAYER = WIDTH * WIDTH + WIDTH

FACTORIES = f"""
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear({WIDTH}, {WIDTH}), nn.Linear({WIDTH}, {WIDTH})

    def forward(self, x):
        return self.used(x)


def layers():
    return nn.Sequential(*(nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS})))


def same_graph():
    return DistributedDataParallel(layers(), static_graph=True), torch.randn(2, {WIDTH})


def unused():
    return DistributedDataParallel(Unused(), find_unused_parameters=True), torch.randn(2, {WIDTH})


class EverySecond(DistributedDataParallel):
    def __init__(self, module):
        super().__init__(module)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return super().forward(x if self.steps % 2 else x.tanh())


def every_second():
    return EverySecond(layers()), torch.randn(2, {WIDTH})


def a_name_of_ddp_s():
    model = layers()
    model.register_buffer("static_graph", torch.ones(3))
    return DistributedDataParallel(model), torch.randn(2, {WIDTH})


def older_sharding():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    each, here = ModuleWrapPolicy({{nn.Linear}}), torch.device("cpu")
    return FullyShardedDataParallel(layers(), auto_wrap_policy=each, device_id=here), torch.randn(2, {WIDTH})


class DealtOut(nn.Module):
    # Each process has some rows, then some columns of all rows.
    def __init__(self, device):
        super().__init__()
        self.layer = nn.Linear({WIDTH}, {WIDTH})
        self.meshes = [init_device_mesh(device, ({PROCESSES},))]

    def forward(self, x):
        rows = DTensor.from_local(self.layer(x), self.meshes[0], [Shard(0)])
        return rows.redistribute(self.meshes[0], [Shard(1)]).to_local()


def dealt_out(device: str = "cuda"):
    return DealtOut(device), torch.randn(2, {WIDTH})
"""


@pytest.fixture
def moved(tmp_path: Path) -> Callable[..., Counter[tuple[str, str, str]]]:
    """Bytes a step, by operation, phase and dtype."""
    return lambda name, **overrides: _moved(_counted(tmp_path, name, **overrides))


def _counted(folder: Path, name: str, **overrides: object) -> Signature:
    (folder / "factories.py").write_text(FACTORIES)
    model = Model(target=f"{folder / 'factories.py'}:{name}", mode="training", overrides=overrides)
    return ProfileWorkload(model=model, device="meta", processes=PROCESSES).run(Context()).signature


def _moved(signature: Signature) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for cluster in signature.clusters:
        if is_collective(cluster.op):
            assert cluster.bytes_read is not None
            kind = (kind_of(cluster.op), cluster.phase, dtype_of(cluster.args, cluster.outputs))
            found[kind] += round(cluster.calls * message_bytes(cluster))
    return found


def test_a_graph_that_stays_the_same_is_counted_once_its_buckets_are_made(moved: Callable[..., object]) -> None:
    assert moved("same_graph") == {("all_reduce", "backward", "float32"): 4 * LAYERS * LAYER}


def test_what_a_wrapper_of_one_s_own_counts_is_seen(tmp_path: Path) -> None:
    calls = {c.op: c.calls for c in _counted(tmp_path, "every_second").clusters if "tanh." in c.op}
    assert calls == {"aten.tanh.default": 0.5}


def test_a_module_may_have_a_name_of_the_wrapper_s(moved: Callable[..., object]) -> None:
    broadcast = ("broadcast", "forward", "float32")
    assert moved("a_name_of_ddp_s") == {("all_reduce", "backward", "float32"): 4 * LAYERS * LAYER, broadcast: 12}


def test_processes_tell_each_other_which_parameters_they_used(moved: Callable[..., object]) -> None:
    parameters = 4  # two weights and two biases, of which two get no gradient
    assert moved("unused") == {
        ("all_reduce", "backward", "float32"): 4 * 2 * LAYER,
        ("all_reduce", "backward", "int32"): 4 * parameters,
    }


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # which it does itself
def test_the_older_sharding_gathers_each_layer_twice(moved: Callable[..., object]) -> None:
    """Between steps the gathered parameters have no memory: whoever read them would bring it back."""
    assert moved("older_sharding") == {
        ("all_gather", "forward", "float32"): 4 * LAYERS * LAYER,
        ("all_gather", "backward", "float32"): 4 * LAYERS * LAYER,
        ("reduce_scatter", "backward", "float32"): 4 * LAYERS * LAYER,
    }


@pytest.mark.parametrize(
    ("device", "operation", "times"), [("cuda", "all_to_all", 1), ("cpu", "all_gather", PROCESSES)]
)
def test_a_mesh_of_gpus_exchanges_what_a_cpu_gathers(
    moved: Callable[..., object], device: str, operation: str, times: int
) -> None:
    own = 4 * 2 * WIDTH
    assert moved("dealt_out", device=device) == {
        (operation, "forward", "float32"): times * own,
        (operation, "backward", "float32"): times * own,
    }


def test_collectives_draw_no_random_numbers() -> None:
    """A step that draws some is counted many times."""
    before = random.getstate()
    with fake_processes(PROCESSES), fake_tensors():
        dist.broadcast(torch.ones(1), 0)
    assert random.getstate() == before
