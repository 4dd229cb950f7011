"""A signature as data: counts that depend on no device, and measurements, one per environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, cast

from msgspec import Meta

from statsnet.display import Displayed
from statsnet.signatures.canonical import content_id
from statsnet.signatures.collectives import Collectives
from statsnet.signatures.conversion import IF_KNOWN, plain, typed
from statsnet.signatures.gpu import GpuActivity
from statsnet.signatures.limits import (
    MOST_PROCESSES,
    Count,
    Id,
    Positive,
    Preset,
    Quantity,
    Share,
    Size,
    Word,
    whole,
)
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.tensor_lists import compact_arguments, flatten_arguments

KIND = "statsnet.signature"

Mode = Literal["inference", "training"]
Level = Literal["full", "statistical", "coarse"]
Phase = Literal["input", "forward", "backward", "optimizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadName:
    """Identity of a workload that ships with StatsNet. The signature of a user's own workload has none."""

    domain: Word
    name: Word
    preset: Preset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How unevenly an embedding's rows are read."""

    distinct_share: Share
    top1pct_share: Share
    zipf: Annotated[float, Meta(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All calls of one operator with equal arguments in one phase; costs are per call, None if unknown.

    `args` and `outputs` are encoded as signatures/operators.py says. `autocast_share` is the share of the calls that
    read mostly numbers of lower precision when torch's autocast is on.
    """

    op: Annotated[str, whole(r"[a-z0-9_]+(\.[A-Za-z0-9_]+)+"), Meta(max_length=120)]
    phase: Phase
    category: Word
    calls: Annotated[float, Meta(gt=0, le=1e12)]
    args: Annotated[tuple[Any, ...], Meta(max_length=100)]
    outputs: Annotated[tuple[Any, ...], Meta(max_length=100_000)]
    flops: Quantity | None = None
    bytes_read: Quantity | None = None
    bytes_written: Quantity | None = None
    skew: Skew | None = None
    autocast_share: Share | None = field(default=None, metadata=IF_KNOWN)

    @property
    def bytes_moved(self) -> float | None:
        """Bytes read and written by one call."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written


def round_autocast_share(share: float | None, level: Level) -> float | None:
    """In tenths; 0 or 1 at the level `coarse`, where tenths could tell of how many calls a cluster was merged."""
    digits = 0 if level == "coarse" else 1
    return None if share is None else round(share, digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Motif:
    """A short run of clusters (indices, in data-flow order) and how often a step holds it: of a forward pass; in any
    phase also a collective and what its tensors come from, or what reads them."""

    clusters: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=1000)]
    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of the workload in bytes; what is not known is None. `activation_bytes` is the most that comes and goes
    within a step (activations, gradients, workspace), `optimizer_bytes` the optimizer's state in training. A recording
    tells none of them."""

    parameter_count: Size | None
    parameter_bytes: Size | None
    buffer_bytes: Size | None
    input_bytes: Size | None
    optimizer_bytes: Size | None = field(default=None, metadata=IF_KNOWN)
    activation_bytes: Size | None = None
    peak_bytes: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSample:
    """Inputs of different shapes: how many there are, and for each one that was profiled, the number of steps that it
    stands for. `work_error` is how far the mean work of the sample is from that of all inputs that were counted, in
    FLOPs or bytes, whichever is more."""

    distinct: Size
    stands_for: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=10_000)]
    work_error: Quantity


@dataclass(frozen=True, kw_only=True)
class _Head:
    """What a signature holds apart from its counts. `aggregated` is the number of signatures that were added up
    to this one (aggregation.py); None: it is of one workload."""

    mode: Mode
    dtype: Word
    batch: Positive | None = None
    optimizer: Word | None = None
    workload: WorkloadName | None = None
    measurements: Annotated[tuple[Measurement, ...], Meta(max_length=1000)] = ()
    level: Level = "full"
    aggregated: Annotated[int, Meta(ge=2, le=1_000_000_000)] | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """The part that depends on no device. With `processes`, so many run the step together, and all of it is of the
    first one: its own calls, and its parts of parameters that are sharded."""

    clusters: Annotated[tuple[Cluster, ...], Meta(max_length=20_000)]
    memory: Memory
    motifs: Annotated[tuple[Motif, ...], Meta(max_length=20_000)] = ()
    shape_variants: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    inputs: InputSample | None = field(default=None, metadata=IF_KNOWN)
    processes: Annotated[int, Meta(ge=2, le=MOST_PROCESSES)] | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, kw_only=True, repr=False)
class Signature(Displayed, _Counts, _Head):
    """The statistics of one workload in one mode. Raises ValueError if its parts contradict each other."""

    def __post_init__(self) -> None:
        for motif in self.motifs:
            if not all(0 <= i < len(self.clusters) for i in motif.clusters):
                raise ValueError("a motif names a cluster that does not exist")
        for measurement in self.measurements:
            for name in ("cluster_time_s", "kernels", "kernel_class"):
                if len(getattr(measurement, name)) != len(self.clusters):
                    raise ValueError(f"{name} of a measurement is not as long as the list of clusters")
            if measurement.gpu is not None:
                _check_gpu(measurement.gpu, len(self.clusters))
            if measurement.collectives is not None:
                _check_collectives(measurement.collectives, len(self.clusters))

    @property
    def name(self) -> str | None:
        """`cv/resnet50`, or None for a workload that does not ship with StatsNet."""
        return f"{self.workload.domain}/{self.workload.name}" if self.workload else None

    @property
    def is_private(self) -> bool:
        """Whether it is of a workload that does not ship with StatsNet, or of several together."""
        return self.workload is None

    @property
    def id(self) -> str:
        """`sha256:...` over the canonical form; computed on each use."""
        return content_id(SignatureFile.of(self).to_dict())

    @property
    def calls_per_step(self) -> float:
        return math.fsum(c.calls for c in self.clusters)

    @property
    def flops_per_step(self) -> float:
        """FLOPs of the operators that have a formula."""
        return math.fsum(c.calls * c.flops for c in self.clusters if c.flops is not None)

    @property
    def bytes_per_step(self) -> float:
        """Bytes read and written by the operators that have a formula."""
        return math.fsum(c.calls * c.bytes_moved for c in self.clusters if c.bytes_moved is not None)

    def coverage(self, measurement: Measurement | None = None) -> float | None:
        """Share of operator time spent in operators that have a formula (default: the first measurement).

        None where no time was measured.
        """
        measurement = measurement or (self.measurements[0] if self.measurements else None)
        if measurement is None or not measurement.operator_time_s > 0:
            return None
        pairs = zip(self.clusters, measurement.cluster_time_s, strict=True)
        covered = math.fsum(t for c, t in pairs if t is not None and c.flops is not None and c.bytes_moved is not None)
        return covered / measurement.operator_time_s

    def measurement_for(self, environment_fingerprint: str) -> Measurement | None:
        """The first measurement made in the environment with this fingerprint, if there is one."""
        return next((m for m in self.measurements if m.fingerprint == environment_fingerprint), None)

    def to_dict(self) -> dict[str, Any]:
        """As written to a file, the id included."""
        content = SignatureFile.of(self).to_dict()
        return {**content, "id": content_id(content)}

    @classmethod
    def from_dict(cls, data: Any) -> Signature:
        """Inverse of `to_dict`; the id is not looked at. Raises ValueError for data that does not fit."""
        return cast(SignatureFile, typed(data, SignatureFile)).signature()


@dataclass(frozen=True, kw_only=True)
class _CountsInFile(_Counts):
    flops_per_multiply_add: Literal[2] = 2


@dataclass(frozen=True, kw_only=True)
class SignatureFile(_Head):
    """A signature as it is in a file: with its counts in an object of their own, and lists of tensors in short form."""

    kind: Literal["statsnet.signature"] = "statsnet.signature"
    schema_version: Literal[1] = 1
    id: Id | None = None
    counts: _CountsInFile

    @classmethod
    def of(cls, signature: Signature) -> SignatureFile:
        counts = _CountsInFile(**_parts(signature, _Counts))
        return cls(**_parts(signature, _Head), counts=_with_arguments(counts, compact_arguments))

    def signature(self) -> Signature:
        counts = _with_arguments(self.counts, flatten_arguments)
        return Signature(**_parts(self, _Head), **_parts(counts, _Counts))

    def to_dict(self) -> dict[str, Any]:
        return cast(dict[str, Any], plain(self))


def _parts(value: Any, of: type) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _names(of)}


@cache
def _names(of: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(of))


def _with_arguments(counts: _CountsInFile, change: Callable[[Iterable[Any]], list[Any]]) -> _CountsInFile:
    clusters = (replace(c, args=tuple(change(c.args)), outputs=tuple(change(c.outputs))) for c in counts.clusters)
    return replace(counts, clusters=tuple(clusters))


def _check_gpu(gpu: GpuActivity, clusters: int) -> None:
    if any(len(values) != clusters for values in gpu.counters.clusters.values()):
        raise ValueError("a counter is not as long as the list of clusters")
    if any(k.cluster is not None and not 0 <= k.cluster < clusters for k in gpu.kernels):
        raise ValueError("a kernel names a cluster that does not exist")


def _check_collectives(collectives: Collectives, clusters: int) -> None:
    if any(not 0 <= call.cluster < clusters for call in collectives.calls):
        raise ValueError("a collective names a cluster that does not exist")
