"""Two results of the same subject: by which factor did its time change, and is that more than noise?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.signatures.intervals import (
    Interval,
    Member,
    geometric_mean,
    ratio_with_ci,
    suite_factor,
)

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """One member of a suite: its weight, its factor T_b / T_a, and whether its model ran or a replay did."""

    name: str
    weight: float
    factor: Interval
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The factor T_b / T_a of a proxy, or F_b / F_a of a suite; above 1, b is slower.

    `differences` lists what is not alike in the two environments. `warnings` say what weakens the comparison.
    """

    subject: Mapping[str, Any]
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
            return (
                f"{times:.3g} times {word}; whether that is more than noise can not be told from one process"
            )
        bounds = (low, high) if value > 1 else (1 / high, 1 / low)
        if not self.factor.significant:
            return f"no significant difference: {times:.3g} times {word} ({bounds[0]:.3g} to {bounds[1]:.3g})"
        return f"{times:.3g} times {word} ({bounds[0]:.3g} to {bounds[1]:.3g})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": dict(self.subject),
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
            "geometric_mean": geometric_mean([m.factor.value for m in self.members])
            if self.members
            else None,
            "warnings": list(self.warnings),
        }


def compare(a: Result, b: Result) -> Comparison:
    """Compare result `b` with result `a`. Raises UsageError if they are not of the same subject and mode."""
    _require_same_subject(a, b)
    is_suite = a["subject"]["type"] == "suite"
    factor, members = _suite_change(a, b) if is_suite else (ratio_with_ci(a["processes"], b["processes"]), ())
    differing = differences(a["environment"], b["environment"])
    return Comparison(
        subject=a["subject"],
        factor=factor,
        differences=differing,
        members=members,
        warnings=_warnings(a, b, members, factor, differing),
    )


def _require_same_subject(a: Result, b: Result) -> None:
    for result in (a, b):
        if result.get("kind") != "statsnet.result":
            raise UsageError(
                f"a {result.get('kind')} can not be compared",
                cause="only results can",
                hint="make one with `statsnet run --json FILE`",
            )
    names = {"type": "type", "id": "subject", "mode": "mode"}
    for key, name in names.items():
        left, right = a["subject"][key], b["subject"][key]
        if left != right:
            raise UsageError(
                f"the two results are not of the same {name}",
                cause=f"{left} against {right}",
                hint="carry the same proxy, unchanged, to every device" if key == "id" else "",
            )


def _suite_change(a: Result, b: Result) -> tuple[Interval, tuple[MemberChange, ...]]:
    """F(e) = Σ w_i T_i(e) / T_i(e0), where w_i is a share of the time in the reference environment e0."""
    others = {member["name"]: member for member in b["members"]}
    known = [(m["name"], m["weight"], m["latency_s_reference"]) for m in a["members"]]
    if known != [(m["name"], m["weight"], m["latency_s_reference"]) for m in b["members"]]:
        raise UsageError(
            "the two results are not of the same suite",
            cause="their members, weights or reference times differ",
            hint="validate the same proxy on both machines",
        )
    pairs = [(member, others[member["name"]]) for member in a["members"]]
    factor = suite_factor(
        [
            Member(rate=x["weight"] / x["latency_s_reference"], a=x["processes"], b=y["processes"])
            for x, y in pairs
        ]
    )
    changes = tuple(
        MemberChange(
            name=x["name"],
            weight=x["weight"],
            factor=ratio_with_ci(x["processes"], y["processes"]),
            evidence="replay" if "replay" in (x["evidence"], y["evidence"]) else "model",
        )
        for x, y in pairs
    )
    return factor, changes


def _warnings(
    a: Result, b: Result, members: Sequence[MemberChange], factor: Interval, differing: Sequence[str]
) -> list[str]:
    found = []
    if not differing:
        found.append("both results come from the same environment: the factor shows how well runs repeat")
    if factor.low is None:
        found.append("one process is one sample: measure with --processes 3 or more on both sides")
    for name, result in (("first", a), ("second", b)):
        processes = _processes(result)
        unstable = [process for process in processes if not process["stable"]]
        reasons = dict.fromkeys(w for process in processes for w in process["warnings"])
        if unstable:
            found.append(
                f"{len(unstable)} of {len(processes)} processes of the {name} result were not stable"
            )
        found += [f"{name} result: {reason}" for reason in reasons]
    replayed = sum(member.weight for member in members if member.evidence == "replay")
    if replayed:
        found.append(f"{replayed:.0%} of the suite is a replay of operators, weaker evidence than its models")
    return found


def _processes(result: Result) -> list[Mapping[str, Any]]:
    members = result.get("members")
    return [p for m in members for p in m["processes"]] if members else list(result["processes"])


def _interval_dict(interval: Interval) -> dict[str, float | None]:
    return {"factor": interval.value, "low": interval.low, "high": interval.high}
