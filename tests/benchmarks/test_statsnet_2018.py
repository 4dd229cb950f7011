"""The comparison with the network of 2018: closed forms, and the published figures against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.diagnostics.statsnet_2018 import STATSNET_3C, earth_movers_distance, layers_of
from statsnet.signatures.model import Cluster


def test_moving_a_share_to_twice_the_size_costs_one() -> None:
    assert earth_movers_distance({7: 1.0}, {14: 5.0}) == pytest.approx(1.0)
    assert earth_movers_distance({7: 1.0, 56: 1.0}, {7: 1.0, 14: 1.0}) == pytest.approx(0.5 * 2)
    assert earth_movers_distance({7: 2.0, 14: 4.0}, {7: 1.0, 14: 2.0}) == 0.0


def test_published_figures_add_up() -> None:
    assert STATSNET_3C.macs == pytest.approx(17.51e9, rel=0.001)
    assert sum(STATSNET_3C.macs_by_kernel.values()) == pytest.approx(STATSNET_3C.macs, rel=0.001)


def test_layers_of_a_convolution() -> None:
    """2 images, 3 → 8 channels, 5 x 5 windows, maps of 28 x 28; it runs three times."""
    x, weight, y = ({"shape": s, "dtype": "float32"} for s in ([2, 3, 28, 28], [8, 3, 5, 5], [2, 8, 28, 28]))
    macs = 2 * 8 * 28 * 28 * 3 * 25
    cluster = Cluster(
        op="aten.convolution.default", phase="forward", category="convolution", calls=3.0, outputs=(y,),
        args=(x, weight, None, [1, 1], [2, 2], [1, 1], False, [0, 0], 1), flops=2.0 * macs, bytes_read=600.0,
        bytes_written=400.0,
    )  # fmt: skip
    layers = layers_of([(cluster, 3.0)])
    assert layers.macs_by_map == {28: 3 * macs}
    assert layers.macs_by_kernel == {5: 3 * macs}
    assert layers.conv_activations == 3 * 2 * 8 * 28 * 28
    assert layers.conv_parameters == layers.parameters == 3 * 8 * 3 * 25
    assert layers.flops_per_byte == pytest.approx(2 * macs / 1000)
    strip = replace(cluster, outputs=({**y, "shape": [2, 8, 7, 28]},))
    assert layers_of([(strip, 1.0)]).macs_by_map == {14: macs}
