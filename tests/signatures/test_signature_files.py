"""Loading and saving of every kind of file, and every way in which a file can be wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.canonical import content_id
from statsnet.signatures.kinds import KINDS
from statsnet.signatures.migrations import migrate
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_document, load_signature, save_document, save_signature
from statsnet.signatures.validation import schema_for

ID = "sha256:" + "0" * 64
ENVIRONMENT = {"device": "cpu", "device_name": "AMD EPYC"}
PROCESS = {"latency_s": [0.1], "warmup_latency_s": [], "stable": True, "warnings": []}
PROXY: dict[str, Any] = {
    "kind": "statsnet.proxy",
    "schema_version": 1,
    "mode": "inference",
    "dtype": "float32",
    "seed": 0,
    "budget_s": 0.01,
    "reference_environment": ENVIRONMENT,
    "mix": [{"name": "cv/a", "weight": 1, "signature": ID, "latency_s": 0.1, "batch": 4, "preset": None}],
    "towers": [{"outputs": 32, "blocks": [{"kind": "linear", "config": {"outputs": 8}, "optimizer": None}]}],
}
FIT: dict[str, Any] = {
    "kind": "statsnet.fit",
    "schema_version": 1,
    "spec": ID,
    "environment": ENVIRONMENT,
    "characteristics": [{"name": "gemm", "group": "time", "target": 0.5, "achieved": None, "unit": "share"}],
    "summary": {"total_variation": 0.01, "note": None},
}
RESULT: dict[str, Any] = {
    "kind": "statsnet.result",
    "schema_version": 1,
    "subject": {"type": "proxy", "id": ID, "mode": "inference"},
    "environment": ENVIRONMENT,
    "processes": [PROCESS],
}
SUITE = {k: v for k, v in RESULT.items() if k != "processes"} | {
    "subject": {"type": "suite", "id": ID, "mode": "training"},
    "members": [
        {
            "name": "cv/a",
            "weight": 1,
            "latency_s_reference": 0.1,
            "processes": [PROCESS],
            "evidence": "replay",
        }
    ],
}


@pytest.mark.parametrize("which", ["dense_signature", "sparse_signature"])
def test_signature_round_trip(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    signature: Signature = request.getfixturevalue(which)
    path = tmp_path / "s.json"
    assert save_signature(path, signature) == signature.id
    assert load_signature(path) == signature
    before = path.read_bytes()
    save_signature(path, load_signature(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("document", [PROXY, FIT, RESULT, SUITE])
def test_other_kinds_round_trip(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    written = save_document(path, document)
    assert load_document(path, document["kind"]) == written
    assert {k: v for k, v in written.items() if k != "id"} == document
    assert ("id" in written) == (document["kind"] == "statsnet.proxy")


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_valid(kind: str) -> None:
    schema = schema_for(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"]["const"] == kind
    assert schema["properties"]["schema_version"]["const"] == KINDS[kind].version


def damage(path: Path, change: Callable[[dict[str, Any]], Any], *, new_id: bool = True) -> None:
    data = json.loads(path.read_text())
    change(data)
    if new_id:
        data["id"] = content_id(data)
    path.write_text(json.dumps(data))


def cluster(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["counts"]["clusters"][0]
    return found


def put(*place: Any) -> Callable[[dict[str, Any]], None]:
    """A change that sets the value at a place (the last of the arguments is the value)."""

    def change(data: Any) -> None:
        for key in place[:-2]:
            data = data[key]
        data[place[-2]] = place[-1]

    return change


FIRST = ("counts", "clusters", 0)
TIMES = ("measurements", 0, "cluster_time_s")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("counts"), "'counts' is a required property"),
        (lambda d: d.pop("measurements"), "'measurements' is a required property"),
        (put("level", "none"), "level"),
        (put("mode", "both"), "mode"),
        (put("batch", 0), "batch"),
        (put("note", "x"), "'note' was unexpected"),
        (put("workload", {"domain": "cv"}), "workload"),
        (put("workload", "name", "../../etc"), "workload.name"),
        (put(*FIRST, "op", "os.system('x')"), "counts.clusters[0].op"),
        (put(*FIRST, "op", "aten.mm\n"), "counts.clusters[0].op"),
        (put(*FIRST, "calls", "4"), "counts.clusters[0].calls"),
        (put(*FIRST, "calls", 0), "counts.clusters[0].calls"),
        (put(*FIRST, "calls", True), "counts.clusters[0].calls"),
        (put(*FIRST, "flops", -1), "counts.clusters[0].flops"),
        (put(*FIRST, "module", "layer1"), "'module' was unexpected"),
        (put(*FIRST, "args", 0, "shape", [8, -1]), "counts.clusters[0].args[0].shape[1]"),
        (put(*FIRST, "args", 0, "shape", [8, 16.0]), "counts.clusters[0].args[0].shape[1]"),
        (put(*FIRST, "args", 0, "shape", [1] * 17), "counts.clusters[0].args[0].shape"),
        (put(*FIRST, "args", 0, "data", [1.0]), "counts.clusters[0].args[0]"),
        (put(*FIRST, "args", 0, "x" * 41), "counts.clusters[0].args[0]"),
        (put(*FIRST, "args", 0, {"tensors": [{"times": 2}]}), "counts.clusters[0].args[0]"),
        (put(*FIRST, "phase", "warmup"), "counts.clusters[0].phase"),
        (put("counts", "flops_per_multiply_add", 1), "counts.flops_per_multiply_add"),
        (put("counts", "memory", "peak_bytes", 1.5), "counts.memory.peak_bytes"),
        (put("counts", "motifs", 0, "clusters", [0, 2]), "a motif names a cluster"),
        (put(*TIMES, [0.1]), "as long as"),
        (put(*TIMES, [0.1, -1]), "measurements[0].cluster_time_s[1]"),
        (put("measurements", 0, "step_latency_s", [0]), "measurements[0].step_latency_s[0]"),
        (put("measurements", 0, "environment", "host", "x"), "measurements[0].environment"),
        (put("measurements", 0, "source", "guess"), "measurements[0].source"),
        (put("id", None), "id"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, dense_signature: Signature, change: Callable[[dict[str, Any]], Any], place: str
) -> None:
    path = tmp_path / "s.json"
    save_signature(path, dense_signature)
    damage(path, change, new_id=place != "id")
    with pytest.raises(FileFormatError, match=r"s\.json") as caught:
        load_signature(path)
    assert place in caught.value.cause


def test_a_changed_file_is_noticed(tmp_path: Path, dense_signature: Signature) -> None:
    path = tmp_path / "s.json"
    save_signature(path, dense_signature)
    damage(path, put(*FIRST, "flops", 8191), new_id=False)
    with pytest.raises(FileFormatError, match="changed after it was written"):
        load_signature(path)


def test_layout_of_a_file_does_not_matter(tmp_path: Path, dense_signature: Signature) -> None:
    path = tmp_path / "s.json"
    save_signature(path, dense_signature)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert load_signature(path) == dense_signature


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FIT, "is a proxy's fit, not a signature"),
        ({"kind": "other"}, "is no file of StatsNet, not a signature"),
        ({"kind": ["x"]}, "is no file of StatsNet"),
        ({}, "it has no kind"),
        ({"kind": "statsnet.signature", "schema_version": 2}, "made by a newer StatsNet"),
        ({"kind": "statsnet.signature", "schema_version": "1"}, "no valid schema_version"),
        ({"kind": "statsnet.signature", "schema_version": True}, "no valid schema_version"),
        ({"kind": "statsnet.signature"}, "no valid schema_version"),
        ({"kind": "statsnet.signature", "schema_version": 0}, "no valid schema_version"),
    ],
)
def test_wrong_kinds_and_versions(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as caught:
        load_signature(path)
    assert message in str(caught.value)
    if "newer" in message:
        assert caught.value.hint == "upgrade StatsNet"


def test_truncated_file_names_the_line(tmp_path: Path, dense_signature: Signature) -> None:
    path = tmp_path / "s.json"
    save_signature(path, dense_signature)
    text = path.read_text()
    for length in range(0, len(text) - 1, 97):
        path.write_text(text[:length])
        with pytest.raises(FileFormatError, match=r"line \d+|is empty"):
            load_signature(path)


def test_a_few_bytes_do_not_become_gigabytes(tmp_path: Path, dense_signature: Signature) -> None:
    path = tmp_path / "s.json"
    save_signature(path, dense_signature)
    tensor = {"shape": [1], "dtype": "float32", "times": 100_000}
    damage(path, put(*FIRST, "args", [{"tensors": [{"tensors": [tensor], "times": 100_000}]}]))
    with pytest.raises(FileFormatError) as caught:
        load_signature(path)
    assert "more than 100000 tensors" in caught.value.cause


def test_unknown_kinds_and_bad_documents_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a kind of file"):
        save_document(tmp_path / "a.json", {"kind": "x"})
    for document in (PROXY | {"towers": []}, RESULT | {"processes": 3}, FIT | {"spec": "x"}):
        with pytest.raises(FileFormatError):
            save_document(tmp_path / "a.json", document)
    assert list(tmp_path.iterdir()) == []


def test_a_signature_stays_small(tmp_path: Path, dense_signature: Signature) -> None:
    clusters = tuple(dataclasses.replace(dense_signature.clusters[0], calls=float(n)) for n in range(1, 6000))
    large = dataclasses.replace(dense_signature, clusters=clusters, motifs=(), measurements=())
    with pytest.raises(StatsNetError, match=r"too large to be written: \d+ bytes"):
        save_signature(tmp_path / "s.json", large)
    assert list(tmp_path.iterdir()) == []


def test_migrations_run_step_by_step() -> None:
    steps: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
        ("k", 1): lambda d: d | {"a": d["schema_version"]},
        ("k", 2): lambda d: d | {"b": d["schema_version"]},
    }
    data = {"kind": "k", "schema_version": 1}
    assert migrate(data, "f", migrations=steps, versions={"k": 3}) == data | {
        "schema_version": 3,
        "a": 1,
        "b": 2,
    }
    assert migrate(data, "f", migrations=steps, versions={"k": 1}) is data
    with pytest.raises(FileFormatError, match="too old"):
        migrate(data, "f", migrations={("k", 2): steps["k", 2]}, versions={"k": 3})
