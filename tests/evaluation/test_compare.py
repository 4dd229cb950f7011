from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from statsnet.errors import UsageError
from statsnet.evaluation.compare import compare
from statsnet.signatures.results import Evidence, Result, ResultMember, Subject
from statsnet.signatures.timing import Timing

ENVIRONMENT = {"device": "cpu", "device_name": "A CPU", "threads": 2, "settings": {}}


def proxy(*seconds: float, **environment: Any) -> Result:
    return Result(
        subject=Subject(type="proxy", id="sha256:1", mode="inference"),
        environment=ENVIRONMENT | environment,
        processes=tuple(Timing(latency_s=(s,)) for s in seconds),
    )


def suite(first: float, second: float, evidence: Evidence = "model", **environment: Any) -> Result:
    def member(name: str, weight: float, reference_s: float, time_s: float, kind: Evidence) -> ResultMember:
        processes = (Timing(latency_s=(time_s,)),) * 2
        return ResultMember(
            name=name, weight=weight, latency_s_reference=reference_s, processes=processes, evidence=kind
        )

    return Result(
        subject=Subject(type="suite", id="sha256:1", mode="inference"),
        environment=ENVIRONMENT | environment,
        members=(
            member("cv/one", 0.75, 2.0, first, "model"),
            member("nlp/two", 0.25, 4.0, second, evidence),
        ),
    )


def test_a_proxys_factor_speedup_and_verdict() -> None:
    comparison = compare(proxy(2.0, 2.0), proxy(1.0, 1.0, threads=8))
    assert comparison.factor.value == 0.5
    assert comparison.speedup == 2.0
    assert comparison.factor.significant
    assert comparison.verdict == "2 times faster"
    assert comparison.differences == ["threads: 2 against 8"]
    assert comparison.warnings == []


def test_noise_is_not_a_difference() -> None:
    comparison = compare(proxy(1.0, 1.2, 0.9), proxy(1.1, 0.95, 1.05, threads=1))
    assert comparison.factor.significant is False
    assert comparison.verdict.startswith("no difference shown (")


def test_one_process_proves_nothing() -> None:
    comparison = compare(proxy(1.0), proxy(2.0, threads=1))
    assert comparison.factor.significant is None
    assert "cannot be told from one process" in comparison.verdict
    assert any("--processes" in warning for warning in comparison.warnings)


def test_identical_environments_are_named() -> None:
    comparison = compare(proxy(1.0, 1.0), proxy(1.0, 1.0))
    assert comparison.to_dict()["environments_identical"]
    assert any("same environment" in warning for warning in comparison.warnings)


def test_noisy_processes_are_passed_on() -> None:
    calm = Timing(latency_s=(1.0,))
    noisy = replace(calm, stable=False, warnings=("other programs",))
    comparison = compare(proxy(1.0, 1.0, threads=1), replace(proxy(1.0), processes=(noisy, calm)))
    assert "second: 1 of 2 processes were not stable" in comparison.warnings
    assert "second: other programs" in comparison.warnings


def test_a_suites_factor_where_a_is_the_reference() -> None:
    # Σ w_i T_i(b) / T_i(a), a being the environment that the weights are from.
    comparison = compare(suite(2.0, 4.0), suite(2.0, 20.0, threads=1))
    assert comparison.factor.value == pytest.approx(0.75 * 1 + 0.25 * 5)
    assert [member.factor.value for member in comparison.members] == pytest.approx([1.0, 5.0])
    assert comparison.to_dict()["geometric_mean"] == pytest.approx(5**0.5)


def test_a_suites_factor_between_two_other_environments() -> None:
    # F(a) = .75·2 + .25·1 and F(b) = .75·1 + .25·5, both against the reference.
    comparison = compare(suite(4.0, 4.0), suite(2.0, 20.0, threads=1))
    assert comparison.factor.value == pytest.approx(2.0 / 1.75)


def test_a_replay_is_called_weaker() -> None:
    comparison = compare(suite(2.0, 4.0), suite(2.0, 20.0, evidence="replay", threads=1))
    assert comparison.members[1].evidence == "replay"
    assert any("25% of the suite is a replay" in warning for warning in comparison.warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "sha256:2"}, "not of the same subject"),
        ({"mode": "training"}, "not of the same mode"),
        ({"type": "suite"}, "not of the same type"),
    ],
)
def test_results_of_different_things_are_refused(change: dict[str, Any], message: str) -> None:
    result = proxy(1.0)
    other = replace(result, subject=replace(result.subject, **change))
    with pytest.raises(UsageError, match=message):
        compare(result, other)


@pytest.mark.parametrize("key", ["name", "weight", "latency_s_reference"])
def test_other_suites_are_refused(key: str) -> None:
    result = suite(2.0, 4.0)
    assert result.members is not None
    first, second = result.members
    change: dict[str, Any] = {key: "x" if key == "name" else 0.5}
    other = replace(result, members=(replace(first, **change), second))
    with pytest.raises(UsageError, match="not of the same suite"):
        compare(result, other)


def test_to_dict_is_json() -> None:
    data = compare(suite(2.0, 4.0), suite(2.0, 20.0, threads=1)).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
