"""What may stand for a suite: operators with whole counts that take the same time, or a simple ratio."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from benchmarks.across.operator_selection import Choice, by_kernel_class, choose
from benchmarks.across.pairs import Pair

DRAWS = 8


def selected(pair: Pair) -> np.ndarray:
    """The operators that operator_selection.py chooses. `there_s` is not looked at."""
    return choose(pair.sample.choice).counts


def most_expensive(pair: Pair) -> np.ndarray:
    """The operators with the largest shares of time, as many as fit into the budget once, in proportion to these."""
    choice = pair.sample.choice
    order = np.argsort(-choice.share, kind="stable")
    taken: list[int] = []
    left_s = choice.budget_s
    for i in order:
        if choice.time_s[i] <= left_s and len(taken) < choice.most:
            taken.append(int(i))
            left_s -= choice.time_s[i]
    return _in_proportion(choice, np.array(taken, dtype=int), choice.share[taken])


def medoids(pair: Pair) -> np.ndarray:
    """In each kernel class, clusters by logarithms of dims, as many as the class's share of time asks for; the member
    nearest to the centre stands for all. Of several numbers of clusters the largest that fits into the budget."""
    choice = pair.sample.choice
    best = None
    for wanted in range(4, choice.most + 1, 4):
        centres, shares = _centres(choice, wanted)
        fits = choice.time_s[centres].sum() <= choice.budget_s and len(centres) <= choice.most
        if fits or best is None:
            best = _in_proportion(choice, centres, shares)
    assert best is not None
    return best


def _centres(choice: Choice, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    centres, shares = [], []
    for own in by_kernel_class(choice.traits):
        share = choice.share[own]
        count = min(len(own), max(1, round(wanted * float(share.sum()))))
        sizes = np.array([choice.traits[i].sizes for i in own])
        label = fcluster(linkage(pdist(sizes), "average"), count, "maxclust") if len(own) > 1 else np.ones(1, dtype=int)
        for number in np.unique(label):
            group = np.flatnonzero(label == number)
            weight = np.maximum(share[group], 1e-12)
            centre = np.average(sizes[group], axis=0, weights=weight)
            nearest = int(group[np.argmin(((sizes[group] - centre) ** 2).sum(axis=1))])
            centres.append(int(own[nearest]))
            shares.append(float(share[group].sum()))
    return np.array(centres), np.array(shares)


def random_by_time(pair: Pair, seed: int) -> np.ndarray:
    """Calls drawn as often as the suite makes them, until the budget is used; so each operator's share of time is the
    suite's on average."""
    choice = pair.sample.choice
    rng = np.random.default_rng(seed)
    often = choice.share / choice.time_s
    counts = np.zeros(len(often), dtype=int)
    left_s = choice.budget_s
    while True:
        fits = np.where((choice.time_s <= left_s), often, 0.0)
        if fits.sum() <= 0:
            break
        drawn = rng.choice(len(often), size=64, p=fits / fits.sum())
        for i in drawn:
            if choice.time_s[i] > left_s:
                break
            counts[i] += 1
            left_s -= choice.time_s[i]
    if not counts.any():
        counts[int(np.argmin(choice.time_s))] = 1
    return counts


def small_by_class(pair: Pair) -> np.ndarray:
    """Each kernel class gets its share of time, from one small operator of the class: the one nearest to an eighth of
    the class's usual time. It stands for a block whose sizes were cut."""
    choice = pair.sample.choice
    centres, shares = [], []
    for own in by_kernel_class(choice.traits):
        usual_s = float(np.average(choice.time_s[own], weights=np.maximum(choice.share[own], 1e-12)))
        centres.append(int(own[np.argmin(np.abs(np.log(choice.time_s[own] / (usual_s / 8.0))))]))
        shares.append(float(choice.share[own].sum()))
    return _in_proportion(choice, np.array(centres), np.array(shares))


def _in_proportion(choice: Choice, taken: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Counts that give the operators these shares of the budget; at least one call each."""
    counts = np.zeros(len(choice.time_s), dtype=int)
    if not len(taken):
        counts[int(np.argmin(choice.time_s))] = 1
        return counts
    calls = shares / max(float(np.sum(shares)), 1e-300) * choice.budget_s / choice.time_s[taken]
    np.maximum.at(counts, taken, np.maximum(np.rint(calls), 1).astype(int))
    return counts


def ratio_of_peaks(pair: Pair) -> float:
    """Of the best FLOP rates that the two devices reach in the suite."""
    sample = pair.sample
    return float((sample.flops / sample.choice.time_s).max() / (sample.flops / pair.there_s).max())


def one_model(pair: Pair) -> float | None:
    """The factor of the suite's longest member; None where there is only one."""
    sample = pair.sample
    total_s = np.array([o.calls for o in sample.operators]) * sample.choice.time_s
    by_member = np.bincount(sample.member, weights=total_s)
    if np.count_nonzero(by_member) < 2:
        return None
    own = sample.member == int(np.argmax(by_member))
    calls = np.array([o.calls for o in sample.operators])[own]
    return float((calls @ pair.there_s[own]) / (calls @ sample.choice.time_s[own]))


SELECTED = "selection of operators"
PROXIES: dict[str, Callable[[Pair], np.ndarray]] = {
    SELECTED: selected, "most expensive rows": most_expensive, "k-medoids": medoids,
    "small operators by kernel class": small_by_class,
}  # fmt: skip
RATIOS: dict[str, Callable[[Pair], float | None]] = {
    "ratio of peaks": ratio_of_peaks, "one model for all": one_model,
}  # fmt: skip
RANDOM = "random by time"
