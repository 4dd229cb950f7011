"""Builds a signature from traces of a step: clusters, motifs, memory, one measurement."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median, pstdev
from typing import Any

from statsnet.errors import ModelError
from statsnet.profiling.capture import OpCall
from statsnet.profiling.coarse_scalars import coarse_arguments
from statsnet.profiling.costs import cost_of
from statsnet.profiling.gpu_activity import activity_of
from statsnet.profiling.motifs import collective_pairs, count_motifs, motif_runs
from statsnet.profiling.step_trace import StepTrace
from statsnet.signatures.categories import categorize
from statsnet.signatures.gpu import Power
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.measurement import Variation
from statsnet.signatures.model import InputSample, Signature
from statsnet.signatures.operators import can_be_kept, is_tensor
from statsnet.signatures.order import canonical_order, in_canonical_order
from statsnet.workloads.dtypes import MIXED

MOST_CLUSTERS = MOST_MOTIFS = 20_000
"""What a signature holds (signatures/model.py). Motifs beyond that are the rarest, and are left out."""


@dataclass(slots=True)
class _Cluster:
    number: int
    call: OpCall
    calls: float = 0.0
    time_s: float | None = None
    implementation: Counter[str] = field(default_factory=Counter)


def build_signature(
    traces: list[StepTrace],
    *,
    mode: str,
    dtype: str,
    memory: dict[str, int | None],
    environment: Mapping[str, Any] | None,
    shares: list[float] | None = None,
    workload: dict[str, str] | None = None,
    batch: int | None = None,
    optimizer: str | None = None,
    power: Power | None = None,
    inputs: InputSample | None = None,
    variation: Variation | None = None,
    processes: int | None = None,
) -> Signature:
    """Signature of a workload from one trace per distinct step; `shares` tells how often each occurs.

    `inputs` says which inputs of different shapes they stand for, `variation` how much steps on equal inputs differ,
    `processes` how many run the step together, if there are several: the traces are of the first one.
    Without `environment` the traces hold only counts (fake tensors), and the signature has no measurement. Afterwards
    the traces' calls know their clusters.
    """
    shares = shares or [1.0] * len(traces)
    weights = [share / sum(shares) for share in shares]
    clusters, motifs = _clustered(traces, weights)
    _check_number(clusters)
    data: dict[str, Any] = {
        "kind": "statsnet.signature",
        "schema_version": 1,
        "level": "full",
        "workload": workload,
        "mode": mode,
        "dtype": dtype,
        "batch": batch,
        "optimizer": optimizer,
        "counts": {
            "flops_per_multiply_add": 2,
            "clusters": [_cluster_row(cluster) for cluster in clusters],
            "motifs": [{"clusters": list(s), "count": n} for s, n in _commonest(motifs)],
            "memory": memory,
            "shape_variants": len(inputs.stands_for) if inputs else 1 if variation else len(traces),
            "inputs": inputs,
            "processes": processes,
        },
    }
    if environment is not None:
        measured = _measurement(traces, weights, clusters, environment)
        data["measurements"] = [{**measured, "variation": variation, "gpu": activity_of(traces, weights, power)}]
    signature = Signature.from_dict(data)
    place = {old: new for new, old in enumerate(canonical_order(signature.clusters))}
    for trace in traces:
        for call in trace.calls:
            call.cluster = None if call.cluster is None else place[call.cluster]
    return in_canonical_order(signature)


def _clustered(
    traces: Sequence[StepTrace], weights: Sequence[float]
) -> tuple[list[_Cluster], Counter[tuple[int, ...]]]:
    """Clusters in the order of their first calls, and motifs. Each call is told its cluster's number."""
    clusters: dict[str, _Cluster] = {}
    motifs: Counter[tuple[int, ...]] = Counter()
    for trace, share in zip(traces, weights, strict=True):
        cluster_of: list[int | None] = []
        for call, implementation in zip(trace.calls, trace.implementations, strict=True):
            if call.metadata:
                cluster_of.append(None)
                continue
            if not can_be_kept((*call.args, *call.outputs)):  # better a call without shapes than no signature
                call.args, call.outputs, call.is_counted = [], [], False
            args = coarse_arguments(call.op, call.args)
            key = json.dumps([call.op, call.phase, args, call.outputs, call.is_lost], sort_keys=True)
            if key not in clusters:
                call.args = args
                clusters[key] = _Cluster(len(clusters), call)
            _add(clusters[key], call, implementation, share)
            call.cluster = clusters[key].number
            cluster_of.append(call.cluster)
        tied = [*motif_runs(trace.calls), *collective_pairs(trace.calls)]
        for sequence, count in count_motifs(tied, cluster_of).items():
            motifs[sequence] += count * share  # type: ignore[assignment]
    return list(clusters.values()), motifs


def mode_of(calls: Iterable[OpCall]) -> str:
    """`training` if there is a backward pass or an optimizer's step among the calls, else `inference`."""
    return "training" if any(call.phase in ("backward", "optimizer") for call in calls) else "inference"


