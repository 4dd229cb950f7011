"""A fidelity run that is taken up again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fidelity import _first_run_ns, _options


def test_it_began_when_it_was_first_started(tmp_path: Path) -> None:
    """What was measured since then is still fresh."""
    first = _first_run_ns(tmp_path)
    assert _first_run_ns(tmp_path) == first
    assert first > 0


@pytest.mark.parametrize(("option", "text"), [("--ways", "random,nobody"), ("--compressions", "20,many")])
def test_a_word_that_is_none_of_them_ends_it_at_once(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fidelity.py", option, text])
    with pytest.raises(SystemExit):
        _options()
    assert text.rpartition(",")[2] in capsys.readouterr().err


def test_compressions_and_ways_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--compressions", "20,500", "--ways", "searched,20 operators"]
    monkeypatch.setattr(sys, "argv", ["fidelity.py", *words])
    options = _options()
    assert (options.compressions, options.ways) == ([20.0, 500.0], ["searched", "20 operators"])
