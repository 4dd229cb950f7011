"""Collectives in exports: those of a signature and those that a proxy's processes run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import mm, relu, signature
from synthesis_builders import mix_of, small_signature

from statsnet.blocks.collective import IN_PLACE, OPERATORS, WITHOUT_DATA
from statsnet.errors import FileFormatError
from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.c_source import CSource
from statsnet.exports.chakra import Chakra
from statsnet.exports.collectives import attributes, clusters_of
from statsnet.exports.manifest import Communication, manifest_json
from statsnet.exports.registry import export, write
from statsnet.exports.subjects import manifest_of_proxy
from statsnet.proxy.folder import open_proxy
from statsnet.proxy.spec import make_spec, pinned, source_of
from statsnet.proxy.towers import Placed, Tower
from statsnet.recordings.execution_trace import read_execution_trace
from statsnet.signatures.collectives import group_size, group_stride, is_collective
from statsnet.signatures.documents import ProxySpec, SpecCollective
from statsnet.signatures.model import Motif
from statsnet.signatures.storage import load_spec, save
from statsnet.signatures.target import target_of_mix

ELEMENTS, GROUP, STRIDE = 1_001, 4, 2
PLACED = tuple(
    SpecCollective(operation=operation, elements=0 if operation in WITHOUT_DATA else ELEMENTS, dtype="bfloat16",
                   phase="forward", begins_at=0.0, awaited_at=1.0, group_size=GROUP, group_stride=STRIDE, count=3)
    for operation in OPERATORS
)  # fmt: skip
OWN, WHOLE, PART = 2 * ELEMENTS, 2 * 1_004, 251
"""Bytes of a tensor that all have; of one that is made of four equal parts; and elements of a part."""


def test_a_collective_is_a_layer_with_its_message_and_group() -> None:
    manifest = manifest_of_signature(signature(mm(4, 5, 6), *clusters_of(PLACED)), "some")
    layers = json.loads(manifest_json(manifest))["layers"]
    told = [layer.get("communication") for layer in layers]
    assert [known and Communication(**known) for known in told] == [
        None,
        *(Communication(operation=operation, group_size=GROUP, group_stride=STRIDE,
                        message_bytes=0 if operation in WITHOUT_DATA else OWN if operation in IN_PLACE else WHOLE)
          for operation in OPERATORS),
    ]  # fmt: skip
    assert [layer["repeats"] for layer in layers[1:]] == [3.0] * len(PLACED)


def test_phases_and_dependencies_are_told(tmp_path: Path) -> None:
    """Gradients of a product are added up, as a part of a bucket of another shape, and copied."""
    (summed,) = clusters_of([replace(PLACED[0], phase="backward", dtype="float32", elements=500)])
    motifs = (Motif(clusters=(1, 0), count=3.0), Motif(clusters=(0, 2), count=3.0))
    product, copied = mm(4, 5, 6, phase="backward"), relu(7, phase="backward")
    given = signature(summed, product, copied, mode="training", motifs=motifs)
    manifest = manifest_of_signature(given, "some")
    assert [layer.depends_on for layer in manifest.layers] == [(1,), (), (0,)]
    assert (manifest.layers[0].phase, manifest.layers[0].repeats) == ("backward", 3.0)
    write(export(Chakra(), manifest), tmp_path)
    again = read_execution_trace(tmp_path / "trace.json").signature
    ties = [[again.clusters[i].op for i in motif.clusters] for motif in again.motifs]
    assert [product.op, summed.op] in ties
    assert [summed.op, copied.op] in ties
    (found,) = (c for c in again.clusters if is_collective(c.op))
    assert (found.phase, found.calls) == ("backward", 3.0)


def test_an_import_reads_the_same_collectives_and_a_simulator_their_sizes(tmp_path: Path) -> None:
    given = signature(mm(4, 5, 6), *clusters_of(PLACED))
    made = export(Chakra(), manifest_of_signature(given, "some"))
    assert not made.left_out
    write(made, tmp_path)
    again = read_execution_trace(tmp_path / "trace.json").signature
    assert {(c.op, c.calls, c.bytes_read, c.bytes_written) for c in again.clusters} == {
        (c.op, c.calls, c.bytes_read, c.bytes_written) for c in given.clusters
    }
    assert {(group_size(c), group_stride(c)) for c in again.clusters if is_collective(c.op)} == {(GROUP, STRIDE)}
    told: dict[str, tuple[Any, ...]] = {}
    for node in json.loads((tmp_path / "trace.json").read_text())["nodes"]:
        if node["name"] == "record_param_comms":
            values = {a["name"]: a["value"] for a in node["attrs"]}
            told[values["collective_name"]] = tuple(
                values[name] for name in ("dtype", "in_msg_nelems", "out_msg_nelems", "pg_size")
            )
            assert values["global_rank_stride"] == STRIDE
    assert told == {
        "allreduce": ("BFloat16", ELEMENTS, ELEMENTS, GROUP),
        **dict.fromkeys(("broadcast", "reduce", "send", "recv"), ("BFloat16", ELEMENTS, ELEMENTS, GROUP)),
        "_allgather_base": ("BFloat16", PART, 4 * PART, GROUP),
        "_reduce_scatter_base": ("BFloat16", 4 * PART, PART, GROUP),
        "all_to_all": ("BFloat16", 4 * PART, 4 * PART, GROUP),
        "gather": ("BFloat16", PART, 4 * PART, GROUP),
        "scatter": ("BFloat16", 4 * PART, PART, GROUP),
        "barrier": ("BFloat16", 0, 0, GROUP),
    }


@pytest.mark.parametrize(("operation", "sizes"), [("gather", (PART, 4 * PART)), ("scatter", (4 * PART, PART))])
def test_one_process_has_all_of_what_is_gathered_or_scattered(operation: str, sizes: tuple[int, int]) -> None:
    told = attributes(Communication(operation=operation, message_bytes=WHOLE, group_size=GROUP), "bfloat16", 2)
    values = {name: value for name, _, value in told}
    assert (values["in_msg_nelems"], values["out_msg_nelems"]) == sizes


def spec_with_collectives() -> ProxySpec:
    towers = [Tower(blocks=(Placed(kind="softmax", config={"shape": (9, 5), "axis": 1}),))]
    target = target_of_mix(mix_of(small_signature()))
    spec = make_spec(target, towers, title="a mix", notes="", dtype="float32", seed=0, budget_s=0.01, environment={})
    return pinned(replace(spec, collectives=PLACED))


def test_a_proxy_s_manifest_holds_what_its_processes_send(tmp_path: Path) -> None:
    spec = spec_with_collectives()
    save(tmp_path / "spec.json", spec)
    (tmp_path / "network.py").write_text(source_of(spec), encoding="utf-8")
    opened = open_proxy(tmp_path)
    assert opened.is_generated
    assert opened.spec.collectives == PLACED
    layers = {layer.operator: layer for layer in manifest_of_proxy(opened).layers}
    assert {*OPERATORS.values()} < layers.keys()
    assert layers["c10d.allreduce_.default"].bytes_written == OWN
    assert "a collective" in (CSource().reason_against(layers["c10d.allreduce_.default"]) or "")


@pytest.mark.parametrize(
    "change", [{"operation": "gossip"}, {"dtype": "load"}, {"count": 0}, {"elements": 0}, {"phase": "later"}]
)
def test_a_spec_with_what_is_no_collective_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    bad = replace(spec_with_collectives(), collectives=(replace(PLACED[0], **change),))

    def read() -> str:
        save(tmp_path / "spec.json", bad)
        return source_of(load_spec(tmp_path / "spec.json"))

    with pytest.raises(FileFormatError):
        read()
