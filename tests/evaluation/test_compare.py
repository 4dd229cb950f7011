from __future__ import annotations

import json
from typing import Any

import pytest

from statsnet.errors import UsageError
from statsnet.evaluation.compare import compare

ENVIRONMENT = {"device": "cpu", "device_name": "A CPU", "threads": 2, "settings": {}}


def process(seconds: float, **changes: Any) -> dict[str, Any]:
    return {"latency_s": [seconds], "warmup_latency_s": [], "stable": True, "warnings": [], **changes}


def proxy(*seconds: float, **environment: Any) -> dict[str, Any]:
    return {
        "kind": "statsnet.result",
        "schema_version": 1,
        "subject": {"type": "proxy", "id": "sha256:1", "mode": "inference"},
        "environment": ENVIRONMENT | environment,
        "processes": [process(s) for s in seconds],
    }


def suite(first: float, second: float, evidence: str = "model", **environment: Any) -> dict[str, Any]:
    members = [("cv/one", 0.75, 2.0, first, "model"), ("nlp/two", 0.25, 4.0, second, evidence)]
    return {
        "kind": "statsnet.result",
        "schema_version": 1,
        "subject": {"type": "suite", "id": "sha256:1", "mode": "inference"},
        "environment": ENVIRONMENT | environment,
        "members": [
            {
                "name": name,
                "weight": weight,
                "latency_s_reference": reference,
                "processes": [process(seconds)] * 2,
                "evidence": kind,
            }
            for name, weight, reference, seconds, kind in members
        ],
    }


def test_a_proxys_factor_speedup_and_verdict() -> None:
    found = compare(proxy(2.0, 2.0), proxy(1.0, 1.0, threads=8))
    assert found.factor.value == 0.5
    assert found.speedup == 2.0
    assert found.factor.significant
    assert found.verdict == "2 times faster (2 to 2)"
    assert found.differences == ["threads: 2 against 8"]
    assert found.warnings == []


def test_noise_is_not_a_difference() -> None:
    found = compare(proxy(1.0, 1.2, 0.9), proxy(1.1, 0.95, 1.05, threads=1))
    assert found.factor.significant is False
    assert found.verdict.startswith("no significant difference")


def test_one_process_proves_nothing() -> None:
    found = compare(proxy(1.0), proxy(2.0, threads=1))
    assert found.factor.significant is None
    assert "can not be told from one process" in found.verdict
    assert any("--processes" in warning for warning in found.warnings)


def test_identical_environments_are_named() -> None:
    found = compare(proxy(1.0, 1.0), proxy(1.0, 1.0))
    assert found.to_dict()["environments_identical"]
    assert any("same environment" in warning for warning in found.warnings)


def test_noisy_processes_are_passed_on() -> None:
    noisy = proxy(1.0, 1.0)
    noisy["processes"][0] |= {"stable": False, "warnings": ["other programs"]}
    found = compare(proxy(1.0, 1.0, threads=1), noisy)
    assert "1 of 2 processes of the second result were not stable" in found.warnings
    assert "second result: other programs" in found.warnings


def test_a_suites_factor_where_a_is_the_reference() -> None:
    # Σ w_i T_i(b) / T_i(a), a being the environment that the weights are from.
    found = compare(suite(2.0, 4.0), suite(2.0, 20.0, threads=1))
    assert found.factor.value == pytest.approx(0.75 * 1 + 0.25 * 5)
    assert [member.factor.value for member in found.members] == pytest.approx([1.0, 5.0])
    assert found.to_dict()["geometric_mean"] == pytest.approx(5**0.5)


def test_a_suites_factor_between_two_other_environments() -> None:
    # F(a) = .75·2 + .25·1 and F(b) = .75·1 + .25·5, both against the reference.
    found = compare(suite(4.0, 4.0), suite(2.0, 20.0, threads=1))
    assert found.factor.value == pytest.approx(2.0 / 1.75)


def test_a_replay_is_called_weaker() -> None:
    found = compare(suite(2.0, 4.0), suite(2.0, 20.0, evidence="replay", threads=1))
    assert found.members[1].evidence == "replay"
    assert any("25% of the suite is a replay" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "sha256:2"}, "not of the same subject"),
        ({"mode": "training"}, "not of the same mode"),
        ({"type": "suite"}, "not of the same type"),
    ],
)
def test_results_of_different_things_are_refused(change: dict[str, str], message: str) -> None:
    other = proxy(1.0)
    other["subject"] = other["subject"] | change
    with pytest.raises(UsageError, match=message):
        compare(proxy(1.0), other)


def test_other_kinds_of_file_are_refused() -> None:
    with pytest.raises(UsageError, match="signature can not be compared"):
        compare(proxy(1.0), {"kind": "statsnet.signature"})


@pytest.mark.parametrize("key", ["name", "weight", "latency_s_reference"])
def test_other_suites_are_refused(key: str) -> None:
    other = suite(2.0, 4.0)
    other["members"][0][key] = "x" if key == "name" else 0.5
    with pytest.raises(UsageError, match="not of the same suite"):
        compare(suite(2.0, 4.0), other)


def test_to_dict_is_json() -> None:
    found = compare(suite(2.0, 4.0), suite(2.0, 20.0, threads=1)).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
