"""Tasks for processes that run a step together."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.api import profile
from statsnet.profiling.distributed import joined
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.model import Signature


@dataclass(frozen=True)
class ProfileInOneGroup(Task[tuple[Signature, ...]]):
    """Trainings steps of several factories, one after the other, then of a loop: starting a group takes seconds."""

    targets: tuple[str, ...]

    def run(self, context: Context) -> tuple[Signature, ...]:
        with joined("cpu", 600.0):
            models = [Model(target=target, mode="training") for target in self.targets]
            of_factories = [ProfileWorkload(model=m, min_time_s=0.0, repeats=2).run(context).signature for m in models]
            return (*of_factories, _uneven())


def _uneven() -> Signature:
    """Of a loop whose second process has inputs for 8 steps, the first for 12."""
    model = DistributedDataParallel(nn.Linear(8, 8))
    with profile("uneven") as p, Join([model]):
        for _ in range(8 if dist.get_rank() else 12):
            model(torch.ones(2, 8)).sum().backward()
            p.step()
    assert p.signature is not None
    return p.signature


@dataclass(frozen=True)
class Ranks(Task[tuple[str, ...]]):
    """One rank may end without a word, the others tell what they know of their group."""

    dies: int = -1

    def run(self, context: Context) -> tuple[str, ...]:
        rank = int(os.environ["RANK"])
        if rank == self.dies:
            os._exit(3)
        return tuple(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"))