def dtype_of_results(calls: Iterable[OpCall], otherwise: str = "float32") -> str:
    """The floating dtype that most results of the calls have."""
    counted = Counter(t["dtype"] for call in calls for t in call.outputs if _is_floating(t))
    return counted.most_common(1)[0][0] if counted else otherwise


def dtype_of_elements(tensors: Iterable[Any]) -> str:
    """The floating dtype of most elements of encoded tensors (`float32` if there are none), or `mixed` if a second one
    has a fifth of them."""
    elements: Counter[str] = Counter()
    for tensor in tensors:
        if _is_floating(tensor):
            elements[tensor["dtype"]] += math.prod(tensor["shape"])
    ranked = elements.most_common(2)
    if not ranked:
        return "float32"
    return MIXED if len(ranked) > 1 and ranked[1][1] > 0.2 * elements.total() else ranked[0][0]


def _is_floating(encoded: Any) -> bool:
    return is_tensor(encoded) and encoded["dtype"].startswith(("float", "bfloat"))


def _commonest(motifs: Counter[tuple[int, ...]]) -> Iterable[tuple[tuple[int, ...], int]]:
    return motifs.items() if len(motifs) <= MOST_MOTIFS else motifs.most_common(MOST_MOTIFS)


def _check_number(clusters: Sequence[_Cluster]) -> None:
    if len(clusters) <= MOST_CLUSTERS:
        return
    (op, number), *_ = Counter(cluster.call.op for cluster in clusters).most_common(1)
    raise ModelError(
        f"the step has {len(clusters):,} distinct operator calls, and a signature holds {MOST_CLUSTERS:,}",
        cause=f"calls at different shapes are kept apart, and {op} alone has {number:,}",
        hint="pad lengths to a few sizes, as batching by buckets does, or profile a part of the step",
    )


def _add(cluster: _Cluster, call: OpCall, implementation: str, share: float) -> None:
    cluster.calls += share
    if call.time_s is not None:
        cluster.time_s = (cluster.time_s or 0.0) + call.time_s * share
    cluster.implementation[implementation] += 1


def _cluster_row(cluster: _Cluster) -> dict[str, Any]:
    call = cluster.call
    cost = cost_of(call.op, call.args, call.outputs) if call.is_counted or call.metadata else None
    return {
        "op": call.op,
        "phase": call.phase,
        "category": categorize(call.op, call.phase),
        "calls": cluster.calls,
        "args": call.args,
        "outputs": call.outputs,
        "flops": cost.flops if cost else None,
        "bytes_read": cost.bytes_read if cost else None,
        "bytes_written": cost.bytes_written if cost else None,
        "skew": call.skew,
    }


def _measurement(
    traces: list[StepTrace], weights: list[float], clusters: list[_Cluster], environment: Mapping[str, Any]
) -> dict[str, Any]:
    samples = mixed_steps([t.step_latency_s for t in traces], weights)
    kernels = [c.implementation.most_common(1)[0][0] for c in clusters]
    unexplained = [t.unexplained_share for t in traces if t.unexplained_share is not None]
    launches = [t.kernels_launched if t.device == "cuda" else sum(1 for c in t.calls if not c.metadata) for t in traces]
    return {
        "environment": environment,
        "step_latency_s": samples,
        "warmup_latency_s": [s for t in traces for s in t.warmup_latency_s],
        "profiled_latency_s": [s for t in traces for s in t.profiled_latency_s],
        "cluster_time_s": [c.time_s for c in clusters],
        "kernels": kernels,
        "kernel_class": [
            kernel_class(c.call.op, c.call.args, c.call.outputs, k) for c, k in zip(clusters, kernels, strict=True)
        ],
        "launches": _weighted(launches, weights),
        "framework_time_s": _known([t.framework_time_s for t in traces], weights),
        "idle_time_s": _known([t.idle_time_s for t in traces], weights),
        "unexplained_share": max(unexplained) if len(unexplained) == len(traces) else None,
        "coefficient_of_variation": mean(_variation(t.all_steps_s or t.step_latency_s) for t in traces),
        "source": "profile",
        "unmatched_calls": _weighted([t.unmatched_calls for t in traces], weights),
        "recording_s": _weighted([t.recording_s for t in traces], weights),
    }


def mixed_steps(samples: list[list[float]], weights: list[float]) -> list[float]:
    """Samples of an average step: the i-th samples of all inputs, weighted by how often each input occurs."""
    return [_weighted(row, weights) for row in zip(*samples, strict=False)]


def _weighted(values: Sequence[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True))


def _known(values: Sequence[float | None], weights: list[float]) -> float | None:
    known = [v for v in values if v is not None]
    return _weighted(known, weights) if len(known) == len(values) else None


def _variation(samples: list[float]) -> float:
    """Standard deviation ÷ median. Not robust, on purpose: outliers should show."""
    return pstdev(samples) / median(samples) if len(samples) > 1 else 0.0
