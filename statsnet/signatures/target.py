"""What a mix asks for: rates and shares of one second of the mix, by the arithmetic of docs/formats.md.

With weights w_i (summing to 1), step times T_i and cluster times t_ic, one second of the target holds w_i
seconds of member i: n_ic · w_i / T_i calls of a cluster, and a share w_i · t_ic / T_i of the time. Rates add
up over members; the arithmetic intensity is a ratio of mixed rates, never a mean of ratios. Peak memory does
not mix. Beforehand a member's times are made to add up to its step (`Measurement.in_its_step`); those of members
with collectives once these are taken out (computing.py), for they run beside other operators.

The same class describes what a proxy achieves: `target_of` its signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from statsnet.errors import MeasurementError, UsageError
from statsnet.signatures.collectives import is_collective
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Mode, Motif, Signature
from statsnet.signatures.statistics import shares
from statsnet.signatures.target_cluster import TargetCluster, TargetMotif, counters_over, target_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    """What one member brings: its weight, its step time and the measurement that gave it. `keyed_id`: see MixMember."""

    name: str
    weight: float
    signature: Signature
    measurement: Measurement
    keyed_id: str | None = None

    @property
    def latency_s(self) -> float:
        return self.measurement.latency_s

    @property
    def steps_per_s(self) -> float:
        """Steps in one second of the target."""
        return self.weight / self.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """All characteristics of a mix, per second of it. Shares are of operator time, unless another is named."""

    members: tuple[TargetMember, ...]
    clusters: tuple[TargetCluster, ...]
    motifs: tuple[TargetMotif, ...]

    @property
    def mode(self) -> Mode:
        """`training` if any member is trained."""
        return "training" if any(m.signature.mode == "training" for m in self.members) else "inference"

    @property
    def may_leave_torch(self) -> bool:
        """Whether other runtimes than torch may run what is made for it: they infer on CPUs (measure/runtimes.py)."""
        return self.mode == "inference" and all(m.measurement.environment["device"] == "cpu" for m in self.members)

    @property
    def is_private(self) -> bool:
        """Whether a member does not ship with StatsNet."""
        return any(m.signature.is_private for m in self.members)

    def scale_times(self, factor: float) -> Target:
        """The same on a machine that takes `factor` times as long."""
        return target_of_members(tuple(replace(m, measurement=m.measurement.scale_times(factor)) for m in self.members))

    @property
    def flops_per_s(self) -> float:
        return math.fsum(c.flops_per_s for c in self.clusters if c.flops_per_s is not None)

    @property
    def bytes_per_s(self) -> float:
        return math.fsum(c.bytes_per_s for c in self.clusters if c.bytes_per_s is not None)

    @property
    def arithmetic_intensity(self) -> float | None:
        """FLOP/byte: ratio of the mixed rates over the operators that have a formula for both."""
        known = [c for c in self.clusters if c.has_costs]
        moved = math.fsum(c.bytes_per_s for c in known if c.bytes_per_s is not None)
        return math.fsum(c.flops_per_s for c in known if c.flops_per_s is not None) / moved if moved else None

    @property
    def launches_per_s(self) -> float:
        return math.fsum(m.steps_per_s * m.measurement.launches for m in self.members)

    @property
    def time_per_launch_s(self) -> float | None:
        """Mean time of a launch (on a CPU: of an operator call). It shows how much smaller a proxy's kernels are."""
        launches = self.launches_per_s
        return self.operator_share / launches if launches > 0 else None

    @property
    def operator_share(self) -> float:
        """Share of the step time spent in operators. With `framework_share` and `idle_share`, it adds up to about 1."""
        return math.fsum(c.time_share for c in self.clusters)

    @property
    def framework_share(self) -> float | None:
        """Share of the step time in the framework; None if it was not measured for a member."""
        return self._share_of_step(lambda m: m.framework_time_s)

    @property
    def idle_share(self) -> float | None:
        """Share of the step time in which the device waits; None if it was not measured for a member."""
        return self._share_of_step(lambda m: m.idle_time_s)

    @property
    def coverage(self) -> float | None:
        """Share of operator time in operators that have a formula for FLOPs and bytes."""
        total = self.operator_share
        return math.fsum(c.time_share for c in self.clusters if c.has_costs) / total if total else None

    @property
    def category_shares(self) -> dict[str, float]:
        return shares((c.category, c.time_share) for c in self.clusters)

    @property
    def kernel_class_shares(self) -> dict[str, float]:
        return shares((c.kernel_class, c.time_share) for c in self.clusters)

    @property
    def phase_shares(self) -> dict[str, float]:
        return shares((c.phase, c.time_share) for c in self.clusters)

    @property
    def intensity_histogram(self) -> dict[int, float]:
        """Share of time per bin of log2(FLOP/byte) (see `intensity_bin`), over operators with a formula."""
        return shares((c.intensity_bin, c.time_share) for c in self.clusters if c.intensity_bin is not None)

    @property
    def largest_peak_bytes(self) -> int | None:
        """The largest peak memory of a member; None if none was measured."""
        peaks = [m.signature.memory.peak_bytes for m in self.members]
        return max((p for p in peaks if p is not None), default=None)

    @property
    def power_w(self) -> float | None:
        """Energy per second; None if it was not measured for a member."""
        gpus = [(m.steps_per_s, m.measurement.gpu) for m in self.members]
        drawn = [(rate, gpu.power.energy_j_per_step) for rate, gpu in gpus if gpu is not None]
        if len(drawn) < len(gpus) or any(energy is None for _, energy in drawn):
            return None
        return math.fsum(rate * energy for rate, energy in drawn if energy is not None)

    @property
    def throttled(self) -> tuple[str, ...]:
        """Members whose GPU was slowed down, or held at its power cap, while their energy was measured."""
        return tuple(m.name for m in self.members if m.measurement.gpu and m.measurement.gpu.power.throttled)

    @property
    def counters(self) -> dict[str, float]:
        """Hardware counters of all operators, see `counters_over`."""
        return counters_over(self.clusters)

    def _share_of_step(self, time_s: Callable[[Measurement], float | None]) -> float | None:
        times = [(m.steps_per_s, time_s(m.measurement)) for m in self.members]
        if any(t is None for _, t in times):
            return None
        return math.fsum(rate * t for rate, t in times if t is not None)


