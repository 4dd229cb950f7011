"""Results of MLPerf's scenarios as typed values: what the load generator asked, and how long every answer took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from statsnet.display import Displayed
from statsnet.signatures.conversion import IF_KNOWN
from statsnet.signatures.documents import MemberName, Weight
from statsnet.signatures.limits import MOST_ROWS, Positive, PositiveSeconds, Share
from statsnet.signatures.results import Subject
from statsnet.signatures.timing import SomeTimes

ScenarioName = Literal["single-stream", "multi-stream", "offline", "server"]
SCENARIOS: tuple[ScenarioName, ...] = get_args(ScenarioName)

MOST_QUERIES = 1_000_000
"""One run holds no more: a result keeps the latency of each."""

Rate = Annotated[float, Meta(gt=0, le=1e9)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=2000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRules:
    """What a run is held against. The result of single-stream, multi-stream and server is the latency at `percentile`
    (0.99: 99 of 100 queries are as quick). `latency_bound_s` is of the server scenario alone, and None where nothing is
    held against a bound. `samples_per_query` is above 1 in the multi-stream scenario."""

    min_time_s: PositiveSeconds
    min_queries: Positive = 1
    percentile: Annotated[float, Meta(gt=0, lt=1)]
    latency_bound_s: PositiveSeconds | None = field(default=None, metadata=IF_KNOWN)
    samples_per_query: Positive = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one process answered, by the load generator's clock.

    `latency_s` holds the latency of every query in the order in which they were asked; offline, where all are asked at
    once, when each sample was done. `duration_s` is what the generator holds against the shortest time that a run may
    take, `completed_s` when the last answer came. `step_s` is a step's mean time in the warm-up, when nothing else
    waited. `says_valid` is the generator's own verdict, and `says` its reason.
    """

    latency_s: SomeTimes
    duration_s: PositiveSeconds
    completed_s: PositiveSeconds
    step_s: PositiveSeconds
    says_valid: bool
    says: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of the load generator; several instances each have one, and all run at the same time. `qps` is the rate
    that was asked for in the server scenario, queries per second."""

    answers: Annotated[tuple[Answers, ...], Meta(min_length=1, max_length=4096)]
    threads: Positive | None = None
    qps: Rate | None = field(default=None, metadata=IF_KNOWN)

    @property
    def instances(self) -> int:
        return len(self.answers)

    @property
    def latency_s(self) -> tuple[float, ...]:
        """Of all instances."""
        return tuple(latency for each in self.answers for latency in each.latency_s)


Trials = Annotated[tuple[Trial, ...], Meta(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMember:
    """A workload of the suite: its weight is a share of device time, and `query_share` the share of the queries that
    went to it for that."""

    name: MemberName
    weight: Weight
    query_share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderSetting:
    """Suite and proxy under a setting. `differences` says how the environment differs from the baseline's."""

    name: Name
    suite: Trials
    proxy: Trials
    differences: Annotated[tuple[str, ...], MOST_ROWS] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteBeside:
    """The suite in the same scenario as the proxy. `proxy` has the proxy's trials at the baseline; those of the suite
    are the result's own."""

    members: Annotated[tuple[AskedMember, ...], Meta(min_length=1, max_length=10_000)]
    proxy: Trials
    settings: Annotated[tuple[UnderSetting, ...], MOST_ROWS] = ()
    notes: Annotated[tuple[str, ...], MOST_ROWS] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ScenarioResult(Displayed):
    """What `run --scenario` (of a proxy) or `validate --scenario` (of a suite, with `beside`) measured."""

    kind: Literal["statsnet.scenario"] = "statsnet.scenario"
    schema_version: Literal[1] = 1
    subject: Subject
    environment: Mapping[str, Any]
    scenario: ScenarioName
    rules: ScenarioRules
    trials: Trials
    beside: SuiteBeside | None = field(default=None, metadata=IF_KNOWN)

    def __post_init__(self) -> None:
        if missing := {"device", "device_name"} - self.environment.keys():
            raise ValueError(f"environment: '{min(missing)}' is missing")
        of_beside = self.beside.proxy if self.beside else ()
        if self.scenario == "server" and any(trial.qps is None for trial in (*self.trials, *of_beside)):
            raise ValueError("a trial of the server scenario has no 'qps'")
