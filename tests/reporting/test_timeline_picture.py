"""Timelines of a report: they show an order only where the file holds one, and their parts add up."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cli_support import GOLDEN

from statsnet.reporting.html import of_timeline
from statsnet.reporting.html.pictures import Picture
from statsnet.signatures.storage import load_fit, load_signature, load_spec

ROOT = Path(__file__).parents[2]


def stretches(picture: Picture, row: int) -> list[tuple[str, float, float]]:
    """Name, start and end of each stretch in a row, by their start."""
    found = [
        (trace["name"], start, start + length)
        for trace in picture.traces
        for start, length, place in zip(trace["base"], trace["x"], trace["y"], strict=True)
        if place == row
    ]
    return sorted(found, key=lambda each: each[1])


def assert_gapless(found: list[tuple[str, float, float]]) -> None:
    for (_, _, end), (_, start, _) in pairwise(found):
        assert start == pytest.approx(end, abs=1e-9)


def test_phases_of_a_signature_are_in_order_and_add_up() -> None:
    signature = load_signature(GOLDEN)
    turns = itertools.cycle(("optimizer", "forward", "backward"))
    clusters = [replace(cluster, phase=next(turns)) for cluster in signature.clusters]
    measurement = replace(signature.measurements[0], framework_time_s=0.002, idle_time_s=None)
    picture = of_timeline.signature_timeline(replace(signature, clusters=tuple(clusters)), measurement, "here")
    assert picture is not None
    phases = stretches(picture, 0)
    timed = {c.phase for c, t in zip(clusters, measurement.cluster_time_s, strict=True) if t}
    there = [phase for phase in ("forward", "backward", "optimizer") if phase in timed]
    assert len(there) > 1
    assert [name for name, *_ in phases] == [*there, of_timeline.BETWEEN]
    assert_gapless(phases)
    total_s = sum(t for t in measurement.cluster_time_s if t) + 0.002
    assert phases[-1][2] == pytest.approx(1e3 * total_s)
    categories = stretches(picture, 1)
    assert_gapless(categories)
    assert categories[-1][2] == pytest.approx(phases[-1][1])
    for _, start, end in phases[:-1]:
        lengths = [b - a for name, a, b in categories if start - 1e-9 <= a < end - 1e-9 and name != "others"]
        assert lengths == sorted(lengths, reverse=True)


def test_a_signature_without_times_has_no_timeline() -> None:
    signature = load_signature(GOLDEN)
    measurement = replace(signature.measurements[0], cluster_time_s=(None,) * len(signature.clusters))
    assert of_timeline.signature_timeline(signature, measurement, "here") is None


@pytest.mark.parametrize("name", ["recsys-cv-training", "serving-llm-h100"])
def test_towers_of_a_proxy_are_in_order(name: str) -> None:
    folder = ROOT / "generated" / name
    spec, fit = load_spec(folder / "spec.json"), load_fit(folder / "fit.json")
    picture = of_timeline.proxy_timeline(spec, fit)
    assert picture is not None
    towers = stretches(picture, 0)
    assert_gapless(towers)
    step_s = fit.summary.step_latency_s
    assert step_s is not None
    shares = [tower.purpose.step_share for tower in spec.towers if tower.purpose]
    assert towers[-1][2] == pytest.approx(1e3 * step_s * max(1.0, sum(shares)))  # shares are rounded medians
    lengths = [end - start for _, start, end in towers]
    assert lengths[: len(shares)] == pytest.approx([1e3 * share * step_s for share in shares])
    phases = [phase for phase, *_ in stretches(picture, 1)]
    assert phases == (["forward", "backward", "optimizer"] if spec.mode == "training" else [])
    assert picture.table.rows[0][0] == "tower 1"


def test_a_proxy_whose_towers_have_no_shares_has_no_timeline() -> None:
    folder = ROOT / "generated" / "serving-llm-h100"
    spec, fit = load_spec(folder / "spec.json"), load_fit(folder / "fit.json")
    assert of_timeline.proxy_timeline(spec, None) is None
    bare = replace(spec, towers=tuple(replace(tower, purpose=None) for tower in spec.towers))
    assert of_timeline.proxy_timeline(bare, fit) is None