def target_of_mix(mix: Mix, measurements: Mapping[str, Measurement] | None = None) -> Target:
    """The target of a mix. `measurements`, by member's name, replace those of the signatures, as replayed ones do.

    Raises UsageError for a name that is not in the mix, MeasurementError for a member that was never measured.
    """
    measurements = measurements or {}
    if unknown := sorted(set(measurements) - {m.name for m in mix.members}):
        raise UsageError(f"'{unknown[0]}' is not in the mix")
    members = []
    for member in mix.members:
        measurement = measurements.get(member.name) or member.measurement
        if measurement is None:
            raise MeasurementError(
                f"'{member.name}' was never measured",
                cause="its signature holds counts only",
                hint="replay its operators on this device first",
            )
        if measurement.cluster_time_s and all(t is None for t in measurement.cluster_time_s):
            raise MeasurementError(
                f"'{member.name}' was timed as a whole only",
                cause="of a compiled step no operator's time is known, and a proxy is made of operators",
                hint="profile it without --setting compile=..., and compile the proxy when you run it",
            )
        brought = _member(member.name, member.weight, member.signature, measurement)
        members.append(replace(brought, keyed_id=member.keyed_id))
    return target_of_members(tuple(members))


def target_of(signature: Signature, measurement: Measurement | None = None, *, name: str = "proxy") -> Target:
    """One signature alone, with weight 1. It describes what a proxy achieves in the same terms as its target."""
    measurement = measurement or next(iter(signature.measurements), None)
    if measurement is None:
        raise MeasurementError(f"'{name}' was never measured", hint="profile it first")
    return target_of_members((_member(name, 1.0, signature, measurement),))


def _member(name: str, weight: float, signature: Signature, measurement: Measurement) -> TargetMember:
    if len(measurement.cluster_time_s) != len(signature.clusters):
        raise MeasurementError(
            f"the measurement given for '{name}' is of another signature",
            cause=f"it times {len(measurement.cluster_time_s)} clusters of {len(signature.clusters)}",
        )
    times = in_its_step(signature, measurement)
    return TargetMember(name=name, weight=weight, signature=signature, measurement=times)


def in_its_step(signature: Signature, measurement: Measurement) -> Measurement:
    """The measurement whose times add up to its step; as it is if there are collectives, which run beside other
    operators."""
    return measurement if any(is_collective(c.op) for c in signature.clusters) else measurement.in_its_step()


def target_of_members(members: tuple[TargetMember, ...]) -> Target:
    """All that these members ask for together."""
    clusters: list[TargetCluster] = []
    motifs: list[TargetMotif] = []
    for member in members:
        first, steps_per_s = len(clusters), member.steps_per_s
        clusters.extend(
            target_cluster(member.name, i, c, member.measurement, steps_per_s)
            for i, c in enumerate(member.signature.clusters)
        )
        motifs.extend(
            TargetMotif(
                member=member.name,
                clusters=tuple(first + i for i in motif.clusters),
                count_per_s=motif.count * steps_per_s,
            )
            for motif in member.signature.motifs
            if not _is_tie(motif, member.signature)
        )
    return Target(members=members, clusters=tuple(clusters), motifs=tuple(motifs))


def _is_tie(motif: Motif, signature: Signature) -> bool:
    """Whether it tells what a collective waits for or what waits for it, not what runs together."""
    return len(motif.clusters) > 1 and any(is_collective(signature.clusters[i].op) for i in motif.clusters)
