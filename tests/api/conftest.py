"""A folder with a file of each kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_support import GOLDEN, write_proxy, write_result
from scenario_results import scenario_result, trial

import statsnet

MIX = "mode: inference\nmembers: [{workload: recsys/ncf, weight: 1}, {workload: cv/resnet50, weight: 3}]\n"


@pytest.fixture
def here(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file of each kind in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copy(GOLDEN, "s.json")
    (folder / "m.yaml").write_text(MIX)
    write_proxy(folder / "p")
    write_result(folder / "r.json", 0.020, 0.0201, 0.0199)
    write_result(folder / "faster.json", 0.010, 0.0101, 0.0099, threads=2)
    statsnet.save(scenario_result("single-stream", trial([0.01] * 100)), folder / "scenario.json")
    return folder
