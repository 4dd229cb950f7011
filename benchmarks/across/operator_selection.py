"""Which operators at full size, and how often each, stand for a suite on devices that nobody has measured.

On device A the suite spends share s_i of its time in operator i, the proxy p_i = n_i a_i ÷ Σ n a, where a_i is the time
of one call and n_i whole. On device B time changes by Σ s_i x_i and Σ p_i x_i with x_i = b_i ÷ a_i. What x is on B is
not known. It is known on some other devices, and elsewhere it is a random vector whose covariance says which operators
change alike: those of one kernel class, of similar size, and with a similar history on the known devices. So the counts
minimise the expected square of the factor's error,

    (p − s)ᵀ (K + λ/D Σ_d x_d x_dᵀ) (p − s),        x_d relative to the suite's factor on device d

This is Bayesian quadrature with whole counts (O'Hagan 1991): an operator's own scatter makes several shapes better than
one shape repeated, and a class without any candidate costs what it may do.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

LARGEST_COUNT = 100_000
LARGEST_SHARE = 0.5
"""One call of an operator takes at most this share of the budget."""

SPARSENINGS = ((0.5, 0.3), (0.7, 0.3), (0.7, 1.0), (0.3, 0.2))
"""No operator is called less often than the first number before rounding; each step drops the second number's share of
those that are. Which start leads furthest cannot be seen before."""

MOST_MOVES = 400
LEAST_GAIN = 1e-9
SUM = 10.0
"""How much a start that misses its run time costs."""

EARLY, LATE = 0.01, 10.0
"""How much a proxy costs whose run time is below or above the budget by all of it, in squares of a factor's error. A
factor is a ratio, so a proxy may well be a little shorter than the budget, but hardly longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What says how alike two operators are: `operator` (its kind), `kernel_class` (kind, dtype, direction,
    transposition and layout, of a convolution its window) and `sizes`, the base-2 logarithms of its dims."""

    operator: Hashable
    kernel_class: Hashable
    sizes: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How much the logarithm of a factor varies from device to device (standard deviations): by operator kind, by
    kernel class, by size within a class (over `octaves`), and for each shape alone. `history` is the difference of two
    operators' log factors on the known devices from which on they say little of each other. `known` weighs the known
    devices against the unknown one, where shapes scatter by `shape` on them."""

    operator: float = 0.25
    kernel_class: float = 0.2
    size: float = 0.2
    shape: float = 0.15
    octaves: float = 2.0
    history: float = 0.5
    known: float = 4.0


USUAL = Spread()
"""Chosen once for all suites, by devices left out in turn (docs/across-gpus.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`time_s` (n,): one call of each operator on the device where the proxy is made. `share` (n,): the suite's
    shares of time there, which sum to 1; 0 for a candidate that is not of the suite. `factors` (D, n): time on each
    known device ÷ `time_s`. At most `most` different operators, in about `budget_s` seconds."""

    time_s: np.ndarray
    share: np.ndarray
    factors: np.ndarray
    traits: Sequence[Trait]
    budget_s: float
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """`counts` (n,), whole; `expected_error` is the standard deviation of the factor's relative error."""

    counts: np.ndarray
    expected_error: float


def choose(choice: Choice, spread: Spread = USUAL) -> Chosen:
    """The counts. If not even one operator fits in the budget, the cheapest is taken once. Raises ValueError if there
    is no operator, or a time is not positive."""
    time_s = choice.time_s
    if not len(time_s) or not (time_s > 0).all():
        raise ValueError("an operator's time must be positive, and there must be one")
    covariance = covariance_of(choice, spread)
    search = _Search(choice, covariance)
    found = [search.descend(start) for start in search.starts() if start.any()]
    if not found:
        found = [search.cheapest()]
    counts = min(found, key=search.objective)
    share = counts * time_s / (counts @ time_s)
    off = share - choice.share
    return Chosen(counts=counts, expected_error=float(np.sqrt(max(off @ covariance @ off, 0.0))))


