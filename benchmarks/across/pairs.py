"""A suite on two devices: what its proxy's making may know, and what only its checking does."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.across.grid_times import GridTimes
from benchmarks.across.operator_selection import Choice, Trait
from benchmarks.across.suites import Operator, Suite
from statsnet.devices.operator_work import work_of
from statsnet.errors import UsageError

MOST_OPERATORS = 64
"""Different operators in a proxy."""

LONGEST = 44
SHORTEST_S = 0.05
LONGEST_SHARE = 0.5
"""A proxy takes as long as one call of each of the suite's LONGEST longest operators: at least SHORTEST_S, at most this
share of one pass over the suite."""

FARTHEST_OFF, MOST_OFF = 100.0, 0.05
"""A time is wrong that is so many times off what the device's other times, and the other devices, lead to expect. More
than this share of wrong times is another unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A suite's operators as they are known on device `a`, where its proxy is made. Shapes (n,); `member` is each
    operator's member. `flops` are of one call."""

    operators: tuple[Operator, ...]
    member: np.ndarray
    choice: Choice
    flops: np.ndarray
    rows: tuple[str, ...]
    """The known devices: neither of the pair, nor any that is only evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`there_s` (n,): one call on device `b`. `exact` is the share of the suite's time on `b` that its own rows give.
    `step_factor` is the factor of the measured whole steps, if they are known on both."""

    suite: Suite
    a: str
    b: str
    sample: Sample
    there_s: np.ndarray
    exact: float
    step_factor: float | None

    @property
    def suite_factor(self) -> float:
        choice = self.sample.choice
        return float(choice.share @ (self.there_s / choice.time_s))

    def factor(self, counts: np.ndarray) -> float:
        """Of a proxy with so many calls of each operator."""
        return float((counts @ self.there_s) / (counts @ self.sample.choice.time_s))


