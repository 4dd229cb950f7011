"""Tasks for processes that run a step together."""

from __future__ import annotations

import os
from dataclasses import dataclass

from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.distributed import joined
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.model import Signature


@dataclass(frozen=True)
class ProfileInOneGroup(Task[tuple[Signature, ...]]):
    """Trainings steps of several factories, one after the other: starting a group takes seconds."""

    targets: tuple[str, ...]

    def run(self, context: Context) -> tuple[Signature, ...]:
        with joined("cpu", 600.0):
            models = [Model(target=target, mode="training") for target in self.targets]
            return tuple(ProfileWorkload(model=m, min_time_s=0.0, repeats=2).run(context).signature for m in models)


@dataclass(frozen=True)
class Ranks(Task[tuple[str, ...]]):
    """One rank may end without a word, the others tell what they know of their group."""

    dies: int = -1

    def run(self, context: Context) -> tuple[str, ...]:
        rank = int(os.environ["RANK"])
        if rank == self.dies:
            os._exit(3)
        return tuple(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"))
