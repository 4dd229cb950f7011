"""How long a proxy's step may take, if nobody says so in seconds."""

from __future__ import annotations

from statsnet.signatures.collectives import is_collective
from statsnet.signatures.target import Target
from statsnet.synthesis.collectives import asked_collectives, step_of_whole_calls

DEFAULT_COMPRESSION = 53
"""Fifty and a margin: machines drift by a few percent from one process to the next."""

SHORTEST_STEP_S = 20e-3
"""A step of 5 ms has no room for what takes a hundredth of it. Of two models with 61 kernel classes it had 74 % of the
operators' time and missed the classes' shares by 27.8 points, one of 20 ms 96 % and 9.5; and a training step of 5 ms
spends a fifth between operators, suites less than a tenth."""

USUAL_STEP_S = {"inference": 80e-3, "training": 160e-3}
"""If nobody says how long a step may take, it takes at least this long, but no longer than the suite. Calls come whole,
and a training step has three times as many. By fit.json (`synthesize --budget`), proxies of BERT-base, GPT-2, DIN, DLRM
and NCF missed kernel classes by 6.6 points at 40 ms and by 4.4 at 80; those of three training mixes of models that
nobody tuned for by 4.8, 5.9 and 8.0 points at 76, 79 and 55 ms, and by 4.1, 4.7 and 4.4 at 176, 165 and 96."""

LONG_CALLS, LONGEST_FOR_CALLS_S = 12, {"inference": 0.24, "training": 0.48}
"""On a CPU, a usual step has room for so many of the suite's calls, by their mean over its time. They alone make no
step longer than the second: of a call, a twelfth of that counts at most. Why: smaller convolutions share their weights
and their call among fewer numbers, and run below the speed of the suite's. By fit.json (`synthesize --budget`), proxies
of ResNet-50, of five vision models, and of these and three of recommendation missed kernel classes by 5.7, 5.2 and 4.6
points at 84, 112 and 99 ms, and by 2.5, 2.4 and 2.8 at 274, 260 and 170; FLOP/s by 24, 2 and 11 %, and by 5, 6 and 1 %.
"""

DISTINCT_CALLS = 44
SHORTEST_OF_OWN_SIZES_S, LONGEST_OF_OWN_SIZES_S = 5e-3, 50e-3
"""Of the usual budget on GPUs, see `usual_budget_of`: some dozens of operators, each of 0.1 to 1 ms."""

SHORTER, SHORTER_FOR_CALLS = 0.5, 0.25
"""On GPUs, a usual step takes at most the first share of the suite's time, unless that is too short for any proxy.
LONG_CALLS make a step on a CPU no longer than the second."""


def budget_of(target: Target, compression: float) -> float:
    """Seconds: Σ T_i ÷ compression, but at least SHORTEST_STEP_S."""
    return max(sum(m.latency_s for m in target.members) / compression, SHORTEST_STEP_S)


def usual_budget_of(target: Target, *, own_sizes: bool) -> float:
    """Seconds. Where blocks have their own sizes, a step holds one call of each of the DISTINCT_CALLS operators that
    take the most time: at least SHORTEST_STEP_S, at most LONGEST_OF_OWN_SIZES_S and SHORTER of the suite's time; but of
    a short suite at least SHORTEST_OF_OWN_SIZES_S. Elsewhere it is DEFAULT_COMPRESSION times shorter than the suite,
    but at least USUAL_STEP_S or the suite's time, whichever is less, and SHORTEST_STEP_S; and longer for LONG_CALLS.
    With collectives, it is longer until their calls come out whole."""
    collectives, suite_s = asked_collectives(target), sum(m.latency_s for m in target.members)
    if not own_sizes:
        of_calls_s = min(_long_calls_s(target), SHORTER_FOR_CALLS * suite_s)
        usual_s = max(budget_of(target, DEFAULT_COMPRESSION), min(USUAL_STEP_S[target.mode], suite_s), of_calls_s)
        return step_of_whole_calls(collectives, usual_s, suite_s)
    dearest = sorted(target.clusters, key=lambda c: (-c.time_share, c.member, c.cluster))[:DISTINCT_CALLS]
    calls_s = sum(c.time_per_call_s or 0.0 for c in dearest)
    longest_s = min(LONGEST_OF_OWN_SIZES_S, SHORTER * suite_s)
    usual_s = min(max(calls_s, SHORTEST_STEP_S), max(longest_s, SHORTEST_OF_OWN_SIZES_S))
    return step_of_whole_calls(collectives, usual_s, suite_s)


def _long_calls_s(target: Target) -> float:
    """Seconds that LONG_CALLS take. Optimizers' calls go by parameters, not by the step; collectives by other rules."""
    longest_s = LONGEST_FOR_CALLS_S[target.mode] / LONG_CALLS
    timed = [c for c in target.clusters if c.phase != "optimizer" and not is_collective(c.op) and c.time_share > 0]
    whole = sum(c.time_share for c in timed)
    return LONG_CALLS * sum(c.time_share / whole * min(c.time_per_call_s or 0.0, longest_s) for c in timed)
