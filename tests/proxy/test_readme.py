"""The README of a proxy's folder: what its mix is called, and what its author noted."""

from __future__ import annotations

from statsnet.proxy.readme import proxy_readme
from statsnet.signatures.documents import Fit, FitSummary, ProxySpec, SpecMember

SPEC = ProxySpec(
    id="",
    seed=0,
    mode="inference",
    dtype="float32",
    budget_s=0.005,
    reference_environment={"device_name": "Z80", "threads": 1, "torch": "2.13"},
    mix=(SpecMember(name="cv/x", weight=1.0, signature="", latency_s=0.25),),
    towers=(),
)
FIT = Fit(
    spec="",
    environment={},
    characteristics=(),
    summary=FitSummary(
        step_latency_s=0.005,
        suite_latency_s=0.25,
        compression=50.0,
        category_total_variation=0.01,
        kernel_class_total_variation=0.02,
        intensity_earth_movers_distance_log2=0.1,
    ),
)


def test_the_mix_s_name_and_notes_come_first() -> None:
    lines = proxy_readme(SPEC, FIT, "A suite", "For the lab.\nNot for sale.\n").splitlines()
    assert lines[:6] == ["# Proxy for `A suite`", "", "For the lab.", "Not for sale.", "", lines[5]]
    assert lines[5].startswith("One inference step")


def test_a_mix_without_notes() -> None:
    assert proxy_readme(SPEC, FIT, "cv:1").splitlines()[2].startswith("One inference step")
