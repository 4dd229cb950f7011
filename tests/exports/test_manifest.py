"""The manifest: sums, weights, shares, files."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from clusters import addmm, cluster, mm, relu, signature, tensor
from exporting import mix_of, small_manifest, small_signature

from statsnet.errors import MeasurementError, UsageError
from statsnet.exports.build_manifest import MEASURED, ROOFLINE, manifest_of_mix, manifest_of_signature
from statsnet.exports.c_source import CSource
from statsnet.exports.manifest import manifest_json
from statsnet.exports.manifest_files import ManifestFiles
from statsnet.exports.registry import export
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import target_of_mix


def test_weighted_sums_are_the_signature_s_totals() -> None:
    given = small_signature()
    totals = manifest_of_signature(given, "small").totals
    assert totals.flops == given.flops_per_step
    assert totals.bytes_read + totals.bytes_written == given.bytes_per_step
    assert totals.calls == given.calls_per_step
    assert totals.unknown_calls == sum(c.calls for c in given.clusters if c.flops is None)


def test_layers_that_members_share_stand_once_and_sum_to_the_mix() -> None:
    one, other = signature(mm(8, 16, 4, calls=3), relu(8, 4)), signature(relu(8, 4, calls=2), mm(8, 16, 4))
    manifest = manifest_of_mix(mix_of(one=(1.0, one), other=(3.0, other)))
    assert [layer.operator for layer in manifest.layers] == ["aten.mm.default", "aten.relu.default"]
    steps = {m.name: m.steps for m in manifest.members}
    assert manifest.layers[0].repeats == pytest.approx(3 * steps["cv/one"] + steps["cv/other"], rel=1e-15)
    assert {u.member: u.calls for u in manifest.layers[1].uses} == {"cv/one": 1, "cv/other": 2}
    expected = math.fsum(steps[name] * s.flops_per_step for name, s in (("cv/one", one), ("cv/other", other)))
    assert manifest.totals.flops == pytest.approx(expected, rel=1e-15)
    for member in manifest.members:  # weights are shares of one second
        assert member.latency_s is not None
        assert member.steps * member.latency_s == pytest.approx(member.weight)
    assert manifest.totals.time_s == pytest.approx(1.0)


def test_the_roofline_s_times_are_those_of_its_two_rates() -> None:
    given = signature(mm(512, 512, 512), relu(1000))
    times = [layer.time_s for layer in manifest_of_signature(given, "two").layers]
    assert ROOFLINE.flops_per_s and ROOFLINE.bytes_per_s
    assert times == [max(2 * 512**3 / ROOFLINE.flops_per_s, 3 * 4 * 512**2 / ROOFLINE.bytes_per_s),
                     8000 / ROOFLINE.bytes_per_s]  # fmt: skip


def test_measured_weights_are_those_of_the_target() -> None:
    mix = resolve_mix("recsys/dlrm:0.5,recsys/ncf:0.5", "inference", ProfilesDB())
    manifest, target = manifest_of_mix(mix, reference=MEASURED), target_of_mix(mix)
    assert manifest.totals.flops == pytest.approx(target.flops_per_s, rel=1e-12)
    assert manifest.totals.time_s == pytest.approx(target.operator_share, rel=1e-12)
    assert manifest.reference.environment == target.members[0].measurement.fingerprint


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_sums_of_a_real_mix_are_its_members_totals(mode: str) -> None:
    mix = resolve_mix("recsys/dlrm:0.4,cv/resnet50:0.4,nlp/gpt2:0.2", mode, ProfilesDB())
    manifest = manifest_of_mix(mix)
    steps = {m.name: m.steps for m in manifest.members}
    for name in ("flops", "bytes"):
        expected = math.fsum(steps[m.name] * getattr(m.signature, f"{name}_per_step") for m in mix.members)
        totals = manifest.totals
        found = totals.flops if name == "flops" else totals.bytes_read + totals.bytes_written
        assert found == pytest.approx(expected, rel=1e-12)


def test_inputs_and_weights_are_told_apart() -> None:
    layers = manifest_of_signature(signature(addmm(7, 11, 5), relu(9)), "two").layers
    assert (layers[0].bytes_input, layers[0].bytes_weight, layers[0].bytes_written) == (4 * 77, 4 * (55 + 5), 4 * 35)
    assert (layers[1].bytes_input, layers[1].bytes_weight) == (36, 0)


def test_weights_are_told_apart_in_lists_and_where_they_are_packed() -> None:
    weights, hidden = [tensor(24, 8), tensor(24, 6), tensor(24), tensor(24)], tensor(1, 3, 6)
    buffer = tensor(24 * 8 + 24 * 6 + 48)  # the same memory
    args = [tensor(5, 3, 8), {"tensors": weights}, 4, buffer, hidden, hidden, 2, 6]
    rnn = cluster("aten._cudnn_rnn.default", args, tensor(5, 3, 6))
    packed = {"tensors": [tensor(16, 8, dtype="qint8"), tensor(16)]}
    quantised = cluster("quantized.linear_dynamic.default", [tensor(6, 8), packed, True], tensor(6, 16))
    layers = manifest_of_signature(signature(rnn, quantised), "two").layers
    assert [layer.bytes_weight for layer in layers] == [4 * (24 * 8 + 24 * 6 + 48), 16 * 8 + 4 * 16]


def test_a_fused_cell_multiplies_nothing() -> None:
    """Its products came before it."""
    gates, hidden = tensor(3, 24), tensor(3, 6)
    cell = cluster("aten._thnn_fused_lstm_cell.default", [gates, gates, hidden, None, None], *[hidden] * 2, gates)
    made = manifest_of_signature(signature(cell, mm(3, 8, 24)), "two")
    assert made.layers[0].flops and made.layers[0].macs == 0 and made.totals.macs == 3 * 8 * 24
    assert not export(CSource(), made).left_out


def test_motifs_are_dependencies() -> None:
    layers = small_manifest().layers
    assert [layer.depends_on for layer in layers[:4]] == [(), (0,), (1,), ()]


def test_the_file_holds_the_totals() -> None:
    manifest = small_manifest()
    assert json.loads(manifest_json(manifest))["totals"]["macs"] == pytest.approx(manifest.totals.macs)


def test_the_tables_sum_to_the_totals() -> None:
    manifest = small_manifest()
    files = export(ManifestFiles(), manifest).files
    layers = list(csv.DictReader(io.StringIO(files["layers.csv"].decode())))
    products = list(csv.DictReader(io.StringIO(files["products.csv"].decode())))
    assert len(layers) == len(manifest.layers)
    assert sum(float(r["repeats"]) * float(r["flops"] or 0) for r in layers) == pytest.approx(manifest.totals.flops)
    assert sum(float(r["repeats"]) * float(r["macs"]) for r in products) == pytest.approx(manifest.totals.macs)
    assert layers[0]["shapes_read"] == "2x3x29x30 8x3x3x3 8"


def test_a_signature_without_shapes_is_no_set_of_layers() -> None:
    without = signature(cluster("aten.mm.default", [None, None]))
    with pytest.raises(UsageError, match="no shapes"):
        manifest_of_signature(without, "coarse")


@pytest.mark.parametrize("sizes", [(2**62, 2**62, 2**62), (2**20, 2**20, 2**20), (1, 2**57, 1)])
def test_what_no_device_can_take_is_no_layer(sizes: tuple[int, int, int]) -> None:
    """Sizes that a signature may name, and whose products 64 bits do not hold."""
    with pytest.raises(UsageError, match=r"too large to be exported|takes more than"):
        manifest_of_signature(signature(relu(8, 4), mm(*sizes)), "huge")
    with pytest.raises(UsageError, match="takes more than") as refused:
        manifest_of_signature(signature(mm(2**15, 2**15, 2**15, calls=1e12)), "endless")
    assert refused.value.hint and "mix" not in refused.value.hint


def test_a_signature_that_was_never_measured_has_no_measured_weights() -> None:
    with pytest.raises(MeasurementError, match="never measured"):
        manifest_of_signature(small_signature(), "small", reference=MEASURED)


def test_work_without_known_products_counts_by_its_flops() -> None:
    packed = replace(cluster("aten.linear_unpack.default", [tensor(4, 4)], tensor(4, 4)), flops=128.0)
    manifest = manifest_of_signature(signature(packed, relu(4)), "one")
    assert (manifest.layers[0].category, manifest.layers[0].macs, manifest.layers[0].assumed_macs) == ("gemm", None, 64)
    assert manifest.totals.macs == 64


def test_a_signature_whose_costs_are_not_known_is_still_exported() -> None:
    unknown = replace(relu(4), flops=None, bytes_read=None, bytes_written=None)
    manifest = manifest_of_signature(signature(unknown), "one")
    assert manifest.members[0].latency_s is None and manifest.totals.unknown_calls == 1
    with pytest.raises(UsageError, match="known cost"):
        manifest_of_mix(mix_of(one=(1.0, signature(unknown))))


def test_a_layer_that_stands_for_calls_of_several_shapes_has_their_mean_work() -> None:
    """Signatures fold rare calls of an operator into a similar one: arguments of one call, mean work."""
    folded = replace(mm(8, 16, 4, calls=2), flops=2 * 8 * 16 * 4 * 0.75)
    manifest = manifest_of_signature(signature(folded), "one")
    assert manifest.layers[0].macs == manifest.layers[0].products[0].macs == 8 * 16 * 4 * 0.75
    assert 2 * manifest.totals.macs == manifest.totals.flops == folded.flops * 2
