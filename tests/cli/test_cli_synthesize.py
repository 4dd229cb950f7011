"""`statsnet synthesize`: bad mixes and outputs; making a proxy is tested with synthesis."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import GOLDEN, read

from statsnet.cli import main
from statsnet.cli.proxy_names import default_name
from statsnet.devices import make_proxy
from statsnet.devices.make_proxy import MakeOptions
from statsnet.errors import StatsNetError
from statsnet.measure.device_lock import LOCKS
from statsnet.signatures.mix_request import mix_slug
from statsnet.synthesis.asked import asked_of
from statsnet.synthesis.problem import ProxyRequest


@pytest.fixture
def profiles(here: Path) -> str:
    """A database with one inference profile, that of the golden signature."""
    data = read(GOLDEN)
    name = f"{data['workload']['name']}.{data['mode']}.json"
    folder = here / "db" / "somewhere" / data["workload"]["domain"]
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN, folder / name)
    return "db"


def other_mode() -> str:
    return {"inference": "training", "training": "inference"}[read(GOLDEN)["mode"]]


@pytest.mark.parametrize(
    ("mix", "text"),
    [
        ("", "the mix is empty"),
        ("{domain}", "has no weight"),
        ("{domain}:0", "'0' is not a weight"),
        ("{domain}x:1", "did you mean {domain}"),
        ("nothing/here.json:1", "does not exist"),
    ],
)
def test_a_bad_mix(failing: Callable[..., str], profiles: str, mix: str, text: str) -> None:
    data = read(GOLDEN)
    names = {"domain": data["workload"]["domain"]}
    code = 1 if ".json" in mix else 2
    options = ["--mode", data["mode"], "--profiles", profiles]
    message = failing("synthesize", "--mix", mix.format(**names), *options, code=code)
    assert text.format(**names) in message, message
    assert "try:" in message


def test_a_mix_without_profiles_for_the_mode(failing: Callable[..., str], profiles: str) -> None:
    domain = read(GOLDEN)["workload"]["domain"]
    message = failing("synthesize", "--mix", f"{domain}:1", "--mode", other_mode(), "--profiles", profiles, code=2)
    assert f"no {other_mode()} profile of '{domain}'" in message
    assert f"--mode {read(GOLDEN)['mode']}" in message


def test_an_output_folder_with_something_else_in_it(failing: Callable[..., str], here: Path, profiles: str) -> None:
    (here / "letters").mkdir()
    (here / "letters" / "mother.txt").write_text("Dear")
    data = read(GOLDEN)
    mix = ["--mix", f"{data['workload']['domain']}:1", "--mode", data["mode"]]
    message = failing("synthesize", *mix, "--profiles", profiles, "-o", "letters", code=1)
    assert "'letters' is not a proxy folder" in message
    assert "mother.txt" in message
    assert (here / "letters" / "mother.txt").read_text() == "Dear"


@pytest.mark.parametrize("option", ["--trials", "--time-limit"])
def test_a_search_never_touches_another_file(
    failing: Callable[..., str], here: Path, profiles: str, option: str
) -> None:
    (here / "p.journal").write_text("Dear diary")
    data = read(GOLDEN)
    mix = ["--mix", f"{data['workload']['domain']}:1", "--mode", data["mode"], "--profiles", profiles]
    message = failing("synthesize", *mix, "-o", "p", option, "1" if option == "--trials" else "1s", code=2)
    assert "'p.journal' is no journal of a search" in message
    assert (here / "p.journal").read_text() == "Dear diary"


@pytest.mark.parametrize(
    ("storage", "code", "text"),
    [
        ("mysql://me:secret@there/d", 2, "'mysql:' begins no storage that StatsNet knows"),
        ("no/disk/j", 2, "'no/disk', the journal's folder, does not exist"),
        ("letter", 2, "'letter' is no journal of a search"),
    ],
)
def test_a_storage_that_is_none_is_refused_before_the_work(
    failing: Callable[..., str], here: Path, profiles: str, storage: str, code: int, text: str
) -> None:
    (here / "letter").write_text("Dear mother")
    data = read(GOLDEN)
    mix = ["--mix", f"{data['workload']['domain']}:1", "--mode", data["mode"], "--profiles", profiles]
    message = failing("synthesize", *mix, "-o", "p", "--trials", "3", "--storage", storage, code=code)
    assert text in message
    assert "secret" not in message


def test_the_folder_that_one_is_in_is_refused_before_the_work(
    here: Path, profiles: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = read(GOLDEN)
    (here / "p").mkdir()
    monkeypatch.chdir(here / "p")
    mix = ["--mix", f"{data['workload']['domain']}:1", "--mode", data["mode"], "--profiles", str(here / profiles)]
    assert main(["synthesize", *mix, "-o", "."]) == 1
    message = capsys.readouterr().err
    assert "'.' cannot be replaced as a whole" in message
    assert "-o proxy" in message


def test_a_user_that_nobody_knows(failing: Callable[..., str]) -> None:
    message = failing("synthesize", "--mix", "~nobody-of-that-name/x.json:1", code=1)
    assert "does not exist" in message


def test_the_default_folder_is_named_by_the_mix() -> None:
    assert mix_slug("recsys:0.5,cv:0.5") == "recsys-0.5-cv-0.5"
    assert mix_slug("/home/me/secret/model.json:1, cv/ResNet50:2") == "model.json-1-resnet50-2"


def write_mix(here: Path, **keys: object) -> str:
    text = "".join(f"{key}: {value}\n" for key, value in keys.items())
    (here / "suite.yaml").write_text(text)
    return "suite.yaml"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ("[{domain: {domain}x, weight: 1}]", "'suite.yaml', line 2, column 11: '{domain}x' is no domain"),
        ("[{domain: {domain}, wieght: 1}]", "did you mean weight?"),
        ("[{domain: {domain}, weight: 1, preset: huge}]", "statsnet profile --mix suite.yaml -o DIR"),
    ],
)
def test_a_bad_mix_in_a_file(failing: Callable[..., str], here: Path, profiles: str, members: str, text: str) -> None:
    """Its mode is the file's: of the other one there is no profile."""
    data = read(GOLDEN)
    domain = data["workload"]["domain"]
    mix = write_mix(here, mode=data["mode"], members=members.replace("{domain}", domain))
    message = failing("synthesize", "--mix", mix, "--profiles", profiles, code=2)
    assert text.replace("{domain}", domain) in message, message


