"""Results of `run` and `validate` as typed values. A key that is not named here passes unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from statsnet.display import Displayed
from statsnet.signatures.conversion import IF_KNOWN
from statsnet.signatures.documents import Characteristic, Distances, MemberName, Weight
from statsnet.signatures.intervals import Interval
from statsnet.signatures.limits import MOST_ROWS, Finite, Id, Number, PositiveSeconds
from statsnet.signatures.model import Mode
from statsnet.signatures.timing import Processes, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was run."""

    type: Literal["proxy", "suite"]
    id: Id | None
    mode: Mode


Evidence = Literal["model", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMember:
    """A workload of a suite: its processes here, and its time where the proxy was made."""

    name: MemberName
    weight: Weight
    latency_s_reference: PositiveSeconds
    processes: Processes
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTimes:
    """Of the proxy that was measured in turn with its suite."""

    processes: Processes


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacteristicAgain(Characteristic):
    """A row of a fit that was measured again: `recorded` stands in fit.json, `noise` lies between rounds."""

    recorded: Number | None
    error: Finite | None
    noise: Finite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAgain:
    """A fit that was measured again; `noise` compares the target of the first round with that of the last."""

    characteristics: Annotated[tuple[CharacteristicAgain, ...], MOST_ROWS]
    summary: Distances
    noise: Distances | None
    suite_latency_s: PositiveSeconds
    proxy_latency_s: PositiveSeconds
    compression: Finite


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFactor(Interval):
    """The factor of one workload of the suite."""

    name: MemberName
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """By which factor the times changed, and how far the proxy's is from the suite's."""

    suite_factor: Interval
    proxy_factor: Interval
    error: Interval
    members: Annotated[tuple[MemberFactor, ...], Meta(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingFactors(Moved):
    """The factors of one setting against the baseline."""

    name: str
    suite_noise: Finite | None
    differences: Annotated[tuple[str, ...], MOST_ROWS]
    member_processes: tuple[Processes, ...]
    proxy_processes: Processes


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSetting:
    """A setting under which a workload or the proxy does not run."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Whether the proxy follows its suite when settings change."""

    rounds: int
    widest_half_width: Finite | None
    baseline_noise: Finite | None
    settings: Annotated[tuple[SettingFactors, ...], MOST_ROWS]
    failed: Annotated[tuple[FailedSetting, ...], MOST_ROWS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What `validate` found; a part that was not asked for is None."""

    fit: FitAgain | None
    fidelity: Fidelity | None
    moved: Moved | None
    notes: Annotated[tuple[str, ...], MOST_ROWS]


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Displayed):
    """What `run` (processes) or `validate` (members) measured."""

    kind: Literal["statsnet.result"] = "statsnet.result"
    schema_version: Literal[1] = 1
    subject: Subject
    environment: Mapping[str, Any]
    processes: Processes | None = field(default=None, metadata=IF_KNOWN)
    members: Annotated[tuple[ResultMember, ...], Meta(min_length=1, max_length=10_000)] | None = field(
        default=None, metadata=IF_KNOWN
    )
    proxy: ProxyTimes | None = field(default=None, metadata=IF_KNOWN)
    validation: Validation | None = field(default=None, metadata=IF_KNOWN)

    def __post_init__(self) -> None:
        if self.processes is None and self.members is None:
            raise ValueError("it has neither 'processes' nor 'members'")
        if missing := {"device", "device_name"} - self.environment.keys():
            raise ValueError(f"environment: '{min(missing)}' is missing")
        if not isinstance(self.environment.get("settings") or {}, Mapping):
            raise ValueError("environment: 'settings' is no object")

    @property
    def of_subject(self) -> tuple[Timing, ...]:
        """The processes of the proxy that was run, or of all members of the suite."""
        if self.members is None:
            return self.processes or ()
        return tuple(process for member in self.members for process in member.processes)
