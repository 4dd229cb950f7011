"""Layers for simulators beside other ways to choose some."""

from __future__ import annotations

import os

import numpy as np
import pytest
from clusters import addmm, convolution, mm, signature, tensor
from exporting import mix_of

from benchmarks.presilicon import DESIGNS, rows_of_mix, table
from benchmarks.simulators import GENZ_SYSTEMS, config_of, genz_times
from benchmarks.ways.small_layers import Layers, halved, most_expensive, randomly_chosen, ranking
from statsnet.exports.systolic import SPREAD, Design
from statsnet.signatures.products import Product

LARGE, SMALL = Product(rows=512, columns=256, depth=256), Product(rows=9, columns=5, depth=3)
LAYERS = Layers(((LARGE, 2.0), (SMALL, 10.0)))


def test_a_ranking_counts_pairs_that_differ_and_those_that_are_ordered_otherwise() -> None:
    found = ranking(np.array([100.0, 103.0, 200.0]), np.array([50.0, 40.0, 45.0]))
    assert (found.pairs, found.misordered) == (2, 1)
    assert found.relative_error == pytest.approx((50 / 100) / (45 / 200) - 1)
    assert ranking(np.array([1.0, 2.0]), np.array([3.0, 6.0])).factor == pytest.approx(3)


def test_the_naive_ways() -> None:
    assert [p for p, _ in halved(LAYERS).products] == [Product(rows=256, columns=128, depth=128),
                                                       Product(rows=5, columns=3, depth=2)]  # fmt: skip
    assert most_expensive(LAYERS, 1).products == LAYERS.products[:1]
    assert len(randomly_chosen(LAYERS, 1, DESIGNS).products) == 1
    assert LAYERS.macs == LARGE.dense_macs + SMALL.dense_macs


def test_designs_that_check_scaled_layers_have_no_part_in_choosing_them() -> None:
    assert not set(DESIGNS) & set(SPREAD)


def test_distinct_layers_are_exact_and_scaled_ones_keep_the_budget() -> None:
    one = signature(convolution(tensor(4, 64, 28, 28), tensor(64, 64, 3, 3), padding=1, calls=3), addmm(256, 512, 512))
    mix = mix_of(one=(1.0, one), other=(1.0, signature(mm(64, 256, 1024, calls=7))))
    rows = {row.way: row for row in rows_of_mix("two", mix, 20_000_000, 32, None)}
    assert rows["distinct"].relative_error < 1e-9 and rows["distinct"].factor == pytest.approx(1)
    assert rows["distinct"].suite_macs == 3 * 4 * 28 * 28 * 64 * 64 * 9 + 256 * 512 * 512 + 7 * 64 * 256 * 1024
    assert rows["scaled"].macs <= 20_000_000
    assert rows["scaled"].relative_error < 0.5 * rows["every dim halved"].relative_error
    assert table(list(rows.values())).count("\n") == 1 + len(rows)


def test_an_array_s_configuration() -> None:
    text = config_of(Design(8, 16, "os"))
    assert "ArrayHeight: 8\n" in text and "ArrayWidth: 16\n" in text and "Dataflow: os\n" in text


def test_genz_models_a_roofline() -> None:
    """GenZ is too large for the environment of the other simulators, so this runs where somebody has it."""
    if not (python := os.environ.get("STATSNET_GENZ")):
        pytest.skip("the Python of an environment with genz-llm is wanted in STATSNET_GENZ")
    layers = [Product(rows=512, columns=256, depth=128), Product(rows=32, columns=2048, depth=4096)]
    expected = [
        [1e3 * max(2 * p.macs / (rate * 1e12), 2 * sum(p.operand_elements) / (width * 2**30))
         for rate, width in GENZ_SYSTEMS] for p in layers
    ]  # fmt: skip
    assert genz_times(python, layers, GENZ_SYSTEMS) == pytest.approx(np.array(expected), rel=1e-6)
