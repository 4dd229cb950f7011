"""Running the command line in a process of its own, and small inputs for it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import member, write_proxy  # noqa: F401 (used by the tests)

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


class WhenSaid(io.StringIO):
    """Stands for stdout or stderr, and does something as soon as a command says so."""

    def __init__(self, words: str, do: Callable[[], object]) -> None:
        super().__init__()
        self._words, self._do = words, do

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._words in text:
            self._do()
        return written


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
