"""What a workload is made of, from its signature."""

from __future__ import annotations

import pytest

from statsnet.analysis.characteristics import HOTSPOT, MOST_OF_IT, characteristics_of, hotspots_by_category
from statsnet.analysis.database import NamedSignature, measured_signatures


@pytest.fixture(scope="module", params=["inference", "training"])
def signatures(request: pytest.FixtureRequest) -> list[NamedSignature]:
    return measured_signatures(["*"], request.param)[1]


def test_shares_are_of_the_step(signatures: list[NamedSignature]) -> None:
    for named in signatures:
        one, signature = characteristics_of(named), named.signature
        measurement = signature.measurements[0]
        operators = measurement.operator_time_s / measurement.latency_s
        assert sum(one.categories.values()) == pytest.approx(operators)
        assert sum(one.phases.values()) == pytest.approx(operators)
        assert sum(one.functions.values()) == pytest.approx(1.0)
        assert list(one.functions.values()) == sorted(one.functions.values(), reverse=True)
        assert ("backward" in one.phases) == (signature.mode == "training")


def test_leading_functions_hold_most_of_it(signatures: list[NamedSignature]) -> None:
    for named in signatures:
        one = characteristics_of(named)
        held = list(one.functions.values())
        assert sum(held[: one.leading]) >= MOST_OF_IT
        assert sum(held[: one.leading - 1]) < MOST_OF_IT
        assert all(one.functions[name] > HOTSPOT for name in one.hotspots)


def test_hotspots_are_counted_once_for_each_workload(signatures: list[NamedSignature]) -> None:
    characteristics = [characteristics_of(s) for s in signatures]
    counts = hotspots_by_category(characteristics, signatures)
    assert sum(counts.values()) == sum(len(one.hotspots) for one in characteristics)