def covariance_of(choice: Choice, spread: Spread) -> np.ndarray:
    """Of the operators' relative factors on a device, (n, n)."""
    traits = choice.traits
    same_operator = _alike([t.operator for t in traits])
    same_class = _alike([t.kernel_class for t in traits])
    apart = np.zeros(same_class.shape)
    for members in by_kernel_class(traits):
        sizes = np.array([traits[i].sizes for i in members])
        apart[np.ix_(members, members)] = ((sizes[:, None] - sizes[None]) ** 2).sum(axis=-1)
    near = same_class * np.exp(-0.5 * apart / spread.octaves**2)
    alike = (spread.operator**2) * same_operator + (spread.kernel_class**2) * same_class + (spread.size**2) * near
    relative = choice.factors / np.maximum(choice.factors @ choice.share, 1e-300)[:, None]
    covariance = alike * np.exp(-0.5 * _history(np.log(relative)) / spread.history**2)
    covariance += (spread.shape**2) * np.eye(len(traits))
    if len(relative):
        off = relative - 1.0
        weight = spread.known * spread.shape / _scatter(np.log(relative), traits, spread)
        covariance += weight / len(off) * off.T @ off
    return np.asarray(covariance)


MOST_SQUARE = 4.0
"""A factor farther off than e² counts as so far: a wrong row of a table must not decide the mean."""


def _scatter(logs: np.ndarray, traits: Sequence[Trait], spread: Spread) -> float:
    """The standard deviation of a shape's log factor around those of its class and of similar size: what devices (D, n)
    show, together with one usual device. The more shapes scatter, the less do a few devices tell of another."""
    squares = [np.full(1, spread.shape**2)] * len(traits)
    for members in by_kernel_class(traits):
        sizes = np.array([traits[i].sizes for i in members])
        near = np.exp(-0.5 * ((sizes[:, None] - sizes[None]) ** 2).sum(axis=-1) / spread.octaves**2)
        np.fill_diagonal(near, 0.0)
        total = near.sum(axis=1)
        known = total > LEAST_NEAR
        if known.any():
            near, own = near[known] / total[known, None], logs[:, members]
            off = (own[:, known] - own @ near.T) ** 2 / (1.0 + (near**2).sum(axis=1))
            squares.append(np.minimum(off, MOST_SQUARE).ravel())
    return float(np.sqrt(np.concatenate(squares).mean()))


LEAST_NEAR = 0.3
"""A shape with fewer similar ones has none to be compared with. One shape three octaves away counts 0.3."""


def by_kernel_class(traits: Sequence[Trait]) -> list[np.ndarray]:
    """The places of each class's operators, classes in the order in which they first come."""
    classes: dict[Hashable, list[int]] = {}
    for i, trait in enumerate(traits):
        classes.setdefault(trait.kernel_class, []).append(i)
    return [np.array(members) for members in classes.values()]


def _alike(names: Sequence[Hashable]) -> np.ndarray:
    places = {name: i for i, name in enumerate(dict.fromkeys(names))}
    at = np.array([places[name] for name in names])
    return np.asarray((at[:, None] == at[None]).astype(float))


def _history(logs: np.ndarray) -> np.ndarray:
    """Mean squared difference over the known devices of each pair of operators; (D, n) to (n, n)."""
    if not len(logs):
        return np.zeros((logs.shape[1], logs.shape[1]))
    squares = (logs**2).sum(axis=0)
    return np.asarray(np.maximum(squares[:, None] + squares[None] - 2.0 * logs.T @ logs, 0.0) / len(logs))


