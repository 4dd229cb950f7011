"""A small proxy folder, a place for the files of measuring processes, and their end."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from statsnet.proxy.run_file import run_source
from statsnet.proxy.spec import source_of
from statsnet.signatures.storage import load_spec, save_document

CONV = {"batch": 1, "channels": 3, "size": [8, 8], "filters": 8, "kernel": [3, 3], "stride": [1, 1], "padding": [0, 0]}
"""One small convolution, the network of `write_proxy`."""


def member(name: str, weight: float, signature: str = "sha256:" + "0" * 64, **changes: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "signature": signature, "latency_s": 0.25, **changes}


def write_proxy(folder: Path, *members: dict[str, Any], mode: str = "inference") -> Path:
    """A proxy's folder as the generator lays it out: network.py, run.py and spec.json."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "kind": "statsnet.proxy",
        "schema_version": 2,
        "title": "a mix",
        "notes": "",
        "mode": mode,
        "dtype": "float32",
        "seed": 0,
        "budget_s": 0.01,
        "reference_environment": {"device": "cpu", "device_name": "Z80", "threads": 1},
        "mix": list(members) or [member("cv/x", 1.0)],
        "towers": [{"blocks": [{"kind": "conv", "config": CONV, "optimizer": None}]}],
    }
    for name, text in _texts(json.dumps(spec)).items():
        (folder / name).write_text(text)
    return folder


@cache
def _texts(spec: str) -> dict[str, str]:
    """By their files' names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spec.json")
        save_document(path, json.loads(spec))
        return {path.name: path.read_text(), "network.py": source_of(load_spec(path)), "run.py": run_source()}


@pytest.fixture
def proxy_folder(tmp_path: Path) -> Path:
    return write_proxy(tmp_path / "proxy")


@pytest.fixture
def own_cache() -> Path:
    """The cache, empty. A folder of its own would take another variable, and so a server of measuring processes."""
    folder = Path(os.environ["STATSNET_CACHE"])
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which measuring processes keep their files: empty again when they have ended."""
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    return files


def is_running(pid: int) -> bool:
    """A zombie has ended, though the name is still there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_all_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 120
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.02)
