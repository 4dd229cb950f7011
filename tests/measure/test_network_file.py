"""A network's source that can not be executed is a sentence with the line, and names no temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from statsnet.errors import FileFormatError
from statsnet.measure.network_file import load_network


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nraise RuntimeError('boom')", "network.py can not be run\ncause: line 2: RuntimeError: boom"),
        ("def f():\n    return 1 / 0\nf()", "line 2: ZeroDivisionError"),
        ("x = 1\ndef broken(:", "line 2: SyntaxError"),
        ("import json\njson.loads('')", "line 2: JSONDecodeError"),
        ("x = '\0'", "network.py can not be run"),
        ("x = 1", "network.py is not a proxy's network\ncause: it does not define MODE"),
    ],
)
def test_what_is_no_network(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "network.py").write_text(source)
    with pytest.raises(FileFormatError) as caught:
        load_network(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
