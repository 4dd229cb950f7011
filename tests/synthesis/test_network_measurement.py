"""Which processes count, of those in which one network was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_matched_characteristics import small_signature

from statsnet.synthesis.network_measurement import (
    DISTURBED,
    NetworkMeasurement,
    merge_undisturbed_runs,
    scale_times,
)


def whole(latency_factor: float, drift: float) -> NetworkMeasurement:
    signature = small_signature()
    measurement = scale_times(signature.measurements[0], latency_factor)
    return NetworkMeasurement(
        signature=replace(signature, measurements=(measurement,)), build_s=0.0, blocks=[[[]]], drift=drift
    )


def latency_s(found: NetworkMeasurement) -> float:
    return found.signature.measurements[0].latency_s


def test_processes_that_agree_all_count() -> None:
    found = merge_undisturbed_runs([whole(1.0, 1.0), whole(1.02, 0.95), whole(1.05, 1.1)])
    assert len(found.blocks) == 3


def test_a_process_with_a_busy_neighbour_does_not_count() -> None:
    found = merge_undisturbed_runs([whole(1.5 * DISTURBED, 1.0), whole(1.0, 1.1), whole(1.0, 1.1)])
    assert len(found.blocks) == 2
    assert latency_s(found) == latency_s(whole(1.0, 1.0))


@pytest.mark.parametrize("slower", [1.25, 3.0])
def test_a_step_that_looks_fast_because_its_reference_network_was_slow_does_not_count(slower: float) -> None:
    """The neighbour was there for the reference_network alone."""
    found = merge_undisturbed_runs([whole(1.0 / slower, slower), whole(1.0, 1.05), whole(1.0, 1.05)])
    assert latency_s(found) == latency_s(whole(1.0, 1.0))
    assert found.drift == pytest.approx(1.05)