class Timed:
    """One suite's operators with their times on all of its devices; NaN where a device has none."""

    def __init__(self, suite: Suite, times: GridTimes, longest_share: float = LONGEST_SHARE) -> None:
        self.suite, self.longest_share = suite, longest_share
        found = [(o, k) for k, m in enumerate(suite.members) for o in m.operators]
        self.operators = tuple(o for o, _ in found)
        self.member = np.array([k for _, k in found])
        shape = (len(found), len(suite.devices))
        self.time_s, self.exact = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        for i, (operator, k) in enumerate(found):
            clean = suite.members[k].clean
            for j, device in enumerate(suite.devices):
                if clean is None:
                    time = times.time(operator.row, device)
                    if time is not None:
                        self.time_s[i, j], self.exact[i, j] = time.time_s, time.exact
                elif device in clean and device in operator.row.time_s:
                    self.time_s[i, j], self.exact[i, j] = operator.row.time_s[device], True
        self._drop_wrong()
        self._drop_unknown()

    def _drop_wrong(self) -> None:
        """Times that cannot be right become unknown, and are `wrong`. Raises UsageError for a device that has too
        many of them."""
        logs = np.log(self.time_s)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an operator that no device has
            off = logs - np.nanmedian(logs, axis=1, keepdims=True)
            off -= np.nanmedian(off, axis=0)
        wrong = np.abs(off) > math.log(FARTHEST_OFF)
        self.wrong = tuple((self.suite.devices[j], self.operators[i]) for i, j in np.argwhere(wrong))
        for j, device in enumerate(self.suite.devices):
            count, of = int(wrong[:, j].sum()), int(np.isfinite(logs[:, j]).sum())
            if count > MOST_OFF * of:
                raise UsageError(
                    f"the times of {device} are not in one unit",
                    cause=f"{count} of its {of} times in suite {self.suite.number} are more than {FARTHEST_OFF:.0f} "
                    "times off the rest, compared with the other devices",
                    hint="convert its tables to microseconds",
                )
        self.time_s[wrong] = np.nan

    def _drop_unknown(self) -> None:
        """An operator that some device of the suite lacks is left out, unless a whole member is missing there."""
        keep = np.ones(len(self.member), dtype=bool)
        for k in np.unique(self.member):
            own = np.flatnonzero(self.member == k)
            known = np.isfinite(self.time_s[own])
            has_member = known.mean(axis=0) >= 0.5
            keep[own] = known[:, has_member].all(axis=1) & bool(has_member.any())
        self.left_out = tuple(o for o, kept in zip(self.operators, keep, strict=True) if not kept)
        self.operators = tuple(o for o, kept in zip(self.operators, keep, strict=True) if kept)
        self.member, self.time_s, self.exact = self.member[keep], self.time_s[keep], self.exact[keep]

    def pairs(self, evaluate_only: Collection[str]) -> Iterator[Pair]:
        """All ordered pairs of devices with a member in common. If some devices are only evaluated, the pairs with one
        of them."""
        for a in self.suite.devices:
            for b in self.suite.devices:
                wanted = not evaluate_only or a in evaluate_only or b in evaluate_only
                if a != b and wanted and (pair := self._pair(a, b, evaluate_only)) is not None:
                    yield pair

    def _pair(self, a: str, b: str, evaluate_only: Collection[str]) -> Pair | None:
        here, there = self.suite.devices.index(a), self.suite.devices.index(b)
        known = np.isfinite(self.time_s)
        common = [k for k in np.unique(self.member) if known[self.member == k][:, [here, there]].all()]
        chosen = np.flatnonzero(np.isin(self.member, common))
        if not len(chosen):
            return None
        rows = [
            j
            for j, device in enumerate(self.suite.devices)
            if j not in (here, there) and device not in evaluate_only and known[chosen, j].all()
        ]
        sample = self._sample(chosen, here, rows)
        there_s = self.time_s[chosen, there]
        on_b = np.array([self.operators[i].calls for i in chosen]) * there_s
        steps = [self.suite.members[k].step_s for k in common]
        with_steps = all(a in s and b in s for s in steps)
        return Pair(
            suite=self.suite, a=a, b=b, sample=sample, there_s=there_s,
            exact=float(on_b @ self.exact[chosen, there] / on_b.sum()),
            step_factor=float(np.mean([s[b] / s[a] for s in steps])) if with_steps else None,
        )  # fmt: skip

    def _sample(self, chosen: np.ndarray, here: int, rows: list[int]) -> Sample:
        operators, member = tuple(self.operators[i] for i in chosen), self.member[chosen]
        time_s = self.time_s[chosen, here]
        total_s = np.array([o.calls for o in operators]) * time_s
        share = total_s / np.bincount(member, weights=total_s)[member] / len(np.unique(member))
        longest_s = float(np.sort(time_s)[-LONGEST:].sum())
        budget_s = max(SHORTEST_S, min(longest_s, self.longest_share * float(total_s.sum())))
        choice = Choice(
            time_s=time_s, share=share, traits=[trait_of(o) for o in operators],
            factors=(self.time_s[np.ix_(chosen, np.array(rows, dtype=int))] / time_s[:, None]).T,
            budget_s=budget_s, most=MOST_OPERATORS,
        )  # fmt: skip
        flops = np.array([work_of(o.row.operator, o.row.dtype, dict(o.row.dims), o.row.variant)[0] for o in operators])
        return Sample(
            operators=operators, member=member, choice=choice, flops=flops,
            rows=tuple(self.suite.devices[j] for j in rows),
        )  # fmt: skip


def trait_of(operator: Operator) -> Trait:
    """A variant that only lists shapes that broadcast is no kernel class of its own. A convolution's window is one:
    libraries have kernels for products (1×1), for Winograd's tiles (3×3) and for larger windows."""
    row = operator.row
    variant = "broadcast" if row.variant.startswith("in ") else row.variant
    dims = dict(row.dims)
    sizes: Iterable[float] = dims.values()
    if row.operator == "convolution":
        variant, sizes = f"{variant} {_window(dims)}", _of_convolution(dims)
    return Trait(
        operator=row.operator, kernel_class=(row.source, row.operator, row.dtype, variant, row.direction),
        sizes=tuple(math.log2(max(size, 0.5)) for size in sizes),
    )  # fmt: skip


def _window(dims: Mapping[str, int]) -> str:
    height, width = dims["kernel_h"], dims["kernel_w"]
    if height == width == 3 and dims["stride_h"] == dims["stride_w"] == 1:
        return "3x3"
    return "1x1" if height * width == 1 else "small" if height * width <= 9 else "large"


def _of_convolution(dims: Mapping[str, int]) -> tuple[float, ...]:
    """Its sizes that change apart from each other: pixels of all images, channels, the window, the stride, groups."""
    stride = dims["stride_h"] * dims["stride_w"]
    pixels = dims["batch"] * dims["in_h"] * dims["in_w"] / stride
    window = dims["kernel_h"] * dims["kernel_w"]
    return (pixels, dims["in_channels"], dims["out_channels"], window, stride, dims["groups"])
