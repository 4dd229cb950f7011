"""What `explain` finds: a proxy's error under each setting, by kernel class, by block and by member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from statsnet.evaluation.causes import Advice
from statsnet.evaluation.error_parts import ClassError
from statsnet.signatures.conversion import plain
from statsnet.signatures.documents import SpecBlock, SpecTower
from statsnet.signatures.intervals import Interval
from statsnet.signatures.results import Evidence
from statsnet.synthesis.bench.tasks import NetworkTrace

APART = 0.01
"""The classes and the error may differ by this much before it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedClass:
    """What a kernel class adds to the error. `noise` is the largest less the smallest of the rounds, None for one
    round; `advice` None where the error is not large."""

    error: ClassError
    noise: float | None
    advice: Advice | None

    def to_dict(self) -> dict[str, Any]:
        parts, whole = plain(self.error), self.error.error
        return {**parts, "error": whole, "noise": self.noise, "advice": plain(self.advice)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedBlock:
    """What a block's own operators add to the error. Its `share` is that of the proxy's step, `factor` its own,
    `expected` that of the suite's operators of its classes; most of its time is in `kernel_class`."""

    tower: int
    index: int
    block: SpecBlock
    kernel_class: str
    share: float
    factor: float
    expected: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMember:
    """`share` is that of the suite's time at the baseline, now. `pace` is how many times as long its step takes now as
    when the proxy was made, beside the whole suite's. `factors` are by setting. `untimed_share` is the share of its
    calls whose time is not known."""

    name: str
    evidence: Evidence
    weight: float
    share: float
    pace: float
    factors: Mapping[str, float]
    untimed_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSetting:
    """The error under one setting and its parts, each the largest first. `suite_noise` is the suite's time in its
    slowest round over that in its fastest, less 1."""

    name: str
    suite_factor: Interval
    proxy_factor: Interval
    error: Interval
    suite_noise: float | None
    classes: tuple[ExplainedClass, ...]
    blocks: tuple[ExplainedBlock, ...]

    @property
    def explained_error(self) -> float:
        """The sum of all classes: of the means over rounds, where `error` is the mean of the rounds' factors."""
        return sum(row.error.error for row in self.classes)

    @property
    def verdict(self) -> str:
        """Whether there is an error to explain."""
        error, noise = self.error, self.suite_noise
        if noise is not None and noise >= abs(error.value):
            return (
                f"the suite's own time under the setting differs by {noise:.1%} between rounds, as much as the error "
                "or more: measure on a quiet machine, or raise --rounds"
            )
        if error.low is not None and error.high is not None and error.low <= 0 <= error.high:
            return "no error is shown, for its interval holds 0: more --rounds make it narrower"
        if abs(self.explained_error - error.value) > APART:
            return f"rounds differ, so that the classes add up to {self.explained_error:+.1%}: raise --rounds"
        return "the classes add up to the error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """`proxy` is the id of what was measured. `notes` say what could not be measured."""

    proxy: str
    mode: str
    environment: Mapping[str, Any]
    rounds: int
    members: tuple[ExplainedMember, ...]
    settings: tuple[ExplainedSetting, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, each class's whole error and each setting's verdict included."""
        settings = [
            {**plain(setting), "verdict": setting.verdict, "classes": [row.to_dict() for row in setting.classes]}
            for setting in self.settings
        ]
        return {**plain(self), "settings": settings}


def explained_blocks(
    towers: Sequence[SpecTower],
    before: Sequence[NetworkTrace],
    after: Sequence[NetworkTrace],
    expected: Mapping[str, float],
    suite_factor: float,
) -> tuple[ExplainedBlock, ...]:
    """All blocks whose operators take time, the largest error first. `before` and `after` are the rounds at the
    baseline and under the setting, `expected` the factor that each kernel class should have."""
    step_s = fmean(trace.signature.measurements[0].latency_s for trace in before)
    rows = []
    for i, tower in enumerate(before[0].blocks):
        for j in range(len(tower)):
            by_class = _class_times_s(before, i, j)
            here_s, there_s = sum(by_class.values()), sum(_class_times_s(after, i, j).values())
            if here_s <= 0:
                continue
            as_suite_s = sum(time_s * expected.get(name, 1.0) for name, time_s in by_class.items())
            rows.append(
                ExplainedBlock(
                    tower=i,
                    index=j,
                    block=towers[i].blocks[j],
                    kernel_class=max(by_class, key=lambda name: by_class[name]),
                    share=here_s / step_s,
                    factor=there_s / here_s,
                    expected=as_suite_s / here_s,
                    error=(there_s - as_suite_s) / step_s / suite_factor,
                )
            )
    return tuple(sorted(rows, key=lambda row: (-abs(row.error), row.tower, row.index)))


def _class_times_s(traces: Sequence[NetworkTrace], tower: int, index: int) -> dict[str, float]:
    """Seconds of a block's operators by kernel class, means over rounds."""
    times_s: dict[str, float] = defaultdict(float)
    for trace in traces:
        for row in trace.blocks[tower][index].operators:
            times_s[row.kernel_class] += row.time_s / len(traces)
    return times_s
