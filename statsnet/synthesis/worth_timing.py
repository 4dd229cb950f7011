"""Which members of a mix are timed again where there is no time for all, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from statsnet.signatures.target import TargetMember

RETIMED_S = (1.2, 6.0)
"""How long a member's steps are timed again in a process, at least and at most."""

TIMED_SHARE = 1 / 3
"""Of what timing members again takes; the rest goes to processes and models."""

START_S, BUILT_BYTES_PER_S, STEPS = 1.0, 5e8, 5
"""What timing a member takes in all: its process and the reference network, making its weights, and so many steps at
least."""


def worth_timing(members: Sequence[TargetMember], left_s: float) -> Iterator[TargetMember]:
    """Those that can be timed within this time together, and at least one: first those of the largest weight; among
    equal weights some of each domain, the quickest first."""
    timed_s = time_of_each_s(left_s, len(members))
    for number, member in enumerate(_by_promise(members)):
        left_s -= _expected_s(member, timed_s)
        if number and left_s < 0:
            return
        yield member


def _by_promise(members: Iterable[TargetMember]) -> list[TargetMember]:
    by_domain: dict[str, list[TargetMember]] = defaultdict(list)
    for member in members:
        by_domain[member.signature.workload.domain if member.signature.workload else ""].append(member)
    queues = [sorted(of_domain, key=lambda m: (-m.weight, m.latency_s, m.name)) for of_domain in by_domain.values()]
    in_turn = [member for turn in zip_longest(*queues) for member in turn if member is not None]
    return sorted(in_turn, key=lambda m: -m.weight)


def _expected_s(member: TargetMember, timed_s: float) -> float:
    building_s = (member.signature.memory.parameter_bytes or 0) / BUILT_BYTES_PER_S
    return START_S + building_s + max(timed_s, STEPS * member.latency_s)


def time_of_each_s(retimed_s: float, count: int) -> float:
    """How long each of so many members is timed, in `retimed_s` for all."""
    least_s, most_s = RETIMED_S
    return min(max(least_s, TIMED_SHARE * retimed_s / max(count, 1)), most_s)
