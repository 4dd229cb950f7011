"""From samples to figures. Times are compared as ratios, on the logarithm, where a factor and its inverse are alike.

- One process is one sample: its median time.
- If two processes took turns, each turn is one sample of their ratio. Their trimmed mean is taken (Yuen 1974), because
  neighbours disturb a few turns much and most turns little.
- If several such pairs ran, the interval is as wide as the differences between the pairs' means require, or the turns,
  whichever is more. Processes differ, for instance in memory placement, in ways that turns within one pair cannot show.

Intervals hold 95 % and come from Student's t. If several means with their own variances are combined, the degrees of
freedom are those of Welch and Satterthwaite. One sample gives no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from statsnet.errors import MeasurementError
from statsnet.signatures.timing import Timing

CONFIDENCE = 0.95

TRIMMED = 0.2
"""Share of the turns that is left out at either end; 0.2 is Yuen's and Wilcox's usual choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A positive figure with its 95 % confidence interval; the bounds are None for a single process."""

    value: float
    low: float | None
    high: float | None

    @property
    def significant(self) -> bool | None:
        """Whether, as a factor, it differs from 1; None if that is not known."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A part of a suite: weight over reference time, and the processes on both sides."""

    rate: float
    a: Sequence[Timing]
    b: Sequence[Timing]


def process_median_s(process: Timing) -> float:
    """Median time of one process in seconds. Raises MeasurementError if it has no valid times."""
    return float(median(_valid(process.latency_s)))


def _valid(times: Sequence[float]) -> Sequence[float]:
    if not times or not all(math.isfinite(t) and t > 0 for t in times):
        raise MeasurementError(
            "a process has no valid times",
            cause="the list is empty, or not all are positive",
            hint="measure it again",
        )
    return times


def latency_with_ci(processes: Sequence[Timing]) -> Interval:
    """Geometric mean of the processes' medians, in seconds."""
    log = _log_mean(processes)
    return _interval(log.mean, [(1.0, log)])


def ratio_with_ci(a: Sequence[Timing], b: Sequence[Timing]) -> Interval:
    """The factor T_b / T_a; above 1, b is slower."""
    log_a, log_b = _log_mean(a), _log_mean(b)
    return _interval(log_b.mean - log_a.mean, [(1.0, log_a), (1.0, log_b)])


def suite_factor(members: Sequence[Member]) -> Interval:
    """The factor F_b / F_a of a weighted suite, F(e) = Σ rate_i T_i(e), with its interval by the delta method.

    d log F / d log T_i is the member's share of the time. So each side's variance is Σ share² · variance, if members
    are disturbed one by one. Where all have as many processes, these are taken for rounds: what slows a whole round
    shows in the sums of the rounds. The wider interval of the two counts.
    """
    value = 0.0
    terms: list[tuple[float, _LogMean]] = []
    sides = [[member.a for member in members], [member.b for member in members]]
    for sign, side in zip((-1.0, 1.0), sides, strict=True):
        logs = [_log_mean(processes) for processes in side]
        times = [member.rate * math.exp(log.mean) for member, log in zip(members, logs, strict=True)]
        value += sign * math.log(sum(times))
        terms += [(time / sum(times), log) for time, log in zip(times, logs, strict=True)]
    one_by_one = _interval(value, terms)
    if any(len({len(processes) for processes in side}) > 1 for side in sides):
        return one_by_one
    rates = [member.rate for member in members]
    together = _interval(value, [(1.0, _mean(_log_sums(rates, side))) for side in sides])
    return max(one_by_one, together, key=_width)


def _log_sums(rates: Sequence[float], side: Sequence[Sequence[Timing]]) -> list[float]:
    """Of each round, log Σ rate_i T_i."""
    rounds = zip(*side, strict=True)
    return [math.log(sum(r * process_median_s(t) for r, t in zip(rates, each, strict=True))) for each in rounds]


def _width(interval: Interval) -> float:
    """On the logarithm; infinite where nothing is known."""
    if interval.low is None or interval.high is None:
        return math.inf
    return math.log(interval.high / interval.low)


