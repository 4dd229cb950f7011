"""A task that takes turns and waits in each. It needs torch, and fake_tasks does not."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import Context, Event
from statsnet.measure.timing_tasks import TimedStep, TimingTask
from statsnet.signatures.timing import Timing

MOMENT_S = 2.0**-20
"""Less than a turn takes; sums of it are exact."""


@dataclass(frozen=True, kw_only=True)
class WaitingInTurn(TimingTask):
    """Spends MOMENT_S in each turn. The environment holds what the command had spent before each."""

    def run(self, context: Context) -> TimedStep:
        assert context.turns is not None
        context.say(Event(ready=True))
        seen = []
        for _ in context.turns:
            seen.append(PATIENCE.spent_s)
            PATIENCE.spend(MOMENT_S)
            context.say(Event(window_s=1.0))
        return TimedStep(timing=Timing(latency_s=(1.0,)), environment={"spent_s": seen})
