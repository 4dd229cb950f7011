"""One thread, and numbers that can be reproduced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from measuring import temporary_files  # noqa: F401 (a fixture)
from one_thread import one_thread  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
