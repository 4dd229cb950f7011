"""Every reader takes a changed file in or refuses it: a short run of benchmarks/fuzz.py, and its limits."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import csv_tables, fuzz
from benchmarks.fuzz import FuzzRow
from benchmarks.fuzzing import readers
from benchmarks.fuzzing.limits import TOO_SLOW, Failure
from benchmarks.fuzzing.mutation import Choices, changed_bytes, changed_document
from benchmarks.fuzzing.readers import READERS, Reader
from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.canonical import canonical_json, content_id

ROOT = Path(__file__).parents[2]
INPUTS, FEW = 15, 4
VARIABLES = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}


@pytest.mark.parametrize("reader", READERS.values(), ids=list(READERS))
def test_a_changed_file_is_read_or_refused(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / reader.name
    if not reader.inputs:
        pytest.skip("a package is missing")

    @settings(
        max_examples=INPUTS if reader.make is None else FEW, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(reader.content(data))
        with contextlib.suppress(StatsNetError):
            reader.read(path)

    check()
    assert {p.name for p in folder.iterdir()} <= {reader.name, "ab", "here"}


@pytest.mark.parametrize("reader", READERS.values(), ids=list(READERS))
def test_the_seeds_are_taken_in(reader: Reader, tmp_path: Path) -> None:
    for seed in reader.inputs[:3]:
        (tmp_path / reader.name).write_bytes(seed)
        reader.read(tmp_path / reader.name)


def at(document: Any, place: tuple[Any, ...]) -> Any:
    """What stands there; None where there is no such place."""
    for key in place:
        there = (isinstance(document, dict) and key in document) or (isinstance(document, list) and len(document) > 0)
        document = document[key] if there else None
    return document


@pytest.mark.parametrize(
    ("name", "holder", "key", "value", "accepted"),
    [
        ("result", ("validation", "moved"), "members", [], False),
        ("fit", (), "recorded", {"exact": 1.0}, True),
        ("fit", (), "stored_members", ["x"] * 10_001, False),
        ("fit", ("summary",), "intensity_earth_movers_distance_log2", None, True),
        ("signature", ("measurements", 0, "gpu"), "duration_log2_us", [[3, 1e30]], True),
        ("signature", ("measurements", 0, "gpu", "power"), "sm_clock_min_mhz", None, True),
        ("device", ("models", 0, "held_out"), "low_95", 1e300, False),
        ("device", ("models", 0, "process"), "base", 1e300, False),
        ("device", ("reached", "computing"), "usual", 1e300, False),
        ("device", ("models", 0), "names", ["no_such_dim"], False),
        ("search", (), "front", [], False),
    ],
)
def test_what_was_found_once(
    name: str, holder: tuple[Any, ...], key: str, value: Any, accepted: bool, tmp_path: Path
) -> None:
    """Files of the right types that ended in a crash, or in gigabytes."""
    documents = [json.loads(seed) for seed in READERS[name].inputs if seed.startswith(b"{")]
    document = next(each for each in documents if at(each, holder) is not None)
    at(document, holder)[key] = value
    if "id" in document:
        document["id"] = content_id(document)
    path = tmp_path / READERS[name].name
    path.write_text(json.dumps(document))
    with contextlib.nullcontext() if accepted else pytest.raises(FileFormatError):
        READERS[name].read(path)


@given(st.binary(max_size=64))
def test_bytes_choose_the_same_changes_again(data: bytes) -> None:
    text = '{"a": [1, {"b": "x"}], "c": 2.5}'
    changed = [changed_document(text.encode(), Choices(data)) for _ in range(2)]
    assert changed[0] == changed[1]
    assert changed_bytes(b"abc" * 9, Choices(data)) == changed_bytes(b"abc" * 9, Choices(data))


@given(st.binary(max_size=64))
def test_a_changed_document_has_the_id_of_its_content(data: bytes) -> None:
    seed = canonical_json({"id": "", "a": [1.5, {"b": "x"}, -3, [], None], "c": 2e30})
    text = changed_document(seed.encode(), Choices(data))
    with contextlib.suppress(ValueError):  # a number that has no canonical form, or a change that breaks a list
        document = json.loads(text)
        assert document["id"] == content_id(document)


def test_looking_at_what_was_read_takes_a_quarter_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 10.0
    monkeypatch.setattr(readers, "time", SimpleNamespace(process_time=lambda: now_s))
    spared = readers._Spared()
    assert spared.has_time
    with spared.looking():
        now_s += 1.0
    now_s += 2.5
    assert not spared.has_time
    now_s += 0.5
    assert spared.has_time


MISBEHAVING = """
import os, socket, subprocess, sys
from pathlib import Path
from benchmarks.fuzzing import limits
from statsnet.errors import UsageError

