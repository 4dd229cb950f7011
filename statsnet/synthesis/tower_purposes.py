"""What each tower of a measured network stands for: its share of the step, its operators, and whose these are; and
which towers keep the network's dtype under autocast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from statsnet.proxy.towers import Tower, has_side_input
from statsnet.signatures.documents import TowerPurpose
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.block_measurement import BlockPart, MeasuredOperators
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.costs.loads import means_over_time

SHOWN_SHARE = 0.1
"""A category is named if it takes at least this share of the tower's operator time."""

MOST_NAMED = 3
COVERED = 0.5
"""Members are named until they hold this share of the time, but at most MOST_NAMED of them."""

DIGITS = 4

LOWERED_ANYHOW = frozenset({"gemm", "convolution", "attention", "recurrent"})
"""Categories of layers that autocast runs in lower precision, whatever they are handed. What they hand on is in lower
precision, too."""


def tower_purposes(target: Target, measurement: NetworkMeasurement) -> list[TowerPurpose]:
    """One for each tower, in order. Times are medians over the measurement's processes."""
    by_member = _members_by_kernel_class(target)
    of_towers = zip(*measurement.blocks, strict=True)
    return [_purpose(processes, measurement.latency_s, by_member) for processes in of_towers]


def _purpose(
    processes: tuple[tuple[BlockPart, ...], ...], step_s: float, by_member: dict[str, dict[str, float]]
) -> TowerPurpose:
    time_s = median(sum(part.operator_time_s for part in parts) for parts in processes)
    operators = [row for parts in processes for part in parts for row in part.operators]
    return TowerPurpose(
        step_share=round(min(time_s / step_s, 1.0), DIGITS),
        categories=_categories(operators),
        members=_members(operators, by_member),
    )


def _categories(operators: list[MeasuredOperators]) -> tuple[str, ...]:
    time_s: dict[str, float] = defaultdict(float)
    for row in operators:
        time_s[row.category] += row.time_s
    whole_s = sum(time_s.values())
    return tuple(name for name, s in _ranked(time_s) if s >= SHOWN_SHARE * whole_s)


def _members(operators: list[MeasuredOperators], by_member: dict[str, dict[str, float]]) -> tuple[str, ...]:
    """The members in which operators of the same kernel classes take the most time, weighted by the tower's times."""
    score: dict[str, float] = defaultdict(float)
    for row in operators:
        for member, share in by_member.get(row.kernel_class, {}).items():
            score[member] += row.time_s * share
    named: list[str] = []
    held, whole = 0.0, sum(score.values())
    for member, part in _ranked(score)[:MOST_NAMED]:
        if held < COVERED * whole:
            named.append(member)
        held += part
    return tuple(named)


def _members_by_kernel_class(target: Target) -> dict[str, dict[str, float]]:
    """Kernel class -> member -> its share of the mix's time in that class."""
    time: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for cluster in target.clusters:
        time[cluster.kernel_class][cluster.member] += cluster.time_share
    for members in time.values():
        whole = sum(members.values())
        for name in members:
            members[name] /= whole or 1.0
    return time


def _ranked(score: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(score.items(), key=lambda entry: (-entry[1], entry[0]))


def keep_dtypes(target: Target, measurement: NetworkMeasurement, towers: Sequence[Tower]) -> list[bool]:
    """For each tower, in order. Of the towers that spend most of their time in one kernel class, so many keep it that
    their part of the time comes nearest to the mix's. Only time that depends on what a tower is handed counts."""
    lowered = _lowered_shares(target)
    owed_s: dict[str, float] = defaultdict(float)
    kept: list[bool] = []
    for tower, processes in zip(towers, zip(*measurement.blocks, strict=True), strict=True):
        time_s = _time_by_kernel_class(row for parts in processes for row in _handed(tower, parts))
        whole_s = sum(time_s.values())
        known_s = sum(s for name, s in time_s.items() if name in lowered)
        if not known_s:
            kept.append(False)
            continue
        main = max(time_s, key=lambda name: time_s[name])
        share = sum(s * lowered[name] for name, s in time_s.items() if name in lowered) / known_s
        owed_s[main] += (1.0 - share) * whole_s
        kept.append(owed_s[main] > whole_s / 2)
        if kept[-1]:
            owed_s[main] -= whole_s
    return kept


def _lowered_shares(target: Target) -> dict[str, float]:
    """Kernel class -> the share of its time that is spent on numbers of lower precision under autocast."""
    return means_over_time(
        (c.kernel_class, c.time_share, c.autocast_share) for c in target.clusters if c.autocast_share is not None
    )


def _handed(tower: Tower, parts: Sequence[BlockPart]) -> Iterator[MeasuredOperators]:
    """A tower's operators that run in the dtype of what it is handed: those of blocks with a side input, and of blocks
    before the first one that is LOWERED_ANYHOW. An operator by itself is called in other ways than a layer."""
    is_handed = True
    for block, part in zip(tower.blocks, parts, strict=True):
        others = [row for row in part.operators if tower.is_operator or row.category not in LOWERED_ANYHOW]
        is_handed = is_handed and len(others) == len(part.operators)
        if is_handed or has_side_input(block):
            yield from others


def _time_by_kernel_class(operators: Iterable[MeasuredOperators]) -> dict[str, float]:
    time_s: dict[str, float] = defaultdict(float)
    for row in operators:
        time_s[row.kernel_class] += row.time_s
    return time_s
