"""Canonical text, ids, and writing that never half succeeds."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.canonical import (
    canonical_csv,
    canonical_json,
    content_id,
    number_text,
    read_json,
    write_json_atomically,
)
from statsnet.signatures.model import Signature

GOLDEN = Path(__file__).with_name("golden_signature.json")

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


def test_golden_file(sparse_signature: Signature) -> None:
    """The text of a given content never changes: ids in specs and results depend on it."""
    assert canonical_json(sparse_signature.to_dict()) == GOLDEN.read_text(encoding="ascii")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2, "2"), (2.0, "2"), (-0.0, "0"), (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333333"), (12345678912, "12345678912"),
        (12345678912.0, "1.23456789e+10"), (1e-7, "1e-07"), (np.float32(0.5), "0.5"), (np.int64(7), "7"),
    ],
)  # fmt: skip
def test_numbers_have_one_form(value: float, text: str) -> None:
    assert number_text(value) == text
    assert canonical_json([value]) == f"[{text}]\n"


def test_cells_of_a_table() -> None:
    table = canonical_csv(("a", "b"), [[True, False], [None, ""], [1 / 3, np.int64(7)], ["x,y", -0.0]])
    assert table == 'a,b\n1,0\n,\n0.333333333,7\n"x,y",0\n'
    assert canonical_csv(("a",), [["=1+1"], ["@x"], [-1]]) == "a\n'=1+1\n'@x\n-1\n", "no text becomes a formula"
    stranger = canonical_csv(("a",), [["\x1b]0;owned\x07\x9b1m\u202e\ud800 \r\n"]])
    assert stranger == "a\n?]0;owned??1m?? ??\n", "no text acts on a terminal"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_writing_a_read_number_gives_the_same_text(value: float) -> None:
    text = number_text(value)
    assert number_text(json.loads(text)) == text
    assert json.loads(text) == pytest.approx(value, rel=1e-8)


@given(plain)
def test_canonical_form_is_stable(data: Any) -> None:
    text = canonical_json(data)
    assert canonical_json(json.loads(text)) == text
    assert text.isascii()


@given(st.dictionaries(st.text(), plain, max_size=5))
def test_id_does_not_depend_on_order_or_on_an_id(data: dict[str, Any]) -> None:
    backwards = dict(reversed(data.items()))
    assert content_id(data) == content_id(backwards) == content_id(data | {"id": "anything"})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_is_no_number_has_no_text(value: float) -> None:
    with pytest.raises(ValueError, match="null"):
        canonical_json({"a": [value]})


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, {"a": b"x"}, {"a": object()}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_long_values_are_broken_into_lines() -> None:
    text = canonical_json({"rows": [{"values": list(range(30))} for _ in range(3)], "a": 1})
    assert text.splitlines()[:3] == ["{", ' "a":1,', ' "rows":[']
    assert max(map(len, text.splitlines())) <= 111


def test_written_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.json"
    write_json_atomically(path, {"b": 1.5, "a": [None, True]})
    assert path.read_text() == '{"a":[null,true],"b":1.5}\n'
    assert read_json(path) == {"b": 1.5, "a": [None, True]}
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("error", "raised", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StatsNetError, "free some space"),
        (OSError(errno.EACCES, "Permission denied"), StatsNetError, "may write"),
        (OSError(errno.EIO, "Input/output error"), StatsNetError, "check the path"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException, raised: Any, hint: str
) -> None:
    path = tmp_path / "a.json"
    write_json_atomically(path, {"old": True})

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(raised) as caught:
        write_json_atomically(path, {"new": True})
    monkeypatch.undo()
    assert read_json(path) == {"old": True}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    if hint:
        assert hint in caught.value.hint
        assert caught.value.cause == error.strerror  # type: ignore[attr-defined]


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StatsNetError, match="could not write"):
        write_json_atomically(tmp_path / "file" / "a.json", {})


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """A user with all rights could else lose /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(StatsNetError, match="could not write") as caught:
            write_json_atomically(tmp_path / name, {})
        assert caught.value.cause == "it is not a regular file"
    assert (tmp_path / "pipe").is_fifo()
    assert {p.name for p in tmp_path.iterdir()} == {"pipe", "link"}


def test_unwritable_data_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        write_json_atomically(tmp_path / "a.json", {"a": math.nan})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"a": 1,\n "b": [1, 2', "ends too early"),
        (b'{"a": "text that never e', "ends too early"),
        (b'{"a": 1}\n}', "line 2"),
        (b"{'a': 1}", "line 1, column 2"),
        (b"[1, 2]", "it holds a list"),
        (b"null", "does not hold an object"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b'{"a": 1e999}', "1e999 is too large a number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"a": "\xff"}', "is not a text file"),
        (b"\x80\x04\x95pickle", "is not a text file"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": "' + b"x" * 2000 + b'"}', None),
    ],
)
def test_malformed_files_are_explained(tmp_path: Path, content: bytes, message: str | None) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    if message is None:
        assert read_json(path)
        with pytest.raises(FileFormatError, match="more than 1000 bytes"):
            read_json(path, max_bytes=1000)
        return
    with pytest.raises(FileFormatError, match=r"a\.json") as caught:
        read_json(path)
    assert message in str(caught.value)


def test_what_is_no_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="does not exist"):
        read_json(tmp_path / "none.json")
    with pytest.raises(FileFormatError, match="is a folder"):
        read_json(tmp_path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_json("nul\0byte.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(FileFormatError, match="not a regular file"):
        read_json(tmp_path / "pipe.json")
