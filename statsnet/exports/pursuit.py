"""A few columns whose sum, with weights that are not negative, is near to a target: within a budget for their costs.

Greedy selection by what a column takes off the error for its cost (orthogonal matching pursuit), from several prices of
cost; then exchanges of one column for another as long as they help. The best of all starts is returned. It needs no
random numbers, so the same input gives the same choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

PRICES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Powers of a column's cost by which its gain is divided."""

BEST_STARTS = 5
"""Greedy selections that are improved by exchanges."""

MOST_EXCHANGES = 20
TRIED = 6
"""How many of the most promising columns are tried exactly for each exchange."""

HELPS = 0.999
"""An exchange is made if the error falls below this share of what it was."""

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Choice:
    """Places of columns, their weights, and the root mean square of what is left of the target."""

    places: tuple[int, ...]
    weights: np.ndarray
    error: float


def choose(columns: np.ndarray, target: np.ndarray, cost: np.ndarray, budget: float, most: int) -> Choice:
    """At most `most` of `columns` [rows, n] for `target` [rows], with costs [n] that sum to at most the budget; each of
    them must cost no more than that."""
    starts = {tuple(sorted(_greedy(columns, target, cost, budget, most, price))) for price in PRICES}
    fitted = sorted((_fitted(columns, target, s) for s in starts if s), key=lambda c: (c.error, c.places))
    found = [_exchanged(columns, target, cost, budget, most, choice) for choice in fitted[:BEST_STARTS]]
    return min(found, key=lambda c: (c.error, c.places))


def _fitted(columns: np.ndarray, target: np.ndarray, places: tuple[int, ...]) -> Choice:
    """The best weights; columns that get none are left out."""
    weights, norm = nnls(columns[:, places], target)
    used = weights > 0
    kept = tuple(p for p, is_used in zip(places, used, strict=True) if is_used)
    return Choice(kept, weights[used], float(norm) / len(target) ** 0.5)


def _greedy(
    columns: np.ndarray, target: np.ndarray, cost: np.ndarray, budget: float, most: int, price: float
) -> tuple[int, ...]:
    norms, residual = np.linalg.norm(columns, axis=0), target
    places: tuple[int, ...] = ()
    while len(places) < most:
        gain = np.maximum(residual @ columns / norms, 0.0) ** 2 / cost**price
        gain[cost > budget - cost[list(places)].sum()] = 0.0
        gain[list(places)] = 0.0
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            break
        fitted = _fitted(columns, target, (*places, best))
        if best not in fitted.places:
            break
        places, residual = fitted.places, target - columns[:, fitted.places] @ fitted.weights
    return places


def _exchanged(
    columns: np.ndarray, target: np.ndarray, cost: np.ndarray, budget: float, most: int, current: Choice
) -> Choice:
    for _ in range(MOST_EXCHANGES):
        rests = [tuple(p for p in current.places if p != dropped) for dropped in current.places]
        if len(current.places) < most:
            rests.append(current.places)
        tried = (_fitted(columns, target, (*rest, new)) for rest in rests
                 for new in _promising(columns, target, cost, budget, rest))  # fmt: skip
        best = min(tried, key=lambda c: (c.error, c.places), default=current)
        if best.error > HELPS * current.error:
            break
        current = best
    return current


def _promising(
    columns: np.ndarray, target: np.ndarray, cost: np.ndarray, budget: float, rest: tuple[int, ...]
) -> list[int]:
    """The columns that would take the most off the error beside `rest`, if weights could be negative."""
    basis = np.linalg.qr(columns[:, rest])[0]
    left = target - basis @ (basis.T @ target)
    whole = np.einsum("ij,ij->j", columns, columns)
    beside = whole - ((basis.T @ columns) ** 2).sum(axis=0)  # the square of what the basis does not reach
    gain = np.where(beside > _TINY * whole, (left @ columns) ** 2 / np.maximum(beside, _TINY * whole), 0.0)
    gain[cost > budget - cost[list(rest)].sum()] = 0.0
    gain[list(rest)] = 0.0
    return [int(place) for place in np.argsort(-gain, kind="stable")[:TRIED] if gain[place] > 0]
