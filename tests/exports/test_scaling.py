"""Scaled layers: the budget, the quantum, what is predicted and what is said."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from clusters import addmm, cluster, convolution, mm, relu, signature, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.errors import UsageError
from statsnet.exports import scaling
from statsnet.exports.build_manifest import manifest_of_mix, manifest_of_signature
from statsnet.exports.chakra import Chakra
from statsnet.exports.manifest import Manifest, manifest_json
from statsnet.exports.pursuit import choose
from statsnet.exports.registry import export
from statsnet.exports.scaling import USUAL_MACS, scaled, sizes_of_axis, usual_budgets
from statsnet.exports.systolic import DATAFLOWS, SPREAD, Design, total_cycles
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix

UNSEEN = [Design(size, size, dataflow) for size in (16, 32, 128) for dataflow in DATAFLOWS]


def cycles_of(manifest: Manifest, designs: list[Design]) -> np.ndarray:
    return total_cycles([(p, layer.repeats * p.repeats) for layer in manifest.layers for p in layer.products], designs)


def mixed() -> Manifest:
    return manifest_of_mix(
        resolve_mix("recsys/dlrm:0.3,cv/mobilenet_v2:0.4,cv/resnet50:0.3", "inference", ProfilesDB())
    )


def test_cycles_follow_the_suite_on_designs_that_were_not_looked_at() -> None:
    """Every pair of designs that differ by more than 5 % is ordered alike, and relative speeds are within 10 %."""
    assert not set(UNSEEN) & set(SPREAD)
    suite = mixed()
    proxy = scaled(suite, macs=4_000_000)
    before, after = cycles_of(suite, UNSEEN), cycles_of(proxy, UNSEEN)
    ratio = after / before
    assert ratio.max() / ratio.min() < 1.10
    for i, j in zip(*np.nonzero(before[:, None] > 1.05 * before), strict=True):
        assert after[i] > after[j], (UNSEEN[i], UNSEEN[j])
    assert suite.totals.macs > 1000 * proxy.totals.simulated_macs


@pytest.mark.parametrize(("macs", "quantum"), [(5_000_000, 32), (1_000_000, 16), (200_000, 8)])
def test_the_budget_and_the_quantum_are_kept(macs: int, quantum: int) -> None:
    made = scaled(mixed(), macs=macs, quantum=quantum)
    assert 0 < sum(p.dense_macs for layer in made.layers for p in layer.products) <= macs
    for layer in made.layers:
        assert layer.scaling is not None
        (product,) = layer.products
        original = layer.scaling.unscaled
        channels = [p.depth // (math.prod(p.window.kernel) if p.window else 1) for p in (product, original)]
        pairs = [(product.rows, original.rows), (product.columns, original.columns), (channels[0], channels[1])]
        assert all(size % quantum == 0 or size < quantum for size, _ in pairs), layer
        assert all(size <= before for size, before in pairs[:2])


def test_what_was_cut_is_declared_and_predicted() -> None:
    made = scaled(manifest_of_signature(signature(addmm(4096, 512, 1024)), "one"), macs=2_000_000, quantum=32)
    assert made.layer_mode == "scaled"
    for layer in made.layers:
        scaling = layer.scaling
        assert scaling is not None and scaling.of_operator == "aten.addmm.default"
        for cut in scaling.cuts:
            assert cut.unscaled == getattr(scaling.unscaled, cut.axis)
            assert cut.factor * cut.size == pytest.approx(cut.unscaled)
        p = scaling.prediction
        assert 0 < p.utilisation <= 1 and 0 < p.utilisation_unscaled <= 1
        assert p.working_set_bytes < p.working_set_bytes_unscaled == 4 * (4096 * 512 + 512 * 1024 + 4096 * 1024)
        assert p.intensity_unscaled == pytest.approx(2 * 4096 * 512 * 1024 / p.working_set_bytes_unscaled)
    share = math.fsum(layer.scaling.macs_share for layer in made.layers if layer.scaling)
    assert f"stand for {share:.1%} of the suite's" in made.not_preserved[0]


def test_a_scaled_convolution_is_one_image_without_groups() -> None:
    layer = convolution(tensor(8, 64, 56, 56), tensor(64, 64, 3, 3), padding=1, stride=2)
    made = scaled(manifest_of_signature(signature(layer), "one"), macs=3_000_000, quantum=32)
    for found in made.layers:
        window = found.products[0].window
        assert window is not None and (window.images, window.groups, window.kernel) == (1, 1, (3, 3))
        assert found.products[0].rows == math.prod(window.out_size)
        assert window.in_size == tuple((o - 1) * 2 + 3 for o in window.out_size)
        assert found.args[0]["shape"] == [1, window.in_channels, *window.in_size]
        assert found.scaling is not None  # tensors as they lie in memory, not every window of them side by side
        elements = 8 * 64 * 56 * 56 + 64 * 64 * 9 + 8 * 64 * 28 * 28
        assert found.scaling.prediction.working_set_bytes_unscaled == 4 * elements


def test_what_is_not_preserved_is_said_and_listed() -> None:
    made = scaled(manifest_of_signature(signature(mm(512, 512, 512), relu(100_000)), "two"), macs=10**6, quantum=32)
    assert [row.operator for row in made.left_out] == ["aten.relu.default"]
    assert made.left_out[0].time_share and made.left_out[0].time_share > 0
    words = " ".join(made.not_preserved)
    for subject in ("cycles", "utilisation", "cache", "order of layers", "no matrix products"):
        assert subject in words
    assert json.loads(manifest_json(made))["not_preserved"] == list(made.not_preserved)


def test_the_same_request_gives_the_same_bytes() -> None:
    assert manifest_json(scaled(mixed(), macs=10**6, quantum=32)) == manifest_json(
        scaled(mixed(), macs=10**6, quantum=32)
    )


def test_requests_that_cannot_be_met() -> None:
    with pytest.raises(UsageError, match="no matrix products"):
        scaled(manifest_of_signature(signature(relu(8)), "relu"), macs=10**6, quantum=32)
    with pytest.raises(UsageError, match="as little as 1,000 multiply-adds"):
        scaled(manifest_of_signature(signature(mm(64, 64, 64)), "one"), macs=1000, quantum=32)


@given(st.integers(1, 5000), st.sampled_from([1, 8, 32]), st.sampled_from([1, 9]))
def test_sizes_of_an_axis(units: int, quantum: int, taps: int) -> None:
    sizes = sizes_of_axis(units * taps, quantum, taps)
    assert sizes == sorted(set(sizes)) and sizes[-1] <= units * taps
    assert all(size % (quantum * taps) == 0 for size in sizes) or sizes == [units * taps]


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_a_sum_of_a_few_columns_is_found_within_its_budget(seed: int, count: int) -> None:
    random = np.random.RandomState(seed)
    columns, cost = random.uniform(0.1, 1.0, (12, 40)), random.uniform(1.0, 2.0, 40)
    places = random.choice(40, count, replace=False)
    target = columns[:, places] @ random.uniform(0.5, 2.0, count)
    choice = choose(columns, target, cost, float(cost[places].sum()) + 2.0, most=count + 1)
    assert cost[list(choice.places)].sum() <= cost[places].sum() + 2.0 and len(choice.places) <= count + 1
    assert (choice.weights > 0).all()
    left = target - columns[:, choice.places] @ choice.weights
    assert choice.error == pytest.approx(math.sqrt(float(np.mean(left**2))))
    assert choice.error < 0.2 * math.sqrt(float(np.mean(target**2)))


def test_signed_repeats_come_nearer_with_fewer_multiply_adds() -> None:
    """Start-ups of small layers cancel, so that sums reach what only larger layers do."""
    suite = mixed()
    before = cycles_of(suite, UNSEEN)
    errors = []
    for signed in (False, True):
        proxy = scaled(suite, macs=10_000_000, quantum=32, signed=signed)
        ratio = cycles_of(proxy, UNSEEN) / before
        errors.append(ratio.max() / ratio.min() - 1)
        assert any(layer.repeats < 0 for layer in proxy.layers) == signed
        assert any("negatively" in words for words in proxy.not_preserved) == signed
    assert errors[1] < 0.7 * errors[0]


def test_usual_budgets_grow_from_a_thousandth_of_the_suite() -> None:
    """To the usual one; to a thousandth of a large suite; to half of a small one."""
    small = manifest_of_signature(signature(mm(1000, 1000, 3660)), "small")
    large = manifest_of_signature(signature(mm(10_000, 10_000, 2000)), "large")
    assert usual_budgets(small) == [3_660_000, 7_320_000, 14_640_000, 29_280_000, USUAL_MACS]
    assert usual_budgets(large) == [USUAL_MACS, 2 * USUAL_MACS, 200_000_000]
    assert usual_budgets(manifest_of_signature(signature(mm(8, 8, 8)), "tiny"))[-1] == 8**3 // 2


def test_no_larger_budget_is_taken_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "NEAR_ENOUGH", 0.5)
    suite = manifest_of_signature(signature(mm(512, 256, 128), mm(512, 128, 64)), "towers")
    *_, smaller, needed, _ = usual_budgets(suite)
    taken, before = scaled(suite, quantum=32), scaled(suite, macs=smaller, quantum=32)
    assert smaller < taken.totals.simulated_macs <= needed
    error, larger_error = (float(made.not_preserved[0].split("within ")[1].split("%")[0]) for made in (taken, before))
    assert error <= 50 < larger_error


@pytest.mark.parametrize(
    ("op", "dtype", "read", "written", "times"),
    [("mm", "complex64", "float32", "float32", 4), ("_int_mm", "int8", "int8", "int32", 1)],
)
def test_scaled_layers_of_other_elements(op: str, dtype: str, read: str, written: str, times: int) -> None:
    """A complex product is four of real numbers; sums of products of 8-bit integers have 32 bits."""
    out = tensor(64, 64, dtype="int32" if op == "_int_mm" else dtype)
    given_one = cluster(f"aten.{op}.default", [tensor(64, 64, dtype=dtype)] * 2, out)
    made = scaled(manifest_of_signature(signature(given_one), "one"), macs=64**3, quantum=32, signed=False)
    assert {(layer.dtype, layer.outputs[0]["dtype"]) for layer in made.layers} == {(read, written)}
    assert made.totals.macs == pytest.approx(times * 64**3)
    assert not export(Chakra(), made).left_out  # readers count the same work
