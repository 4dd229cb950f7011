"""Recordings that are damaged, odd or of other tools: read for what they hold, or refused in a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recording_files import FLOPS, launch, operator, span, step, training_step, write

from statsnet.cli.app import main
from statsnet.recordings.kineto import read_kineto
from statsnet.signatures.storage import load_signature

STEP = training_step()
TEXT = json.dumps({"traceEvents": STEP})
HUGE = 10**40
NESTED = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {"v": ' + '{"a":' * 5_000 + "1"

UNREADABLE = {
    "gzip that ends early": (gzip.compress(TEXT.encode())[:-60], "damaged gzip"),
    "gzip with another checksum": (gzip.compress(TEXT.encode())[:-8] + b"12345678", "damaged gzip"),
    "cut": (TEXT[:-500], "is cut short"),
    "cut between two events": (TEXT[: TEXT.rindex("},") + 1], "is cut short"),
    "empty": ("", "it is empty"),
    "null": ("null", "is no trace"),
    "a web page": ("<html>", "is no trace"),
    "two bytes a letter": (TEXT.encode("utf-16"), "is no trace"),
    "a database": (b"SQLite format 3\0", "is no trace"),
    "zip": (b"PK\x03\x04" + TEXT.encode(), "is packed with zip"),
    "an archive in gzip": (gzip.compress(bytes(257) + b"ustar" + TEXT.encode()), "is packed with tar"),
    "a pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "is a pointer to a file"),
    "no list": ('{"data": []}', "has no list traceEvents"),
    "a list of another kind": ('{"traceEvents": {"a": 1}}', "is no trace of a profiler"),
    "a browser": (
        '{"traceEvents": [{"ph": "X", "cat": "toplevel", "name": "Run", "ts": 1, "dur": 2}]}',
        "another tool",
    ),
    "Perfetto": ('[{"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "name": "a", "ts": 2}]', "another tool"),
    "no events": ('{"traceEvents": []}', "holds no operators"),
    "exported too late": ('{"schemaVersion": 1, "traceEvents": []}', "nothing when it was exported"),
    "no objects": ('{"traceEvents": [1, "a", null, [], {"ph": "X"}, {}]}', "holds no operators"),
    "nested deeply": ('{"traceEvents": [' + NESTED + "}" * 5_000 + "}}]}", "nested too deeply"),
    "nested more deeply": ('{"traceEvents": [' + "[" * 50_000, "nested too deeply"),
    "never closed": ('{"traceEvents": [' + NESTED, "is cut short"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_file_that_is_no_recording(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = UNREADABLE[kind]
    (tmp_path / "t.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["import", str(tmp_path / "t.json"), "-o", str(tmp_path / "out.json")]) == 1
    said = capsys.readouterr().err
    assert words in said and "\ntry: " in said
    assert "unexpected" not in said
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def changed(**members: Any) -> list[dict[str, Any]]:
    return [event | {k: v for k, v in members.items() if k in event} for event in STEP]


def with_args(**args: Any) -> list[dict[str, Any]]:
    return [event | {"args": event.get("args", {}) | args} for event in STEP]


ODD: dict[str, list[dict[str, Any]]] = {
    "huge durations": changed(dur=HUGE),
    "no durations": changed(dur=float("nan")),
    "negative durations": changed(dur=-5),
    "numbers as texts": [e | {k: str(e[k]) for k in ("ts", "dur", "pid", "tid") if k in e} for e in STEP],
    "backward order": STEP[::-1],
    "names that are none": changed(name=None),
    "arguments that are none": changed(args=[1, 2]),
    "no correlations": with_args(correlation="x"),
    "huge correlations": with_args(correlation=HUGE, stream=HUGE, device=HUGE, grid=[HUGE] * 3, block=[HUGE] * 3),
    "odd shapes": with_args(**{"Input Dims": [["a"], -1, {}, None, [HUGE], [[[[1]]]]], "Input type": [1, None, []]}),
    "huge shapes": with_args(**{"Input Dims": [[10**15, 10**15]] * 5, "Input type": ["float"] * 5}),
    "many axes": with_args(**{"Input Dims": [[1] * 200] * 3, "Input type": ["float"] * 3}),
    "a kernel before its launch": [e | ({"ts": 5} if e["cat"] == "kernel" else {}) for e in STEP],
    "a step of a huge number": [span("user_annotation", "ProfilerStep#" + "9" * 5000, 1000, 900), *STEP],
    "letters beyond ASCII": [*STEP, operator("ацме::secret_оп", 1700, 10), *launch(77, 1702, "secret<日本>", 1703, 1)],
}


@pytest.mark.parametrize("kind", ODD)
def test_what_an_odd_recording_holds_is_read(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["import", str(write(tmp_path / "t.json", ODD[kind])), "-o", str(out)]) == 0
    assert load_signature(out).calls_per_step >= 1
    assert "secret" not in out.read_text() and out.read_text().isascii()
    assert "unexpected" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        lambda: [step(5, 900, 1100)],
        lambda: [step(4, 5000, 100), step(4, 20, 30)],
        lambda: [span("user_annotation", "ProfilerStep#4", 1010, 880, tid=77), operator("aten::neg", 1950, 2, tid=77)],
    ],
    ids=["nested", "the same number again", "on another thread"],
)  # fmt: skip
def test_steps_that_overlap_or_repeat(tmp_path: Path, more: Callable[[], list[dict[str, Any]]]) -> None:
    signature = read_kineto(write(tmp_path / "t.json", [*more(), *STEP])).signature
    assert {c.op: c.calls for c in signature.clusters} == {
        "aten.addmm.default": 1, "aten.mm.default": 1, "custom.opaque.default": 1,
    }  # fmt: skip
    assert signature.flops_per_step == 2 * FLOPS
    assert read_kineto(tmp_path / "t.json", step=4).signature.flops_per_step == 2 * FLOPS


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TEXT.replace('"dur": 900', '"dur": ' + "9" * 5000))
    assert read_kineto(tmp_path / "t.json").signature.calls_per_step == 1  # that step has no length: the other one
