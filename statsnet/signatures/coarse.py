"""A signature at level `coarse`: all of its numbers follow from few that are rounded.

Each number that is rounded alone has limits of its own, and many such limits tell models apart that differ little. So
sizes of tensors are rounded; calls are rounded together, relative to one of them; FLOPs and bytes are those of the
rounded sizes; which clusters are rare follows from these. Memory is scaled as the work of a step was, each cluster's
time as its own work (coarse_times.py): rates stay true, a step's length does not.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from statsnet.signatures.coarse_times import Pace, paced, rounded_times
from statsnet.signatures.collectives import is_collective
from statsnet.signatures.merging import folded, merge
from statsnet.signatures.model import Cluster, Memory, Motif, Signature, Skew, round_autocast_share
from statsnet.signatures.rounding import binned_argument, half_octave, in_steps, rounded
from statsnet.signatures.tensor_lists import MAX_LIST_TENSORS, listed_tensors

FEWEST_IN_A_MOTIF = 2
"""A motif that occurs less often in a step is not told."""

FEWEST_REPEATS = 4
"""Calls that are fewer are not those of layers that repeat."""

COMMON = 0.2
"""Share of the clusters of layers that repeat whose calls may stand for the number of layers."""

LAYER_STEP, OTHER_STEP, MEMORY_STEP = 8, 4, 16
"""Ratios from one step to the next: of the number of layers, of other counts, of sizes of memory."""

UNTOLD = ("buffer_bytes", "input_bytes", "activation_bytes")
"""Sizes of memory that are left out. Each size that is told has limits of its own, and a model that lies beyond one by
chance is told apart from all that look like it; these nobody needs to run a proxy."""


class Work(Protocol):
    """FLOPs and bytes of a call."""

    @property
    def flops(self) -> float: ...
    @property
    def bytes_read(self) -> float: ...
    @property
    def bytes_written(self) -> float: ...


CostOf = Callable[[str, Sequence[Any], Sequence[Any]], Work | None]
"""Work of an operator's call, by its name, encoded arguments and outputs; None if it has no formula."""


