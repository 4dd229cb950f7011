"""fit.svg of a proxy folder."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from statsnet.proxy.fit_picture import fit_svg
from statsnet.signatures.documents import Characteristic, Fit, FitSummary

SVG = "{http://www.w3.org/2000/svg}"
ASKED, ACHIEVED = "#8c959f", "#0969da"


def row(
    name: str, target: float | None, achieved: float | None, group: str = "category", unit: str = ""
) -> Characteristic:
    return Characteristic(name=name, group=group, target=target, achieved=achieved, unit=unit)


def fit(*rows: Characteristic, summary: FitSummary | None = None) -> Fit:
    return Fit(spec="", environment={"host": "secret"}, characteristics=rows, summary=summary or FitSummary())


def drawn(*rows: Characteristic) -> ElementTree.Element:
    return ElementTree.fromstring(fit_svg(fit(*rows)))


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


def widths(root: ElementTree.Element, colour: str) -> list[float]:
    """Of the bars alone: the legend's squares come first."""
    return [float(one.get("width", "")) for one in root.iter(f"{SVG}rect") if one.get("fill") == colour][1:]


def test_bars_are_in_proportion() -> None:
    root = drawn(row("gemm", 0.6, 0.5), row("convolution", 0.3, 0.4), row("sort", 0.1, 0.1))
    asked, achieved = widths(root, ASKED), widths(root, ACHIEVED)
    assert [w / asked[0] for w in asked] == pytest.approx([1.0, 0.5, 1 / 6], abs=2e-3)
    assert [w / asked[0] for w in achieved] == pytest.approx([5 / 6, 2 / 3, 1 / 6], abs=2e-3)
    assert "60.0 → 50.0" in texts(root)


def test_every_category_of_a_thousandth_is_there() -> None:
    root = drawn(row("gemm", 0.997, 0.999), row("asked", 0.001, 0.0), row("achieved", 0.0, 0.001), row("tiny", 9e-4, 0))
    shown = texts(root)
    assert {"gemm", "asked", "achieved"} <= {*shown}
    assert "tiny" not in shown
    assert "0.1 → 0.0" in shown and "0.0 → 0.1" in shown


def test_what_is_missing_or_zero_has_no_bar() -> None:
    root = drawn(row("a", 0.5, None), row("b", None, 0.5), row("c", 0.5, 0.0))
    assert len(widths(root, ASKED)) == 2
    assert len(widths(root, ACHIEVED)) == 1
    assert {"50.0 → –", "– → 50.0", "50.0 → 0.0"} <= {*texts(root)}


def test_rates_are_ratios() -> None:
    root = drawn(
        row("flops_per_s", 2e9, 1e9, "rate", "FLOP/s"),
        row("bytes_per_s", 1e9, 1e9, "rate", "B/s"),
        row("launches_per_s", 0.0, 5.0, "rate", "1/s"),
        row("arithmetic_intensity", 2.0, 1.0, "rate", "FLOP/B"),
    )
    half, whole = widths(root, ACHIEVED)
    assert half / whole == pytest.approx(0.5, abs=1e-3)
    shown = texts(root)
    assert shown[shown.index("0.50") + 1] == "2 GFLOP/s → 1 GFLOP/s"
    assert shown[shown.index("–") + 1] == "0 /s → 5 /s"
    assert not any("intensity" in text for text in shown)


def test_one_rate_far_off_leaves_the_others_readable() -> None:
    root = drawn(
        row("flops_per_s", 1e-300, 1e300, "rate"),
        row("bytes_per_s", 1.0, 50.0, "rate"),
        row("launches_per_s", 1.0, 1.0, "rate"),
    )
    cut, as_asked = widths(root, ACHIEVED)
    assert as_asked / cut == pytest.approx(0.25, abs=1e-3)
    assert "50" in texts(root)


def test_names_are_escaped_and_cut() -> None:
    hostile = "</text><script>alert(1)</script>\x00\x1b[31m\ud800&"
    picture = fit_svg(fit(row(hostile, 0.5, 0.5), row("x" * 300, 0.5, 0.5)))
    root = ElementTree.fromstring(picture)
    assert {one.tag for one in root.iter()} <= {f"{SVG}{tag}" for tag in ("svg", "title", "rect", "text")}
    assert "</text><script>aler…" in texts(root)
    assert max(map(len, texts(root))) < 60
    picture.encode()


def test_the_step_is_named_where_it_is_known() -> None:
    summary = FitSummary(step_latency_s=0.005, suite_latency_s=0.25, compression=50.0)
    assert "5 ms, one step of every workload 250 ms: 50 times shorter" in fit_svg(fit(summary=summary))
    assert "One step" not in fit_svg(fit())


def test_the_same_fit_gives_the_same_small_picture_without_its_environment() -> None:
    of = fit(*(row(f"category_{number}", 0.01, 0.01) for number in range(40)))
    picture = fit_svg(of)
    assert picture == fit_svg(of)
    assert len(picture.encode()) < 20_000
    assert "secret" not in picture
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", picture)


def test_nothing_is_drawn_beyond_the_card() -> None:
    root = drawn(*(row(name, 1.0, 4.0, "rate") for name in ("flops_per_s", "bytes_per_s", "launches_per_s")))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for one in root.iter(f"{SVG}rect"):
        assert float(one.get("x", "")) + float(one.get("width", "")) <= width
        assert float(one.get("y", "")) + float(one.get("height", "")) <= height
