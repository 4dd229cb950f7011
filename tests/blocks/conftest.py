"""Small configurations of every kind of block, and the motifs that a step is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statsnet.profiling.capture import capture_step
from statsnet.profiling.motifs import motif_runs
from statsnet.signatures.categories import categorize, is_metadata
from statsnet.signatures.model import Cluster


def motifs_of(step: Callable[[], Any]) -> list[list[Cluster]]:
    """The runs of operators tied by data flow in the forward pass of a step."""
    calls = capture_step(step, device="cpu")
    for call in calls:
        call.metadata = is_metadata(call.op)
    clusters = [
        Cluster(
            op=c.op,
            phase=c.phase,
            category=categorize(c.op, c.phase),
            calls=1.0,
            args=tuple(c.args),
            outputs=tuple(c.outputs),
            skew=c.skew,
        )
        for c in calls
    ]
    return [[clusters[i] for i in run] for run in motif_runs(calls)]


@pytest.fixture
def motifs() -> Callable[[Callable[[], Any]], list[list[Cluster]]]:
    return motifs_of
