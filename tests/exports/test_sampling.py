"""Some distinct layers in place of all: the budget, the sums, and what keeps its repeats."""

from __future__ import annotations

import numpy as np
import pytest
from clusters import mm, relu, signature
from exporting import small_manifest

from statsnet.errors import UsageError
from statsnet.exports.build_manifest import manifest_of_mix, manifest_of_signature
from statsnet.exports.conformance import check_exporter
from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import all_formats
from statsnet.exports.sampling import sampled
from statsnet.exports.systolic import DATAFLOWS, SPREAD, Design, total_cycles
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix

UNSEEN = [Design(size, size, dataflow) for size in (16, 32, 128) for dataflow in DATAFLOWS]


def cycles_of(manifest: Manifest) -> np.ndarray:
    return total_cycles([(p, layer.repeats * p.repeats) for layer in manifest.layers for p in layer.products], UNSEEN)


def test_half_of_the_multiply_adds_give_the_suite_s_relative_speeds() -> None:
    assert not set(UNSEEN) & set(SPREAD)
    suite = manifest_of_mix(resolve_mix("cv/mobilenet_v2:0.5,cv/resnet50:0.5", "inference", ProfilesDB()))
    some = sampled(suite)
    assert some.layer_mode == "sampled"
    assert some.totals.simulated_macs <= suite.suite_macs / 2
    ratio = cycles_of(some) / cycles_of(suite)
    assert ratio.max() / ratio.min() < 1.01
    whole = {layer.index: layer for layer in suite.layers}
    for layer in some.layers:
        assert layer.products == whole[layer.index].products and layer.args == whole[layer.index].args
        if not layer.products:
            assert layer.repeats == whole[layer.index].repeats
    assert "at full size, with fitted repeats" in some.not_preserved[0]


def test_every_format_takes_them() -> None:
    some = sampled(small_manifest(), macs=30_000)
    assert some.totals.simulated_macs <= 30_000
    for exporter in all_formats().values():
        check_exporter(exporter, some)


def test_what_cannot_be_sampled_is_said() -> None:
    with pytest.raises(UsageError, match="no matrix products"):
        sampled(manifest_of_signature(signature(relu(8)), "relu"))
    with pytest.raises(UsageError, match="no layer takes as little as 500"):
        sampled(manifest_of_signature(signature(mm(10, 10, 10)), "one"), macs=500)
