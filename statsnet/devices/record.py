"""Recording a device: operators that the database's workloads and their blocks call, timed there one by one."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.process import run_job
from statsnet.profiling.build_signature import coarse_arguments
from statsnet.profiling.costs import cost_of
from statsnet.profiling.gpu_activity import Launch, activity_alone
from statsnet.profiling.hardware_counters import counters_of
from statsnet.signatures.categories import base_name, categorize
from statsnet.signatures.database import MODES, ProfilesDB
from statsnet.signatures.gpu import COUNTERS, Counters, GpuActivity
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Cluster, Measurement, Memory, Signature
from statsnet.signatures.operators import bytes_of, dtype_of
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.live_bench import Report
from statsnet.synthesis.problem import DEFAULT_COMPRESSION, budget_of

OPERATORS = 1500
"""So many are recorded: some minutes, and a file of less than a megabyte."""

BLOCKS = 48
"""Candidates of each domain and mode whose operators are among those to choose from: they are small, workloads'
large."""

FEWEST = 6
"""Of each kind of operator at least, where there are so many."""

LARGEST_BYTES = 2**26
"""Of all tensors of an operator: larger ones tell no more, take half a second each, and workspaces of several times
their size."""

AT_ONCE = 150
"""Operators in one process. Where it fails, as when memory runs out, halves of them are tried, down to one."""

REFERENCE = {"target": "recsys/dlrm", "preset": "small", "mode": "inference", "dtype": "float32"}
"""A workload of many short operators, which shows what lies between them."""

Weighted = dict[str, tuple[Cluster, float]]
"""Operators to choose from, by their arguments, with their share of the time of all workloads."""


def record_device(
    db: ProfilesDB,
    *,
    device: str = "cpu",
    count: int = OPERATORS,
    counters: str = "off",
    note: Callable[[str], None] = lambda _text: None,
    report: Report = lambda _stage, _share: None,
) -> Signature:
    """A signature whose clusters are operators of the database's workloads and of blocks made from them, measured
    here one by one (replay), on a GPU with hardware counters where they are asked for (`counters`: see gpu.COUNTING;
    `note` is told why there are none). Raises StatsNetError for a database without measured profiles."""
    pool: Weighted = {}
    for mode in MODES:
        for domain in db.domains:
            if not db.find_domain(domain, mode):
                continue
            report(f"reading {domain}, {mode}", 0.0)
            target = target_of_mix(resolve_mix(f"{domain}:1", mode, db), {})
            _add(pool, _operators_of(target), 1.0)
            _add(pool, _operators_of_blocks(target, mode, device, report), 0.0)
    if not pool:
        raise StatsNetError(
            "there is nothing to record", cause=f"no measured profile in '{db.path}'", hint="give --profiles"
        )
    wanted = chosen(pool, count)
    parts: list[Signature] = []
    for begin in range(0, len(wanted), AT_ONCE):
        report(f"timing operators {begin + 1} to {begin + AT_ONCE} of {len(wanted)}", begin / len(wanted))
        found = _timed(wanted[begin : begin + AT_ONCE], device)
        if counters != "off" and device.startswith("cuda"):
            report(f"counting operators {begin + 1} to {begin + AT_ONCE}", begin / len(wanted))
            found = [_counted(part, device, counters, note) for part in found]
        parts += [part.signature for part in found]
    report("what lies between operators", 0.0)
    reference = run_job({"kind": "profile_workload", **REFERENCE, "device": device})["signature"]
    return merge_signatures(parts, _between_s(Signature.from_dict(reference)))


@dataclass(frozen=True, slots=True)
class _Part:
    """Operators of one process, and on a GPU their kernels."""

    signature: Signature
    launches: tuple[Launch, ...]


def _counted(part: _Part, device: str, how: str, note: Callable[[str], None]) -> _Part:
    """With their hardware counters."""
    signature = part.signature
    job = {"kind": "count_replay", "signature": signature.to_dict(), "device": device}
    counters, why = counters_of(job, part.launches, len(signature.clusters), how)
    if why:
        note(why)
    (measurement,) = signature.measurements
    measured = replace(measurement, gpu=activity_alone(part.launches, counters))
    return replace(part, signature=replace(signature, measurements=(measured,)))


def _timed(clusters: list[Cluster], device: str) -> list[_Part]:
    """These with their measurements; those that end their process even alone are left out."""
    alone = Signature(
        mode="inference",
        dtype="float32",
        clusters=tuple(clusters),
        memory=Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0),
    )
    try:
        found = run_job({"kind": "replay", "signature": alone.to_dict(), "device": device})
    except MeasurementError:
        half = len(clusters) // 2
        return [*_timed(clusters[:half], device), *_timed(clusters[half:], device)] if half else []
    launches = tuple(Launch(**launch) for launch in found.get("launches", ()))
    return [_Part(replace(alone, measurements=(Measurement.from_dict(found["measurement"]),)), launches)]


def merge_signatures(parts: list[Signature], between_s: float) -> Signature:
    """One signature, a call of each operator in a step; `between_s` seconds lie between two."""
    if not parts:
        raise MeasurementError("no operator could be timed", hint="try statsnet profile on this device first")
    found = [part.measurements[0] for part in parts]
    calls = sum(len(part.clusters) for part in parts)
    measured = replace(
        found[0],
        step_latency_s=(sum(m.step_latency_s[0] for m in found) + between_s * calls,),
        cluster_time_s=tuple(t for m in found for t in m.cluster_time_s),
        kernels=tuple(k for m in found for k in m.kernels),
        kernel_class=tuple(k for m in found for k in m.kernel_class),
        launches=float(calls),
        framework_time_s=between_s * calls,
        gpu=_activity(parts),
    )
    clusters = tuple(c for part in parts for c in part.clusters)
    return replace(parts[0], clusters=clusters, measurements=(measured,))


def _activity(parts: list[Signature]) -> GpuActivity | None:
    """Kernels and counters of all parts, whose clusters stand one part after the other."""
    found = [gpu for part in parts if (gpu := part.measurements[0].gpu) is not None]
    if len(found) < len(parts):
        return None
    begins = [0, *itertools.accumulate(len(part.clusters) for part in parts)]
    values = {
        name: tuple(
            value
            for part, gpu in zip(parts, found, strict=True)
            for value in gpu.counters.clusters.get(name, (None,) * len(part.clusters))
        )
        for name in COUNTERS
        if any(name in gpu.counters.clusters for gpu in found)
    }
    durations: Counter[int] = Counter()
    for gpu in found:
        durations.update(dict(gpu.duration_log2_us))  # type: ignore[arg-type]
    kernels = [
        replace(kernel, cluster=None if kernel.cluster is None else begin + kernel.cluster)
        for begin, gpu in zip(begins, found, strict=False)
        for kernel in gpu.kernels
    ]
    return replace(
        found[0],
        busy_time_s=sum(gpu.busy_time_s for gpu in found),
        kernels=tuple(kernels),
        duration_log2_us=tuple(sorted(durations.items())),
        counters=Counters(
            tool=next((gpu.counters.tool for gpu in found if gpu.counters.tool), None),
            clusters=values,
            missing={name: why for name, why in found[0].counters.missing.items() if name not in values},
        ),
    )


def _between_s(signature: Signature) -> float:
    (measurement,) = signature.measurements
    return ((measurement.framework_time_s or 0.0) + (measurement.idle_time_s or 0.0)) / measurement.launches


def _operators_of(target: Target) -> Iterable[tuple[Cluster, float]]:
    members = {m.name: m for m in target.members}
    for found in target.clusters:
        yield members[found.member].signature.clusters[found.cluster], found.time_share


def _operators_of_blocks(
    target: Target, mode: str, device: str, report: Report
) -> Iterable[tuple[Cluster, float]]:
    """Those of candidates for a proxy of the default compression."""
    wanted = candidates(target, budget_s=budget_of(target, DEFAULT_COMPRESSION, mode), limit=BLOCKS)
    dtype = target.members[0].signature.dtype
    job = {"candidates": [c.to_dict() for c in wanted], "mode": mode, "dtype": dtype, "device": device}
    counted = run_job(
        {"kind": "count_candidates", **job},
        on_progress=lambda e: report(e["stage"], float(e.get("done", 0.0))),
    )
    for call in (c for calls in counted["calls"] for c in calls if c["segment"] in ("block", "optimizer")):
        yield _cluster(call), 0.0


def _cluster(call: Mapping[str, Any]) -> Cluster:
    cost = cost_of(call["op"], call["args"], call["outputs"])
    return Cluster(
        op=call["op"],
        phase=call["phase"],
        category=categorize(call["op"], call["phase"]),
        calls=1.0,
        args=tuple(coarse_arguments(call["args"])),
        outputs=tuple(call["outputs"]),
        flops=cost.flops if cost else None,
        bytes_read=cost.bytes_read if cost else None,
        bytes_written=cost.bytes_written if cost else None,
    )


def _add(pool: Weighted, found: Iterable[tuple[Cluster, float]], weight: float) -> None:
    for cluster, share in found:
        if bytes_of(cluster.args, cluster.outputs) > LARGEST_BYTES or cluster.category == "collective":
            continue
        key = json.dumps([cluster.op, cluster.phase, cluster.args, cluster.outputs], sort_keys=True)
        before = pool[key][1] if key in pool else 0.0
        pool[key] = (replace(cluster, calls=1.0, skew=None), before + weight * share)


def chosen(pool: Weighted, count: int) -> list[Cluster]:
    """`count` operators: of each kind (operator, phase and dtype) FEWEST, and as many more as the root of its share of
    the time says: the dearest, and others evenly spread over their sizes."""
    kinds: dict[tuple[str, str, str], list[tuple[Cluster, float]]] = defaultdict(list)
    for cluster, share in pool.values():
        kinds[_kind(cluster)].append((cluster, share))
    roots = {kind: math.sqrt(sum(share for _, share in found)) for kind, found in kinds.items()}
    total = sum(roots.values()) or 1.0
    more = max(count - FEWEST * len(kinds), 0)
    out: list[Cluster] = []
    for kind in sorted(kinds, key=lambda k: (-roots[k], k)):
        room = FEWEST + round(more * roots[kind] / total)
        out += _spread(kinds[kind], min(room, count - len(out)))
    return out


def _spread(found: list[tuple[Cluster, float]], count: int) -> list[Cluster]:
    """The dearest third, and of the others every so many in the order of their sizes."""
    if len(found) <= count:
        return [cluster for cluster, _ in found]
    ordered = sorted(found, key=lambda f: (-f[1], repr(f[0].args)))
    dear, others = ordered[: count // 3], ordered[count // 3 :]
    others.sort(key=lambda f: (bytes_of(f[0].args, f[0].outputs), repr(f[0].args)))
    wanted = count - len(dear)
    places = [round(i * (len(others) - 1) / max(wanted - 1, 1)) for i in range(wanted)]
    return [c for c, _ in (*dear, *(others[p] for p in sorted({*places})))]


def _kind(cluster: Cluster) -> tuple[str, str, str]:
    return base_name(cluster.op), cluster.phase, dtype_of(cluster.args, cluster.outputs)
