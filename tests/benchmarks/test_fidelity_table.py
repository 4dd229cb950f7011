"""Rows of a fidelity run, and how they are printed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fidelity_table import FidelityRow, factors, fidelity_row, latest, summary
from statsnet.signatures.intervals import Interval


def row(mix: str, way: str, off: float, **more: Any) -> FidelityRow:
    usual = {
        "mix": mix, "mode": "inference", "way": way, "setting": "threads=1", "wanted_compression": 100.0,
        "suite_factor": 2.0, "proxy_factor": 2.0 * (1 + off), "error": off, "least_error": abs(off),
    }  # fmt: skip
    return FidelityRow(**{**usual, **more})


def test_a_line_for_each_mix() -> None:
    known = row("a", "m", -0.05, error_low=-0.06, error_high=-0.04, suite_noise=0.004)
    lines = factors([known, row("core.cv:1", "m", 0.1, setting="x")]).splitlines()
    assert lines[0] == "|  | threads=1 | x |"
    assert lines[2:] == [
        "| a, inference | 2.00, 1.90: **−5.0 %** ± 1.1 (0.4) | – |",
        "| vision, inference | – | 2.00, 2.20: **+10.0 %** |",
    ]


def test_ways_are_compared_on_the_mixes_that_all_stand_for() -> None:
    rows = [row("a", "ours", 0.02), row("b", "ours", -0.2), row("a", "other", 0.5, least_error=0.0)]
    all_of_ours, ours, other = summary(rows).splitlines()[2:]
    assert "| 2 | 11.0 % |" in all_of_ours
    assert "| 20.0 % | 1 (of 3%) | 1 (of 10%) |" in all_of_ours
    assert "a: ours | 1 | 2.0 % | 2.0 % | 2.0 % | 2.0 % | 1 (of 3%)" in ours
    assert "a: other | 1 | 50.0 %" in other
    assert other.endswith("| 1 (of 3%) | 1 (of 10%) |")


def test_a_later_run_replaces_what_it_measured_again() -> None:
    first = [row("a", "ours", 0.1), row("b", "ours", 0.2), row("a", "ours", 0.3, setting="x")]
    rows = [(r.mix, r.setting, r.error) for r in latest([first, [row("a", "ours", 0.01)]])]
    assert rows == [("a", "threads=1", 0.01), ("b", "threads=1", 0.2), ("a", "x", 0.3)]


def test_each_compression_has_lines_and_goals_of_its_own() -> None:
    rows = [
        row("a", "ours", 0.05),
        row("a", "ours", 0.06, wanted_compression=20.0),
        row("a", "ours", 0.04, wanted_compression=None),
    ]
    assert [line.split("|")[1].strip() for line in factors(rows).splitlines()[2:]] == [
        "a, inference at 100",
        "a, inference at 20",
        "a, inference, usual step",
    ]
    at_100, at_20, at_usual = summary(rows).splitlines()[2:]
    assert at_100.startswith("| inference at 100: ours | 1 | 5.0 %") and at_100.endswith("| 0 (of 3%) | 1 (of 10%) |")
    assert at_20.startswith("| inference at 20: ours | 1 | 6.0 %") and at_20.endswith("| 0 (of 2%) | 1 (of 7%) |")
    assert at_usual.startswith("| inference, usual step: ours | 1 | 4.0 %") and at_usual.endswith("| 1 (of 10%) |")


@pytest.mark.parametrize(("proxy", "noise", "least"), [(2.2, None, 0.05), (2.02, None, 0.0), (2.2, 0.03, 0.0)])
def test_the_least_error_is_what_interval_and_noise_allow(proxy: float, noise: float | None, least: float) -> None:
    """Only the proxy's factor scatters, by 1.1 ÷ 1.05 to either side."""
    scatter = 1.1 / 1.05
    factor = Interval(value=proxy, low=proxy / scatter, high=proxy * scatter)
    known = {"mix": "a", "mode": "inference", "way": "ours", "wanted_compression": 100.0, "setting": "threads=1"}
    made = fidelity_row(Interval(value=2.0, low=2.0, high=2.0), factor, suite_noise=noise, **known)
    assert made.error == pytest.approx(proxy / 2.0 - 1.0)
    assert made.least_error == pytest.approx(least)
