"""Records a device: times operators of the database's workloads, and of blocks made from them, one by one."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.process import run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import OpCall
from statsnet.profiling.coarse_scalars import call_key, coarse_arguments
from statsnet.profiling.costs import cost_of
from statsnet.profiling.gpu_activity import Launch, activity_alone
from statsnet.profiling.hardware_counters import counters_of
from statsnet.profiling.replay_task import ReplayOperators
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.progress import Progress, Report, silent
from statsnet.proxy.towers import Placed
from statsnet.signatures.categories import COLLECTIVE, base_name, categorize
from statsnet.signatures.database import MODES, ProfilesDB
from statsnet.signatures.gpu import COUNTERS, Counters, GpuActivity
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Cluster, Memory, Phase, Signature
from statsnet.signatures.operators import bytes_of, dtype_of
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.bench.capture_tasks import CaptureBlockOperators
from statsnet.synthesis.budget import DEFAULT_COMPRESSION, budget_of
from statsnet.synthesis.candidates.candidates import candidates

OPERATORS = 1500
"""Operators in a record: it takes some minutes and gives a file of less than a megabyte."""

BLOCKS = 48
"""For each domain and mode, the operators of this many candidates can be chosen too: small ones beside the workloads'
large ones."""

FEWEST = 6
"""At least this many operators of each kind, if there are that many."""

LARGEST_BYTES = 2**26
"""Largest size of all tensors of an operator. Larger ones add no knowledge, take half a second each, and need
workspaces of several times their size."""

AT_ONCE = 150
"""Operators in one process. If it fails, for instance because memory runs out, halves are tried, down to one."""

REFERENCE = Model(target="recsys/dlrm", preset="small", mode="inference")
"""A workload of many short operators, which shows the time between them."""

Weighted = dict[str, tuple[Cluster, float]]
"""Operators to choose from, by their arguments, with their share of the time of all workloads."""


def record_device(
    db: ProfilesDB,
    *,
    device: str = "cpu",
    count: int = OPERATORS,
    counters: str = "off",
    note: Callable[[str], None] = silent,
    report: Report = silent,
) -> Signature:
    """A signature whose clusters are operators of the database's workloads and of blocks made from them, measured here
    one by one (replay); on a GPU with hardware counters if asked for (`counters`: see gpu.COUNTING; if there are none,
    `note` is told why). Raises StatsNetError if the database has no measured profiles."""
    pool: Weighted = {}
    for mode in MODES:
        targets = []
        for domain in db.domains:
            if not db.find_domain(domain, mode):
                continue
            report(Progress(stage=f"reading {domain}, {mode}"))
            targets.append(target_of_mix(resolve_mix(f"{domain}:1", mode, db), {}))
            _add(pool, _operators_of(targets[-1]), 1.0)
        _add(pool, _operators_of_blocks(targets, mode, device, report), 0.0)
    if not pool:
        raise StatsNetError(
            "there is nothing to record", cause=f"no measured profile in '{db.path}'", hint="give --profiles"
        )
    wanted = chosen(pool, count)
    parts: list[Signature] = []
    for begin in range(0, len(wanted), AT_ONCE):
        place, done = f"{begin + 1} to {begin + AT_ONCE}", begin / len(wanted)
        report(Progress(stage=f"timing operators {place} of {len(wanted)}", done=done))
        timed = _timed(wanted[begin : begin + AT_ONCE], device)
        if counters != "off" and device.startswith("cuda"):
            report(Progress(stage=f"counting operators {place}", done=done))
            timed = [_counted(part, device, counters, note) for part in timed]
        parts += [part.signature for part in timed]
    report(Progress(stage="what lies between operators"))
    reference = run(ProfileWorkload(model=REFERENCE, device=device)).signature
    return _merged(parts, _between_s(reference))


@dataclass(frozen=True, slots=True)
class _Part:
    """The operators of one process and, on a GPU, their kernels."""

    signature: Signature
    launches: tuple[Launch, ...]


def _counted(part: _Part, device: str, how: str, note: Callable[[str], None]) -> _Part:
    """The part with its operators' hardware counters."""
    signature = part.signature
    task = ReplayOperators(signature=signature, device=device)
    counters, why = counters_of(task, part.launches, len(signature.clusters), how)
    if why:
        note(why)
    (measurement,) = signature.measurements
    measured = replace(measurement, gpu=activity_alone(part.launches, counters))
    return replace(part, signature=replace(signature, measurements=(measured,)))


