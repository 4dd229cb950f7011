"""The page that `statsnet report` makes: whole, safe, and drawn by a real browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from cli_support import GOLDEN, member, write_proxy, write_result

from statsnet.analysis.database import NamedSignature
from statsnet.cli import main
from statsnet.errors import StatsNetError, UsageError
from statsnet.reporting.html import document, inputs, page, pictures
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.inputs import read_inputs
from statsnet.reporting.html.of_profiles import profiles_section
from statsnet.reporting.html.of_result import thinned
from statsnet.reporting.html.of_signature import signature_section
from statsnet.reporting.html.pictures import Series, bars
from statsnet.reporting.tables import table
from statsnet.signatures import database
from statsnet.signatures.documents import Fit, FitSummary, ProxySpec
from statsnet.signatures.gpu import COUNTERS, Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.measurement import Environment
from statsnet.signatures.storage import load_signature, load_spec, save_document

ROOT = Path(__file__).parents[2]
PROXY = ROOT / "generated" / "serving-llm-h100"
PATIENT_MS = 300_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    shutil.copy(GOLDEN, folder / "s.json")
    write_result(folder / "a.json", 0.020, 0.0201, 0.0199)
    write_result(folder / "b.json", 0.010, 0.0101, 0.0099, threads=2)
    write_proxy(folder / "p", member("cv/x", 1.0))
    (folder / "other.json").write_text('{"kind": "something"}')
    (folder / "cut.json").write_text('{"kind": "statsnet.res')
    return folder


def titles(sections: Sequence[Section]) -> list[str]:
    return [section.title for section in sections]


def test_a_folder_with_everything(files: Path) -> None:
    found = read_inputs([str(files)])
    name = load_signature(files / "s.json").name or "s"
    shown = titles(found.sections)
    assert shown[0] == "Results compared"
    assert any(title.startswith("a.json: a result") for title in shown)
    assert any(title.startswith(f"{name}: ") for title in shown)
    assert any(title.startswith("p: a proxy") for title in shown)
    assert len(shown) == 5
    (note,) = found.notes
    assert "cut.json is left out" in note


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", "there is no"),
        ("other.json", "is no file of StatsNet"),
        ("cut.json", "cut.json"),
        ("p/network.py", "network.py"),
        ("empty", "there is nothing to show"),
    ],
)
def test_what_can_not_be_shown(files: Path, name: str, text: str) -> None:
    (files / "empty").mkdir()
    with pytest.raises(StatsNetError, match=re.escape(text)):
        read_inputs([str(files / name)])


def test_a_mix_and_the_shipped_proxy() -> None:
    found = read_inputs([str(ROOT / "examples" / "recsys_cv.yaml"), str(PROXY)])
    mix, proxy = found.sections
    assert mix.pictures[0].title == "Members and their shares"
    drawn = {picture.title for picture in proxy.pictures}
    assert {"The network: towers of blocks", "The mix", "Error by kernel class", "Rounds"} <= drawn
    assert any(title.startswith("Time by kernel class") for title in drawn)


def test_a_folder_of_profiles_is_shown_side_by_side(tmp_path: Path) -> None:
    for number in range(3):
        place = tmp_path / "db" / "here" / "cv" / f"w{number}.{load_signature(GOLDEN).mode}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        signature = replace(load_signature(GOLDEN), workload=None)
        save_document(place, {key: value for key, value in signature.to_dict().items() if key != "id"})
    first, *alone = read_inputs([str(tmp_path / "db")]).sections
    assert first.title.endswith("3 workloads")
    assert [picture.title for picture in first.pictures] == [
        "Time by operator category", "Rates against intensity", "Memory by kind",
    ]  # fmt: skip
    assert len(alone) == 3


def test_a_search_is_shown_and_a_damaged_one_refused(files: Path) -> None:
    row = {"number": 0, "step_latency_s": 0.01, "error": 0.1}
    search = files / "p" / "search.json"
    search.write_text(json.dumps({"tried": [row], "front": [0], "chosen": 0, "usual": 0, "budget_s": 0.01}))
    (section,) = read_inputs([str(files / "p")]).sections
    assert section.pictures[-1].title.startswith("The search")
    search.write_text('{"tried": [{"number": "x"}]}')
    with pytest.raises(StatsNetError, match=r"search\.json' is damaged"):
        read_inputs([str(files / "p")])


def test_texts_from_files_can_not_break_out() -> None:
    hostile = '</script><script>alert(1)</script><img src="http://x/y">'
    picture = bars(
        hostile,
        hostile,
        [hostile],
        [Series(name=hostile, x=[1.0], shown=[hostile])],
        table(hostile, ("a",), [(hostile,)]),
        axis="x",
    )
    section = Section(title=hostile, pictures=[picture], tables=[table(hostile, ("a",), [(hostile,)])], command=hostile)
    text = document._section(0, section)
    assert "<script>alert" not in text
    assert "<img" not in text
    data = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["traces"][0]["name"].startswith("&lt;/script&gt;")


def test_long_names_and_many_samples_stay_small() -> None:
    assert len(thinned(range(100_000), 300)) == 300
    assert thinned([3.0, 1.0], 5) == [1.0, 3.0]
    axis = pictures.names_axis(["x" * 100])
    assert len(axis["ticktext"][0]) == pictures.LONGEST_LABEL


def test_towers_of_one_kind_are_one(files: Path) -> None:
    from statsnet.reporting.html.of_towers import towers_picture

    spec: ProxySpec = load_spec(PROXY / "spec.json")
    picture = towers_picture(spec, None)
    measured = Fit(spec=spec.id, environment={}, characteristics=(), summary=FitSummary())
    notes = [towers_picture(spec, fit).note for fit in (None, measured, replace(measured, recorded={"model": 1.0}))]
    assert [[how in note for how in ("Measured on", "Predicted for")] for note in notes] == [
        [False, False], [True, False], [False, True],
    ]  # fmt: skip
    assert len(picture.table.rows) == len(spec.towers)
    assert picture.drawing.count('class="tower"') < len(spec.towers) / 2


def test_a_page_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setattr(document, "MOST_BYTES", 1000)
    with pytest.raises(StatsNetError, match="the report would take"):
        document.document("x", [], "statsnet report")


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="no report can be made") as raised:
        document.check_library()
    assert raised.value.hint == "pip install 'statsnet[report]'"


def test_a_browser_draws_every_picture_and_asks_for_nothing(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    sync_api = pytest.importorskip("playwright.sync_api")
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip("there is no Chromium")
    path = tmp_path / "report.html"
    path.write_text(document.document("Report", read_inputs([str(files)]).sections, "statsnet report files"))
    said: list[str] = []
    asked: list[str] = []
    with sync_api.sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=browser, args=["--no-sandbox"], timeout=PATIENT_MS)
        view: Any = chromium.new_page(viewport={"width": 1600, "height": 800}, color_scheme="dark")
        view.set_default_timeout(PATIENT_MS)
        view.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        view.on("pageerror", lambda error: said.append(str(error)))
        view.on("request", lambda request: asked.append(request.url))
        view.goto(path.as_uri())
        view.wait_for_function("document.documentElement.dataset.drawn")
        drawn = "[...document.querySelectorAll('.plot')].map((place) => place.querySelectorAll('svg.main-svg').length)"
        places = view.evaluate(drawn)
        for width in (1600, 400):
            view.set_viewport_size({"width": width, "height": 800})
            view.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
        chromium.close()
    assert said == []
    assert asked == [path.as_uri()]
    assert len(places) > 5
    assert all(places)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    write_result(tmp_path / "a.json", 0.02, 0.021, 0.0205)
    assert main(["report", "a.json", "-o", "r.html", "--title", "My machines"]) == 0
    assert capsys.readouterr().out.startswith("written to r.html: 1 section, ")
    text = (tmp_path / "r.html").read_text()
    assert "<title>My machines</title>" in text
    assert len(text) < document.MOST_BYTES
    before = (tmp_path / "a.json").read_bytes()
    assert main(["report", "a.json", "-o", "a.json"]) == 2
    assert (tmp_path / "a.json").read_bytes() == before
    assert main(["report", "nothing.json"]) == 2


def test_signatures_of_an_environment_are_found_where_they_are_packed(tmp_path: Path) -> None:
    signature = {k: v for k, v in load_signature(GOLDEN).to_dict().items() if k != "id"}
    save_document(tmp_path / "here" / "cv" / "w.inference.json", signature)
    database.pack(tmp_path / "here" / "cv")
    for place in (tmp_path / "here", tmp_path / "here" / "cv" / "w.inference.json"):
        assert len(read_inputs([str(place)]).sections) == 1


def test_many_loose_signatures_are_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = replace(load_signature(GOLDEN), workload=None)
    for number, each in enumerate([signature, signature, replace(signature, measurements=())]):
        data = {key: value for key, value in each.to_dict().items() if key != "id"}
        save_document(tmp_path / f"own{number}.json", data)
    assert len(read_inputs([str(tmp_path)]).sections) == 3
    monkeypatch.setattr(inputs, "MOST_ALONE", 2)
    measured, counted = read_inputs([str(tmp_path)]).sections
    assert measured.title.endswith(f"{signature.mode}: 2 workloads")
    assert counted.title == f"counted, {signature.mode}: 1 workload"
    assert [picture.title for picture in counted.pictures] == ["Work of a step", "Memory by kind"]


def on_gpu(power: Power, counters: Counters) -> Section:
    signature = load_signature(GOLDEN)
    (measurement, *_) = signature.measurements
    kernels = tuple(
        GpuKernel(cluster=0, family=family, grid=None, block=None, launches=3, time_s=time_s)
        for family, time_s in (("a", 3e-3), ("b", 1e-3))
    )
    activity = GpuActivity(
        busy_time_s=0.5 * measurement.latency_s, streams=1, kernels=kernels, duration_log2_us=((2, 3.0), (5, 1.0)),
        gap_log2_us=((3, 2.0),), power=power, counters=counters,
    )  # fmt: skip
    environment = {**measurement.environment, "gpu": {"power_limit_w": 700, "sm_clock_max_mhz": 2000}}
    shown = replace(measurement, gpu=activity, environment=cast(Environment, environment))
    return signature_section("x", replace(signature, measurements=(shown,)))


def test_what_a_gpu_did_is_drawn() -> None:
    count = len(load_signature(GOLDEN).clusters)
    power = Power(power_w=350.0, energy_j_per_step=2.0, sm_clock_mhz=1000.0, throttled=("power_cap",), missing={})
    counters = Counters(tool="ncu", clusters={"l2_hit_rate": (0.25,) * count, "ipc": (2.0,) * count}, missing={})
    drawn = {picture.title: picture for picture in on_gpu(power, counters).pictures}
    (levels,) = drawn["Power and clocks"].traces
    assert levels["x"] == pytest.approx([50, 50, 50])
    assert "Slowed down: power_cap." in drawn["Power and clocks"].note
    assert "350 W, 50% of 700 W" in levels["customdata"][1]
    step, *categories = drawn["Hardware counters"].traces
    assert (step["name"], step["x"]) == ("step", pytest.approx([25.0]))
    assert categories
    assert len(drawn["Hardware counters"].table.rows) == 2
    assert drawn["Time by kernel family"].traces[0]["x"] == pytest.approx([75.0, 25.0])
    kernels, pauses = drawn["Launches and gaps"].traces
    assert (kernels["x"], pauses["x"]) == ([3.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0])


def test_what_is_not_known_of_a_gpu_is_said() -> None:
    power = Power(missing={"nvml": "not_installed"})
    counters = Counters(tool=None, clusters={}, missing=dict.fromkeys(COUNTERS, "off"))
    drawn = {picture.title: picture for picture in on_gpu(power, counters).pictures}
    note = drawn["Power and clocks"].note
    assert "Not in this file: all counters: not asked for." in note
    assert "nvml: its tool is not installed" in note
    assert "Hardware counters" not in drawn


def test_profiles_of_a_gpu_show_their_power() -> None:
    entries = [e for e in database.ProfilesDB().entries if e.environment.startswith("cuda-nvidia-h200")]
    named = [NamedSignature(name=each.name, signature=each.load()) for each in entries]
    (*_, power) = profiles_section("x", named, "inference").pictures
    assert power.title == "Power"
    assert all(0 < watts <= 1000 for watts in power.traces[0]["x"])


def test_words_of_a_command_that_are_no_text_can_be_written() -> None:
    """A file's name may hold any bytes."""
    name = "\udced\udca0\udc80\x1b"
    assert page.page(name, page.command(f"statsnet report a.json -o {name}")).encode().count(b"????") == 4


def test_members_of_several_environments_are_not_told_to_be_of_one() -> None:
    signature = load_signature(GOLDEN)
    (measurement,) = signature.measurements
    there = {**measurement.environment, "device_name": "Another"}
    other = replace(signature, measurements=(replace(measurement, environment=there),))
    named = [NamedSignature(name=name, signature=each) for name, each in (("a", signature), ("b", other))]
    assert all("2 environments" in picture.note for picture in profiles_section("x", named, "training").pictures[:2])
