"""What a proxy's error under a setting is made of, class by class.

With shares q (suite) and p (proxy) of the baseline's step, and the factors g and f of a kernel class from the baseline
to the setting, the proxy's factor is Σ p f and the suite's is Σ q g. So

    Σ p f − Σ q g = Σ (p − q) g + Σ p (f − g)

The first sum is the error of the shares. The second is what the proxy's own operators do otherwise than the suite's of
the same class. Classes are those of the baseline, so that an operator which runs another kernel under the setting stays
in its class. What lies between operators is a class of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from statsnet.signatures.categories import base_name
from statsnet.signatures.kernel_class import class_now
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import tensors_of
from statsnet.signatures.target_cluster import UNKNOWN_KERNEL_CLASS

BETWEEN = "between operators"
"""Framework time, and on a GPU the time in which it waits."""

ADDED = "added by the setting"
"""Begins the names of classes that the baseline does not have: casts under `dtype=bfloat16`, for instance."""

LEAST_SHARE = 1e-3
"""The suite's factor of a class with a smaller share of its step is not known well enough to judge the proxy by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Time of a class at the baseline and under the setting, both as shares of the baseline's step; and its calls in a
    second of the baseline."""

    here: float = 0.0
    there: float = 0.0
    calls_per_s: float = 0.0

    @property
    def factor(self) -> float | None:
        return self.there / self.here if self.here > 0 else None

    @property
    def call_s(self) -> float | None:
        """Mean seconds of a call at the baseline."""
        return self.here / self.calls_per_s if self.calls_per_s > 0 and self.here > 0 else None

    def plus(self, other: Spent, weight: float) -> Spent:
        return Spent(
            here=self.here + weight * other.here,
            there=self.there + weight * other.there,
            calls_per_s=self.calls_per_s + weight * other.calls_per_s,
        )


Times = Mapping[str, Spent]
"""By kernel class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The operators of a step, and one measurement of them."""

    clusters: Sequence[Cluster]
    measurement: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassError:
    """What one class adds to the error F_P / F_S − 1: by its share of the step, and by its own factor."""

    name: str
    suite: Spent
    proxy: Spent
    by_share: float
    by_factor: float

    @property
    def error(self) -> float:
        return self.by_share + self.by_factor


def times_of(before: Step, after: Step) -> Times:
    """One model's times by the baseline's kernel classes, from a step at the baseline and one under the setting.

    A setting may change the dtype or the layout of an operator's tensors, and add operators. So an operator under the
    setting has the class of the baseline's operator with the same arguments; else of the same shapes and layouts; else
    of the same shapes. If there is none, its class is ADDED and its kind.
    """
    step_s = before.measurement.latency_s
    classes = _classes(before)
    known: list[dict[Hashable, str]] = [{} for _ in range(_KEYS)]
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for cluster, name, time_s in zip(before.clusters, classes, before.measurement.cluster_time_s, strict=True):
        sums[name][0] += (time_s or 0.0) / step_s
        sums[name][2] += cluster.calls / step_s if time_s else 0.0
        for place, key in zip(known, _keys(cluster), strict=True):
            place.setdefault(key, name)
    for cluster, own, time_s in zip(after.clusters, _classes(after), after.measurement.cluster_time_s, strict=True):
        found = (place[key] for place, key in zip(known, _keys(cluster), strict=True) if key in place)
        sums[next(found, f"{ADDED}: {own.partition('|')[0]}")][1] += (time_s or 0.0) / step_s
    here, there = (sum(spent[i] for spent in sums.values()) for i in (0, 1))
    times = {name: Spent(here=a, there=b, calls_per_s=calls) for name, (a, b, calls) in sums.items() if a or b}
    return {**times, BETWEEN: Spent(here=1.0 - here, there=after.measurement.latency_s / step_s - there)}


_KEYS = 3


def _keys(cluster: Cluster) -> tuple[Hashable, Hashable, Hashable]:
    tensors = tensors_of(cluster.args)
    what = base_name(cluster.op), cluster.phase
    return (
        (*what, json.dumps([cluster.args, cluster.outputs], sort_keys=True)),
        (*what, tuple((t.shape, t.layout) for t in tensors)),
        (*what, tuple(t.shape for t in tensors)),
    )


def _classes(step: Step) -> list[str]:
    pairs = zip(step.clusters, step.measurement.kernel_class, strict=True)
    return [class_now(name or UNKNOWN_KERNEL_CLASS, cluster.args) for cluster, name in pairs]


def merged(parts: Sequence[Times], weights: Sequence[float]) -> Times:
    """The weighted sum of several models' times, or of several rounds'."""
    sums: dict[str, Spent] = defaultdict(Spent)
    for times, weight in zip(parts, weights, strict=True):
        for name, spent in times.items():
            sums[name] = sums[name].plus(spent, weight)
    return dict(sums)


def factor_of(times: Times) -> float:
    return sum(spent.there for spent in times.values())


def expected_factors(suite: Times, proxy: Times) -> dict[str, float]:
    """The factor of each class that the proxy's operators should have: the suite's, where that is known well; else the
    proxy's own, so that nothing is held against it."""
    found: dict[str, float] = {}
    for name in {*suite, *proxy}:
        q, p = suite.get(name, Spent()), proxy.get(name, Spent())
        own = q.factor if q.here >= min(LEAST_SHARE, p.here or LEAST_SHARE) else p.factor
        found[name] = 1.0 if own is None else own
    return found


def class_errors(suite: Times, proxy: Times) -> list[ClassError]:
    """Every class of either side, the largest error first. Together they are the whole error F_P / F_S − 1."""
    expected, whole = expected_factors(suite, proxy), factor_of(suite)
    rows = []
    for name, factor in expected.items():
        q, p = suite.get(name, Spent()), proxy.get(name, Spent())
        as_suite = p.here * factor
        rows.append(
            ClassError(
                name=name,
                suite=q,
                proxy=p,
                by_share=(as_suite - q.there) / whole,
                by_factor=(p.there - as_suite) / whole,
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.error), row.name))
