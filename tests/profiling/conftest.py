"""Numbers that can be reproduced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from statsnet.profiling import api, replay, trace, varying


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(autouse=True)
def _recording_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of its own measures what recording an event takes. On a busy machine that may come out longer than all
    that lies between a tiny step's operators, which then has no framework time."""
    for module in (api, replay, trace, varying):
        monkeypatch.setattr(module, "event_overhead_s", lambda **_: 0.0)
