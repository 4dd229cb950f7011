"""A network's source that cannot be executed is a sentence with the line, and names no temporary folder."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.measure.network_file import load_network, written


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nraise RuntimeError('boom')", "network.py cannot be run\ncause: line 2: RuntimeError: boom"),
        ("def f():\n    return 1 / 0\nf()", "line 2: ZeroDivisionError"),
        ("x = 1\ndef broken(:", "line 2: SyntaxError"),
        ("import json\njson.loads('')", "line 2: JSONDecodeError"),
        ("x = '\0'", "network.py cannot be run"),
        ("x = 1", "network.py is not a proxy's network\ncause: it does not define MODE"),
    ],
)
def test_what_is_no_network(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "network.py").write_text(source)
    with pytest.raises(FileFormatError) as caught:
        load_network(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_network_that_cannot_be_written_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StatsNetError, match="could not write") as error, written("MODE = 'inference'"):
        pass
    assert error.value.hint is not None and "free some space" in error.value.hint