def relative_error(suite: Interval, proxy: Interval) -> Interval:
    """F_P / F_S - 1. The two intervals are independent, so their half-widths on the logarithm add in squares."""
    value = proxy.value / suite.value
    if suite.low is None or suite.high is None or proxy.low is None or proxy.high is None:
        return Interval(value=value - 1, low=None, high=None)
    half = math.hypot(math.log(suite.high / suite.low) / 2, math.log(proxy.high / proxy.low) / 2)
    return Interval(value=value - 1, low=value * math.exp(-half) - 1, high=value * math.exp(half) - 1)


def paired_ratio(a: Sequence[Timing], b: Sequence[Timing]) -> Interval:
    """The factor T_b / T_a of processes that ran in pairs: the mean over pairs. If all pairs took turns, each gives the
    trimmed mean of its turns; else each gives the ratio of its medians."""
    log = _pairs_mean(a, b)
    return _interval(log.mean, [(1.0, log)])


def paired_suite_factor(members: Sequence[Member]) -> Interval:
    """Σ rate_i T_b,i over Σ rate_i T_a,i, of processes that ran in pairs: the mean of the members' factors
    T_b,i / T_a,i, weighted by their time on side a.

    The interval is that of the factor's linear form (delta method). A member with share s of the time on side a, and
    share t on side b, changes it by t · log(T_b,i / T_a,i) + (t - s) · log T_a,i. What slows all members of a round
    alike is in no factor, so it is taken off log T_a,i.
    """
    before = _without_common_part([[math.log(process_median_s(x)) for x in member.a] for member in members])
    factors = [_pairs(member.a, member.b) for member in members]
    log_factors = [fmean(log.mean for log in pairs) for pairs in factors]
    times_a = [member.rate * math.exp(fmean(logs)) for member, logs in zip(members, before, strict=True)]
    times_b = [time * math.exp(factor) for time, factor in zip(times_a, log_factors, strict=True)]
    terms = []
    for pairs, logs, time_a, time_b in zip(factors, before, times_a, times_b, strict=True):
        share_a, share_b = time_a / sum(times_a), time_b / sum(times_b)
        moved = [
            _LogMean(
                mean=share_b * pair.mean + (share_b - share_a) * log_a,
                variance=share_b**2 * pair.variance,
                freedom=pair.freedom,
            )
            for pair, log_a in zip(pairs, logs, strict=True)
        ]
        terms.append((1.0, _mean_of(moved)))
    return _interval(math.log(sum(times_b) / sum(times_a)), terms)


def paired_mean_factor(members: Sequence[Member]) -> Interval:
    """Σ w_i T_b,i / T_a,i over Σ w_i. The `rate` of each member is its weight w_i, its share of the time on side a;
    processes ran in pairs."""
    logs = [_pairs_mean(member.a, member.b) for member in members]
    parts = [member.rate * math.exp(log.mean) for member, log in zip(members, logs, strict=True)]
    value = math.log(sum(parts) / sum(member.rate for member in members))
    return _interval(value, [(part / sum(parts), log) for part, log in zip(parts, logs, strict=True)])


def geometric_mean(values: Sequence[float]) -> float:
    """Raises ValueError if there are no values, or if one is not positive."""
    return math.exp(fmean(math.log(value) for value in values))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogMean:
    """Mean of log(seconds) over processes, the variance of that mean, and its degrees of freedom (0: unknown)."""

    mean: float
    variance: float
    freedom: float


def _log_mean(processes: Sequence[Timing]) -> _LogMean:
    return _mean([math.log(process_median_s(process)) for process in processes])


def _without_common_part(logs: Sequence[Sequence[float]]) -> list[list[float]]:
    """Logarithms by member and round, less each round's mean over the members, where all have as many rounds."""
    if len({len(row) for row in logs}) > 1:
        return [list(row) for row in logs]
    common = [fmean(column) for column in zip(*logs, strict=True)]
    return [[log - mean for log, mean in zip(row, common, strict=True)] for row in logs]


def _pairs_mean(a: Sequence[Timing], b: Sequence[Timing]) -> _LogMean:
    return _mean_of(_pairs(a, b))