def as_coarse(signature: Signature, rare: float, cost_of: CostOf) -> Signature:
    """The signature with all numbers rounded; clusters below the share `rare` are folded into others."""
    binned = replace(signature, clusters=tuple(map(_binned_sizes, signature.clusters)))
    binned = merge(binned, folded(binned, 0.0))
    counts = _Counts.of([c.calls for c in binned.clusters])
    told = replace(binned, clusters=tuple(with_work(counts.of_cluster(c), cost_of) for c in binned.clusters))
    paces = list(map(Pace.of, binned.clusters, told.clusters))
    otherwise = _Scale.of(binned, told).work
    binned = replace(told, measurements=tuple(paced(m, paces, otherwise) for m in told.measurements))
    groups = folded(binned, rare)
    few = merge(binned, groups)
    clusters = (c if len(group) == 1 else _binned_mean(c) for c, group in zip(few.clusters, groups, strict=True))
    clusters = (replace(c, autocast_share=round_autocast_share(c.autocast_share, "coarse")) for c in clusters)
    few = replace(few, clusters=tuple(clusters), motifs=_common_motifs(few, counts))
    scale = _Scale.of(signature, few)
    return replace(
        few,
        memory=_memory(signature.memory, scale),
        batch=None if signature.batch is None else max(1, in_steps(signature.batch, 2)),
        shape_variants=max(1, in_steps(signature.shape_variants, 2)),
        processes=None if signature.processes is None else max(2, in_steps(signature.processes, 2)),
        inputs=None,
        measurements=tuple(rounded_times(m, scale.calls) for m in few.measurements),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """How calls are rounded: `layers` is the number that many clusters share, and stands for how often layers repeat.
    It is told in large steps; the others in powers of two of it, so no other limit tells how many layers there are."""

    layers: float

    @classmethod
    def of(cls, calls: Sequence[float]) -> _Counts:
        repeats = Counter(n for n in calls if n >= FEWEST_REPEATS)
        return cls(layers=min((n for n in repeats if repeats[n] >= COMMON * repeats.total()), default=math.inf))

    def binned(self, count: float) -> float:
        if count < 1:
            return rounded(count, 1)
        if count < FEWEST_IN_A_MOTIF + 0.5:
            return float(round(count))
        if count < self.layers / 2:
            return float(in_steps(count, OTHER_STEP))
        return float(in_steps(count / self.layers, 2) * in_steps(self.layers, LAYER_STEP))

    def of_cluster(self, cluster: Cluster) -> Cluster:
        """Its calls, and how often equal tensors stand in its lists: an optimizer's hold each layer's parameters."""
        args, outputs = (tuple(map(self._of_list, values)) for values in (cluster.args, cluster.outputs))
        return replace(cluster, calls=self.binned(cluster.calls), args=args, outputs=outputs)

    def _of_list(self, arg: Any) -> Any:
        if not (isinstance(arg, dict) and "tensors" in arg):
            return arg
        is_long = listed_tensors([arg]) > MAX_LIST_TENSORS // 4  # a count grows to four times itself at most

        def told(entry: dict[str, Any] | None) -> dict[str, Any] | None:
            if entry is None or "times" not in entry:
                return entry
            times: int = entry["times"]
            return entry | {"times": 1 << times.bit_length() - 1 if is_long else int(self.binned(times))}

        return {"tensors": [told(entry) for entry in arg["tensors"]]}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """A coarse step over the exact one: in work, and in calls."""

    work: float
    calls: float

    @classmethod
    def of(cls, exact: Signature, coarse: Signature) -> _Scale:
        calls = coarse.calls_per_step / exact.calls_per_step if exact.calls_per_step else 1.0
        same = exact.bytes_per_step > 0 and coarse.bytes_per_step > 0
        return cls(work=coarse.bytes_per_step / exact.bytes_per_step if same else calls, calls=calls)


def _binned_sizes(cluster: Cluster) -> Cluster:
    args, outputs = (tuple(map(binned_argument, values)) for values in (cluster.args, cluster.outputs))
    return replace(
        cluster, args=args, outputs=outputs, skew=None if cluster.skew is None else _binned_skew(cluster.skew)
    )


def _binned_skew(skew: Skew) -> Skew:
    return Skew(
        distinct_share=rounded(skew.distinct_share, 1),
        top1pct_share=rounded(skew.top1pct_share, 1),
        zipf=round(skew.zipf, 1),
    )


def with_work(cluster: Cluster, cost_of: CostOf) -> Cluster:
    """The work that follows from the cluster's sizes. Where no formula fits, that which was known, in steps."""
    if cluster.flops is None and cluster.bytes_moved is None:
        return cluster
    work = cost_of(cluster.op, cluster.args, cluster.outputs)
    if work is None:
        return _binned_work(cluster)
    return replace(cluster, flops=work.flops, bytes_read=work.bytes_read, bytes_written=work.bytes_written)


def _binned_mean(cluster: Cluster) -> Cluster:
    """Calls and work of a cluster that stands for several."""
    calls = float(in_steps(cluster.calls, 2)) if cluster.calls >= 1 else rounded(cluster.calls, 1)
    return replace(_binned_work(cluster), calls=calls)


def _binned_work(cluster: Cluster) -> Cluster:
    def binned(value: float | None) -> float | None:
        return None if value is None else half_octave(round(value))

    return replace(
        cluster,
        flops=binned(cluster.flops),
        bytes_read=binned(cluster.bytes_read),
        bytes_written=binned(cluster.bytes_written),
    )


def _common_motifs(signature: Signature, counts: _Counts) -> tuple[Motif, ...]:
    """Motifs that occur once in a step become their clusters, each alone; a collective and what it is tied to go."""
    sums: dict[tuple[int, ...], float] = defaultdict(float)
    for motif in signature.motifs:
        is_rare = motif.count < FEWEST_IN_A_MOTIF
        if is_rare and any(is_collective(signature.clusters[i].op) for i in motif.clusters):
            continue
        parts = [(i,) for i in motif.clusters] if is_rare else [motif.clusters]
        for part in parts:
            sums[part] += motif.count
    return tuple(Motif(clusters=clusters, count=counts.binned(count)) for clusters, count in sums.items())


def _memory(memory: Memory, scale: _Scale) -> Memory:
    sizes = {f.name: None if f.name in UNTOLD else getattr(memory, f.name) for f in fields(Memory)}
    return Memory(**{n: None if v is None else in_steps(v * scale.work, MEMORY_STEP) for n, v in sizes.items()})
