"""Rough times of blocks that were not measured."""

from __future__ import annotations

import pytest

from statsnet.synthesis.candidates.estimate import BYTE_RATE, CALL_S, FLOP_RATE, estimate_s


def test_a_products_training_step_is_three_products_and_the_optimizers_passes() -> None:
    config = {"rows": 64, "inputs": 512, "outputs": 256, "bias": False, "activation": "", "weight_first_axis_in": False}
    flops, elements, weights = 2 * 64 * 512 * 256, 2 * 64 * 512, 512 * 256
    inference, _ = estimate_s("linear", config, training=False)
    assert inference == pytest.approx(CALL_S + flops / FLOP_RATE + 4 * (elements + weights) / BYTE_RATE)
    training, optimizer = estimate_s("linear", config, training=True, optimizer="sgd")
    moved = 12 * (elements + weights)
    assert training == pytest.approx(4 * CALL_S + 3 * flops / FLOP_RATE + moved / BYTE_RATE)
    assert optimizer == pytest.approx(4 * 3 * weights / BYTE_RATE)


@pytest.mark.parametrize(("sparse", "zeros"), [(True, 0), (False, 10_000 * 64 - 100 * 64)])
def test_a_tables_gradient_is_zeros_but_for_the_rows_that_were_read(sparse: bool, zeros: int) -> None:
    config = {"rows": 10_000, "width": 64, "indices": 100, "skew": 0.0, "sparse": sparse}
    read = 100 * 64
    training, optimizer = estimate_s("embedding", config, training=True, optimizer="sgd")
    assert training == pytest.approx(4 * CALL_S + (12 * (read + read) + 4 * zeros) / BYTE_RATE)
    assert optimizer == pytest.approx(4 * 3 * (read + zeros) / BYTE_RATE)