class _Search:
    """Starts and descents. `weight` is what one call adds to its operator's share if the run takes just the budget."""

    def __init__(self, choice: Choice, covariance: np.ndarray) -> None:
        self.share, self.most = choice.share, choice.most
        self.weight = choice.time_s / choice.budget_s
        self.form = covariance + SUM
        self.fits = self.weight <= LARGEST_SHARE
        self.covariance = covariance
        self.crossed = covariance * self.weight[:, None] * self.weight[None]
        self.own = np.diag(self.crossed).copy()
        self.with_suite = covariance @ self.share * self.weight
        self.of_suite = float(self.share @ covariance @ self.share)

    def objective(self, counts: np.ndarray) -> float:
        run = counts * self.weight
        square, shared = run @ self.covariance @ run, counts @ self.with_suite
        return float(self._value(np.array(square), np.array(shared), np.array(run.sum())))

    def _value(self, square: np.ndarray, shared: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The expected square of the error of runs with these forms with themselves and with the suite, and this
        length in budgets."""
        total = np.maximum(total, 1e-12)
        off_time = np.where(total < 1.0, EARLY, LATE) * (total - 1.0) ** 2
        return np.asarray(square / total**2 - 2.0 * shared / total + self.of_suite + off_time)

    def cheapest(self) -> np.ndarray:
        counts = np.zeros(len(self.weight), dtype=int)
        counts[int(np.argmin(self.weight))] = 1
        return counts

    def starts(self) -> list[np.ndarray]:
        return [self._sparse(*how) for how in SPARSENINGS]

    def _sparse(self, threshold: float, dropped: float) -> np.ndarray:
        """Shares of the operators left if parts of calls were allowed; those that are called too rarely are dropped,
        and what they stood for goes to those that vary like them."""
        left = self.fits.copy()
        counts = np.zeros(len(left))
        while left.any():
            inside, outside = np.flatnonzero(left), np.flatnonzero(~left)
            form = self.form[np.ix_(inside, inside)] + 1e-9 * np.eye(len(inside))
            moved = np.linalg.solve(form, self.form[np.ix_(inside, outside)] @ self.share[outside])
            held = self.share[inside] + moved
            counts = np.zeros(len(left))
            counts[inside] = held / self.weight[inside]
            rare = inside[counts[inside] < threshold]
            if len(rare):
                order = rare[np.argsort(counts[rare], kind="stable")]
                left[order[: max(1, int(dropped * len(rare)))]] = False
            elif len(inside) > self.most:
                worth = held**2 / np.diag(np.linalg.inv(form))
                fewer = max(1, min(len(inside) // 5, len(inside) - self.most))
                left[inside[np.argsort(worth, kind="stable")[:fewer]]] = False
            else:
                break
        return np.minimum(np.floor(np.where(left, counts, 0.0) + 0.5), LARGEST_COUNT).astype(int)

    def descend(self, start: np.ndarray) -> np.ndarray:
        """The best of all single changes and exchanges of one call, until none helps."""
        counts = start.copy()
        for _ in range(MOST_MOVES):
            if not self._move(counts):
                break
        return counts

    def _move(self, counts: np.ndarray) -> bool:
        run = counts * self.weight
        slope = 2.0 * (self.covariance @ run) * self.weight
        square, shared, total = 0.5 * float(counts @ slope), float(counts @ self.with_suite), float(run.sum())
        here = float(self._value(np.array(square), np.array(shared), np.array(total)))
        used = np.flatnonzero(counts)
        full = len(used) >= self.most
        closed = ~self.fits | (counts >= LARGEST_COUNT)
        up, down = slope + self.own, (self.own - slope)[used]
        more = self._value(square + up, shared + self.with_suite, total + self.weight)
        more[closed | (full & (counts == 0))] = np.inf
        fewer = self._value(square + down, shared - self.with_suite[used], total - self.weight[used])
        if len(used) == 1 and counts[used[0]] == 1:
            fewer[:] = np.inf
        exchange = self._value(
            square + down[:, None] + up[None] - 2.0 * self.crossed[used],
            shared - self.with_suite[used][:, None] + self.with_suite[None],
            total - self.weight[used][:, None] + self.weight[None],
        )
        exchange[:, closed] = np.inf
        if full:
            exchange[np.ix_(counts[used] > 1, counts == 0)] = np.inf
        exchange[np.arange(len(used)), used] = np.inf
        best = min(more.min(), fewer.min(initial=np.inf), exchange.min(initial=np.inf))
        if best > here - LEAST_GAIN:
            return False
        if best == more.min():
            counts[int(np.argmin(more))] += 1
        elif best == fewer.min(initial=np.inf):
            counts[used[int(np.argmin(fewer))]] -= 1
        else:
            out, into = np.unravel_index(int(np.argmin(exchange)), exchange.shape)
            counts[used[out]] -= 1
            counts[into] += 1
        return True
