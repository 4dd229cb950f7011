"""A proxy's spec and its fit as typed values. A key that is not named here passes unchecked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from statsnet.signatures.conversion import IF_KNOWN, typed
from statsnet.signatures.limits import (
    LARGEST_INT,
    MOST_PROCESSES,
    MOST_ROWS,
    Finite,
    Id,
    Label,
    Number,
    PositiveSeconds,
    Share,
    Size,
    whole,
)
from statsnet.signatures.measurement import Environment
from statsnet.signatures.model import Level, Mode
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.signatures.simulation import Simulation, SimulationFit

Weight = Annotated[float, Meta(gt=0, le=1)]
MemberName = Annotated[str, Meta(min_length=1, max_length=200)]
Name = Annotated[str, Meta(max_length=60)]
EffortName = Literal["quick", "normal", "thorough"]


def check_environment(document: object) -> None:
    """Raises ValueError if the environment of a file is no environment record. An empty one says that none is known."""
    name = "reference_environment" if isinstance(document, ProxySpec) else "environment"
    environment = dict(getattr(document, name))
    if environment:
        typed(environment, Environment, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecMember:
    """A workload that a proxy stands for: its pinned signature, and its time where the proxy was made."""

    name: MemberName
    weight: Weight
    signature: Id
    latency_s: PositiveSeconds
    batch: Annotated[int, Meta(ge=1)] | None = None
    preset: Name | None = None
    optimizer: Name | None = None
    peak_bytes: Size | None = None


def texts_in(values: Iterable[Any]) -> Iterator[str]:
    """Every text within, keys included."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from texts_in(value.items())
        elif isinstance(value, list | tuple):
            yield from texts_in(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBlock:
    """One block of a tower; `config` holds the arguments of its constructor: numbers, words, and lists of them."""

    kind: Annotated[str, whole("[a-z][a-z0-9_]{0,59}")]
    config: dict[str, Any]
    optimizer: Name | None

    def __post_init__(self) -> None:
        for text in texts_in(list(self.config.items())):
            if not re.fullmatch(r"-?\w*", text, re.ASCII):
                raise ValueError(f"{text[:60]!r} is no word, and may become code")


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerPurpose:
    """What a tower stands for, as measured where the proxy was made.

    `step_share` is the part of the step that its operators take. `categories` are those of its operators, the longest
    first. `members` are the members of the mix that spend the most time in such operators."""

    step_share: Share
    categories: tuple[Name, ...]
    members: tuple[MemberName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecTower:
    """A tower that `keeps_dtype` is handed numbers of the network's own dtype under autocast, too. One that is an
    operator by itself may run `in_backward`, when the step's gradients are computed."""

    blocks: Annotated[tuple[SpecBlock, ...], Meta(min_length=1, max_length=100_000)]
    purpose: TowerPurpose | None = field(default=None, metadata=IF_KNOWN)
    keeps_dtype: bool | None = field(default=None, metadata=IF_KNOWN)
    in_backward: bool | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecCollective:
    """`count` equal collectives. The larger side of each, what a process sends or what it receives, has `elements`. It
    begins once a share of its phase is computed (`begins_at`), and the step waits for it once a share that is as large
    or larger is (`awaited_at`). So many processes share one in the suite (`group_size`). With a `group_stride` these
    were not all of the suite's: their ranks were so far apart, and a proxy makes such groups. Without one, all
    processes that run a proxy share it. A barrier has no elements."""

    operation: Name
    elements: Annotated[int, Meta(ge=0, le=LARGEST_INT)]
    dtype: Name
    phase: Literal["forward", "backward"]
    begins_at: Share
    awaited_at: Share
    group_size: Annotated[int, Meta(ge=2, le=MOST_PROCESSES)] | None = field(default=None, metadata=IF_KNOWN)
    group_stride: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = field(default=None, metadata=IF_KNOWN)
    count: Annotated[int, Meta(ge=1, le=10_000)] = 1

    def __post_init__(self) -> None:
        if self.begins_at > self.awaited_at:
            raise ValueError("it has a collective that is awaited before it begins")

    @property
    def nbytes(self) -> int:
        """Of one of them."""
        return self.elements * ITEM_SIZE.get(self.dtype, 4)


MOST_COLLECTIVES = 100_000
"""Of one step: each is a module of the network."""

MOST_PARTS = 300_000
"""Numbers, texts and lists in the blocks of a spec: a few bytes of the file each, and 800 of memory as source."""


def _parts_in(value: Any) -> int:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_parts_in, held))


