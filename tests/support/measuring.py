"""A small proxy folder, and a place for the files of measuring processes."""

from __future__ import annotations

import tempfile
from pathlib import Path

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


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which measuring processes keep their files: empty again when they have ended."""
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    return files