def _timed(clusters: list[Cluster], device: str) -> list[_Part]:
    """These operators with their measurements, without those that crash their process even alone."""
    alone = Signature(
        mode="inference",
        dtype="float32",
        clusters=tuple(clusters),
        memory=Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0),
    )
    try:
        replayed = run(ReplayOperators(signature=alone, device=device))
    except MeasurementError:
        half = len(clusters) // 2
        return [*_timed(clusters[:half], device), *_timed(clusters[half:], device)] if half else []
    return [_Part(replace(alone, measurements=(replayed.measurement,)), replayed.launches or ())]


def _merged(parts: list[Signature], between_s: float) -> Signature:
    """One signature: a step calls each operator once, with `between_s` seconds between two of them."""
    if not parts:
        raise MeasurementError("no operator could be timed", hint="try statsnet profile on this device first")
    measurements = [part.measurements[0] for part in parts]
    calls = sum(len(part.clusters) for part in parts)
    measured = replace(
        measurements[0],
        step_latency_s=(sum(m.step_latency_s[0] for m in measurements) + between_s * calls,),
        cluster_time_s=tuple(t for m in measurements for t in m.cluster_time_s),
        kernels=tuple(k for m in measurements for k in m.kernels),
        kernel_class=tuple(k for m in measurements for k in m.kernel_class),
        launches=float(calls),
        framework_time_s=between_s * calls,
        gpu=_activity(parts),
    )
    clusters = tuple(c for part in parts for c in part.clusters)
    return replace(parts[0], clusters=clusters, measurements=(measured,))


def _activity(parts: list[Signature]) -> GpuActivity | None:
    """Kernels and counters of all parts. The parts' clusters follow each other."""
    activities = [gpu for part in parts if (gpu := part.measurements[0].gpu) is not None]
    if len(activities) < len(parts):
        return None
    begins = [0, *itertools.accumulate(len(part.clusters) for part in parts)]
    values = {
        name: tuple(
            value
            for part, gpu in zip(parts, activities, strict=True)
            for value in gpu.counters.clusters.get(name, (None,) * len(part.clusters))
        )
        for name in COUNTERS
        if any(name in gpu.counters.clusters for gpu in activities)
    }
    durations: Counter[int] = Counter()
    for gpu in activities:
        durations.update(dict(gpu.duration_log2_us))  # type: ignore[arg-type]
    kernels = [
        replace(kernel, cluster=None if kernel.cluster is None else begin + kernel.cluster)
        for begin, gpu in zip(begins, activities, strict=False)
        for kernel in gpu.kernels
    ]
    first = activities[0]
    return replace(
        first,
        busy_time_s=sum(gpu.busy_time_s for gpu in activities),
        kernels=tuple(kernels),
        duration_log2_us=tuple(sorted(durations.items())),
        counters=Counters(
            tool=next((gpu.counters.tool for gpu in activities if gpu.counters.tool), None),
            clusters=values,
            missing={name: why for name, why in first.counters.missing.items() if name not in values},
        ),
    )


def _between_s(signature: Signature) -> float:
    (measurement,) = signature.measurements
    return ((measurement.framework_time_s or 0.0) + (measurement.idle_time_s or 0.0)) / signature.calls_per_step


