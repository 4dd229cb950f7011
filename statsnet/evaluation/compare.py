"""Two results of one subject: by what factor did its time change, and is that more than noise?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.signatures.conversion import plain
from statsnet.signatures.documents import Evidence, Result, ResultMember, Subject
from statsnet.signatures.intervals import Interval, Member, geometric_mean, ratio_with_ci, suite_factor


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

    `differences` lists how the two environments differ. `warnings` say what weakens the comparison.
    """

    subject: Subject
    factor: Interval
    differences: Sequence[str]
    members: Sequence[MemberChange] = ()
    warnings: Sequence[str] = ()

    @property
    def speedup(self) -> float:
        """How many times faster b is."""
        return 1.0 / self.factor.value

    @property
    def verdict(self) -> str:
        """One sentence: the second result against the first."""
        value, low, high = self.factor.value, self.factor.low, self.factor.high
        word = "slower" if value > 1 else "faster"
        times = max(value, 1 / value)
        if low is None or high is None:
            return f"{times:.3g} times {word}; whether that is more than noise can not be told from one process"
        bounds = (low, high) if value > 1 else (1 / high, 1 / low)
        if not self.factor.significant:
            return f"no significant difference: {times:.3g} times {word} ({bounds[0]:.3g} to {bounds[1]:.3g})"
        return f"{times:.3g} times {word} ({bounds[0]:.3g} to {bounds[1]:.3g})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": plain(self.subject),
            **_interval_dict(self.factor),
            "speedup": self.speedup,
            "significant": self.factor.significant,
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


def compare(a: Result, b: Result) -> Comparison:
    """Compare result `b` with result `a`. Raises UsageError unless both are of the same subject and mode."""
    _require_same_subject(a, b)
    members: tuple[MemberChange, ...] = ()
    if a.members is not None and b.members is not None:
        factor, members = _suite_change(a.members, b.members)
    else:
        factor = ratio_with_ci(a.of_subject, b.of_subject)
    differing = differences(a.environment, b.environment)
    return Comparison(
        subject=a.subject,
        factor=factor,
        differences=differing,
        members=members,
        warnings=_warnings(a, b, members, factor, differing),
    )


def _require_same_subject(a: Result, b: Result) -> None:
    x, y = a.subject, b.subject
    for name, left, right in (("type", x.type, y.type), ("subject", x.id, y.id), ("mode", x.mode, y.mode)):
        if left != right:
            raise UsageError(
                f"the two results are not of the same {name}",
                cause=f"{left} against {right}",
                hint="carry the same proxy, unchanged, to every device" if name == "subject" else "",
            )


def _suite_change(a: Sequence[ResultMember], b: Sequence[ResultMember]) -> tuple[Interval, tuple[MemberChange, ...]]:
    """F(e) = Σ w_i T_i(e) / T_i(e0), where w_i is a share of the time in the reference environment e0."""
    known, others = ([(m.name, m.weight, m.latency_s_reference) for m in side] for side in (a, b))
    if known != others:
        raise UsageError(
            "the two results are not of the same suite",
            cause="their members, weights or reference times differ",
            hint="validate the same proxy on both machines",
        )
    pairs = list(zip(a, b, strict=True))
    factor = suite_factor(
        [Member(rate=x.weight / x.latency_s_reference, a=x.processes, b=y.processes) for x, y in pairs]
    )
    changes = tuple(
        MemberChange(
            name=x.name,
            weight=x.weight,
            factor=ratio_with_ci(x.processes, y.processes),
            evidence="replay" if "replay" in (x.evidence, y.evidence) else "model",
        )
        for x, y in pairs
    )
    return factor, changes


def _warnings(
    a: Result, b: Result, members: Sequence[MemberChange], factor: Interval, differing: Sequence[str]
) -> list[str]:
    warnings = []
    if not differing:
        warnings.append("both results come from the same environment: the factor shows how well runs repeat")
    if factor.low is None:
        warnings.append("one process is one sample: measure with --processes 3 or more on both sides")
    for name, result in (("first", a), ("second", b)):
        processes = result.of_subject
        unstable = [process for process in processes if not process.stable]
        reasons = dict.fromkeys(w for process in processes for w in process.warnings)
        if unstable:
            warnings.append(f"{len(unstable)} of {len(processes)} processes of the {name} result were not stable")
        warnings += [f"{name} result: {reason}" for reason in reasons]
    replayed = sum(member.weight for member in members if member.evidence == "replay")
    if replayed:
        warnings.append(f"{replayed:.0%} of the suite is a replay of operators, weaker evidence than its models")
    return warnings


def _interval_dict(interval: Interval) -> dict[str, float | None]:
    return {"factor": interval.value, "low": interval.low, "high": interval.high}