inside, outside = sys.argv[1:]
watch = limits.Watch(Path(inside), 0.2)

def refuses(): raise UsageError("no")
def writes_inside(): open(inside + "/file", "w").close()
def crashes(): raise KeyError("x")
def hangs():
    while True: pass
def takes(): bytearray(2 << 30)
def writes_outside(): open(outside + "/file", "w")
def opens_to_write(): os.open(outside + "/kept", os.O_RDWR)
def removes(): os.remove(outside + "/kept")
def starts_a_program(): subprocess.run([sys.executable, "-c", "pass"])
def connects(): socket.create_connection(("127.0.0.1", 9))

for each in (refuses, writes_inside, crashes, hangs, takes, writes_outside, opens_to_write, removes, starts_a_program,
             connects):
    accepted, failure = watch.run(each)
    print(each.__name__, accepted, failure.kind if failure else "")
print(sorted(os.listdir(outside)))
"""


def test_what_a_reader_must_not_do_is_a_failure(tmp_path: Path) -> None:
    """In a process of its own: what is told of opened files cannot be unheard."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "kept").touch()
    words = [sys.executable, "-c", MISBEHAVING, str(inside), str(outside)]
    done = subprocess.run(words, env=VARIABLES, capture_output=True, text=True, check=True)
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "refuses False", "writes_inside True", "crashes False crash: KeyError", "hangs False too slow: TooSlow",
        "takes False too much memory: MemoryError", *(
            f"{name} False not allowed: Forbidden"
            for name in ("writes_outside", "opens_to_write", "removes", "starts_a_program", "connects")
        ), "['kept']",
    ]  # fmt: skip


SLOW = Failure(kind=f"{TOO_SLOW}: TooSlow", where="journal.py:27", text="it takes too long")


@pytest.mark.parametrize("again", [None, SLOW])
def test_what_took_too_long_is_read_once_more(
    again: Failure | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [(False, SLOW), (again is None, again)]
    watch = SimpleNamespace(run=lambda read: seen.pop(0), took_s=0.1)
    monkeypatch.setattr(fuzz, "Watch", lambda folder, time_s: watch)
    fuzzer = fuzz._Fuzzer("settings", argparse.Namespace(work=tmp_path, output=tmp_path))
    fuzzer.one(b"")
    assert (fuzzer.tally.inputs, fuzzer.tally.accepted) == (1, int(again is None))
    assert fuzzer.tally.failures == ([] if again is None else [SLOW])


def test_the_program_prints_a_table_and_keeps_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read in a process of its own."""
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--readers", "settings", "--inputs", "50", "-o", str(tmp_path)])
    assert fuzz.main() == 0
    rows = [line.split(" | ")[:2] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [["| settings", "50"]]


@pytest.mark.parametrize(("failures", "code"), [(0, 0), (2, 1)])
def test_a_reader_that_has_read_enough_still_fails(
    failures: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "fuzz.csv"
    row = FuzzRow(reader="settings", inputs=50, taken_in=9, slowest_s=0.1, failures=failures)
    other = FuzzRow(reader="mix", inputs=70, taken_in=9, slowest_s=0.1, failures=1)
    csv_tables.write(table, FuzzRow, [row, other], one_machine=False)
    words = ["fuzz.py", "--readers", "settings", "--inputs", "50", "--add-to", str(table), "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    assert fuzz.main() == code
    said = capsys.readouterr().out
    assert f"settings has read 50 inputs before, {failures} failures" in said and "2 readers, 120 inputs" in said
