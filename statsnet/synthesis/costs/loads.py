"""The content of one second of a target, or of one use of a block: groups of operators, and the time between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statsnet.profiling.motifs import fused, joined
from statsnet.signatures.gpu import RATE_COUNTERS, SHARE_COUNTERS
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.signatures.target import Target
from statsnet.signatures.target_cluster import TargetCluster
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.candidates.chains import chained_shares
from statsnet.synthesis.program.elsewhere import Elsewhere, Fate

MATCHED_COUNTERS = (*SHARE_COUNTERS, *RATE_COUNTERS)
"""A counter's row is its mean times the operators' share of time (for rates: divided by the target's mean). Operators
without a known value count like the target's. Sums (DRAM's bytes) are left out: the rows of bytes cover them."""

Rule = Callable[[Sequence[tuple[str, str]]], list[bool]]
"""Of a run of operators, each with its category: which of them something holds for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGroup:
    """Operators of equal class: seconds, FLOPs and bytes, per second of a target or per use of a block.

    `weights` are the bytes of weights that a product reads however few rows it has. `distinct` is the share of them
    that no other call of the step reads: the steps of a recurrent layer share theirs. `fused` is the share of its
    category's forward time, in its block or member, in calls that a compiler would merge with the call before; `joined`
    in those that other runtimes join to their neighbours (motifs.py).
    `counters` are a GPU's known counters, means over its time; `fate` is the operators' on other devices. `phase` is
    where they ran: an operator by itself was measured in a forward pass."""

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
    joined: float = 0.0
    counters: tuple[tuple[str, float], ...] = ()
    fate: Fate | None = None
    phase: str = "forward"

    @property
    def kernel_shape(self) -> str:
        """Operators of equal kernel shape are assumed to change by one factor from device to device."""
        return f"{self.kernel_class}|{self.shape_class}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """All operators of a target's second or of one use of a block, and the time between them."""

    groups: tuple[OperatorGroup, ...]
    framework_s: float

    @property
    def time_s(self) -> float:
        return sum(g.time_s for g in self.groups) + self.framework_s

    def scale_times(self, factor: float) -> StepLoad:
        """The same work on a machine that takes `factor` times as long."""
        groups = tuple(replace(g, time_s=g.time_s * factor) for g in self.groups)
        return StepLoad(groups=groups, framework_s=self.framework_s * factor)

    def delay(self, time_s: float) -> StepLoad:
        """With so much more time between its operators."""
        return replace(self, framework_s=self.framework_s + time_s)


class OperatorTable:
    """The operator groups of several loads as arrays with one entry for each group. `load` is the index of its load,
    `shape` that of its kernel shape among `shapes`."""

    def __init__(self, loads: Sequence[Iterable[OperatorGroup]]) -> None:
        of_load = [tuple(groups) for groups in loads]
        self.groups = [g for groups in of_load for g in groups]
        self.loads = len(of_load)
        self.load = np.repeat(np.arange(len(of_load)), [len(groups) for groups in of_load])
        amounts = [(g.time_s, g.flops, g.bytes, g.weights, g.calls, g.distinct, g.fused, g.joined) for g in self.groups]
        columns = np.array(amounts, dtype=float).reshape(len(self.groups), 8).T
        self.time_s, self.flops, self.bytes, self.weights, self.calls, self.distinct = columns[:6]
        self.fused, self.joined = columns[6:]
        shapes = [g.kernel_shape for g in self.groups]
        self.shapes = list(dict.fromkeys(shapes))
        place = {shape: i for i, shape in enumerate(self.shapes)}
        self.shape = np.array([place[shape] for shape in shapes], dtype=int)

    def sums(self, amounts: np.ndarray) -> np.ndarray:
        """The sum over each load's groups."""
        return np.bincount(self.load, weights=amounts, minlength=self.loads)

    def each(self, value: Callable[[OperatorGroup], float]) -> np.ndarray:
        """A number for each group."""
        return np.array([value(g) for g in self.groups], dtype=float)


def load_of_target(target: Target, elsewhere: Elsewhere | None = None) -> StepLoad:
    """One second of a target; time that is not spent in operators is framework and idle time."""
    fused_shares = _shares_of_runs(target, fused)
    in_chains = {(name, "convolution"): share for name, share in chained_shares(target).items()}
    joined_shares = _shares_of_runs(target, joined) | in_chains
    distinct = distinct_shares(target)
    groups = tuple(
        OperatorGroup(
            category=c.category,
            kernel_class=c.kernel_class,
            shape_class=shape_class(c.op, list(c.args), list(c.outputs)),
            time_s=c.time_share,
            flops=c.flops_per_s or 0.0,
            bytes=c.bytes_per_s or 0.0,
            weights=weight_bytes(c.op, c.phase, c.args) * c.calls_per_s,
            calls=c.calls_per_s,
            distinct=distinct[c.member] if c.category != "convolution" else 1.0,
            fused=fused_shares.get((c.member, c.category), 0.0),
            joined=joined_shares.get((c.member, c.category), 0.0),
            counters=_matched_counters(c.counters),
            fate=elsewhere.fate(c.op, c.phase, c.args, c.outputs) if elsewhere else None,
            phase=c.phase,
        )
        for c in target.clusters
    )
    return StepLoad(groups=groups, framework_s=max(1.0 - sum(g.time_s for g in groups), 0.0))