@dataclass(frozen=True, kw_only=True)
class ProxySpec:
    """spec.json: the network as data, and the mix that it stands for.

    `level` is that of the member whose signature tells most, of those that do not ship with StatsNet; None: all of them
    ship. `title` says what was mixed, or is the name in a mix's file; `notes` are from there. All other texts of a
    proxy's folder are made from this and fit.json. A proxy for simulators has no `budget_s`, but a `simulation`.
    `collectives` are those of the processes that run the network together, in order.
    """

    kind: Literal["statsnet.proxy"] = "statsnet.proxy"
    schema_version: Literal[2] = 2
    id: Id
    title: Annotated[str, Meta(min_length=1, max_length=200_000)]
    notes: Annotated[str, Meta(max_length=200_000)] = ""
    mode: Mode
    dtype: Annotated[str, whole("[a-z0-9_]{1,40}")]
    seed: Annotated[int, Meta(ge=0, le=LARGEST_INT)]
    budget_s: PositiveSeconds | None
    reference_environment: Mapping[str, Any]
    mix: Annotated[tuple[SpecMember, ...], Meta(min_length=1, max_length=10_000)]
    towers: Annotated[tuple[SpecTower, ...], Meta(min_length=1, max_length=10_000)]
    level: Level | None = field(default=None, metadata=IF_KNOWN)
    simulation: Simulation | None = field(default=None, metadata=IF_KNOWN)
    collectives: Annotated[tuple[SpecCollective, ...], Meta(max_length=MOST_COLLECTIVES)] | None = field(
        default=None, metadata=IF_KNOWN
    )

    def __post_init__(self) -> None:
        if sum(_parts_in(block.config) for tower in self.towers for block in tower.blocks) > MOST_PARTS:
            raise ValueError(f"its blocks hold more than {MOST_PARTS} numbers")
        if sum(c.count for c in self.collectives or ()) > MOST_COLLECTIVES:
            raise ValueError(f"it has more than {MOST_COLLECTIVES} collectives")
        if self.mode == "inference" and any(c.phase == "backward" for c in self.collectives or ()):
            raise ValueError("it has collectives in the backward pass of an inference step")
        if self.simulation is None:
            if self.budget_s is None:
                raise ValueError("'budget_s' is null, which only a proxy for simulators may have")
        elif [len(tower.blocks) for tower in self.towers] != [1] * len(self.simulation.layers):
            raise ValueError("a proxy for simulators has one block for each of its layers")


COLLECTIVE_GROUP = "collective"
"""The group of a fit's rows on what several processes send each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Characteristic:
    """What was asked of the proxy and what it has; None if not measured. `bar` is the largest error with which it is
    met, where one is set."""

    name: Label
    group: Annotated[str, Meta(min_length=1, max_length=100)]
    target: Number | None
    achieved: Number | None
    unit: Annotated[str, Meta(max_length=40)]
    bar: Share | None = field(default=None, metadata=IF_KNOWN)

    @property
    def is_share(self) -> bool:
        return self.unit.startswith("share")

    @property
    def missed_by(self) -> float | None:
        """The difference from the target, as a share of it if the value is no share itself; None if not known."""
        if self.target is None or self.achieved is None:
            return None
        if self.is_share:
            return self.achieved - self.target
        return self.achieved / self.target - 1 if self.target else None

    @property
    def is_missed(self) -> bool:
        """Whether its error is known to be beyond its bar."""
        return self.bar is not None and self.missed_by is not None and abs(self.missed_by) > self.bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """What a fit is judged by; see `comparison.summary`."""

    category_total_variation: Finite | None = None
    kernel_class_total_variation: Finite | None = None
    phase_total_variation: Finite | None = None
    intensity_earth_movers_distance_log2: Finite | None = None
    flops_per_s_error: Finite | None = None
    bytes_per_s_error: Finite | None = None
    launches_per_s_ratio: Finite | None = None
    idle_share_target: Finite | None = None
    idle_share_achieved: Finite | None = None
    framework_share_target: Finite | None = None
    framework_share_achieved: Finite | None = None
    formula_coverage_target: Finite | None = None
    formula_coverage_achieved: Finite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A kernel class of the target that the proxy lacks, its share of the target's operator time, whether a candidate
    had it, and the shortest step in which that share has room for one."""

    kernel_class: Label
    share: Share
    has_candidate: bool
    fits_from_s: PositiveSeconds | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSummary(Distances):
    """The distances, and how long the step takes. `candidate_coverage` and `proxy_coverage` are the shares of the
    target's operator time in kernel classes that a candidate has, and that the proxy has."""

    budget_s: PositiveSeconds | None = None
    step_latency_s: PositiveSeconds | None = None
    step_latency_error: Finite | None = None
    suite_latency_s: PositiveSeconds | None = None
    compression: Finite | None = None
    coefficient_of_variation: Finite | None = None
    parameter_count: Size | None = None
    candidate_coverage: Share | None = field(default=None, metadata=IF_KNOWN)
    proxy_coverage: Share | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One network that was measured on the way to the proxy; errors are those of the integer program's objective."""

    round: Annotated[int, Meta(ge=1)]
    predicted_error: Finite
    lower_bound: Finite
    measured_error: Finite
    drift: Finite
    step_latency_s: PositiveSeconds


@dataclass(frozen=True, kw_only=True)
class Fit:
    """fit.json: how well a proxy matches its target. Of a proxy for simulators nothing was measured: its `simulation`
    holds what is predicted. `effort` is how much was measured for it; all files without it are
    from a time when that was always what is now called thorough. `not_together` says why a proxy with collectives was
    not measured in several processes."""

    kind: Literal["statsnet.fit"] = "statsnet.fit"
    schema_version: Literal[1] = 1
    spec: Id
    environment: Mapping[str, Any]
    characteristics: Annotated[tuple[Characteristic, ...], MOST_ROWS]
    summary: FitSummary
    network_sha256: str | None = None
    effort: EffortName = "thorough"
    rounds: Annotated[tuple[Round, ...], MOST_ROWS] = ()
    replayed_members: Annotated[tuple[str, ...], MOST_ROWS] = ()
    stored_members: Annotated[tuple[str, ...], MOST_ROWS] = ()
    throttled: Annotated[tuple[str, ...], MOST_ROWS] = ()
    recorded: dict[str, float] | None = None
    uncovered: Annotated[tuple[Uncovered, ...], MOST_ROWS] | None = field(default=None, metadata=IF_KNOWN)
    slowed_share: Share | None = field(default=None, metadata=IF_KNOWN)
    not_together: Annotated[str, Meta(max_length=2_000)] | None = field(default=None, metadata=IF_KNOWN)
    simulation: SimulationFit | None = field(default=None, metadata=IF_KNOWN)
