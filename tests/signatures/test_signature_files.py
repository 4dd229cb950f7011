"""Loading and saving of every kind of file, and every way in which a file can be wrong."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.canonical import content_id
from statsnet.signatures.conversion import plain, typed
from statsnet.signatures.documents import FitSummary
from statsnet.signatures.kinds import KINDS
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import (
    load_document,
    load_fit,
    load_result,
    load_signature,
    load_spec,
    save,
    save_document,
    save_signature,
)

ID = "sha256:" + "0" * 64
ENVIRONMENT = {"device": "cpu", "device_name": "AMD EPYC"}
PROCESS = {"latency_s": [0.1], "warmup_latency_s": [], "stable": True, "warnings": []}
PROXY: dict[str, Any] = {
    "kind": "statsnet.proxy",
    "title": "a mix",
    "notes": "",
    "schema_version": 2,
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
def test_json_schemas_are_made_from_the_types(kind: str) -> None:
    schema = json.loads(json.dumps(KINDS[kind].json_schema()))
    top = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    assert top["properties"]["kind"]["enum"] == [kind]
    assert top["properties"]["schema_version"]["enum"] == [KINDS[kind].type.schema_version]


def damage(path: Path, change: Callable[[dict[str, Any]], Any], *, new_id: bool = True) -> None:
    data = json.loads(path.read_text())
    change(data)
    if new_id:
        data["id"] = content_id(data)
    path.write_text(json.dumps(data))


def cluster(data: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = data["counts"]["clusters"][0]
    return first


def put(*place: Any) -> Callable[[dict[str, Any]], None]:
    """A change that sets the value at a place (the last of the arguments is the value)."""

    def change(data: Any) -> None:
        for key in place[:-2]:
            data = data[key]
        data[place[-2]] = place[-1]

    return change


FIRST = ("counts", "clusters", 0)
ENVIRONMENT_OF = ("measurements", 0, "environment")
TIMES = ("measurements", 0, "cluster_time_s")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("counts"), "missing required field `counts`"),
        (lambda d: d.pop("measurements"), "'measurements' is missing"),
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
        (put("batch", True), "at batch"),
        (put("batch", 8.0), "at batch"),
        (put("batch", "8"), "at batch"),
        (put("dtype", "float32\n"), "at dtype"),
        (put("workload", "preset", "small\n"), "at workload.preset"),
        (
            put("counts", "memory", "optimizer_bytes", None),
            "at counts.memory: 'optimizer_bytes' was unexpected",
        ),
        (put("measurements", 0, "gpu", None), "at measurements[0]: 'gpu' was unexpected"),
        (put("counts", "shape_variants", True), "at counts.shape_variants"),
        (lambda d: d["counts"].pop("motifs"), "at counts: 'motifs' is missing"),
        (lambda d: d["workload"].pop("preset"), "at workload: 'preset' is missing"),
        (put(*FIRST, "args", [[0] * 3, [["x" * 41]]]), "at counts.clusters[0].args[1][0][0]"),
        (put(*FIRST, "args", 0, "times", 0), "at counts.clusters[0].args[0].times"),
        (put(*FIRST, "args", 0, "dtype", "float32\n"), "at counts.clusters[0].args[0].dtype"),
        (put(*FIRST, "args", 0, "strides", None), "at counts.clusters[0].args[0].strides"),
        (put(*FIRST, "args", 0, {"tensors": [], "times": 2}), "at counts.clusters[0].args[0]"),
        (put(*FIRST, "args", 0, {"tensors": [{"tensors": [], "times": 2}]}), "args[0].tensors[0].tensors"),
        (put(*FIRST, "outputs", 0, 1), "at counts.clusters[0].outputs[0]"),
        (put(*FIRST, "outputs", 0, {"shape": [1]}), "at counts.clusters[0].outputs[0]"),
        (put(*ENVIRONMENT_OF, "settings", {str(n): "" for n in range(61)}), "environment.settings"),
        (put(*ENVIRONMENT_OF, "settings", {"OMP_PLACES": "x" * 121}), "environment.settings"),
        (put(*ENVIRONMENT_OF, "gpu", {"uuid": "GPU-1"}), "environment.gpu: 'uuid' was unexpected"),
        (put(*ENVIRONMENT_OF, "threads", 2**63), "environment.threads"),
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


def test_texts_of_a_file_are_quoted_shortly_and_harmlessly(tmp_path: Path, dense_signature: Signature) -> None:
    path = tmp_path / "s.json"
    for change in (put("mode", "\x1b[31m" + "x" * 10_000), put("\x1b[31m" + "x" * 10_000, 1)):
        save_signature(path, dense_signature)
        damage(path, change)
        with pytest.raises(FileFormatError) as caught:
            load_signature(path)
        assert caught.value.cause.isprintable()
        assert len(caught.value.cause) < 300


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
        ({"kind": "statsnet.signature", "schema_version": 2}, "has schema_version 2, this StatsNet reads 1"),
        ({"kind": "statsnet.signature", "schema_version": "1"}, "has schema_version '1'"),
        ({"kind": "statsnet.signature", "schema_version": True}, "has schema_version True"),
        ({"kind": "statsnet.signature"}, "has schema_version None"),
        ({"kind": "statsnet.signature", "schema_version": 1.0}, "has schema_version 1.0"),
    ],
)
def test_wrong_kinds_and_versions(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as caught:
        load_signature(path)
    assert message in str(caught.value)
    if "schema_version" in message:
        assert caught.value.hint == "profile the workload again"


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
    assert "stand for more than" in caught.value.cause


def test_unknown_kinds_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a kind of file"):
        save_document(tmp_path / "a.json", {"kind": "x"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", 1e301])
@pytest.mark.parametrize("name", ["launches", "unexplained_share", "idle_time_s", "step_latency_s", "cluster_time_s"])
def test_what_is_no_number_is_no_measurement(dense_signature: Signature, name: str, value: Any) -> None:
    data = plain(dense_signature.measurements[0])
    with pytest.raises(ValueError, match=f"at {name}"):
        typed(data | {name: [value] if isinstance(data[name], list) else value}, Measurement)


@pytest.mark.parametrize(
    ("document", "change", "place"),
    [
        (PROXY, put("towers", []), "at towers"),
        (PROXY, put("seed", True), "at seed"),
        (FIT, put("spec", "x"), "at spec"),
        (RESULT, put("processes", 3), "at processes"),
        (PROXY, put("mix", 0, "weight", 0), "at mix[0].weight"),
        (PROXY, put("towers", 0, "blocks", 0, "kind", "linear\n"), "at towers[0].blocks[0].kind"),
        (PROXY, lambda d: d["towers"][0]["blocks"][0].pop("optimizer"), "at towers[0].blocks[0]"),
        (FIT, put("characteristics", 0, "target", "1"), "at characteristics[0].target"),
        (FIT, put("summary", "compression", True), "at summary.compression"),
        (RESULT, put("processes", 0, "latency_s", [0]), "at processes[0].latency_s[0]"),
        (RESULT, put("processes", 0, "attempts", 1.5), "at processes[0].attempts"),
        (RESULT, lambda d: d.pop("processes"), "neither 'processes' nor 'members'"),
        (RESULT, lambda d: d["environment"].pop("device"), "environment: 'device' is missing"),
        (SUITE, put("members", 0, "evidence", "guess"), "at members[0].evidence"),
        (SUITE, put("validation", {"notes": [], "fit": None, "moved": None}), "at validation"),
    ],
)
def test_what_does_not_fit_in_other_kinds_is_named(
    tmp_path: Path, document: dict[str, Any], change: Callable[[dict[str, Any]], Any], place: str
) -> None:
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises(FileFormatError) as caught:
        save_document(tmp_path / "a.json", changed)
    assert place in caught.value.cause
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_are_read_as_typed_values(tmp_path: Path) -> None:
    spec = save_document(tmp_path / "spec.json", PROXY)
    save_document(tmp_path / "fit.json", FIT)
    save_document(tmp_path / "r.json", SUITE)
    assert load_spec(tmp_path / "spec.json").id == spec["id"]
    assert load_spec(tmp_path / "spec.json").towers[0].blocks[0].config == {"outputs": 8}
    assert load_fit(tmp_path / "fit.json").characteristics[0].target == 0.5
    result = load_result(tmp_path / "r.json")
    assert result.members is not None
    assert result.members[0].processes[0].latency_s == (0.1,)
    with pytest.raises(FileFormatError, match="is a result, not a proxy's fit"):
        load_fit(tmp_path / "r.json")


def test_a_typed_value_is_written_as_it_was_read(tmp_path: Path) -> None:
    """What was not measured by a process, or is no part of a result, is left out; all other nulls stay."""
    power = dict.fromkeys(("sm_clock_mhz", "sm_clock_min_mhz", "temperature_c", "throttled"))
    power |= {"energy_j_per_step": 5, "power_w": 500, "missing": {"clocks": "x"}}
    on_gpu = PROCESS | {"attempts": 1, "flushed_latency_s": [0.2], "power": power}
    member = PROXY["mix"][0] | {"optimizer": None, "peak_bytes": 2**40 + 1}
    blocks = [{"kind": "linear", "config": {"outputs": [8, None]}, "optimizer": None}]
    known = {
        "replayed_members": [],
        "stored_members": ["cv/a"],
        "throttled": [],
        "recorded": None,
        "rounds": [],
        "effort": "normal",
    }
    summary = plain(FitSummary(compression=50.0))
    peak = {"name": "peak", "group": "memory", "target": 2**40 + 1, "achieved": None, "unit": "B"}
    documents = {
        "spec": (load_spec, PROXY | {"mix": [member], "towers": [{"blocks": blocks}]}),
        "fit": (
            load_fit,
            FIT | known | {"network_sha256": None, "summary": summary, "characteristics": [peak]},
        ),
        "run": (load_result, RESULT | {"processes": [PROCESS, on_gpu]}),
        "suite": (load_result, SUITE | {"proxy": {"processes": [PROCESS | {"window_latency_s": [0.1]}]}}),
    }
    for name, (load, document) in documents.items():
        save_document(tmp_path / name, document)
        save(tmp_path / "again", load(tmp_path / name))  # type: ignore[operator]
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes(), name


def test_a_signature_stays_small(tmp_path: Path, dense_signature: Signature) -> None:
    clusters = tuple(dataclasses.replace(dense_signature.clusters[0], calls=float(n)) for n in range(1, 6000))
    large = dataclasses.replace(dense_signature, clusters=clusters, motifs=(), measurements=())
    with pytest.raises(StatsNetError, match=r"too large to be written: \d+ bytes"):
        save_signature(tmp_path / "s.json", large)
    assert list(tmp_path.iterdir()) == []
