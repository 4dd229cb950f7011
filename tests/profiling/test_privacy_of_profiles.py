"""What a customer must not find in the signature of a loop of one's own: names, values, paths. Planted, then searched
for. tests/cli/test_nothing_leaks.py does the same for what the command line profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import statsnet

PLANTED = ("planted", "0.123456789", "123456789", "0.98765", "7.65432", "hermione", "secret-host-17")


def test_a_loop_of_ones_own_leaves_no_trace_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USER": "hermione", "LOGNAME": "hermione", "HOSTNAME": "secret-host-17"}.items():
        monkeypatch.setenv(name, value)

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
    text = (tmp_path / "s.json").read_text().lower()
    assert "addmm" in text
    assert [word for word in PLANTED if word in text] == []
    assert str(tmp_path) not in text
    assert p.signature is not None
    assert p.signature.optimizer == "custom"
