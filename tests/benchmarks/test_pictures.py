"""The pictures of the README and the docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmark_programs import ROOT, Program

from benchmarks.csv_tables import table_text
from benchmarks.fidelity_table import FidelityRow
from statsnet.errors import UsageError

pytest.importorskip("matplotlib")

from benchmarks import pictures
from benchmarks.factor_pictures import factors_svg, hero_svg
from benchmarks.flow_picture import flow_svg

PICTURES = {"hero.svg", "factors.svg", "flow.svg", "workloads.svg", "across_gpus.svg", "presilicon.svg"}
SVG = "{http://www.w3.org/2000/svg}"


def row(**more: Any) -> FidelityRow:
    usual = {
        "mix": "core.recsys:0.5,core.cv:0.5", "mode": "inference", "way": "statsnet", "wanted_compression": 100.0,
        "setting": "threads=1", "step_latency_s": 0.02, "compression": 100.0, "suite_factor": 1.8,
        "proxy_factor": 1.7, "error": -0.055, "least_error": 0.055,
    }  # fmt: skip
    return FidelityRow(**{**usual, **more})


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()).strip() for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_factors_are_named_by_content() -> None:
    rows = [
        row(suite_factor_low=1.7, suite_factor_high=1.9, proxy_factor_low=1.6, proxy_factor_high=1.8),
        row(mix="cv/resnet50:1", mode="training", setting="layout=unheard_of", suite_factor=0.9, proxy_factor=0.8),
    ]
    picture = factors_svg(rows, "cpu-amd-epyc-f26m2-2t-torch2.13")
    shown = texts(picture)
    for expected in ("recommendation + vision", "ResNet-50", "one thread", "layout=unheard_of", "±10 %"):
        assert expected in shown
    assert {"inference, 1 comparisons", "training, 1 comparisons"} <= {*shown}
    assert any("AMD EPYC family 26 model 2" in text for text in shown)
    assert picture == factors_svg(rows, "cpu-amd-epyc-f26m2-2t-torch2.13")


def test_the_first_picture_has_times_and_factors_of_both() -> None:
    rows = [row(), row(setting="dtype=bfloat16", suite_factor=0.5, proxy_factor=0.45)]
    shown = texts(hero_svg(rows, "my-machine"))
    for expected in ("2 s", "20 ms", "3.6 s", "34 ms", "×1.80", "×1.70", "1 s", "9 ms", "×0.50", "×0.45", "bfloat16"):
        assert expected in shown
    assert any(text.startswith("A step of 20 ms stands for 2 s") for text in shown)
    assert any("8 workloads, inference, on my-machine" in text for text in shown)


def test_the_flow_names_every_stage() -> None:
    stages = ("model", "profile", "signature", "mix", "target", "synthesize", "proxy", "run", "compare", "validate")
    assert {*stages} <= {*texts(flow_svg())}


def test_other_ways_and_compressions_are_left_out(tmp_path: Path) -> None:
    rows = [row(), row(way="2018"), row(wanted_compression=20.0)]
    for mode in pictures.MODES:
        (tmp_path / f"fidelity_{mode}.csv").write_text(table_text(FidelityRow, rows))
    assert pictures.proxies(tmp_path, 100.0) == [rows[0], rows[0]]
    with pytest.raises(UsageError, match="compression 50"):
        pictures.proxies(tmp_path, 50.0)


def test_a_mix_is_found_by_its_name_if_its_times_are_known() -> None:
    rows = [row(), row(mix="core.cv:1", step_latency_s=None)]
    assert pictures.of_one_mix(rows, "recommendation + vision", "inference") == rows[:1]
    for mix, mode in (("vision", "inference"), ("recommendation + vision", "training")):
        with pytest.raises(UsageError, match=mix.replace("+", r"\+")):
            pictures.of_one_mix(rows, mix, mode)


def test_the_program_draws_all_of_them(tmp_path: Path, run_program: Program) -> None:
    done = run_program("pictures.py", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        {path.name for path in tmp_path.iterdir()} == PICTURES == {p.name for p in (ROOT / "docs/pictures").iterdir()}
    )
    for path in tmp_path.iterdir():
        picture = path.read_text(encoding="utf-8")
        assert ElementTree.fromstring(picture).tag == f"{SVG}svg"
        assert str(ROOT) not in picture
        assert len(picture) < 100_000
    for name in PICTURES - {"workloads.svg"}:  # its places depend on the version of scikit-learn
        assert texts((tmp_path / name).read_text()) == texts((ROOT / "docs/pictures" / name).read_text())


def test_missing_results_are_named(tmp_path: Path, run_program: Program) -> None:
    done = run_program("pictures.py", "--results", tmp_path, "-o", tmp_path / "pictures")
    assert done.returncode == 1
    assert str(tmp_path / "fidelity_inference.csv") in done.stderr
    assert not (tmp_path / "pictures").exists()
