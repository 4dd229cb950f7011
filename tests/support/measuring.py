"""A small proxy folder, and job functions that a measuring process can import."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from statsnet.measure import timing as harness
from statsnet.signatures.storage import save_document

NETWORK = """

import torch.nn as nn

MODE = "inference"
SPEC_ID = "{spec_id}"


class Proxy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return self.layer(x)


def build(device="cpu"):
    torch.manual_seed(0)
    return Proxy().to(device)


def make_step(proxy, device):
    x = torch.randn(1, 3, 8, 8, device=device)

    def step():
        with torch.no_grad():
            return proxy(x)

    return step


if __name__ == "__main__":
    sys.exit(main(lambda device: make_step(build(device), device), SPEC_ID, MODE))
"""


@pytest.fixture
def proxy_folder(tmp_path: Path) -> Path:
    """network.py made as the generator makes it (the harness pasted whole), and its spec.json."""
    folder = tmp_path / "proxy"
    spec = {
        "kind": "statsnet.proxy",
        "schema_version": 1,
        "mode": "inference",
        "dtype": "float32",
        "seed": 0,
        "budget_s": 0.01,
        "reference_environment": {},
        "mix": [{"name": "cv/x", "weight": 1.0, "signature": "sha256:" + "0" * 64, "latency_s": 1.0}],
        "towers": [{"outputs": 1, "blocks": [{"kind": "conv", "config": {}, "optimizer": None}]}],
    }
    spec_id = save_document(folder / "spec.json", spec)["id"]
    source = Path(harness.__file__).read_text() + NETWORK.format(spec_id=spec_id)
    (folder / "network.py").write_text(source)
    return folder


JOBS = """
import atexit, json, math, os, signal, subprocess, sys, time

from statsnet.errors import WorkloadError


def environment(job):
    wanted = ("OMP_NUM_THREADS", "MALLOC_TOP_PAD_", "ONEDNN_MAX_CPU_ISA", "EXTRA")
    return {name: os.environ.get(name) for name in wanted} | {"path": sys.path, "pid": os.getpid()}


def progressing(job, progress):
    for done in (0.0, 0.5):
        progress({"stage": "working", "done": done})
    print("noise on stdout")
    return {"answer": job["question"] * 2}


def raising(job):
    raise RuntimeError("the sky fell")


def refusing(job):
    raise WorkloadError("no such model", cause="it was never made", hint="make it")


def killed(job):
    os.kill(os.getpid(), job.get("signal", signal.SIGKILL))


def aborted_behind_its_result(job):
    atexit.register(os.abort)
    return {"answer": 42}


def not_a_number(job):
    return {"latency_s": math.nan}


def hanging(job, progress):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(job["pids"], "w") as file:
        json.dump([os.getpid(), helper.pid], file)
    progress({"stage": "hanging"})
    time.sleep(600)
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes JOBS importable as `statsnet.jobs_of_tests` in child processes; returns their folder for files.

    Children search where we do, and Python imports a `sitecustomize` that it finds there.
    """
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "jobs_of_tests.py").write_text(JOBS)
    (modules / "sitecustomize.py").write_text(
        "import sys, jobs_of_tests\nsys.modules['statsnet.jobs_of_tests'] = jobs_of_tests\n"
    )
    monkeypatch.syspath_prepend(modules)
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    return files


def process(*latency_s: float, **changes: Any) -> dict[str, Any]:
    """An entry of a result's `processes`."""
    return {"latency_s": list(latency_s), "warmup_latency_s": [], "stable": True, "warnings": [], **changes}
