"""The table of what proxies of several processes exchange, against their models."""

from __future__ import annotations

import pytest

from benchmarks.fit_together import markdown, rows_of
from benchmarks.together.subjects import SUBJECTS
from statsnet.signatures.documents import COLLECTIVE_GROUP, Characteristic, Fit, FitSummary
from statsnet.synthesis.collectives import COUNTED_BAR, OVERLAP, OVERLAP_BAR, WAITING, WAITING_BAR


def _row(
    name: str, unit: str, target: float, achieved: float | None, group: str = COLLECTIVE_GROUP, bar: float = COUNTED_BAR
) -> Characteristic:
    return Characteristic(group=group, name=name, unit=unit, target=target, achieved=achieved, bar=bar)


def test_counts_are_compared_as_shares_of_the_target_and_shares_as_differences() -> None:
    characteristics = (
        _row("matmul", "share of time", 0.5, 0.6, group="category"),
        _row("all_reduce bytes", "B/s", 2e6, 2.08e6),
        _row("all_reduce calls", "1/s", 4.0, 4.4),
        _row(WAITING, "share of step", 0.25, 0.27, bar=WAITING_BAR),
        _row(OVERLAP, "share of their time", 0.5, None, bar=OVERLAP_BAR),
    )
    fit = Fit(
        spec=f"sha256:{64 * '0'}",
        environment={},
        characteristics=characteristics,
        summary=FitSummary(),
        not_together="there is no core",
    )
    rows = list(rows_of(SUBJECTS[0], 2, fit))
    assert [r.error for r in rows] == [pytest.approx(0.04), pytest.approx(0.1), pytest.approx(0.02), None]
    assert [r.why for r in rows] == [None, None, None, "there is no core"]
    assert [r.goal for r in rows] == [0.05, 0.05, 0.03, 0.05]
    text = markdown(rows)
    assert "| **+10.0 %** | ± 5 % |" in text and "| +2.0 points | ± 3 points |" in text
    assert "2 of 3 goals are met (missed ones are bold), 1 were not measured" in text
    assert text.endswith("\n\nResNet-50 DDP, 2 processes: there is no core")