def distinct_shares(target: Target) -> dict[str, float]:
    """`OperatorGroup.distinct` by member. Only the sum of a member's parameters is known. Subtracted from it are the
    weights of convolutions, which are read once, and one table of each shape that is looked up, unless a product reads
    one of that shape too."""
    shares = {}
    of_member: dict[str, list[TargetCluster]] = defaultdict(list)
    for cluster in target.clusters:
        of_member[cluster.member].append(cluster)
    for member in target.members:
        left = float(member.signature.memory.parameter_bytes or 0)
        products: set[int] = set()
        tables: set[int] = set()
        read = 0.0
        for c in of_member[member.name]:
            weights = weight_bytes(c.op, c.phase, c.args)
            read_here = weights * c.calls_per_s / member.steps_per_s
            if c.category == "convolution":
                left -= read_here
            elif weights:
                read += read_here
                products.add(weights)
            elif c.category == "embedding" and c.phase == "forward" and c.args and is_tensor(c.args[0]):
                tables.add(TensorSpec.from_dict(c.args[0]).nbytes)
        left -= sum(tables - products)
        shares[member.name] = min(left / read, 1.0) if read and left > 0 else 1.0
    return shares


def _shares_of_runs(target: Target, rule: Rule) -> dict[tuple[str, str], float]:
    """The share of time that a rule of motifs.py holds for, by member and category. Motifs hold forward calls; the
    backward ones mirror them."""
    timed: list[tuple[tuple[str, str], float, float]] = []
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        for cluster, holds in zip(clusters, rule([(c.op, c.category) for c in clusters]), strict=True):
            time_s = motif.count_per_s * (cluster.time_per_call_s or 0.0)
            timed.append(((cluster.member, cluster.category), time_s, holds))
    return means_over_time(timed)


def means_over_time(timed: Iterable[tuple[Any, float, float]]) -> dict[Any, float]:
    """From (key, seconds, share) the mean share of each key, weighted by the seconds."""
    total_s: dict[Any, float] = defaultdict(float)
    shared_s: dict[Any, float] = defaultdict(float)
    for key, time_s, share in timed:
        total_s[key] += time_s
        shared_s[key] += share * time_s
    return {key: shared_s[key] / time_s for key, time_s in total_s.items() if time_s > 0}


def groups_of(part: BlockPart) -> tuple[OperatorGroup, ...]:
    """The operators of a block's part."""
    forward = [row for row in part.operators if row.phase == "forward"]
    fused_shares = means_over_time((row.category, row.time_s, row.fused) for row in forward)
    joined_shares = means_over_time((row.category, row.time_s, row.joined) for row in forward)
    return tuple(
        OperatorGroup(
            category=row.category,
            kernel_class=row.kernel_class,
            shape_class=row.shape_class,
            time_s=row.time_s,
            flops=row.flops,
            bytes=row.bytes,
            weights=row.weights,
            calls=row.calls,
            fused=fused_shares.get(row.category, 0.0),
            joined=joined_shares.get(row.category, 0.0),
            counters=_matched_counters(row.counters or {}),
            fate=row.fate,
            phase=row.phase,
        )
        for row in part.operators
    )


def _matched_counters(counters: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((name, counters[name]) for name in MATCHED_COUNTERS if name in counters)


def load_of_part(part: BlockPart) -> StepLoad:
    """All of a block's part."""
    return StepLoad(groups=groups_of(part), framework_s=part.framework_s)


def scaled(groups: tuple[OperatorGroup, ...], factor: float, calls: float = 1.0) -> tuple[OperatorGroup, ...]:
    """The same groups, `factor` times as large and in `calls` times as many calls."""
    return tuple(
        replace(
            g,
            time_s=g.time_s * factor,
            flops=g.flops * factor,
            bytes=g.bytes * factor,
            weights=g.weights * factor,
            calls=g.calls * calls,
        )
        for g in groups
    )


def with_distinct_weights(groups: tuple[OperatorGroup, ...], parameter_bytes: int) -> tuple[OperatorGroup, ...]:
    """A block's groups with `distinct`: its calls read no more different weights than it has parameters."""
    read = sum(g.weights for g in groups)
    distinct = min(parameter_bytes / read, 1.0) if read else 1.0
    return tuple(replace(g, distinct=distinct) for g in groups)


def with_counters(groups: tuple[OperatorGroup, ...], alone: Iterable[OperatorGroup]) -> tuple[OperatorGroup, ...]:
    """Groups in place have no counters of their own; they get those of the same kernel classes alone."""
    counters = {g.kernel_class: g.counters for g in alone}
    return tuple(replace(g, counters=g.counters or counters.get(g.kernel_class, ())) for g in groups)


def least_times_s(loads: Iterable[StepLoad]) -> dict[str, float]:
    """The kernel classes of all loads, each with the seconds that it takes in the load that has least of it."""
    least_s: dict[str, float] = {}
    for load in loads:
        of_load_s: dict[str, float] = defaultdict(float)
        for group in load.groups:
            of_load_s[group.kernel_class] += group.time_s
        for name, time_s in of_load_s.items():
            least_s[name] = min(time_s, least_s.get(name, time_s))
    return least_s


def mean(samples: Sequence[tuple[OperatorGroup, ...]]) -> tuple[OperatorGroup, ...]:
    """The groups of several measurements of one block, each with an equal share."""
    share = 1.0 / len(samples)
    return tuple(g for groups in samples for g in scaled(groups, share, calls=share))
