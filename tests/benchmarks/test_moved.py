"""The table of proxies on other machines than their own: rows from factors, and what is printed."""

from __future__ import annotations

import pytest

from benchmarks.moved import MovedRow, markdown, row_of
from statsnet.evaluation.factors import moved_row
from statsnet.evaluation.suite import SuiteMember
from statsnet.signatures.timing import Timing


def member(name: str, weight: float, latency_s: float) -> SuiteMember:
    return SuiteMember(
        name=name, weight=weight, latency_s_reference=latency_s, batch=None, preset=None, optimizer=None,
        peak_bytes=None, target=name, signature=None,
    )  # fmt: skip


def row(made_on: str, proxy_here_s: float) -> MovedRow:
    """Two halves, one twice and one four times as fast here: the suite takes 0.375 of its time."""
    here = [[Timing(latency_s=(s,))] * 2 for s in (0.5, 0.5, proxy_here_s)]
    moved = moved_row([member("a", 0.5, 1.0), member("b", 0.5, 2.0)], here, 0.010)
    return row_of(moved, proxy="p", network="0123", mode="inference", made_on=made_on, run_on="here", rounds=2)


def test_a_row_compares_both_factors() -> None:
    made = row("there", 0.00375)
    assert (made.suite_factor, made.proxy_factor, made.members) == (pytest.approx(0.375), pytest.approx(0.375), 2)
    assert made.error == pytest.approx(0.0, abs=1e-9)
    assert row("there", 0.00450).error == pytest.approx(0.2)


def test_the_table_says_the_median_and_the_worst() -> None:
    rows = [row("there", 0.00375), row("elsewhere", 0.00450), row("far", 0.00360)]
    printed = markdown(rows)
    assert "| p (2 workloads) | elsewhere | here | 0.375 | 0.450 | **+20.0 %** |" in printed
    assert "3 pairs of machines: median 4.0 % (goal 4), worst 20.0 % (goal 12)" in printed


def test_an_empty_table_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match="another kind of machine"):
        markdown([])
