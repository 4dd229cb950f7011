"""Events of a trace file are read one by one, also from files that are not quite JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.errors import FileFormatError
from statsnet.progress import Progress
from statsnet.recordings import json_events
from statsnet.recordings.json_events import ChromeTrace
from statsnet.recordings.trace_fields import nanoseconds

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.lists(st.dictionaries(st.text(max_size=8), VALUES, min_size=1, max_size=5), max_size=6)


def events_of(path: Path, text: str | bytes) -> list[dict[str, Any]]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(ChromeTrace(path))


@settings(max_examples=40)
@given(events=EVENTS, indent=st.sampled_from([None, 2]), chunk=st.integers(1, 40))
def test_any_events_are_read_whatever_the_chunks(
    events: list[dict[str, Any]], indent: int | None, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    path.write_text(json.dumps({"first": 12345, "traceEvents": events, "last": [1, {"a": None}]}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_events, "CHUNK", chunk)
        trace = ChromeTrace(path)
        assert list(trace) == events
    assert trace.head == {"first": 12345, "last": [1, {"a": None}]}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_how_far_a_large_file_is_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    said: list[Progress] = []
    random = Random(0)
    events = [{"ph": "X", "n": random.randbytes(40).hex()} for _ in range(20_000)]
    path = tmp_path / "trace.json"
    path.write_bytes(pack(json.dumps({"traceEvents": events}).encode()))
    list(ChromeTrace(path, said.append))
    assert said == []  # one read is soon over
    monkeypatch.setattr(json_events, "TOLD", 200_000)
    assert len(list(ChromeTrace(path, said.append))) == len(events)
    shares = [progress.done for progress in said]
    assert len(shares) > 5 and shares == sorted(shares) and shares[0] < 0.5 and 0.8 < shares[-1] <= 1.0
    assert {progress.stage for progress in said} == {"reading trace.json"}


def test_many_events_that_are_too_short_to_be_any_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file could hold so many of them that reading takes minutes."""
    monkeypatch.setattr(json_events, "MANY", 100)
    assert len(events_of(tmp_path / "a", "[" + "{}," * 98 + "{}]")) == 99
    assert len(events_of(tmp_path / "b", "[" + '{"name":"x","ts":1},' * 300 + "{}]")) == 301
    with pytest.raises(FileFormatError, match="is not JSON") as refused:
        events_of(tmp_path / "c", "[" + "{}," * 300 + "{}]")
    assert "fewer than 20 characters each on average" in refused.value.cause


def test_the_short_form_and_gzip(tmp_path: Path) -> None:
    assert events_of(tmp_path / "a", "[{}]") == [{}]
    assert events_of(tmp_path / "b", gzip.compress(b'{"traceEvents": [{"ph": "X"}]}', mtime=0)) == [{"ph": "X"}]


def test_what_is_not_json_becomes_null(tmp_path: Path) -> None:
    odd = '{"a": N/A, "b": inf, "c": -inf, "d": NaN, "e": "x\x01\\d {", "f": 1.50, "g": true}'
    assert events_of(tmp_path / "t", f'{{"traceEvents": [{odd}, {{"h": 2}}]}}') == [
        {"a": None, "b": None, "c": None, "d": None, "e": "x\x01\\d {", "f": "1.50", "g": True},
        {"h": 2},
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "it is empty"),
        (b"hello", "begins with 'h'"),
        (b"{}", "no list traceEvents"),
        (b'{"resourceSpans": [1, 2]}', "it has resourceSpans"),
        (b'{"traceEvents": [{"ph": "X"}, {"ph": "M"', "is cut short"),
        (b'{"traceEvents": [{"ph": "X"},', "in the middle of its list of events"),
        (b'[{"ph": "X"},\n', "line 2, in the middle of its list of events"),
        (b'{"schemaVersion": 1, "devi', "in the middle of the fields before its events"),
        (b'{"traceEvents": [{"ph": "X"}]', "in the middle of the fields after its events"),
        (b'{"traceEvents": [{"ph": "X"}], "n": 1', "in the middle of the fields after its events"),
        (b'{"traceEvents": [\n{"ph": "X"},\n{"ph": "X" "cat": 3}]}', "line 3"),
        (gzip.compress(b'{"traceEvents": [{"ph": "X"}]}', mtime=0)[:-12], "damaged gzip"),
        (b"\x1f\x8b" + b"garbage" * 9, "damaged gzip"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, text: bytes, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        events_of(tmp_path / "trace.json", text)


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [
        ("1712195495519689.047", 1712195495519689047),
        (1712195495519689, 1712195495519689000),
        ("0.5", 500),
        ("1e3", 1_000_000),
        (None, None),
        ("inf", None),
    ],
)
def test_times_are_exact(microseconds: Any, expected: int | None) -> None:
    assert nanoseconds(microseconds) == expected
