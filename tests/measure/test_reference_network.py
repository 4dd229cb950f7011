"""A network that takes turns with what is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from statsnet.measure import reference_network as reference_network
from statsnet.measure.reference_network import FEWEST_LOOKS, ReferenceNetwork
from statsnet.measure.timing_tasks import time_proxy


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_network, "LOOK_S", 0.001)


def test_it_is_looked_at_before_each_turn(proxy_folder: Path) -> None:
    found = ReferenceNetwork(proxy_folder)
    seen = []
    for _ in found.looks(0.0):
        seen.append(len(found.latency_s))
    assert seen == [*range(1, FEWEST_LOOKS + 1)]
    assert min(found.latency_s) > 0
    assert sum(1 for _ in found.looks(0.05)) > 1


def test_each_window_of_steps_has_a_look_beside_it(proxy_folder: Path) -> None:
    job = {"folder": str(proxy_folder), "reference_network": str(proxy_folder), "max_time_s": 0.01}
    result = time_proxy(job)
    assert len(result["window_latency_s"]) == len(result["reference_latency_s"]) == FEWEST_LOOKS
    assert len(result["latency_s"]) >= FEWEST_LOOKS
