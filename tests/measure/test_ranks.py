"""One of several processes: which variables say so, and which GPU it gets, here and in generated networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import pytest
import torch
import torch.distributed as dist

from statsnet import environment
from statsnet.environment.launch import launched_together
from statsnet.errors import DeviceError
from statsnet.measure.rank_ends import lost_another
from statsnet.measure.ranks import Ranks
from statsnet.measure.several_processes import _variables
from statsnet.measure.task import Context
from statsnet.measure.timing import measure, time_once
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.distributed import joined
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.synthesis.bench.tasks import TraceNetwork

CLUSTER = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
TORCHRUN = {**CLUSTER, "TORCHELASTIC_RUN_ID": "none"}


@dataclass
class Machine:
    """One with two GPUs, on which groups are made in name only."""

    gpus: int = 2
    chosen: list[Any] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    here = Machine()
    for name in (*TORCHRUN, "LOCAL_RANK", "STATSNET_RUN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: here.gpus)
    monkeypatch.setattr(torch.cuda, "set_device", here.chosen.append)
    monkeypatch.setattr(dist, "init_process_group", lambda *names, **_: here.groups.append(names))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    return here


def given(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def of_network(device: str) -> tuple[bool, str]:
    """Whether a generated network's process joins others, and its device."""
    ranks = Ranks(device, [])
    return ranks.count > 1, ranks.device


def of_profile(device: str, machine: Machine) -> tuple[bool, str]:
    before = len(machine.groups)
    with joined(device, 1.0) as here:
        return len(machine.groups) > before, here


@pytest.mark.parametrize(
    ("variables", "joins"),
    [
        ({}, False),
        (CLUSTER, False),
        (TORCHRUN, True),
        (_variables(1, 2, 29500), True),
        ({**TORCHRUN, "WORLD_SIZE": "1"}, False),
        ({**TORCHRUN, "WORLD_SIZE": "two"}, False),
        ({"TORCHELASTIC_RUN_ID": "none"}, False),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_networks_and_profiles_join_by_the_same_variables(
    device: str, variables: dict[str, str], joins: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, variables)
    assert (
        of_network(device) == of_profile(device, machine) == (joins, "cuda:1" if joins and device == "cuda" else device)
    )
    assert launched_together() == ("TORCHELASTIC_RUN_ID" in variables or "STATSNET_RUN" in variables)


def test_the_gpu_is_that_of_the_rank_on_this_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, {**TORCHRUN, "RANK": "8", "LOCAL_RANK": "0"})
    assert of_network("cuda") == of_profile("cuda", machine) == (True, "cuda:0")


def test_too_few_gpus_have_the_same_cause(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, TORCHRUN)
    machine.gpus = 1
    with pytest.raises(RuntimeError, match="torch finds 1 CUDA devices here") as of_run:
        of_network("cuda")
    with pytest.raises(DeviceError, match="rank 1 of 2: there is no GPU for this process") as of_task:
        of_profile("cuda", machine)
    assert of_task.value.cause == str(of_run.value)


class Chosen(Exception):
    pass


def test_each_rank_measures_on_its_own_gpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, TORCHRUN)

    def choose(task: ProfileWorkload | TraceNetwork, _: Context) -> None:
        environment.select(task.device)
        raise Chosen(task.device)

    monkeypatch.setattr(ProfileWorkload, "_profile", choose)
    monkeypatch.setattr(TraceNetwork, "_traced", choose)
    profile = ProfileWorkload(model=Model(target="recsys/ncf", mode="inference"), device="cuda")
    network = TraceNetwork(folder="here", dtype="float32", device="cuda", together=True)
    for task in (profile, network):
        machine.chosen.clear()
        with pytest.raises(Chosen, match="cuda:1"):
            task.run(Context())
        assert machine.chosen[-1] == 1


def test_a_network_is_measured_alone_unless_others_were_started_with_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, TORCHRUN)
    monkeypatch.setattr(TraceNetwork, "_traced", lambda *_: None)
    TraceNetwork(folder="here", dtype="float32").run(Context())
    assert not machine.groups
    TraceNetwork(folder="here", dtype="float32", together=True).run(Context())
    assert len(machine.groups) == 1


def test_the_warm_up_is_not_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first steps are slow; what is told of each process are its medians of the others."""
    given(monkeypatch, TORCHRUN)
    monkeypatch.setattr(dist, "all_gather", lambda of_all, own: [each.copy_(own) for each in of_all])
    waits: list[float] = []
    ranks = Ranks("cpu", waits)
    now = 0.0
    lengths = chain([1024.0] * 3, repeat(1.0))

    def step() -> None:
        nonlocal now
        now += (length := next(lengths))
        waits.append(length / 4)

    timed = measure(step, min_time_s=4.0, max_time_s=8192.0, clock=lambda: now, ranks=ranks)
    assert len(ranks.latency_s) == len(timed["latency_s"])
    told = ranks.describe(collectives=1)
    assert (told["rank_step_latency_s"], told["rank_waiting_s"]) == ([1.0, 1.0], [0.25, 0.25])
    assert timed["warmup_latency_s"][0] == 1024.0


def test_a_gpu_that_waits_for_another_one_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfinished:
        def record(self, stream: Any) -> None: ...

        def query(self) -> bool:
            return False

    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Unfinished())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    with pytest.raises(RuntimeError, match="timed out") as raised:
        time_once(lambda: None, "cuda:0", lambda: 0.0, limit_s=0.0)
    assert lost_another(str(raised.value))
