"""What a signature holds of collectives: from the traces of this process, and the times of all processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from statsnet.profiling.collective_times import Wait
from statsnet.profiling.distributed import alone, backend, from_all, number_of_processes
from statsnet.profiling.step_trace import StepTrace
from statsnet.signatures.collectives import Backend, Collectives, CollectiveTime
from statsnet.signatures.model import Signature


def with_collectives(signature: Signature, traces: Sequence[StepTrace], shares: Sequence[float]) -> Signature:
    """The signature with what its traces know of collectives, and with the times of all processes that made the step.
    Each of them must call this. Unchanged for a process that is alone.

    The traces' calls know their clusters, as `build_signature` leaves them; `shares` tell how often each occurs.
    """
    if alone():
        return signature
    (measurement,) = signature.measurements
    own = collectives_of(traces, shares, processes=number_of_processes(), backend=backend(traces[0].device))
    ranks = from_all((measurement.latency_s, own.exposed_time_s))
    known = replace(
        own,
        rank_step_latency_s=tuple(step_s for step_s, _ in ranks),
        rank_waiting_s=tuple(waiting_s for _, waiting_s in ranks),
    )
    return replace(signature, measurements=(replace(measurement, collectives=known),))


def collectives_of(
    traces: Sequence[StepTrace], shares: Sequence[float], *, processes: int, backend: Backend
) -> Collectives:
    """What one process's traces know of them, nothing of the times of others. It waits no longer than a mean step:
    profiled steps may have waited where no bare one did."""
    weights = [share / sum(shares) for share in shares]
    step_s = sum(w * trace.latency_s for trace, w in zip(traces, weights, strict=True))
    return Collectives(
        processes=processes,
        backend=backend,
        exposed_time_s=min(
            sum(w * wait.alone_s for t, w in zip(traces, weights, strict=True) for wait in t.waits), step_s
        ),
        calls=tuple(_by_cluster(traces, weights)),
        rank_step_latency_s=(),
        rank_waiting_s=(),
    )


def _by_cluster(traces: Sequence[StepTrace], weights: Sequence[float]) -> Iterator[CollectiveTime]:
    """The calls of each cluster in a mean step."""
    clusters: dict[int, list[tuple[float, Wait]]] = {}
    for trace, weight in zip(traces, weights, strict=True):
        for wait in trace.waits:
            if (cluster := trace.calls[wait.call].cluster) is not None:
                clusters.setdefault(cluster, []).append((weight, wait))
    for cluster, parts in sorted(clusters.items()):
        yield CollectiveTime(
            cluster=cluster,
            time_s=sum(weight * wait.time_s for weight, wait in parts),
            exposed_time_s=sum(weight * wait.exposed_s for weight, wait in parts),
            start_share=sum(w * wait.start_share for w, wait in parts) / sum(w for w, _ in parts),
        )
