"""What a customer must not find in a signature file: names, values, paths. Planted, then searched for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import statsnet
from statsnet.measure.control import Control
from statsnet.measure.process import run
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.storage import save_signature
from statsnet.workloads.settings import parse_setting

FACTORY = """
import torch
from torch import nn


@torch.library.custom_op("plantednamespace::plantedoperator", mutates_args=())
def plantedoperator(x: torch.Tensor, mode: str) -> torch.Tensor:
    return x * 2 + 1


class PlantedModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.planted_child = nn.Linear(13, 13)
        self.planted_parameter = nn.Parameter(torch.full((13,), 0.987654321))

    def forward(self, x):
        with torch.profiler.record_function("planted_range"):
            x = self.planted_child(x) * 0.123456789 + self.planted_parameter
            x = torch.clamp(x, -7.654321, 3.141592653)
        x = x * x.detach().mean().item()
        return torch.ops.plantednamespace.plantedoperator(x.detach(), "planted_string") + x


def planted_factory():
    return PlantedModule(), torch.full((4, 13), 5.4321e-3)
"""
PLANTED = (
    "planted", "PlantedModule", "0.123456789", "123456789", "0.98765", "7.65432", "3.14159",
    "5.4321", "custom_op", "plantednamespace", "plantedoperator", "mystery_model",
    "hermione", "secret-host-17", "gringotts",
)  # fmt: skip


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "hermione")
    monkeypatch.setenv("HOSTNAME", "secret-host-17")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "/home/hermione/gringotts")
    folder = tmp_path / "gringotts"
    folder.mkdir()
    file = folder / "mystery_model.py"
    file.write_text(FACTORY)
    return f"{file}:planted_factory"


def assert_nothing_planted(path: Path) -> None:
    text = path.read_bytes().decode().lower()
    assert "addmm" in text
    assert [word for word in PLANTED if word.lower() in text] == []
    assert str(path.parent) not in text


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_factory_leaves_no_trace_in_the_file(factory: str, tmp_path: Path, mode: str) -> None:
    task = ProfileWorkload(model=Model(target=factory, mode=mode), min_time_s=0.0)
    signature = task.run(Context()).signature
    assert_clean(signature.to_dict())
    save_signature(tmp_path / "s.json", signature)
    assert_nothing_planted(tmp_path / "s.json")
    assert signature.workload is None
    assert [c.args[-1] for c in signature.clusters if c.op == "custom.opaque.default"] == [None]


def test_nor_from_a_process_of_its_own(factory: str, tmp_path: Path) -> None:
    task = ProfileWorkload(model=Model(target=factory, mode="inference"), min_time_s=0.0)
    save_signature(tmp_path / "s.json", run(task, Control(setting=parse_setting("threads=1"))).signature)
    assert_nothing_planted(tmp_path / "s.json")


def test_nor_from_a_loop_of_ones_own(factory: str, tmp_path: Path) -> None:
    class PlantedOptimizer(torch.optim.SGD):
        pass

    model = nn.Linear(13, 13)
    optimizer = PlantedOptimizer(model.parameters(), lr=0.123456789)
    with statsnet.profile("planted_name", output=tmp_path / "s.json", model=model) as p:
        for _ in range(5):
            optimizer.zero_grad()
            (model(torch.full((4, 13), 0.987654321)) * 7.654321).sum().backward()
            optimizer.step()
            p.step()
    assert_nothing_planted(tmp_path / "s.json")
    assert p.signature is not None
    assert p.signature.optimizer == "custom"