def _operators_of(target: Target) -> Iterable[tuple[Cluster, float]]:
    members = {m.name: m for m in target.members}
    for cluster in target.clusters:
        yield members[cluster.member].signature.clusters[cluster.cluster], cluster.time_share


def _operators_of_blocks(
    targets: Sequence[Target], mode: str, device: str, report: Report
) -> Iterable[tuple[Cluster, float]]:
    """The operators of candidates for proxies of these targets, with the default compression."""
    blocks: dict[str, dict[str, Placed]] = defaultdict(dict)
    for target in targets:
        wanted = candidates(target, budget_s=budget_of(target, DEFAULT_COMPRESSION), limit=BLOCKS)
        blocks[target.members[0].signature.dtype] |= {c.placed.key: c.placed for c in wanted}
    for dtype, placed in blocks.items():
        task = CaptureBlockOperators(blocks=tuple(placed.values()), mode=mode, dtype=dtype, device=device)
        for call in (c for calls in run(task, report=report) for c in calls):
            if call.segment in ("block", "optimizer"):
                yield _cluster(call), 0.0


def _cluster(call: OpCall) -> Cluster:
    cost = cost_of(call.op, call.args, call.outputs)
    return Cluster(
        op=call.op,
        phase=cast(Phase, call.phase),
        category=categorize(call.op, call.phase),
        calls=1.0,
        args=tuple(coarse_arguments(call.op, call.args)),
        outputs=tuple(call.outputs),
        flops=cost.flops if cost else None,
        bytes_read=cost.bytes_read if cost else None,
        bytes_written=cost.bytes_written if cost else None,
    )


def _add(pool: Weighted, operators: Iterable[tuple[Cluster, float]], weight: float) -> None:
    for cluster, share in operators:
        if bytes_of(cluster.args, cluster.outputs) > LARGEST_BYTES or cluster.category == COLLECTIVE:
            continue
        key = call_key(cluster.op, cluster.phase, cluster.args, cluster.outputs)
        before = pool[key][1] if key in pool else 0.0
        pool[key] = (replace(cluster, calls=1.0, skew=None), before + weight * share)


def chosen(pool: Weighted, count: int) -> list[Cluster]:
    """`count` operators. Each kind (operator, phase and dtype) gets FEWEST, and more in proportion to the root of its
    share of the time: the most expensive, and others evenly spread over their sizes."""
    kinds: dict[tuple[str, str, str], list[tuple[Cluster, float]]] = defaultdict(list)
    for cluster, share in pool.values():
        kinds[_kind(cluster)].append((cluster, share))
    roots = {kind: math.sqrt(sum(share for _, share in of_kind)) for kind, of_kind in kinds.items()}
    total = sum(roots.values()) or 1.0
    more = max(count - FEWEST * len(kinds), 0)
    out: list[Cluster] = []
    for kind in sorted(kinds, key=lambda k: (-roots[k], k)):
        room = FEWEST + round(more * roots[kind] / total)
        out += _spread(kinds[kind], min(room, count - len(out)))
    return out


def _spread(operators: list[tuple[Cluster, float]], count: int) -> list[Cluster]:
    """The most expensive third of `count`; the rest evenly spaced among the others in the order of their sizes."""
    if len(operators) <= count:
        return [cluster for cluster, _ in operators]
    ordered = sorted(operators, key=lambda o: (-o[1], repr(o[0].args)))
    expensive, others = ordered[: count // 3], ordered[count // 3 :]
    others.sort(key=lambda o: (bytes_of(o[0].args, o[0].outputs), repr(o[0].args)))
    wanted = count - len(expensive)
    places = [round(i * (len(others) - 1) / max(wanted - 1, 1)) for i in range(wanted)]
    return [c for c, _ in (*expensive, *(others[p] for p in sorted({*places})))]


def _kind(cluster: Cluster) -> tuple[str, str, str]:
    return base_name(cluster.op), cluster.phase, dtype_of(cluster.args, cluster.outputs)
