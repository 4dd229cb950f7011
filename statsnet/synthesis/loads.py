"""What a target holds in one second, or a block in one use: operators of equal class, and the time between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statsnet.signatures.categories import FUSABLE
from statsnet.signatures.gpu import RATE_COUNTERS, SHARE_COUNTERS
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.signatures.target import Target

MATCHED_COUNTERS = (*SHARE_COUNTERS, *RATE_COUNTERS)
"""A counter's row is its mean times the operators' share of time (rates: over what they should be). Operators of which
it is not known count as the target's do; sums (DRAM's bytes) go with the rows of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGroup:
    """Operators of equal class: seconds, FLOPs and bytes, per second of a target or per use of a block. `weights` are
    those of the bytes that a product reads however few rows it has, `distinct` the part of them that no other call of
    the step reads: the steps of a recurrent layer share theirs. `fused` is the share of its category's forward time, in
    its block or its member, in calls that a compiler would run in one pass with the one before them. `counters` are the
    GPU's that are known of it, means over its time."""

    category: str
    kernel_class: str
    shape_class: str
    time_s: float
    flops: float
    bytes: float
    weights: float
    calls: float
    distinct: float = 1.0
    fused: float = 0.0
    counters: tuple[tuple[str, float], ...] = ()

    @property
    def kernel_shape(self) -> str:
        """What one factor is assumed for, from device to device."""
        return f"{self.kernel_class}|{self.shape_class}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """All that a target holds in one second, or a block in one use."""

    works: tuple[OperatorGroup, ...]
    framework_s: float

    @property
    def time_s(self) -> float:
        return sum(w.time_s for w in self.works) + self.framework_s

    def scale_times(self, factor: float) -> StepLoad:
        """The same work on a machine that takes `factor` times as long."""
        works = tuple(replace(w, time_s=w.time_s * factor) for w in self.works)
        return StepLoad(works=works, framework_s=self.framework_s * factor)


def load_of_target(target: Target) -> StepLoad:
    """One second of a target; what is not spent in operators is framework and idle time.

    Where a noisy profile gives a member's operators more time than its undisturbed step took, they are scaled to it.
    """
    spent: dict[str, float] = defaultdict(float)
    for cluster in target.clusters:
        spent[cluster.member] += cluster.time_share
    fused, distinct = _fused_in_target(target), _distinct_in_target(target)
    scale = {m.name: min(1.0, m.weight / spent[m.name]) if spent[m.name] else 1.0 for m in target.members}
    works = tuple(
        OperatorGroup(
            category=c.category,
            kernel_class=c.kernel_class,
            shape_class=shape_class(c.op, list(c.args), list(c.outputs)),
            time_s=c.time_share * scale[c.member],
            flops=c.flops_per_s or 0.0,
            bytes=c.bytes_per_s or 0.0,
            weights=weight_bytes(c.op, c.phase, c.args) * c.calls_per_s,
            calls=c.calls_per_s,
            distinct=distinct[c.member] if c.category != "convolution" else 1.0,
            fused=fused.get((c.member, c.category), 0.0),
            counters=_matched(c.counters),
        )
        for c in target.clusters
    )
    return StepLoad(works=works, framework_s=max(1.0 - sum(w.time_s for w in works), 0.0))


def _distinct_in_target(target: Target) -> dict[str, float]:
    """By member, as Work.distinct. Its parameters are known in sum alone: taken off are convolutions' weights, which
    are read once, and one table of each shape that is looked up, unless a product reads such a one too."""
    found = {}
    for member in target.members:
        clusters = [c for c in target.clusters if c.member == member.name]
        left = float(member.signature.memory.parameter_bytes)
        products: set[int] = set()
        tables: set[int] = set()
        read = 0.0
        for c in clusters:
            weights = weight_bytes(c.op, c.phase, c.args)
            read_here = weights * c.calls_per_s / member.steps_per_s
            if c.category == "convolution":
                left -= read_here
            elif weights:
                read += read_here
                products.add(weights)
            elif c.category == "embedding" and c.phase == "forward" and is_tensor(c.args[0]):
                tables.add(TensorSpec.from_dict(c.args[0]).nbytes)
        left -= sum(tables - products)
        found[member.name] = min(left / read, 1.0) if read and left > 0 else 1.0
    return found


def _fused_in_target(target: Target) -> dict[tuple[str, str], float]:
    """By member and category, as Work.fused. Motifs are of forward calls; backward ones are their mirror."""
    found: list[tuple[tuple[str, str], float, float]] = []
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        for before, cluster in zip([None, *clusters], clusters, strict=False):
            behind = before is not None and {before.category, cluster.category} <= FUSABLE
            time_s = motif.count_per_s * (cluster.time_per_call_s or 0.0)
            found.append(((cluster.member, cluster.category), time_s, behind))
    return _shares_counted(found)


def _shares_counted(found: Iterable[tuple[Any, float, float]]) -> dict[Any, float]:
    """From (key, seconds, what part of them counts): by key the share of the seconds that counts."""
    all_s: dict[Any, float] = defaultdict(float)
    counted_s: dict[Any, float] = defaultdict(float)
    for key, time_s, part in found:
        all_s[key] += time_s
        counted_s[key] += part * time_s
    return {key: counted_s[key] / time_s for key, time_s in all_s.items() if time_s > 0}


def works_of(part: dict[str, Any]) -> tuple[OperatorGroup, ...]:
    """From one part (`block` or `optimizer`) of a result of `jobs.measure_candidates`."""
    forward = [row for row in part["operators"] if row["phase"] == "forward"]
    fused = _shares_counted((row["category"], row["time_s"], row["fused"]) for row in forward)
    return tuple(
        OperatorGroup(
            **{k: row[k] for k in OperatorGroup.__slots__ if k not in ("distinct", "fused", "counters")},
            fused=fused.get(row["category"], 0.0),
            counters=_matched(row.get("counters", {})),
        )
        for row in part["operators"]
    )


def _matched(counters: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((name, counters[name]) for name in MATCHED_COUNTERS if name in counters)
