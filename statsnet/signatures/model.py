"""A signature as data: counts that depend on no device, and measurements, one per environment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from statsnet.environment import fingerprint
from statsnet.errors import MeasurementError
from statsnet.signatures.canonical import content_id
from statsnet.signatures.gpu import GpuActivity
from statsnet.signatures.operators import compact_arguments, flatten_arguments

KIND = "statsnet.signature"
SCHEMA_VERSION = 1
FLOPS_PER_MULTIPLY_ADD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadName:
    """Identity of a workload that ships with StatsNet; a user's own workload has none in its signature."""

    domain: str
    name: str
    preset: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"domain": self.domain, "name": self.name, "preset": self.preset}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How unevenly an embedding's rows are read."""

    distinct_share: float
    top1pct_share: float
    zipf: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "distinct_share": self.distinct_share,
            "top1pct_share": self.top1pct_share,
            "zipf": self.zipf,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All calls of one operator with equal arguments in one phase; costs are per call, None if unknown.

    `args` and `outputs` are encoded as signatures/operators.py says.
    """

    op: str
    phase: str
    category: str
    calls: float
    args: tuple[Any, ...]
    outputs: tuple[Any, ...]
    flops: float | None = None
    bytes_read: float | None = None
    bytes_written: float | None = None
    skew: Skew | None = None

    @property
    def bytes_moved(self) -> float | None:
        """Bytes read and written by one call."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    def to_dict(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "phase": self.phase,
            "category": self.category,
            "calls": self.calls,
            "args": compact_arguments(self.args),
            "outputs": compact_arguments(self.outputs),
            "flops": self.flops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "skew": self.skew.to_dict() if self.skew else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cluster:
        fields = {k: data[k] for k in ("op", "phase", "category", "flops", "bytes_read", "bytes_written")}
        return cls(
            **fields,
            calls=float(data["calls"]),
            args=tuple(flatten_arguments(data["args"])),
            outputs=tuple(flatten_arguments(data["outputs"])),
            skew=Skew(**data["skew"]) if data["skew"] else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Motif:
    """A short run of clusters (indices, in data-flow order) and how often a step holds it."""

    clusters: tuple[int, ...]
    count: float

    def to_dict(self) -> dict[str, Any]:
        return {"clusters": list(self.clusters), "count": self.count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of the workload in bytes; what is not known is None. `activation_bytes` is the most that comes and goes
    within a step (activations, gradients, workspace), `optimizer_bytes` the optimizer's state in training."""

    parameter_count: int
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    optimizer_bytes: int | None = None
    activation_bytes: int | None = None
    peak_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        if self.optimizer_bytes is None:
            del found["optimizer_bytes"]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Times of one signature in one environment. Lists per cluster are in the order of the clusters; `gpu` is None on a
    CPU."""

    environment: dict[str, Any]
    step_latency_s: tuple[float, ...]
    warmup_latency_s: tuple[float, ...]
    profiled_latency_s: tuple[float, ...]
    cluster_time_s: tuple[float | None, ...]
    kernels: tuple[str | None, ...]
    kernel_class: tuple[str | None, ...]
    launches: float
    framework_time_s: float | None
    idle_time_s: float | None
    unexplained_share: float | None
    coefficient_of_variation: float | None
    source: Literal["profile", "replay"] = "profile"
    gpu: GpuActivity | None = None

    @property
    def latency_s(self) -> float:
        """Median of the undisturbed steps. Raises MeasurementError if there are none."""
        if not self.step_latency_s:
            raise MeasurementError(
                "this measurement holds no undisturbed step",
                hint="profile the workload again, or choose another environment's measurement",
            )
        return statistics.median(self.step_latency_s)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.environment)

    @property
    def operator_time_s(self) -> float:
        """Time of all measured clusters in one step."""
        return math.fsum(t for t in self.cluster_time_s if t is not None)

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "gpu"}
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
        return plain if self.gpu is None else {**plain, "gpu": self.gpu.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurement:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        gpu = fields.pop("gpu", None)
        return cls(**fields, gpu=None if gpu is None else GpuActivity.from_dict(gpu))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The statistics of one workload in one mode. Raises ValueError if its parts contradict each other."""

    mode: Literal["inference", "training"]
    dtype: str
    clusters: tuple[Cluster, ...]
    memory: Memory
    batch: int | None = None
    optimizer: str | None = None
    workload: WorkloadName | None = None
    motifs: tuple[Motif, ...] = ()
    shape_variants: int = 1
    measurements: tuple[Measurement, ...] = ()
    level: str = "full"

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

    @property
    def name(self) -> str | None:
        """`cv/resnet50`, or None for a workload that does not ship with StatsNet."""
        return f"{self.workload.domain}/{self.workload.name}" if self.workload else None

    @property
    def id(self) -> str:
        """`sha256:...` over the canonical form; computed on each use."""
        return content_id(self._content())

    @property
    def calls_per_step(self) -> float:
        return math.fsum(c.calls for c in self.clusters)

    @property
    def flops_per_step(self) -> float:
        """FLOPs of the operators that have a formula; `uncosted_calls_per_step` counts the others."""
        return math.fsum(c.calls * c.flops for c in self.clusters if c.flops is not None)

    @property
    def bytes_per_step(self) -> float:
        """Bytes read and written by the operators that have a formula."""
        return math.fsum(c.calls * c.bytes_moved for c in self.clusters if c.bytes_moved is not None)

    @property
    def uncosted_calls_per_step(self) -> float:
        """Calls without a formula for FLOPs or bytes."""
        return math.fsum(c.calls for c in self.clusters if c.flops is None or c.bytes_moved is None)

    def coverage(self, measurement: Measurement | None = None) -> float | None:
        """Share of operator time spent in operators that have a formula (default: the first measurement).

        None where no time was measured.
        """
        measurement = measurement or (self.measurements[0] if self.measurements else None)
        if measurement is None or not measurement.operator_time_s > 0:
            return None
        pairs = zip(self.clusters, measurement.cluster_time_s, strict=True)
        covered = math.fsum(
            t for c, t in pairs if t is not None and c.flops is not None and c.bytes_moved is not None
        )
        return covered / measurement.operator_time_s

    def measurement_for(self, environment_fingerprint: str) -> Measurement | None:
        """The first measurement made in the environment with this fingerprint, if there is one."""
        return next((m for m in self.measurements if m.fingerprint == environment_fingerprint), None)

    def to_dict(self) -> dict[str, Any]:
        """As written to a file, the id included."""
        content = self._content()
        return {**content, "id": content_id(content)}

    def _content(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "level": self.level,
            "workload": self.workload.to_dict() if self.workload else None,
            "mode": self.mode,
            "dtype": self.dtype,
            "batch": self.batch,
            "optimizer": self.optimizer,
            "counts": {
                "flops_per_multiply_add": FLOPS_PER_MULTIPLY_ADD,
                "clusters": [c.to_dict() for c in self.clusters],
                "motifs": [m.to_dict() for m in self.motifs],
                "memory": self.memory.to_dict(),
                "shape_variants": self.shape_variants,
            },
            "measurements": [m.to_dict() for m in self.measurements],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Signature:
        """Inverse of `to_dict` for data that fits the schema; the id is not looked at."""
        counts = data["counts"]
        return cls(
            **{k: data[k] for k in ("level", "mode", "dtype", "batch", "optimizer")},
            workload=WorkloadName(**data["workload"]) if data["workload"] else None,
            clusters=tuple(Cluster.from_dict(c) for c in counts["clusters"]),
            motifs=tuple(Motif(clusters=tuple(m["clusters"]), count=m["count"]) for m in counts["motifs"]),
            memory=Memory(**counts["memory"]),
            shape_variants=counts["shape_variants"],
            measurements=tuple(Measurement.from_dict(m) for m in data["measurements"]),
        )


def _check_gpu(gpu: GpuActivity, clusters: int) -> None:
    if any(len(values) != clusters for values in gpu.counters.clusters.values()):
        raise ValueError("a counter is not as long as the list of clusters")
    if any(k.cluster is not None and not 0 <= k.cluster < clusters for k in gpu.kernels):
        raise ValueError("a kernel names a cluster that does not exist")
