"""How blocks' times change from alone to in place, by the shape and the kernel class of their operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from statsnet.synthesis.costs.loads import OperatorGroup

LARGEST_CORRECTION = 2.0
"""We assume that a kernel class or shape runs at most this many times faster or slower in place than alone."""

LARGEST_PACE = 1.5
"""The reference network tells how fast the machine was but for this factor."""

Groups = tuple[OperatorGroup, ...]

Sums = Mapping[str, tuple[float, float]]
"""Seconds alone and in place, by kernel class, and by shape within it."""


def sums_of(measured: Iterable[tuple[Groups, Groups]]) -> Sums:
    """Of blocks that were measured both alone and in place. A block in another size may have other shapes in place than
    alone, where its times are those of its origin: only what it has in both counts."""
    alone: dict[str, float] = defaultdict(float)
    in_place: dict[str, float] = defaultdict(float)
    for pair in measured:
        alone_s, there_s = map(_by_name, pair)
        for name in alone_s.keys() & there_s.keys():
            alone[name] += alone_s[name]
            in_place[name] += there_s[name]
    return {name: (alone[name], in_place[name]) for name in sorted(alone)}


def of_classes(sums: Sums, groups: Iterable[OperatorGroup]) -> Sums:
    """Those of these groups' kernel classes, without their shapes."""
    return {name: sums[name] for name in dict.fromkeys(g.kernel_class for g in groups) if name in sums}


def _by_name(groups: Groups) -> Mapping[str, float]:
    times: dict[str, float] = defaultdict(float)
    for operators in groups:
        times[operators.kernel_class] += operators.time_s
        times[operators.kernel_shape] += operators.time_s
    return times


def corrections_of(sums: Iterable[Sums]) -> dict[str, float]:
    """Time in place ÷ time alone, by kernel class, and by shape within it."""
    alone: dict[str, float] = defaultdict(float)
    in_place: dict[str, float] = defaultdict(float)
    for some in sums:
        for name, (alone_s, there_s) in some.items():
            alone[name] += alone_s
            in_place[name] += there_s
    return {
        name: min(max(in_place[name] / alone_s, 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)
        for name, alone_s in alone.items()
        if alone_s > 0 and in_place[name] > 0
    }


def corrected(groups: Groups, corrections: Sequence[Mapping[str, float]]) -> Groups:
    """The groups with the correction of their shape, else of their kernel class, by the first of several that has
    one."""
    return tuple(replace(g, time_s=g.time_s * _correction(g, corrections)) for g in groups)


def _correction(group: OperatorGroup, corrections: Sequence[Mapping[str, float]]) -> float:
    names = group.kernel_shape, group.kernel_class
    return next((known[name] for known in corrections for name in names if name in known), 1.0)


def pace_of_times(times_s: Iterable[tuple[float, float]]) -> float:
    """From the seconds of blocks alone and in place: the median of their ratio over the time alone."""
    both = ((alone_s, there_s) for alone_s, there_s in times_s if alone_s > 0 and there_s > 0)
    ratios = sorted((there_s / alone_s, alone_s) for alone_s, there_s in both)
    middle_s, passed_s = sum(time_s for _, time_s in ratios) / 2, 0.0
    for ratio, time_s in ratios:
        passed_s += time_s
        if passed_s >= middle_s:
            return min(max(ratio, 1 / LARGEST_PACE), LARGEST_PACE)
    return 1.0
