"""How inputs that libFuzzer chooses reach the readers. A stand-in hands them over as it does, through atheris."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import CHOICE_BYTES, FIRST_INPUTS

STAND_IN = """
import contextlib, itertools, pathlib, sys

@contextlib.contextmanager
def instrument_imports(include):
    early = sorted(name for name in sys.modules if name.split(".")[0] in include)
    assert not early, f"imported before branches are counted: {early}"
    yield

def Setup(words, one):
    global corpus, function
    corpus, function = pathlib.Path(words[1]), one

def Fuzz():
    for file in itertools.cycle(sorted(corpus.iterdir())):
        function(file.read_bytes())
"""


def test_without_atheris_the_program_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--engine", "atheris", "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        fuzz.main()
    assert end.value.code == 2
    assert "pip install 'statsnet[fuzz]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_as_many_inputs_are_read_as_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own that ends while libFuzzer would still go on."""
    (tmp_path / "stand_in").mkdir()
    (tmp_path / "stand_in" / "atheris.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "stand_in")
    out = tmp_path / "out"
    words = ["fuzz.py", "--engine", "atheris", "--readers", "settings", "--inputs", str(FIRST_INPUTS + 9)]
    monkeypatch.setattr(sys, "argv", [*words, "-o", str(out)])
    assert fuzz.main() == 0
    tally = json.loads((out / "settings.tally.json").read_text())
    assert (tally["inputs"], tally["failures"]) == (FIRST_INPUTS + 9, [])
    first = [file.read_bytes() for file in (out / "settings.corpus").iterdir()]
    assert len({*first}) == FIRST_INPUTS and {len(each) for each in first} == {CHOICE_BYTES}
