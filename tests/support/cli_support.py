"""Running the command line in a process of its own, and small inputs for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statsnet.measure import timing as harness
from statsnet.signatures.storage import save_document

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "signatures" / "golden_signature.json"

MODEL = """
import torch


def make(batch: int = 4, width: int = 16):
    layers = torch.nn.Linear(width, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)
    return torch.nn.Sequential(*layers), (torch.randn(batch, width),)


def raises():
    raise RuntimeError("the weights are gone")


def wrong_input():
    return torch.nn.Linear(8, 8), (torch.randn(2, 9),)


class Slow(torch.nn.Module):
    def forward(self, x):
        import time

        time.sleep(60)
        return x


def slow():
    return Slow(), (torch.randn(2),)
"""

NETWORK = """

import torch.nn as nn

MODE = "inference"


def build(device="cpu"):
    torch.manual_seed(0)
    return nn.Conv2d(3, 8, 3).to(device)


def make_step(proxy, device):
    x = torch.randn(1, 3, 8, 8, device=device)

    def step():
        with torch.no_grad():
            return proxy(x)

    return step


if __name__ == "__main__":
    sys.exit(main(lambda device: make_step(build(device), device), "", MODE))
"""

Cli = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "statsnet", *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if k not in ("STATSNET_DEBUG", "FORCE_COLOR")},
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder.parent / "tmp"),
        "STATSNET_CACHE": str(folder.parent / "cache"),
    }


def write_proxy(folder: Path, *members: dict[str, Any]) -> Path:
    """A proxy's folder as the generator lays it out: the harness pasted whole before the network."""
    spec = {
        "kind": "statsnet.proxy",
        "schema_version": 1,
        "mode": "inference",
        "dtype": "float32",
        "seed": 0,
        "budget_s": 0.01,
        "reference_environment": {"device": "cpu", "device_name": "Z80", "threads": 1},
        "mix": list(members) or [member("cv/x", 1.0)],
        "towers": [
            {
                "outputs": 1,
                "blocks": [{"kind": kind, "config": {}, "optimizer": None} for kind in ("conv", "conv", "relu")],
            }
        ],
    }
    save_document(folder / "spec.json", spec)
    (folder / "network.py").write_text(Path(harness.__file__).read_text() + NETWORK)
    return folder


def member(name: str, weight: float, signature: str = "sha256:" + "0" * 64, **fields: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "signature": signature, "latency_s": 0.25, **fields}


def write_result(path: Path, *medians_s: float, threads: int = 1, subject: str = "a") -> Path:
    """A result of a proxy with one process per median."""
    processes = [
        {"latency_s": [0.99 * t, t, 1.01 * t], "warmup_latency_s": [t], "stable": True, "warnings": []}
        for t in medians_s
    ]
    data = {
        "kind": "statsnet.result",
        "schema_version": 1,
        "subject": {"type": "proxy", "id": "sha256:" + subject * 64, "mode": "inference"},
        "environment": {"device": "cpu", "device_name": "Z80", "threads": threads},
        "processes": processes,
    }
    save_document(path, data)
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text())
