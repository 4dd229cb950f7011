"""What a process computes of a step that several run together: the step without its collectives.

A proxy's blocks are measured in one process, in which nobody waits for another.
"""

from __future__ import annotations

import math
from dataclasses import replace

from statsnet.signatures.collectives import is_collective
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.merging import merge
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, TargetMember, target_of_members


def computing(target: Target) -> Target:
    """The same target without collectives and without the time that a process spends waiting for them."""
    if not any(is_collective(c.op) for c in target.clusters):
        return target
    share = computing_share(target)
    return target_of_members(tuple(_computing(member, share) for member in target.members))


def computing_share(target: Target) -> float:
    """Share of the target's time in which a process computes, or would if there were no collectives."""
    return math.fsum(m.weight * _share(m) for m in target.members)


LEAST_SHARE = 0.01
"""A step of collectives alone counts as one that computes for this share of its time."""


def _share(member: TargetMember) -> float:
    return max(LEAST_SHARE, 1.0 - exposed_s(member.signature, member.measurement) / member.latency_s)


def exposed_s(signature: Signature, measurement: Measurement) -> float:
    """Seconds of a step in which a process computes nothing, because of its collectives: as was measured; else their
    time, less what of it must have run beside operators, because all times together are longer than the step."""
    if measurement.collectives is not None:
        return min(measurement.collectives.exposed_time_s, measurement.latency_s)
    pairs = zip(signature.clusters, measurement.cluster_time_s, strict=True)
    in_collectives_s = math.fsum(t or 0.0 for c, t in pairs if is_collective(c.op))
    others_s = (measurement.framework_time_s or 0.0) + (measurement.idle_time_s or 0.0)
    beside_s = max(measurement.operator_time_s + others_s - measurement.latency_s, 0.0)
    return min(max(in_collectives_s - beside_s, 0.0), measurement.latency_s)


def _computing(member: TargetMember, of_target: float) -> TargetMember:
    """A member without its collectives, with its part of what the whole target computes as its weight."""
    signature, measurement = member.signature, member.measurement
    kept = [i for i, c in enumerate(signature.clusters) if not is_collective(c.op)]
    share = _share(member)
    weight = member.weight * share / of_target
    if len(kept) == len(signature.clusters):
        return replace(member, weight=weight)
    calls = math.fsum(c.calls for c in signature.clusters if is_collective(c.op))
    alone = replace(
        measurement,
        step_latency_s=tuple(share * t for t in measurement.step_latency_s),
        launches=max(measurement.launches - calls, 0.0),
        collectives=None,
    )
    own = merge(replace(signature, measurements=(alone,)), [[i] for i in kept])
    return replace(member, signature=own, measurement=own.measurements[0].in_its_step(), weight=weight)
