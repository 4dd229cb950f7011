"""When a fit is good."""

from __future__ import annotations

import pytest

from statsnet.signatures.comparison import is_good
from statsnet.signatures.documents import Distances


@pytest.mark.parametrize(
    ("distances", "good"),
    [
        (Distances(), True),
        (Distances(category_total_variation=0.03, kernel_class_total_variation=0.05, bytes_per_s_error=-0.05), True),
        (Distances(category_total_variation=0.031), False),
        (Distances(kernel_class_total_variation=0.06), False),
        (Distances(flops_per_s_error=0.06), False),
        (Distances(bytes_per_s_error=-0.06), False),
        (Distances(launches_per_s_ratio=1.5), True),
    ],
)
def test_every_bar_must_be_met(distances: Distances, good: bool) -> None:
    """Launches are reported, and no bar."""
    assert is_good(distances) == good
