"""A few columns whose weighted sum is near to a target: within a budget for their costs.

Greedy selection by what a column takes off the error for its cost (orthogonal matching pursuit), from several prices of
cost; then exchanges of one column for another as long as they help. The best of all starts is returned. It needs no
random numbers, so the same input gives the same choice. Weights are not negative, or may have either sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

PRICES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Powers of a column's cost by which its gain is divided."""

BEST_STARTS = 2
"""Greedy selections that are improved by exchanges."""

MOST_EXCHANGES = 20
DROPPED = 8
"""How many columns are tried for each exchange: those without which the rest is nearest."""
TRIED = 6
"""How many of the most promising columns are tried exactly for each exchange."""

HELPS = 0.999
"""An exchange is made if the error falls below this share of what it was."""

RIDGE = 1e-5
"""What weights of either sign cost, by the squares of their columns' lengths. Without it, large ones of opposite signs
would all but cancel each other, and enlarge every error of a simulation."""

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Choice:
    """Places of columns, their weights, and the root mean square of what is left of the target; with weights of either
    sign also of what these cost."""

    places: tuple[int, ...]
    weights: np.ndarray
    error: float


@dataclass(frozen=True, slots=True)
class _Problem:
    """`columns` [rows, n] for `target` [rows], with costs [n]."""

    columns: np.ndarray
    target: np.ndarray
    cost: np.ndarray
    budget: float
    most: int
    signed: bool

    def fitted(self, places: tuple[int, ...]) -> Choice:
        """The best weights; columns that get none are left out."""
        chosen = self.columns[:, places]
        if self.signed:
            weights, norm = _ridge(chosen, self.target)
        else:
            try:
                weights, norm = nnls(chosen, self.target, maxiter=30 * len(places))
            except RuntimeError:  # columns that are all but the same
                weights, norm = np.zeros(len(places)), float(np.linalg.norm(self.target))
        used = weights != 0
        kept = tuple(p for p, is_used in zip(places, used, strict=True) if is_used)
        return Choice(kept, weights[used], float(norm) / len(self.target) ** 0.5)

    def affordable(self, gain: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
        """The gains, 0 for columns that are among `places` or cost too much beside them."""
        gain = np.where(self.cost > self.budget - self.cost[list(places)].sum(), 0.0, gain)
        gain[list(places)] = 0.0
        return gain


def _ridge(columns: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights, and the length of the residual and of what the weights cost together."""
    lengths = np.linalg.norm(columns, axis=0)
    unit = columns / lengths
    share = np.linalg.solve(unit.T @ unit + RIDGE * np.eye(len(lengths)), unit.T @ target)
    left = target - unit @ share
    return share / lengths, float((left @ left + RIDGE * share @ share) ** 0.5)


def choose(
    columns: np.ndarray, target: np.ndarray, cost: np.ndarray, budget: float, most: int, *, signed: bool = False
) -> Choice:
    """At most `most` of `columns` [rows, n] for `target` [rows], with costs [n] that sum to at most the budget; each of
    them must cost no more than that."""
    given = _Problem(columns, target, cost, budget, most, signed)
    starts = {tuple(sorted(_greedy(given, price))) for price in PRICES}
    fitted = sorted((given.fitted(s) for s in starts if s), key=lambda c: (c.error, c.places))
    found = [_exchanged(given, choice) for choice in fitted[:BEST_STARTS]]
    return min(found, key=lambda c: (c.error, c.places))


def _greedy(given: _Problem, price: float) -> tuple[int, ...]:
    norms, residual = np.linalg.norm(given.columns, axis=0), given.target
    places: tuple[int, ...] = ()
    while len(places) < given.most:
        along = residual @ given.columns / norms
        gain = (along if given.signed else np.maximum(along, 0.0)) ** 2 / given.cost**price
        gain = given.affordable(gain, places)
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            break
        fitted = given.fitted((*places, best))
        if best not in fitted.places:
            break
        places, residual = fitted.places, given.target - given.columns[:, fitted.places] @ fitted.weights
    return places


def _exchanged(given: _Problem, current: Choice) -> Choice:
    for _ in range(MOST_EXCHANGES):
        rests = [tuple(p for p in current.places if p != dropped) for dropped in current.places]
        if len(rests) > DROPPED:
            rests = sorted(rests, key=lambda rest: given.fitted(rest).error)[:DROPPED]
        if len(current.places) < given.most:
            rests.append(current.places)
        tried = (given.fitted((*rest, new)) for rest in rests for new in _promising(given, rest))
        best = min(tried, key=lambda c: (c.error, c.places), default=current)
        if best.error > HELPS * current.error:
            break
        current = best
    return current


def _promising(given: _Problem, rest: tuple[int, ...]) -> list[int]:
    """The columns that would take the most off the error beside `rest`, if weights could be negative."""
    columns = given.columns
    basis = np.linalg.qr(columns[:, rest])[0]
    left = given.target - basis @ (basis.T @ given.target)
    whole = np.einsum("ij,ij->j", columns, columns)
    beside = whole - ((basis.T @ columns) ** 2).sum(axis=0)  # the square of what the basis does not reach
    gain = np.where(beside > _TINY * whole, (left @ columns) ** 2 / np.maximum(beside, _TINY * whole), 0.0)
    gain = given.affordable(gain, rest)
    return [int(place) for place in np.argsort(-gain, kind="stable")[:TRIED] if gain[place] > 0]
