"""What benchmarks/breadth.py does with each case, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.check import Check, CheckWorkload
from statsnet.profiling.tasks import Profile, ProfileWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A profile, and its check."""

    profile: Profile
    check: Check


@dataclass(frozen=True, kw_only=True)
class ProfileAndCheck(Task[Both]):
    """Both in one process: importing a library takes longer than either."""

    model: Model

    def run(self, context: Context) -> Both:
        check = CheckWorkload(model=self.model).run(context)
        profile = ProfileWorkload(model=self.model, min_time_s=0.1, repeats=2).run(context)
        return Both(profile=profile, check=check)
