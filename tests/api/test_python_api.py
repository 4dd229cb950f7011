"""The Python API: what each function gives, and what it says of bad input."""

from __future__ import annotations

import gzip
import inspect
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, MODEL, ROOT, environment, read, write_proxy, write_result
from scenario_results import scenario_result, trial

import statsnet
from statsnet.devices import make_proxy
from statsnet.devices.make_proxy import MakeOptions
from statsnet.errors import DeviceError, FileFormatError, OtherFileError, StatsNetError, UsageError
from statsnet.measure.device_lock import LOCKS
from statsnet.reporting import values
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import Timing
from statsnet.synthesis.problem import ProxyRequest

PROXY = ROOT / "generated" / "recsys-cv-inference"
DEVICE = ROOT / "profiles_db" / "devices" / "nvidia-titan-xp.json.gz"
MIX = "mode: inference\nmembers: [{workload: recsys/ncf, weight: 1}, {workload: cv/resnet50, weight: 3}]\n"
REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text()
KINDS = ("Signature", "Mix", "SavedProxy", "Result", "ScenarioResult", "Standings", "DeviceRecord")
QUICK = {"min_time_s": 0.02, "max_time_s": 0.1}


@pytest.fixture
def here(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file of each kind in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copy(GOLDEN, "s.json")
    (folder / "m.yaml").write_text(MIX)
    write_proxy(folder / "p")
    write_result(folder / "r.json", 0.020, 0.0201, 0.0199)
    write_result(folder / "faster.json", 0.010, 0.0101, 0.0099, threads=2)
    statsnet.save(scenario_result("single-stream", trial([0.01] * 100)), folder / "scenario.json")
    return folder


def value_of(kind: str) -> Any:
    """A value of each kind, from the files in `here`."""
    if kind == "Standings":
        return statsnet.compare("r.json", "faster.json")
    places = {"Signature": "s.json", "Mix": "m.yaml", "SavedProxy": PROXY, "Result": "r.json", "DeviceRecord": DEVICE}
    return statsnet.load(places.get(kind, "scenario.json"))


NO_TORCH = """
import sys

import statsnet

heavy = {"torch", "numpy", "scipy", "msgspec", "pandas", "rich", "click"} & sys.modules.keys()
assert not heavy, heavy
sys.modules["torch"] = None
for name in ("s.json", "m.yaml", "p", "r.json"):
    value = statsnet.load(name)
    assert "<table" in value._repr_html_()
    print(type(value).__name__)
statsnet.save(statsnet.load("s.json"), "again.json")
print(statsnet.compare("r.json", "faster.json"))
print(statsnet.mix("cv/resnet50:1").members[0].name)
"""


def test_importing_is_light_and_reading_needs_no_torch(here: Path) -> None:
    done = subprocess.run([sys.executable, "-c", NO_TORCH], env=environment(here), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *kinds, compared, name = done.stdout.splitlines()
    assert kinds == ["Signature", "Mix", "SavedProxy", "Result"]
    assert "times faster" in compared
    assert name == "cv/resnet50"


def test_every_public_name_is_there_and_has_its_place_in_the_reference() -> None:
    for name in statsnet.__all__:
        assert getattr(statsnet, name) is not None
        assert name in dir(statsnet)
        assert name == "__version__" or f"`{name}" in REFERENCE, name
    assert {*statsnet._PLACES, "__version__"} == {*statsnet.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'profiles'"):
        _ = statsnet.profiles


@pytest.mark.parametrize("name", sorted({*statsnet.__all__} - {*KINDS, "StatsNetError", "__version__"}))
def test_the_reference_names_every_argument(name: str) -> None:
    (section,) = re.findall(rf"### `{name}\((.*?)(?=\n##)", REFERENCE, re.DOTALL)
    arguments = inspect.signature(getattr(statsnet, name)).parameters
    assert [a for a in arguments if not re.search(rf"\b{a}\b", section)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_shows_itself(here: Path, kind: str) -> None:
    value = value_of(kind)
    assert type(value) is getattr(statsnet, kind)
    line = repr(value)
    assert line.startswith(f"{kind}(") and "\n" not in line and 20 < len(line) < 400
    html = value._repr_html_()
    assert "<table" in html
    assert html.count("<div") == html.count("</div>")
    assert not re.search(r"<script|\bsrc=|\bhref=|@import|url\(", html)
    assert not re.search(r"background\s*:", html), "the page's own, light or dark"


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_has_columns_of_one_length(here: Path, kind: str) -> None:
    found = values.columns(value_of(kind))
    assert len({len(column) for column in found.values()}) == 1
    assert len(next(iter(found.values()))) > 0
    (row,) = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{kind}` | ")]
    told = set(re.findall(r"`(\w+)`", row.split("|")[4]))
    assert told <= found.keys()
    assert kind == "Standings" or told == {*found}


def test_data_frames(here: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[dev]'")
    frame = value_of("Mix").to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["weight"].sum() == pytest.approx(1.0)
    steps = value_of("Result").to_dataframe()
    assert list(steps.groupby("process")["latency_s"].median()) == pytest.approx([0.020, 0.0201, 0.0199])
    for kind in KINDS:
        assert len(value_of(kind).to_dataframe()) > 0


def test_without_pandas_the_command_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'statsnet[pandas]'")):
        value_of("Mix").to_dataframe()


def test_a_proxy_without_a_fit_has_no_table(here: Path) -> None:
    proxy = statsnet.load("p")
    assert isinstance(proxy, statsnet.SavedProxy) and proxy.fit is None
    assert "no fit" in repr(proxy)
    with pytest.raises(UsageError, match=r"has no fit\.json"):
        values.columns(proxy)


def test_texts_of_a_file_are_shown_as_text(here: Path) -> None:
    write_proxy(here / "p", {**read(here / "p" / "spec.json")["mix"][0], "name": "<script>x\x1b[1m</script>"})
    proxy = statsnet.load("p")
    assert "<script" not in proxy._repr_html_() and "\x1b" not in repr(proxy) + proxy._repr_html_()


def test_what_can_not_be_shown_is_said() -> None:
    """A clock that stood still gives no time."""
    still = Result(
        subject=Subject(type="proxy", id=None, mode="inference"),
        environment={"device": "cpu", "device_name": "Z80"},
        processes=(Timing(latency_s=(0.0, 0.0, 0.0)),),
    )
    assert repr(still).startswith("Result(")
    assert still._repr_html_().startswith('<div class="statsnet">')


def test_load_knows_a_proxy_by_each_of_its_files_and_a_packed_profile() -> None:
    proxy = statsnet.load(PROXY)
    assert isinstance(proxy, statsnet.SavedProxy) and proxy.fit is not None
    assert statsnet.load(PROXY / "spec.json") == statsnet.load(str(PROXY / "fit.json")) == proxy
    packed = statsnet.mix("cv/resnet50:1").members[0]
    assert statsnet.load(packed.path) == packed.signature


def test_load_knows_a_device_record_that_is_not_packed(here: Path) -> None:
    (here / "device.json").write_bytes(gzip.decompress(DEVICE.read_bytes()))
    record = statsnet.load("device.json")
    assert isinstance(record, statsnet.DeviceRecord)
    assert record.device == "nvidia-titan-xp"


@pytest.mark.parametrize(
    ("name", "text", "error", "what"),
    [
        ("nothing.json", None, FileFormatError, "does not exist"),
        ("nothing.json.gz", None, FileFormatError, "cannot be read"),
        ("other.json", '{"kind": "x"}', OtherFileError, "is no file of StatsNet"),
        ("list.json", "[1]", FileFormatError, "does not hold an object"),
        ("cut.json", '{"kind": "statsnet.res', FileFormatError, "ends too early"),
        ("notes.txt", "Dear", FileFormatError, "is not valid JSON"),
        ("noise.gz", "Dear", FileFormatError, "cannot be read as JSON"),
        ("bad.yaml", "members: 3", UsageError, "is not a value of members"),
        ("folder/x.txt", "Dear", UsageError, "is not a proxy's folder"),
        ("p/fit.json", (PROXY / "fit.json").read_text(), FileFormatError, "is the fit of another proxy"),
        ("copy.json", (PROXY / "spec.json").read_text(), UsageError, "is a part of a proxy"),
    ],
)
def test_what_can_not_be_loaded(here: Path, name: str, text: str | None, error: type[Exception], what: str) -> None:
    place = here / name
    place.parent.mkdir(exist_ok=True)
    if text is not None:
        place.write_text(text)
    with pytest.raises(error, match=re.escape(what)):
        statsnet.load("folder" if name.startswith("folder") else name)


def test_save_writes_what_load_reads(here: Path) -> None:
    for name in ("s.json", "r.json", "scenario.json"):
        value = statsnet.load(name)
        assert isinstance(value, statsnet.Signature | statsnet.Result | statsnet.ScenarioResult)
        statsnet.save(value, here / "again.json")
        assert statsnet.load("again.json") == value
    with pytest.raises(UsageError, match="SavedProxy is not written"):
        statsnet.save(statsnet.load("p"), "x.json")  # type: ignore[arg-type]


def test_a_mix_from_a_dictionary_is_that_of_the_text(here: Path) -> None:
    mix = statsnet.mix({"recsys/dlrm": 1, "cv/resnet50": 3.0})
    assert mix == statsnet.mix("recsys/dlrm:0.25,cv/resnet50:0.75")
    assert {member.name: member.weight for member in mix.members} == {"recsys/dlrm": 0.25, "cv/resnet50": 0.75}
    mode = read(GOLDEN)["mode"]
    assert statsnet.mix({here / "s.json": 1}, mode=mode).members[0].source == "file"
    assert statsnet.mix("m.yaml").mode == "inference"


@pytest.mark.parametrize(
    ("members", "options", "what"),
    [
        ({}, {}, "the mix is empty"),
        ({"cv": -1}, {}, "'-1' is not a weight"),
        ({"cv": math.nan}, {}, "'nan' is not a weight"),
        ({"cv,nlp": 1}, {}, "cannot stand in a mix"),
        ("cv:1", {"mode": "dreaming"}, "'dreaming' is not a mode"),
        ("cv:1", {"profiles": "nowhere"}, "there are no profiles in 'nowhere'"),
    ],
)
def test_a_bad_mix(members: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        statsnet.mix(members, **options)


def test_profile_workload(here: Path) -> None:
    (here / "model.py").write_text(MODEL)
    signature = statsnet.profile_workload("model.py:make", device="meta", batch=3, arguments={"width": 24})
    assert signature.level == "statistical", "as the command"
    assert signature.memory.parameter_count == (24 * 32 + 32) + (32 * 8 + 8)
    assert "not timed" in repr(signature)
    coarse = statsnet.profile_workload("model.py:make", device="meta", level="coarse", processes=48)
    assert (coarse.level, coarse.processes) == ("coarse", 64)


@pytest.mark.parametrize(
    "options", [{"device": "cuda:1"}, {"device": "cuda", "counters": "ncu"}, {"sandbox": True}], ids=str
)
def test_what_several_processes_cannot_do_is_refused_as_by_the_command(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="was given for several processes"):
        statsnet.profile_workload("recsys/ncf", processes=2, **options)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workload": "resnet5"}, "resnet5"),
        ({"level": "secret"}, "'secret' is no value for level"),
        ({"mode": "dreaming"}, "'dreaming' is no value for mode"),
        ({"counters": "all"}, "'all' is no value for counters"),
        ({"device": "tpu"}, "'tpu' is not a device"),
        ({"batch": 0}, "0 is no value for batch"),
        ({"min_time_s": -1.0}, "-1.0 is no value for min_time_s"),
        ({"setting": "speed=high"}, "'speed' is not a setting"),
    ],
)
def test_what_can_not_be_profiled(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        statsnet.profile_workload(**{"workload": "recsys/ncf", **options})


def test_run_gives_a_result_that_is_compared(here: Path) -> None:
    first = statsnet.run(statsnet.load(here / "p"), processes=2, threads=1, **QUICK)  # type: ignore[arg-type]
    assert len(first.of_subject) == 2
    assert first.environment["threads"] == 1
    assert "in 2 processes on" in repr(first)
    statsnet.save(first, "first.json")
    found = statsnet.compare("first.json", first)
    assert [row.name for row in found.rows] == ["first.json", "result 2"]
    assert found.rows[1].factor is not None and found.rows[1].factor.value == pytest.approx(1.0)


def test_a_network_that_is_not_the_spec_s_is_warned_of(here: Path) -> None:
    (here / "p" / "network.py").write_text("raise SystemExit('it ran')\n")
    with pytest.warns(UserWarning, match="is not what spec.json describes"):
        assert statsnet.run("p", processes=1, **QUICK).of_subject


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"proxy": "nowhere"}, "is not a proxy's folder"),
        ({"proxy": "r.json"}, "is not a proxy's folder"),
        ({"device": "tpu"}, "'tpu' is not a device"),
        ({"threads": 0}, "'0' is not a number of threads"),
        ({"processes": 0}, "0 is not a number of processes"),
        ({"max_time_s": 0.0}, "0.0 is no value for max_time_s"),
    ],
)
def test_what_can_not_be_run(here: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        statsnet.run(**{"proxy": "p", **options})


def test_compare_with_names_a_baseline_and_prices(here: Path) -> None:
    results = {"old": "r.json", "new": statsnet.load("faster.json")}
    found = statsnet.compare(results, baseline="new", prices_per_h={"old": 1.0, "new": 4.0})  # type: ignore[arg-type]
    old, new = found.rows
    assert new.is_baseline and old.factor is not None
    assert old.factor.value == pytest.approx(2.0, rel=0.02)
    assert old.cost_factor is not None and old.cost_factor.value == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("results", "options", "what"),
    [
        (("r.json",), {}, "there is nothing to compare"),
        (("r.json", "r.json"), {}, "two results are called 'r.json'"),
        (("r.json", "s.json"), {}, "is a signature, not a result"),
        (("r.json", "faster.json"), {"baseline": "other.json"}, "'other.json' is none of the results"),
        (("r.json", "faster.json"), {"prices_per_h": {"x": 1.0}}, "a price for 'x'"),
        (("r.json", "faster.json"), {"prices_per_h": {"r.json": -1.0}}, "-1.0 is no value for price of r.json"),
    ],
)
def test_what_can_not_be_compared(here: Path, results: tuple[str, ...], options: dict[str, Any], what: str) -> None:
    with pytest.raises(StatsNetError, match=re.escape(what)):
        statsnet.compare(*results, **options)


Asked = Callable[..., tuple[ProxyRequest, MakeOptions]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What `synthesize` asks of the function that its command calls too."""

    def ask(*given: Any, **options: Any) -> tuple[ProxyRequest, MakeOptions]:
        calls: list[tuple[ProxyRequest, MakeOptions]] = []

        def make(request: ProxyRequest, wanted: MakeOptions) -> None:
            calls.append((request, wanted))
            raise StatsNetError("enough")

        monkeypatch.setattr(make_proxy, "synthesize", make)
        with pytest.raises(StatsNetError, match="enough"):
            statsnet.synthesize(*given, **options)
        return calls[0]

    return ask


def test_synthesize_asks_for_what_was_given(here: Path, asked: Asked) -> None:
    request, wanted = asked({"cv": 1, "nlp": 1}, "new", mode="training", effort="quick", within_s=60, seed=3)
    assert (request.mix_text, request.budget_s, request.compression, request.seed) == ("cv:1,nlp:1", None, None, 3)
    assert (wanted.mode, wanted.device, wanted.effort.name, wanted.counters) == ("training", "cpu", "quick", "auto")
    assert 0 < wanted.deadline.left_s <= 60
    assert wanted.deadline.clock == LOCKS.clock
    assert not wanted.cache.ignores_older


def test_a_mix_s_file_tells_what_was_not_given(here: Path, asked: Asked) -> None:
    (here / "suite.yaml").write_text("members: [{domain: cv, weight: 1}]\nmode: training\nbudget: 7ms\nname: Vision\n")
    request, wanted = asked("suite.yaml", "new")
    assert (wanted.mode, request.budget_s, request.title) == ("training", 0.007, "Vision")
    request, wanted = asked(here / "suite.yaml", "new", mode="inference", compression=20)
    assert (wanted.mode, request.budget_s, request.compression) == ("inference", None, 20)


def test_a_mix_is_made_again_from_what_it_was_asked_for(here: Path, asked: Asked) -> None:
    domain, mode = read(GOLDEN)["workload"]["domain"], read(GOLDEN)["mode"]
    place = here / "db" / "somewhere" / domain / f"{read(GOLDEN)['workload']['name']}.{mode}.json"
    place.parent.mkdir(parents=True)
    shutil.copy(GOLDEN, place)
    request, wanted = asked(statsnet.mix({domain: 1}, mode=mode, profiles="db"), "new")
    assert (request.mix_text, wanted.mode, wanted.profiles) == (f"{domain}:1", mode, Path("db"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mix": "cvx:1"}, "is no domain, workload or signature file"),
        ({"mix": statsnet.Mix(members=(), mode="inference")}, "cannot be made again"),
        ({"budget_s": 0.01, "compression": 50}, "were both given"),
        ({"budget_s": 0}, "0 is no value for budget_s"),
        ({"compression": 0.5}, "0.5 is no compression"),
        ({"within_s": math.inf}, "inf is no value for within_s"),
        ({"effort": "heroic"}, "'heroic' is no value for effort"),
        ({"counters": "ncu"}, "hardware counters were asked for of 'cpu'"),
        ({"dtype": "float16"}, "a dtype was given for a device that is here"),
        ({"device": "recorded:x", "fresh": True}, "a recorded device and fresh measurements were both asked for"),
        ({"device": "tpu"}, "'tpu' is not a device"),
        ({"output": "letters"}, "'letters' is not a proxy folder"),
    ],
)
def test_what_can_not_be_made(here: Path, options: dict[str, Any], what: str) -> None:
    (here / "letters").mkdir()
    (here / "letters" / "mother.txt").write_text("Dear")
    with pytest.raises(StatsNetError, match=re.escape(what)):
        statsnet.synthesize(**{"mix": "cv/resnet50:1", "output": "new", **options})
    assert not (here / "new").exists()


def test_a_device_that_is_not_here() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="there is no CUDA device here"):
        statsnet.run(PROXY, device="cuda")
