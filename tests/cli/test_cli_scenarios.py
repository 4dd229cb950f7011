"""`run --scenario`, `validate --scenario`, and what show, compare and report make of their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import member, read, write_proxy, write_result
from scenario_results import scenario_result, trial

from statsnet.cli import main
from statsnet.evaluation import suite
from statsnet.reporting.html.inputs import read_inputs
from statsnet.signatures.storage import load_scenario, save

QUICK = ("--min-time", "20ms")
Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command says that must succeed, in a folder of its own."""
    pytest.importorskip("mlperf_loadgen")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        code, shown = main(arguments), capsys.readouterr()
        assert code == 0, shown.err
        return shown.out

    return run


def test_a_stream_and_its_result(said: Said, tmp_path: Path) -> None:
    write_proxy(tmp_path / "p")
    text = said("run", "p", "--scenario", "single-stream", "--min-time", "200ms", "--json", "a.json")
    assert "p90 latency" in text
    result = load_scenario(tmp_path / "a.json")
    assert result.trials[0].answers[0].says_valid
    assert len(result.trials[0].latency_s) >= 64
    assert said("show", "a.json").strip() == text.partition("\nwritten to")[0].strip()
    assert "from one process" in said("compare", "a.json", "a.json")


def test_a_rate_and_a_short_run_that_says_what_to_change(said: Said, tmp_path: Path) -> None:
    write_proxy(tmp_path / "p")
    text = said("run", "p", "--scenario", "server", "--qps", "500", "--latency-bound", "10s", *QUICK)
    assert "INVALID" in text
    assert "--min-time" in text


def test_the_suite_beside_its_proxy(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "find_signatures", lambda *_: {})  # there are hundreds of files to look into
    write_proxy(tmp_path / "p", member("recsys/ncf", 0.8, preset="tiny", batch=8), member("other", 0.2))
    options = ("--settings", "mkldnn=off", "--rounds", "1", *QUICK, "--json", "v.json")
    text = said("validate", "p", "--scenario", "offline", *options)
    assert "time per sample" in text
    assert "20% of the suite is left out" in text
    data = read(tmp_path / "v.json")
    assert data["subject"]["type"] == "suite"
    assert [m["name"] for m in data["beside"]["members"]] == ["recsys/ncf"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "p", "--scenario", "serve"], "'serve' is not one of"),
        (["run", "p", "--qps", "5"], "--qps belongs to a scenario, and none was given"),
        (["run", "p", "--latency-bound", "5ms"], "--latency-bound belongs to a scenario"),
        (["run", "p", "--scenario", "server", "--qps", "0"], "0 is not a rate of queries"),
        (["run", "p", "--scenario", "offline", "--qps", "5"], "--qps does not belong to the scenario 'offline'"),
        (["run", "p", "--scenario", "server", "--latency-bound", "0ms"], "'0ms' is not a duration"),
        (["run", "p", "--scenario", "server", "--max-time", "5s"], "--max-time does not go with --scenario"),
        (["run", "training", "--scenario", "server"], "a training step has no queries"),
        (["validate", "training", "--scenario", "server"], "a training step has no queries"),
        (["validate", "p", "--scenario", "server", "--fit"], "--fit does not go with --scenario"),
        (["validate", "p", "--scenario", "server", "--resume", "x"], "--resume does not go with --scenario"),
        (["validate", "p", "--qps", "5"], "--qps belongs to a scenario"),
        (["compare", "s.json", "r.json"], "the results are not comparable"),
        (["compare", "s.json", "o.json"], "are of other scenarios: single-stream against offline"),
        (["compare", "s.json", "s.json", "--price", "s.json=1/h"], "--price does not go with"),
    ],
)
def test_what_is_refused(failing: Said, here: Path, arguments: list[str], text: str) -> None:
    write_proxy(here / "p")
    write_proxy(here / "training", mode="training")
    write_result(here / "r.json", 0.01)
    save(here / "s.json", scenario_result("single-stream", trial([0.01] * 70)))
    save(here / "o.json", scenario_result("offline", trial([0.01] * 70)))
    message = failing(*arguments, code=2)
    assert text in message and "try:" in message, message


def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from statsnet.measure import loadgen

    monkeypatch.setattr(loadgen, "find_spec", lambda _: None)
    monkeypatch.chdir(tmp_path)
    write_proxy(tmp_path / "p")
    assert main(["run", "p", "--scenario", "server"]) == 2
    assert "pip install 'statsnet[scenarios]'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["markdown", "csv", "html"])
def test_forms_of_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, latency_s in (("a.json", 0.01), ("b.json", 0.02)):
        save(Path(name), scenario_result("single-stream", *(trial([latency_s * k] * 70) for k in (1, 1.01))))
    assert main(["compare", "a.json", "b.json", "--format", form]) == 0
    assert "times slower" in capsys.readouterr().out
    assert main(["compare", "--json", "a.json", "b.json", "b.json"]) == 2, "a result is not written over"


def test_a_report_shows_latency_against_load(tmp_path: Path) -> None:
    rates = [trial([0.01 * qps / 10] * 700, qps=qps) for qps in (10.0, 20.0, 40.0, 80.0)]
    for name in ("a.json", "b.json"):
        save(tmp_path / name, scenario_result("server", *rates, bound_s=0.05))
    save(tmp_path / "o.json", scenario_result("offline", *(trial([0.1] * 9, threads=n) for n in (1, 2))))
    save(tmp_path / "s.json", scenario_result("single-stream", trial([0.01] * 70)))
    compared, a, _, offline, stream = read_inputs([str(tmp_path)]).sections
    assert compared.title == "The server scenario compared"
    (picture,) = a.pictures
    assert picture.title == "Latency against load"
    bound, *percentiles = sorted(picture.traces, key=lambda trace: trace["name"] != "bound")
    assert bound["y"] == [50.0, 50.0]
    assert {trace["name"] for trace in percentiles} == {"p50", "p90", "p99"}
    assert offline.pictures[0].title == "Throughput over instances × threads"
    assert stream.pictures[0].title == "Samples of each process"