def _pairs(a: Sequence[Timing], b: Sequence[Timing]) -> list[_LogMean]:
    """log(T_b / T_a) of each pair: of its turns if all pairs took turns, else of its medians, of unknown variance."""
    turns = [_log_ratios(x, y) for x, y in zip(a, b, strict=True)]
    if not turns:
        raise MeasurementError("there is no process to take a time from", hint="measure it again")
    if all(turns):
        return [_trimmed_mean(logs) for logs in turns]
    ratios = [process_median_s(y) / process_median_s(x) for x, y in zip(a, b, strict=True)]
    return [_LogMean(mean=math.log(ratio), variance=0.0, freedom=0) for ratio in ratios]


def _mean_of(means: Sequence[_LogMean]) -> _LogMean:
    """The mean of several means, with the wider of two intervals: from the differences between the means, which holds
    what it promises whatever luck the means have; and from their own variances.

    If the means differ by more than their own variances explain, the first is the wider: its variance has the few
    degrees of freedom of a sample of n. If they differ by less, two or three of them may still be alike by chance. So
    the variance is the larger of the two, and the degrees of freedom are those that give the wider interval.
    """
    n, between = len(means), _mean([log.mean for log in means])
    if n == 1:
        return means[0]
    if any(log.freedom == 0 for log in means):
        return between
    parts = [(log.variance / n**2, log.freedom) for log in means]
    within = sum(part for part, _ in parts)
    if between.variance >= within:
        return between
    freedom = _freedom(parts)
    wider = max(student_t(between.freedom) * math.sqrt(between.variance / within), student_t(freedom))
    return _LogMean(mean=between.mean, variance=within, freedom=min(_freedom_of_t(wider), freedom))


def _freedom(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each with its own (Satterthwaite 1946)."""
    total = sum(part for part, _ in parts)
    return total**2 / sum(part**2 / freedom for part, freedom in parts) if total else math.inf


def _log_ratios(a: Timing, b: Timing) -> list[float]:
    """Ratios of windows that were taken in turn; empty unless both have as many. What slows both is in no ratio."""
    before, after = a.window_latency_s, b.window_latency_s
    if not before or not after or len(before) != len(after):
        return []
    return [math.log(y / x) for x, y in zip(_valid(before), _valid(after), strict=True)]


def _trimmed_mean(logs: Sequence[float]) -> _LogMean:
    """The mean without the TRIMMED ends, and its variance, from the winsorized samples."""
    n, cut = len(logs), int(TRIMMED * len(logs))
    ordered = sorted(logs)
    kept = ordered[cut : n - cut]
    winsorized = [min(max(log, kept[0]), kept[-1]) for log in ordered]
    freedom = len(kept) - 1
    spread = (n - 1) * variance(winsorized) / (len(kept) * freedom) if freedom else 0.0
    return _LogMean(mean=fmean(kept), variance=spread, freedom=freedom)


def _mean(logs: Sequence[float]) -> _LogMean:
    if not logs:
        raise MeasurementError("there is no process to take a time from", hint="measure it again")
    n = len(logs)
    return _LogMean(mean=fmean(logs), variance=variance(logs) / n if n > 1 else 0.0, freedom=n - 1)


def _interval(log_value: float, terms: Sequence[tuple[float, _LogMean]]) -> Interval:
    """exp of a sum of independent means, each with its coefficient."""
    value = _exp(log_value)
    if any(log.freedom == 0 for _, log in terms):
        return Interval(value=value, low=None, high=None)
    parts = [(coefficient**2 * log.variance, log.freedom) for coefficient, log in terms]
    half = student_t(_freedom(parts)) * math.sqrt(sum(part for part, _ in parts))
    return Interval(value=value, low=_exp(log_value - half), high=_exp(log_value + half))


def _exp(log: float) -> float:
    """Within what a float holds: two processes that differ by a factor of millions have an interval beyond that."""
    return math.exp(min(max(log, -700.0), 700.0))


def student_t(freedom: float) -> float:
    """Half the width of an interval that holds CONFIDENCE, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _freedom_of_t(t: float) -> float:
    """The degrees of freedom for which Student's t is `t`: the inverse of `student_t`."""
    from scipy.special import stdtridf

    return float(stdtridf((1 + CONFIDENCE) / 2, t))
