"""Results of scenarios, put together by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statsnet.evaluation.scenario_rules import RESULT_PERCENTILE
from statsnet.signatures.results import Subject
from statsnet.signatures.scenarios import Answers, ScenarioName, ScenarioResult, ScenarioRules, Trial

ENVIRONMENT = {"device": "cpu", "device_name": "Z80", "threads": 1}


def answers(latency_s: Sequence[float], *, duration_s: float = 1.0, **changes: Any) -> Answers:
    given = {"completed_s": duration_s, "step_s": 0.001, "says_valid": True, **changes}
    return Answers(latency_s=tuple(latency_s), duration_s=duration_s, **given)


def trial(latency_s: Sequence[float], *, qps: float | None = None, threads: int = 1, **changes: Any) -> Trial:
    return Trial(answers=(answers(latency_s, **changes),), qps=qps, threads=threads)


def scenario_result(
    scenario: ScenarioName, *trials: Trial, subject: str = "a", bound_s: float | None = None, **changes: Any
) -> ScenarioResult:
    rules = ScenarioRules(min_time_s=0.5, percentile=RESULT_PERCENTILE[scenario], latency_bound_s=bound_s)
    fields = {"environment": ENVIRONMENT, "rules": rules, **changes}
    return ScenarioResult(
        subject=Subject(type="proxy", id="sha256:" + subject * 64, mode="inference"),
        scenario=scenario,
        trials=trials,
        **fields,
    )
