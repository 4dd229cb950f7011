"""Execution traces: `statsnet import` reads the same counts from them."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import addmm, cluster, mm, relu, signature, tensor
from exporting import mix_of, small_signature

from statsnet.errors import UsageError
from statsnet.exports.build_manifest import manifest_of_mix, manifest_of_signature
from statsnet.exports.chakra import Chakra
from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import Export, export, write
from statsnet.exports.scaling import scaled
from statsnet.recordings.execution_trace import read_execution_trace
from statsnet.recordings.kinds import kind_of
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.model import Signature


def counts(given: Signature, without: frozenset[str] = frozenset()) -> dict[tuple[str, str], tuple[float, ...]]:
    """Calls, FLOPs and bytes by operator and phase."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for c in given.clusters:
        if c.op not in without:
            found = sums.setdefault((c.op, c.phase), Counter())
            found["calls"] += c.calls  # type: ignore[assignment]
            found["flops"] += c.calls * (c.flops or 0)  # type: ignore[assignment]
            found["bytes"] += c.calls * (c.bytes_moved or 0)  # type: ignore[assignment]
    return {key: tuple(found.values()) for key, found in sums.items()}


def written(manifest: Manifest, folder: Path) -> Export:
    made = export(Chakra(), manifest)
    write(made, folder)
    return made


def test_an_import_reads_the_same_counts(tmp_path: Path) -> None:
    given = small_signature()
    made = written(manifest_of_signature(given, "small"), tmp_path)
    assert not made.left_out
    assert kind_of(tmp_path / "trace.json") == "execution_trace"
    assert counts(read_execution_trace(tmp_path / "trace.json").signature) == counts(given)


@pytest.mark.parametrize(
    ("workload", "mode"),
    [("nlp/gpt2", "inference"), ("recsys/dlrm", "training"), ("cv/alexnet", "training")],
)
def test_an_import_reads_the_counts_of_real_steps(workload: str, mode: str, tmp_path: Path) -> None:
    given = next(e for e in ProfilesDB().find(workload) if e.mode == mode).load()
    made = written(manifest_of_signature(given, workload), tmp_path)
    again = read_execution_trace(tmp_path / "trace.json").signature
    left = frozenset(row.operator for row in made.left_out)
    sparse = {c.op for c in given.clusters if any("sparse" in t for t in (*c.args, *c.outputs) if isinstance(t, dict))}
    assert left <= sparse  # gradients of embeddings
    before, after = counts(given, left), counts(again, left)
    assert before.keys() == after.keys()
    for key, values in before.items():
        assert values == pytest.approx(after[key], rel=1e-8), key
    assert again.mode == mode


def test_each_member_of_a_mix_has_its_own_step(tmp_path: Path) -> None:
    one, other = signature(mm(8, 16, 4, calls=3), relu(8, 4)), signature(relu(8, 4, calls=2))
    written(manifest_of_mix(mix_of(one=(1.0, one), other=(3.0, other))), tmp_path)
    for name, given in (("one", one), ("other", other)):
        assert counts(read_execution_trace(tmp_path / f"trace-cv-{name}.json").signature) == counts(given)


def test_members_of_like_names_keep_their_traces() -> None:
    mix = mix_of(one=(1.0, signature(mm(8, 16, 4))), other=(1.0, signature(relu(8, 4))))
    names = ("a-b/c", "a/b-c")
    members = tuple(replace(m, name=n) for m, n in zip(mix.members, names, strict=True))
    files = Chakra().files(manifest_of_mix(replace(mix, members=members)))
    assert sorted(files) == [
        "trace-a-b-c-2.json",
        "trace-a-b-c.json",
    ]


def test_results_are_read_from_the_storage_that_held_them(tmp_path: Path) -> None:
    written(manifest_of_signature(small_signature(), "small"), tmp_path)
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    operators = [n for n in nodes if n["name"] in ("aten::convolution", "aten::native_batch_norm")]
    assert operators[1]["outputs"]["values"][0][1] == operators[2]["inputs"]["values"][0][1]
    assert {n["ctrl_deps"] for n in operators} == {3}


def test_a_layer_of_several_shapes_is_called_as_often_as_gives_their_work(tmp_path: Path) -> None:
    """Whole calls: what they change of the step is said."""
    shown = relu(4, calls=3)
    folded = replace(shown, bytes_read=2.6 * 16, bytes_written=2.6 * 16, flops=2.6 * 4)  # 7.8 calls of what it shows
    made = written(manifest_of_signature(signature(folded, mm(8, 16, 4)), "two"), tmp_path)
    found = counts(read_execution_trace(tmp_path / "trace.json").signature)
    assert found["aten.relu.default", "forward"] == (8, 8 * 4, 8 * 32)
    product = 2 * 8 * 16 * 4
    assert not made.left_out
    assert f"FLOPs change by {(32 + product) / (3 * 2.6 * 4 + product) - 1:+.2%}, bytes change by" in made.notes[1]
    (once,) = written(manifest_of_signature(signature(shown), "one"), tmp_path).notes
    assert "import" in once


def test_a_layer_whose_work_is_not_that_of_its_shape_is_told_of() -> None:
    for layer in (replace(relu(4), flops=400.0), replace(relu(4, calls=2.5), bytes_read=12.8, bytes_written=12.8)):
        assert any(
            "whole calls of one shape" in note
            for note in export(Chakra(), manifest_of_signature(signature(layer), "one")).notes
        )
    assert not any(
        "whole calls" in note for note in export(Chakra(), manifest_of_signature(signature(relu(4)), "one")).notes
    )


def test_more_calls_than_a_file_can_hold_are_refused() -> None:
    many = replace(relu(4, calls=2e5), bytes_read=1600.0, bytes_written=1600.0)
    with pytest.raises(UsageError, match="20,000,000 calls"):
        export(Chakra(), manifest_of_signature(signature(many), "one"))


def test_what_a_node_cannot_say_is_left_out() -> None:
    sparse = cluster("aten._sparse_mm.default", [tensor(8, 8, sparse=4, elements=4, index_bytes=64), tensor(8, 2)],
                     tensor(8, 2))  # fmt: skip
    linear = cluster("aten.linear.default", [tensor(2, 8), tensor(4, 8), None], tensor(2, 4))
    made = export(Chakra(), manifest_of_signature(signature(sparse, linear, relu(3)), "three"))
    reasons = {row.operator: row.reason for row in made.left_out}
    assert set(reasons) == {"aten._sparse_mm.default", "aten.linear.default"}
    assert reasons["aten.linear.default"].startswith("it only calls other operators")


def test_scaled_layers_are_operators_too(tmp_path: Path) -> None:
    manifest = scaled(manifest_of_signature(signature(addmm(64, 64, 64, calls=9)), "one"), macs=40_000, quantum=16)
    written(manifest, tmp_path)
    found = read_execution_trace(tmp_path / "trace.json").signature
    assert found.flops_per_step == 2 * math.fsum(layer.macs or 0 for layer in manifest.layers)