def test_the_command_line_goes_before_a_mix_s_file(here: Path, profiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(GOLDEN)
    monkeypatch.chdir(here)
    made: list[tuple[str, float | None, float]] = []

    def make(request: ProxyRequest, wanted: MakeOptions) -> None:
        made.append((wanted.mode, request.budget_s, request.compression))
        raise StatsNetError("enough")

    monkeypatch.setattr(make_proxy, "synthesize", make)
    members = f"[{{domain: {data['workload']['domain']}, weight: 1}}]"
    mix = write_mix(here, mode=data["mode"], budget="7ms", members=members)
    words = ["synthesize", "--mix", mix, "--profiles", profiles]
    for more in ([], ["--budget", "8s"], ["--compression", "20"]):
        assert main([*words, *more]) == 1
    default = ProxyRequest(mix_text="").compression
    mode = data["mode"]
    assert made == [(mode, 0.007, default), (mode, 8.0, default), (mode, None, 20.0)]
    assert main([*words, "--mode", other_mode()]) == 2


def test_effort_and_deadline_reach_synthesis(here: Path, profiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(GOLDEN)
    monkeypatch.chdir(here)
    made: list[MakeOptions] = []

    def make(_: ProxyRequest, wanted: MakeOptions) -> None:
        made.append(wanted)
        raise StatsNetError("enough")

    monkeypatch.setattr(make_proxy, "synthesize", make)
    domain, mode = data["workload"]["domain"], data["mode"]
    words = ["synthesize", "--mix", f"{domain}:1", "--mode", mode, "--profiles", profiles]
    for more in ([], ["--effort", "quick", "--within", "1h"]):
        assert main([*words, *more]) == 1
    usual, other = made
    assert (usual.effort.name, usual.deadline.left_s) == ("normal", math.inf)
    assert other.effort.name == "quick"
    assert 0 < other.deadline.left_s <= 3600
    assert other.deadline.clock == LOCKS.clock


@pytest.mark.parametrize(
    ("name", "folder"),
    [("Vision / speech", "vision-speech"), ("日本", "my-suite"), (None, "my-suite")],
)
def test_the_default_folder_of_a_mix_s_file(tmp_path: Path, name: str | None, folder: str) -> None:
    path = tmp_path / "My suite.yaml"
    path.write_text(f"members: [{{domain: cv, weight: 1}}]\n{f'name: {name}' if name else ''}", encoding="utf-8")
    assert default_name(asked_of(str(path)), {}) == folder


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--budget", "10ms", "--compression", "50"], "a budget and a compression were both given"),
        (["--resume"], "say how far: --trials, --time-limit or both"),
        (["--fresh", "--trials", "3"], "--fresh and a search were both given"),
        (["--storage", "j"], "say how far it goes: --trials, --time-limit or both"),
        (["--trials", "3", "--study", "s"], "say which: --storage URL"),
        (["--trials", "3", "--storage", "j", "--study", " "], "--study takes 1 to 100 printable characters"),
        (["--compression", "0.5"], "0.5 is not in the range"),
        (["--trials", "0"], "0 is not in the range"),
        (["--within", "soon"], "'soon' is not a duration"),
        (["--within", "0s"], "'0s' is not a duration"),
        (["--effort", "heroic"], "'heroic' is not one of 'quick', 'normal', 'thorough'"),
    ],
)
def test_options_that_do_not_go_together(failing: Callable[..., str], given: list[str], text: str) -> None:
    assert text in failing("synthesize", "--mix", "cv:1", *given, code=2)
