"""Which processes count, of those in which one network was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthesis_builders import small_signature

from statsnet.signatures.model import Signature
from statsnet.synthesis.bench.disturbances import PROCESSES_DIFFER
from statsnet.synthesis.bench.network_measurement import (
    NetworkMeasurement,
    merge_signatures,
    merge_undisturbed_runs,
)


def process(latency_factor: float, drift: float) -> NetworkMeasurement:
    signature = small_signature()
    measurement = signature.measurements[0].scale_times(latency_factor)
    signature = replace(signature, measurements=(measurement,))
    return NetworkMeasurement(signature=signature, build_s=0.0, blocks=(((),),), drift=drift)


def test_processes_that_agree_all_count() -> None:
    merged = merge_undisturbed_runs([process(1.0, 1.0), process(1.02, 0.95), process(1.05, 1.1)])
    assert len(merged.blocks) == 3


def test_a_process_with_a_busy_neighbour_does_not_count() -> None:
    merged = merge_undisturbed_runs([process(1.5 * PROCESSES_DIFFER, 1.0), process(1.0, 1.1), process(1.0, 1.1)])
    assert len(merged.blocks) == 2
    assert merged.latency_s == process(1.0, 1.0).latency_s


@pytest.mark.parametrize("slower", [1.25, 3.0])
def test_a_step_that_looks_fast_because_its_reference_network_was_slow_does_not_count(slower: float) -> None:
    """The neighbour was there for the reference network alone."""
    merged = merge_undisturbed_runs([process(1.0 / slower, slower), process(1.0, 1.05), process(1.0, 1.05)])
    assert merged.latency_s == process(1.0, 1.0).latency_s
    assert merged.drift == pytest.approx(1.05)


def with_times(latency_s: float, *times_s: float) -> Signature:
    signature = small_signature()
    measurement = replace(signature.measurements[0], step_latency_s=(latency_s,), cluster_time_s=times_s)
    return replace(signature, measurements=(measurement,))


def test_several_processes_count_operator_by_operator() -> None:
    runs = [with_times(0.010, 0.004, 0.003), with_times(0.011, 0.006, 0.001), with_times(0.015, 0.005, 0.009)]
    together = merge_signatures(runs, 1).measurements[0]
    assert together.cluster_time_s == (0.005, 0.001)  # in two of them, something slowed down the second operator
    assert together.latency_s == 0.011
    assert len(together.step_latency_s) == 3


def test_processes_that_ran_other_operators_are_not_mixed() -> None:
    other = replace(with_times(0.010, 0.004, 0.003), clusters=small_signature().clusters[::-1])
    runs = [other, with_times(0.011, 0.006, 0.001)]
    assert merge_signatures(runs, 1) == runs[1]
