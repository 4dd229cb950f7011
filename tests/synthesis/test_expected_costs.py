"""What a candidate may cost that was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_builders import alone, candidate, part

from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.expected_costs import expected


def linear(rows: int, inputs: int = 8, *, time_s: float = 1e-3, uses: int = 1) -> Candidate:
    looped = {"uses": uses} if uses > 1 else {}
    return replace(candidate("linear", rows=rows, inputs=inputs, outputs=8, activation="", **looped), time_s=time_s)


MEASURED = alone(part("gemm", 2e-3, 1e-4, flops=1e4, bytes=1e5, weights=256.0, calls=1.0))


@given(factor=st.integers(2, 64), slower=st.floats(0.5, 40))
def test_a_larger_one_takes_as_much_more_as_was_estimated(factor: int, slower: float) -> None:
    known, wanted = linear(16), linear(16 * factor, time_s=1e-3 * slower)
    ((found, measurement),) = expected([wanted], [(known, MEASURED)])
    (row,) = measurement.block.operators
    assert found is wanted
    assert row.time_s == pytest.approx(2e-3 * slower)
    assert (row.flops, row.bytes) == pytest.approx((1e4 * factor, 1e5 * factor))
    assert (row.weights, row.calls) == (256.0, 1.0)
    assert measurement.block.framework_s == 1e-4


def test_a_wider_one_reads_more_weights() -> None:
    ((_, measurement),) = expected([linear(16, inputs=32)], [(linear(16), MEASURED)])
    (row,) = measurement.block.operators
    assert row.weights > 256.0 and row.flops == 4e4


def test_a_loop_has_more_of_the_same_calls() -> None:
    ((_, measurement),) = expected([linear(16, uses=8)], [(linear(16, uses=2), MEASURED)])
    assert measurement.block.operators[0].calls == 4.0
    assert measurement.block.framework_s == 4e-4


def test_the_optimizer_goes_by_the_parameters() -> None:
    known = alone(part("gemm", 1e-3), part("step", 4e-4, 1e-5))
    ((_, same), (_, wider)) = expected([linear(64), linear(16, inputs=17)], [(linear(16), known)])
    assert same.optimizer == known.optimizer
    assert wider.optimizer.operators[0].time_s == pytest.approx(4e-4 * (17 * 8 + 8) / (8 * 8 + 8))
    assert wider.optimizer.framework_s == 1e-5


def test_the_nearest_relative_tells() -> None:
    """Both take as long as the wanted one; but one of them has its shape."""
    narrow, wide = linear(16), linear(16, inputs=4096)
    known = [(narrow, alone(part("narrow", 1e-3))), (wide, alone(part("wide", 1e-3)))]
    found = expected([linear(32), linear(16, inputs=2048)], known)
    assert [m.block.operators[0].kernel_class for _, m in found] == ["narrow", "wide"]


def test_nothing_is_expected_of_a_family_of_which_nothing_was_measured() -> None:
    assert expected([replace(linear(32), family="other")], [(linear(16), MEASURED)]) == []
    assert expected([linear(32)], []) == []
