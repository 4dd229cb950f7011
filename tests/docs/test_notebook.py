"""The example notebook runs from its first cell to its last, in a kernel of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_pages import ROOT

NOTEBOOK = ROOT / "examples" / "from_python.ipynb"
SHOWN = ("mix", "member", "profile", "factory", "synthesize", "run", "compare", "frame")
"""Cells whose last line is a value that shows itself as HTML."""

EXECUTE = """
import sys

import nbclient
import nbformat

source, target, folder = sys.argv[1:]
notebook = nbformat.read(source, as_version=4)
notebook.cells.insert(0, nbformat.v4.new_code_cell('''
from dataclasses import replace

from statsnet.synthesis import next_network
from statsnet.synthesis.effort import EFFORTS, QUICK

EFFORTS["quick"] = replace(QUICK, candidates=24)  # the fit is not looked at
next_network.FIRST_JUMPS, next_network.JUMPS, next_network.JUMPS_NEARBY = 3, 10, 40
'''))
nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, target)
"""


def test_it_is_stored_without_what_running_it_gave() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_it_runs(tmp_path: Path) -> None:
    for module in ("nbclient", "ipykernel", "pandas"):
        pytest.importorskip(module, reason="notebooks cannot be run: pip install -e '.[dev]'")
    folders = {"STATSNET_CACHE": "cache", "HOME": "home", "IPYTHONDIR": "home", "JUPYTER_CONFIG_DIR": "home"}
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(NOTEBOOK), str(tmp_path / "done.ipynb"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **{name: str(tmp_path / place) for name, place in folders.items()}},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = {cell["id"]: cell for cell in json.loads((tmp_path / "done.ipynb").read_text())["cells"]}
    for name in SHOWN:
        (output,) = [each for each in cells[name]["outputs"] if each["output_type"] == "execute_result"]
        assert "<table" in "".join(output["data"]["text/html"]), name
    assert (tmp_path / "from_python" / "proxy" / "network.py").is_file()
