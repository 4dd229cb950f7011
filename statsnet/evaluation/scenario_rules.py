"""What a scenario's answers show: which percentiles are known, and whether a run is VALID, as MLPerf decides it.

A percentile is a claim about queries that were not asked. MLPerf's early stopping makes it with a confidence of 99 %:
of n queries, each late with probability 1 - p, the number of late ones is binomial. So the latency at percentile p is
known to be under a bound if as few late queries as were seen would come in less than 1 % of runs of a system that is
late more often. With one late query that needs 64 queries at 90 %, 662 at 99 %; with none, 459 at 99 %
(https://github.com/mlcommons/inference, loadgen/early_stopping.cc).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from statsnet.errors import UsageError
from statsnet.signatures.scenarios import MOST_QUERIES, Answers, ScenarioName, ScenarioResult, ScenarioRules, Trial
from statsnet.units import format_duration

CONFIDENCE = 0.99

PERCENTILES = (0.5, 0.9, 0.95, 0.97, 0.99, 0.999)
"""Those that the load generator reports too."""

RESULT_PERCENTILE: dict[ScenarioName, float] = {
    "single-stream": 0.9, "multi-stream": 0.99, "offline": 0.99, "server": 0.99
}  # fmt: skip
"""At which MLPerf takes the result; offline, where throughput is the result, none is used."""

ROOM = 1.1
"""A time or a count that a hint asks for is so many times what was missing, since the next run is another one."""

MOST_LOAD = 0.95
"""Of a server: the rate of queries times the time of a step. Beyond it, ever more queries wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """The latency at percentile `share` and its upper bound, which holds with CONFIDENCE; None where fewer than `needs`
    queries were answered."""

    share: float
    needs: int
    latency_s: float | None
    bound_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run is INVALID, and the option to change."""

    text: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """VALID where there is no reason against it."""

    reasons: tuple[Reason, ...]

    @property
    def is_valid(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        if self.is_valid:
            return "VALID"
        return "INVALID: " + "; ".join(f"{r.text} (try: {r.hint})" if r.hint else r.text for r in self.reasons)


@cache
def queries_needed(share: float, late: int = 1) -> int:
    """The fewest queries of which `late` may be late, so that the latency at percentile `share` is still known to be
    under the bound: the least n for which P(Binomial(n, 1 - share) <= late) < 1 - CONFIDENCE."""
    from scipy.special import bdtrin

    return math.ceil(bdtrin(late, 1 - CONFIDENCE, 1 - share))


def percentile(latency_s: Sequence[float], share: float) -> Percentile:
    """From the latencies of all queries, in any order."""
    from scipy.special import bdtrik

    n, needs = len(latency_s), queries_needed(share)
    if n < needs:
        return Percentile(share=share, needs=needs, latency_s=None, bound_s=None)
    ordered = sorted(latency_s)
    late = int(bdtrik(1 - CONFIDENCE, n, 1 - share))  # the most that n queries allow
    return Percentile(share=share, needs=needs, latency_s=ordered[_place(n, share)], bound_s=ordered[n - late])


def _place(n: int, share: float) -> int:
    """Where percentile `share` stands among n ordered values."""
    return min(n - 1, int(n * share))


def samples_per_s(trial: Trial) -> float:
    """Offline: what all instances answered, over the time until the last of them was done."""
    return len(trial.latency_s) / max(each.completed_s for each in trial.answers)


def judge(scenario: ScenarioName, rules: ScenarioRules, trial: Trial) -> Verdict:
    """VALID if every instance's run was long enough, held enough queries, kept the bound, and the load generator finds
    nothing else. The same rules as its own, with what to change."""
    reasons = dict.fromkeys(r for each in trial.answers for r in _reasons(scenario, rules, each, trial.qps))
    return Verdict(reasons=tuple(reasons))


def judge_all(result: ScenarioResult, trials: Sequence[Trial] | None = None) -> tuple[Verdict, ...]:
    """One verdict for each of these trials (default: the result's own)."""
    judged = result.trials if trials is None else trials
    return tuple(judge(result.scenario, result.rules, trial) for trial in judged)


def _reasons(scenario: ScenarioName, rules: ScenarioRules, answers: Answers, qps: float | None) -> list[Reason]:
    found = _too_short(rules, answers)
    if scenario == "server" and rules.latency_bound_s is not None:
        over = _over(rules, rules.latency_bound_s, answers, qps)
        # A run in which too many queries wait is ended early, so that it is short tells nothing more.
        found = over or [*found, *_perhaps_late(rules, rules.latency_bound_s, answers)]
    elif scenario != "offline":
        found += _too_few(rules, answers)
        if qps is not None and _comes_too_fast(answers, qps):
            text = f"queries come every {format_duration(1 / qps)}, a step takes {format_duration(answers.step_s)}"
            found.append(Reason(text=text, hint="a lower --qps"))
    if not answers.says_valid and not found:
        cause = answers.says or "it gives no reason"
        found.append(Reason(text=f"the load generator says so: {cause}", hint="measure again"))
    return found


def _too_short(rules: ScenarioRules, answers: Answers) -> list[Reason]:
    found, count = [], len(answers.latency_s)
    if answers.duration_s < rules.min_time_s:
        text = f"it took {answers.duration_s:.4g} s of at least {format_duration(rules.min_time_s)}"
        found.append(Reason(text=text, hint=f"measure again, or --min-time {option_time(answers.duration_s / ROOM)}"))
    if count < rules.min_queries:
        text = f"{count} queries ran of at least {rules.min_queries}"
        found.append(Reason(text=text, hint=_longer(rules, count, rules.min_queries)))
    return found


def _too_few(rules: ScenarioRules, answers: Answers) -> list[Reason]:
    """Without a bound, the latency at the percentile must be known."""
    count, needs = len(answers.latency_s), queries_needed(rules.percentile)
    if count >= needs:
        return []
    text = f"{percentile_name(rules.percentile)} needs {needs} queries, {count} ran"
    return [Reason(text=text, hint=_longer(rules, count, needs))]


def is_overloaded(trial: Trial) -> bool:
    """Whether queries come about as fast as they are answered, or faster. Their latency then goes by how long the run
    was: it is no property of what answers them."""
    return any(_comes_too_fast(each, trial.qps) for each in trial.answers)


def _comes_too_fast(answers: Answers, qps: float | None) -> bool:
    return qps is not None and qps * answers.step_s > MOST_LOAD


def _over(rules: ScenarioRules, bound_s: float, answers: Answers, qps: float | None) -> list[Reason]:
    """Whether the latency at the percentile is over the bound."""
    count, at = len(answers.latency_s), percentile_name(rules.percentile)
    latency_s = sorted(answers.latency_s)[_place(count, rules.percentile)]
    if latency_s <= bound_s:
        return []
    lower = f"a --qps below {rate_text(qps)}" if qps else "a lower --qps"
    text = f"{at} is {format_duration(latency_s)}, over the bound of {format_duration(bound_s)}"
    return [Reason(text=text, hint=f"{lower}, or a longer --latency-bound")]


def _perhaps_late(rules: ScenarioRules, bound_s: float, answers: Answers) -> list[Reason]:
    """Whether it is not known to be under the bound."""
    count, late = len(answers.latency_s), sum(latency > bound_s for latency in answers.latency_s)
    needs = queries_needed(rules.percentile, late)
    if count >= needs:
        return []
    at, bound = percentile_name(rules.percentile), format_duration(bound_s)
    text = f"{at} is not known to be under {bound}: with {late} late, {needs} queries are needed, {count} ran"
    return [Reason(text=text, hint=_longer(rules, count, needs))]


def _longer(rules: ScenarioRules, count: int, needs: int) -> str:
    return f"--min-time {option_time(rules.min_time_s * needs / count * ROOM)}"


def option_time(seconds: float) -> str:
    """As options take it: rounded up from 10 s on; below, to two digits."""
    if seconds >= 10:
        return f"{math.ceil(seconds)}s"
    return f"{seconds:.2g}s" if seconds >= 1 else f"{float(f'{1e3 * seconds:.2g}'):g}ms"


def percentile_name(share: float) -> str:
    """0.99 -> `p99`, 0.999 -> `p99.9`."""
    return f"p{100 * share:g}"


def figure_s(scenario: ScenarioName, trial: Trial, share: float) -> float | None:
    """What stands for a trial in a factor, in seconds: the latency at percentile `share`, None where too few queries
    were answered for it; offline the time of a sample, so that less is better there too."""
    return 1 / samples_per_s(trial) if scenario == "offline" else percentile(trial.latency_s, share).latency_s


def rate_text(per_s: float) -> str:
    """A rate to four digits, and large ones as they are counted: 12.35, 50000."""
    return f"{per_s:.4g}" if per_s < 9999.5 else f"{per_s:.0f}"


def check_server_options(
    scenario: ScenarioName, min_time_s: float, *, qps: float | None, latency_bound_s: float | None = None
) -> None:
    """Raises UsageError for what only the server scenario has, and as `check_rate` does."""
    if scenario != "server" and (qps is not None or latency_bound_s is not None):
        option = "--qps" if qps is not None else "--latency-bound"
        raise UsageError(
            f"{option} does not belong to the scenario '{scenario}'",
            cause="only the server scenario has a rate, and a bound that latencies must keep",
            hint=f"--scenario server, or leave out {option}",
        )
    if qps is not None:
        check_rate(qps, min_time_s)


def check_rate(qps: float, min_time_s: float) -> None:
    """Raises UsageError for what is no rate, or asks for more queries than a run may hold."""
    if not (qps > 0 and math.isfinite(qps)):
        raise UsageError(
            f"{qps:g} is not a rate of queries", cause="a positive number per second is expected", hint="--qps 20"
        )
    if qps * min_time_s > MOST_QUERIES:
        raise UsageError(
            f"{rate_text(qps)} queries a second for {format_duration(min_time_s)} are more than one run holds",
            cause=f"a result keeps the latency of every query, {MOST_QUERIES:,} at most",
            hint=f"--min-time {max(1, int(0.5 * MOST_QUERIES / qps))}s",
        )
