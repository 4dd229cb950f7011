"""A network that takes turns with what is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from statsnet.measure import reference_network
from statsnet.measure.reference_network import FEWEST_LOOKS, ReferenceNetwork
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Limits, TimeNetwork


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_network, "LOOK_S", 0.001)


def test_it_is_looked_at_before_each_turn(proxy_folder: Path) -> None:
    reference = ReferenceNetwork(proxy_folder)
    seen = []
    for _ in reference.looks(0.0):
        seen.append(len(reference.latency_s))
    assert seen == [*range(1, FEWEST_LOOKS + 1)]
    assert min(reference.latency_s) > 0
    assert sum(1 for _ in reference.looks(0.05)) > 1


def test_nobody_looks_again_at_once(proxy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = ReferenceNetwork(proxy_folder)
    monkeypatch.setattr(reference_network, "BETWEEN_LOOKS_S", 1e9)
    reference.look()
    reference.look_now_and_then()
    assert len(reference.latency_s) == 1
    monkeypatch.setattr(reference_network, "BETWEEN_LOOKS_S", 0.0)
    reference.look_now_and_then()
    assert len(reference.latency_s) == 2


def test_each_window_of_steps_has_a_look_beside_it(proxy_folder: Path) -> None:
    task = TimeNetwork(folder=str(proxy_folder), reference_network=str(proxy_folder), limits=Limits(max_time_s=0.01))
    step = task.run(Context())
    assert len(step.timing.window_latency_s or ()) == len(step.reference_latency_s) == FEWEST_LOOKS
    assert len(step.timing.latency_s) >= FEWEST_LOOKS
