"""One signature of many: a mean step of all that runs on a fleet, which names none of its members.

A weight is a share of device time, as in a mix. With weights w_i and step times T_i, a second of the fleet holds
w_i / T_i steps of member i. So a mean step holds k_i = (w_i / T_i) / Σ w_j / T_j steps of it, and the rates and shares
of that step are those of the mix (target.py). The k_i are the same in all environments: where a member takes longer,
the mean step does, too. T_i are those in the first environment in which all members were measured.

All that is told of a mean step is a sum or a largest value over members, so aggregates can be aggregated: A and B
first, with C afterwards, is A, B and C at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import TypeVar

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.signatures.aggregated_measurement import scaled_measurement, summed_measurement
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.coarse import CostOf
from statsnet.signatures.conversion import plain
from statsnet.signatures.levels import coarsen, coarsest
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.merging import merge
from statsnet.signatures.model import Memory, Motif, Signature
from statsnet.signatures.order import in_canonical_order

T = TypeVar("T")

FEWEST_STEPS = 1e-9
"""A member that makes a smaller part of the steps is lost in the digits of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A signature, its share of device time, and what messages call it."""

    name: str
    weight: float
    signature: Signature


def aggregate(parts: Sequence[Part], cost_of: CostOf) -> Signature:
    """The signature of a mean step. Each part is first brought to the level of the one that tells least, which is the
    aggregate's level. `cost_of`: see levels.coarsen.

    Raises UsageError for fewer than two parts, two that are one signature, parts of several modes or dtypes, parts
    without an environment in which all were measured, and weights that are too far apart.
    """
    _check_alike(parts)
    shared = _shared_environments(parts)
    level = coarsest([p.signature.level for p in parts])
    chosen = []
    for part in parts:
        timed = _timed(part.signature)
        told = replace(part.signature, measurements=tuple(timed[name] for name in shared))
        chosen.append(coarsen(told, level, cost_of))
    rates = [p.weight / s.measurements[0].latency_s for p, s in zip(parts, chosen, strict=True)]
    steps = [rate / math.fsum(rates) for rate in rates]
    if not all(k >= FEWEST_STEPS for k in steps):
        raise UsageError(
            f"'{parts[steps.index(min(steps))].name}' hardly counts in this aggregate",
            cause=f"it makes {min(steps):.1g} of the steps",
            hint="leave it out, or give it a larger weight",
        )
    return sum_of_steps(chosen, steps)


def sum_of_steps(signatures: Sequence[Signature], steps: Sequence[float]) -> Signature:
    """One step that holds so many `steps` of each signature. All are of one mode, dtype and level, and have their
    measurements in the same environments, in the same order."""
    scaled = [_scaled(s, k) for s, k in zip(signatures, steps, strict=True)]
    begins = list(accumulate((len(s.clusters) for s in scaled), initial=0))[:-1]
    joined = Signature(
        mode=scaled[0].mode,
        dtype=scaled[0].dtype,
        level=scaled[0].level,
        batch=_common([s.batch for s in scaled]),
        optimizer=_common([s.optimizer for s in scaled]),
        aggregated=sum(s.aggregated or 1 for s in scaled),
        clusters=tuple(c for s in scaled for c in s.clusters),
        motifs=tuple(
            Motif(clusters=tuple(begin + i for i in m.clusters), count=m.count)
            for begin, s in zip(begins, scaled, strict=True)
            for m in s.motifs
        ),
        memory=_largest([s.memory for s in scaled]),
        shape_variants=max(s.shape_variants for s in scaled),
        processes=_common([s.processes for s in scaled]),
        measurements=tuple(
            summed_measurement(row, begins) for row in zip(*(s.measurements for s in scaled), strict=True)
        ),
    )
    return in_canonical_order(merge(joined, _equal_clusters(joined)))


def _scaled(signature: Signature, steps: float) -> Signature:
    """So many steps as one."""
    return replace(
        signature,
        clusters=tuple(replace(c, calls=steps * c.calls) for c in signature.clusters),
        motifs=tuple(replace(m, count=steps * m.count) for m in signature.motifs),
        measurements=tuple(scaled_measurement(m, steps) for m in signature.measurements),
    )


def _equal_clusters(signature: Signature) -> list[list[int]]:
    """Clusters that differ in nothing but calls, times and what they do under autocast."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, cluster in enumerate(signature.clusters):
        kernels = [(m.kernels[i], m.kernel_class[i]) for m in signature.measurements]
        groups[canonical_json(plain((replace(cluster, calls=1.0, autocast_share=None), kernels)))].append(i)
    return list(groups.values())


def _largest(memories: Sequence[Memory]) -> Memory:
    """Memory does not mix: the largest of each size that is known."""
    columns = {f.name: [getattr(m, f.name) for m in memories] for f in fields(Memory)}
    return Memory(**{name: max((v for v in sizes if v is not None), default=None) for name, sizes in columns.items()})


def _common(values: Sequence[T | None]) -> T | None:
    """The value that all have; None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def _timed(signature: Signature) -> dict[str, Measurement]:
    """Its measurements that hold the time of a step, by environment; the first of each."""
    timed: dict[str, Measurement] = {}
    for measurement in signature.measurements:
        if measurement.step_latency_s:
            timed.setdefault(measurement.fingerprint, measurement)
    return timed


def _shared_environments(parts: Sequence[Part]) -> list[str]:
    """Fingerprints of the environments in which all were measured, in the order of the first part's. Raises UsageError
    if there are none."""
    timed = [_timed(p.signature) for p in parts]
    for part, measured in zip(parts, timed, strict=True):
        if not measured:
            raise UsageError(
                f"'{part.name}' was measured nowhere",
                cause="a weight is a share of time, and no step time is known of it",
                hint="profile it where the others were profiled",
            )
    shared = [name for name in timed[0] if all(name in measured for measured in timed)]
    if not shared:
        raise UsageError(
            "there is no environment in which all of them were measured",
            cause=_apart(parts, timed),
            hint="profile them on one machine: times of two cannot be added up",
        )
    return shared


def _apart(parts: Sequence[Part], timed: Sequence[dict[str, Measurement]]) -> str:
    """What lies between the first part and one that shares no environment with it."""
    other = next((i for i, measured in enumerate(timed) if not measured.keys() & timed[0].keys()), None)
    if other is None:
        return "any two may share one, but not all"
    one, another = (next(iter(timed[i].values())).environment for i in (0, other))
    return f"'{parts[0].name}' and '{parts[other].name}': {'; '.join(differences(one, another)[:3])}"


def _check_alike(parts: Sequence[Part]) -> None:
    if len(parts) < 2:
        raise UsageError(
            "an aggregate needs at least two signatures",
            cause="of one alone it would hide nothing",
            hint="for example statsnet aggregate a.json:0.3 b.json:0.7 -o fleet.json",
        )
    first = parts[0]
    seen: dict[str, str] = {}
    for part in parts:
        for what in ("mode", "dtype"):
            one, other = getattr(first.signature, what), getattr(part.signature, what)
            if one != other:
                raise UsageError(
                    f"'{part.name}' is of {other}, '{first.name}' of {one}",
                    cause=f"an aggregate has one {what}",
                    hint=f"aggregate the signatures of each {what} by themselves",
                )
        known = seen.setdefault(part.signature.id, part.name)
        if known is not part.name:
            raise UsageError(
                f"'{known}' and '{part.name}' are one signature",
                cause="it would count twice",
                hint="give it once, with the sum of its weights",
            )
