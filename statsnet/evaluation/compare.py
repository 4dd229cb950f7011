"""Two results of one subject: by what factor did its time change, and is that more than noise?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from statsnet.environment import differences
from statsnet.errors import MeasurementError, UsageError
from statsnet.evaluation import verdicts
from statsnet.evaluation.speeds import Speeds, speeds_of
from statsnet.signatures.conversion import plain
from statsnet.signatures.intervals import (
    Interval,
    Member,
    geometric_mean,
    process_median_s,
    ratio_with_ci,
    suite_factor,
)
from statsnet.signatures.results import Evidence, Result, ResultMember, Subject
from statsnet.signatures.timing import Timing, warnings_of

SAME_SHARE = 0.02
"""Two results are compared speed by speed if both have two, and the shares of their slow steps differ by no more."""

REFERENCES_DIFFER = 0.1
"""In two results of one suite, a member's reference time may differ by this share: where sizes are rounded, it goes by
work that was counted to two digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """One member of a suite: its weight, its factor T_b / T_a, and whether its model ran or a replay did."""

    name: str
    weight: float
    factor: Interval
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The factor T_b / T_a of a proxy, or F_b / F_a of a suite; above 1, b is slower.

    The interval is that of the processes' medians. Where steps run at several speeds, it is as wide as these require,
    and the factor is that of mean times. `why` says what made it wide; `not_comparable` why there is no factor to rely
    on. `differences` lists how the two environments differ. `warnings` say what weakens the comparison.
    """

    subject: Subject
    factor: Interval
    differences: Sequence[str]
    members: Sequence[MemberChange] = ()
    warnings: Sequence[str] = ()
    why: str = ""
    not_comparable: str | None = None

    @property
    def speedup(self) -> float:
        """How many times faster b is."""
        return 1.0 / self.factor.value

    @property
    def significant(self) -> bool | None:
        """Whether the two differ by more than noise; None if that is not known."""
        return None if self.not_comparable else self.factor.significant

    @property
    def verdict(self) -> str:
        """One sentence: the second result against the first."""
        if self.not_comparable:
            return f"not comparable: {self.not_comparable}"
        return verdicts.verdict(self.factor, why=self.why)

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": plain(self.subject),
            **_interval_dict(self.factor),
            "speedup": self.speedup,
            "significant": self.significant,
            "comparable": self.not_comparable is None,
            "environments_identical": not self.differences,
            "differences": list(self.differences),
            "verdict": self.verdict,
            "members": [
                {"name": m.name, "weight": m.weight, "evidence": m.evidence, **_interval_dict(m.factor)}
                for m in self.members
            ],
            "geometric_mean": geometric_mean([m.factor.value for m in self.members]) if self.members else None,
            "warnings": list(self.warnings),
        }


def compare(a: Result, b: Result, *, names: tuple[str, str] = ("first", "second")) -> Comparison:
    """Compare result `b` with result `a`, which messages call by `names`. Raises UsageError unless both are of the same
    subject and mode, MeasurementError for a process without times."""
    _require_same_subject(a, b)
    pairs = _pairs(a, b)
    if not pairs:
        raise MeasurementError("the two results hold no workload", hint="validate the proxy again")
    changes = tuple(
        MemberChange(
            name=pair.name,
            weight=pair.weight,
            factor=_widened(ratio_with_ci(pair.member.a, pair.member.b), [pair]),
            evidence=pair.evidence,
        )
        for pair in pairs
    )
    is_suite = a.members is not None
    narrow = (
        suite_factor([pair.member for pair in pairs])
        if is_suite
        else ratio_with_ci(pairs[0].member.a, pairs[0].member.b)
    )
    factor = _widened(narrow, pairs)
    differing = differences(a.environment, b.environment)
    noted = [(side, pair, note) for side in (0, 1) for pair in pairs for note in pair.speeds[side].notes]
    details = [f"{_called(names[side], pair)}: {note.text}" for side, pair, note in noted]
    return Comparison(
        subject=a.subject,
        factor=factor,
        differences=differing,
        members=changes if is_suite else (),
        warnings=[*_warnings(a, b, names, changes, narrow, differing), *details],
        why=_why(names, [(side, note.does) for side, _, note in noted]),
        not_comparable=_clock(names, pairs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """What is compared: a proxy, or a member of a suite. `speeds` are those of both sides."""

    name: str
    weight: float
    evidence: Evidence
    member: Member
    speeds: tuple[Speeds, Speeds]


def _pairs(a: Result, b: Result) -> list[_Pair]:
    if a.members is None or b.members is None:
        return [_pair("", 1.0, "model", 1.0, a.of_subject, b.of_subject)]
    if not _of_one_suite(a.members, b.members):
        raise UsageError(
            "the two results are not of the same suite",
            cause="their members, weights or reference times differ",
            hint="validate the same proxy on both machines",
        )
    return [
        # F(e) = Σ w_i T_i(e) / T_i(e0), where w_i is a share of the time in the reference environment e0.
        _pair(x.name, x.weight, _weaker(x, y), x.weight / x.latency_s_reference, x.processes, y.processes)
        for x, y in zip(a.members, b.members, strict=True)
    ]


def _of_one_suite(a: Sequence[ResultMember], b: Sequence[ResultMember]) -> bool:
    """Reference times of members with rounded sizes go by their models' work, which two machines may count a little
    differently."""
    return [(m.name, m.weight) for m in a] == [(m.name, m.weight) for m in b] and all(
        math.isclose(x.latency_s_reference, y.latency_s_reference, rel_tol=REFERENCES_DIFFER)
        for x, y in zip(a, b, strict=True)
    )


def _pair(name: str, weight: float, evidence: Evidence, rate: float, a: Sequence[Timing], b: Sequence[Timing]) -> _Pair:
    """Of processes whose steps run at two speeds the mean time counts: their median is one of the two, by chance."""
    speeds = speeds_of(a), speeds_of(b)
    if any(each.two for each in speeds):
        a, b = as_means(a), as_means(b)
    return _Pair(name=name, weight=weight, evidence=evidence, member=Member(rate=rate, a=a, b=b), speeds=speeds)


def as_means(processes: Sequence[Timing]) -> list[Timing]:
    """The same processes, each with its mean time alone."""
    return [replace(process, latency_s=(fmean(process.latency_s),), window_latency_s=None) for process in processes]


def _weaker(x: ResultMember, y: ResultMember) -> Evidence:
    return "replay" if "replay" in (x.evidence, y.evidence) else "model"


def _widened(factor: Interval, pairs: Sequence[_Pair]) -> Interval:
    """The interval, at least as wide as the range of factors between the speeds of both sides.

    A suite's factor is the mean of its members' factors, weighted by their times on side a; so are its bounds.
    """
    if factor.low is None or factor.high is None:
        return factor
    times_a = [pair.member.rate * geometric_mean([process_median_s(p) for p in pair.member.a]) for pair in pairs]
    bounds = [_bounds(*pair.speeds) for pair in pairs]
    low, high = (sum(t * each[side] for t, each in zip(times_a, bounds, strict=True)) / sum(times_a) for side in (0, 1))
    several = any(side.several for pair in pairs for side in pair.speeds)
    return replace(factor, low=min(factor.low, low), high=max(factor.high, high)) if several else factor


def _bounds(a: Speeds, b: Speeds) -> tuple[float, float]:
    """The least and the largest factor between the speeds of two sides: any speed of one against any of the other. If
    both run at two speeds in equal shares, as steps that take two inputs in turn do, each is compared with its like."""
    if a.two and b.two and abs(a.two.slow_share - b.two.slow_share) <= SAME_SHARE:
        like = b.two.fast_s / a.two.fast_s, b.two.slow_s / a.two.slow_s
        return min(like), max(like)
    return b.fastest_s / a.slowest_s, b.slowest_s / a.fastest_s


def _why(names: tuple[str, str], noted: Sequence[tuple[int, str]]) -> str:
    """What either side does: `each of the two runs at two speeds`, `second.json drifts`."""
    first, second = ({does for where, does in noted if where == side} for side in (0, 1))
    words = [f"each of the two {does}" for does in sorted(first & second)]
    words += [
        f"{names[side]} {does}" for side, mine in ((0, first - second), (1, second - first)) for does in sorted(mine)
    ]
    return "; ".join(words)


def _called(name: str, pair: _Pair) -> str:
    return f"{name}, {pair.name}," if pair.name else name


def _clock(names: tuple[str, str], pairs: Sequence[_Pair]) -> str | None:
    for side, name in enumerate(names):
        for pair in pairs:
            if clock := pair.speeds[side].clock:
                return f"{_called(name, pair)}: {clock}"
    return None


def _require_same_subject(a: Result, b: Result) -> None:
    x, y = a.subject, b.subject
    for name, left, right in (("type", x.type, y.type), ("subject", x.id, y.id), ("mode", x.mode, y.mode)):
        if left != right:
            raise UsageError(
                f"the two results are not of the same {name}",
                cause=f"{left} against {right}",
                hint="carry the same proxy, unchanged, to every device" if name == "subject" else "",
            )


def _warnings(
    a: Result,
    b: Result,
    names: tuple[str, str],
    members: Sequence[MemberChange],
    factor: Interval,
    differing: Sequence[str],
) -> list[str]:
    warnings = []
    if not differing:
        warnings.append("both results come from the same environment: the factor shows how well runs repeat")
    if factor.low is None:
        option = "--processes" if a.members is None else "--rounds"
        warnings.append(f"one process is one sample: measure with {option} 3 or more on both sides")
    for name, result in zip(names, (a, b), strict=True):
        warnings += [f"{name}: {reason}" for reason in warnings_of(result.of_subject)]
    replayed = sum(member.weight for member in members if member.evidence == "replay")
    if replayed:
        warnings.append(f"{replayed:.0%} of the suite is a replay of operators, weaker evidence than its models")
    return warnings


def _interval_dict(interval: Interval) -> dict[str, float | None]:
    return {"factor": interval.value, "low": interval.low, "high": interval.high}
