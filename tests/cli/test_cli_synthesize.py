"""`statsnet synthesize`: bad mixes and outputs; making a proxy is tested with synthesis."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import GOLDEN, read

from statsnet.cli.synthesize import mix_slug


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
        (",", "the mix is empty"),
        ("{domain}", "has no weight"),
        ("{domain}:-1", "'-1' is not a weight"),
        ("{domain}:0", "'0' is not a weight"),
        ("{domain}:nan", "'nan' is not a weight"),
        ("{domain}:1,{domain}:2", "stands twice"),
        ("{domain}x:1", "did you mean {domain}"),
        ("astrology:1", "known domains: {domain}"),
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
    message = failing(
        "synthesize", "--mix", f"{domain}:1", "--mode", other_mode(), "--profiles", profiles, code=2
    )
    assert f"no {other_mode()} profile of '{domain}'" in message
    assert f"--mode {read(GOLDEN)['mode']}" in message


def test_an_output_folder_with_something_else_in_it(
    failing: Callable[..., str], here: Path, profiles: str
) -> None:
    (here / "letters").mkdir()
    (here / "letters" / "mother.txt").write_text("Dear")
    data = read(GOLDEN)
    mix = ["--mix", f"{data['workload']['domain']}:1", "--mode", data["mode"]]
    message = failing("synthesize", *mix, "--profiles", profiles, "-o", "letters", code=1)
    assert "'letters' is not a proxy folder" in message
    assert "mother.txt" in message
    assert (here / "letters" / "mother.txt").read_text() == "Dear"


def test_the_default_folder_is_named_by_the_mix() -> None:
    assert mix_slug("recsys:0.5,cv:0.5") == "recsys-0.5-cv-0.5"
    assert mix_slug("/home/me/secret/model.json:1, cv/ResNet50:2") == "model.json-1-resnet50-2"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--budget", "10ms", "--compression", "50"], "--budget and --compression were both given"),
        (["--resume"], "say how far: --trials, --time-limit or both"),
        (["--fresh", "--trials", "3"], "--fresh and a search were both given"),
        (["--compression", "0.5"], "0.5 is not in the range"),
        (["--trials", "0"], "0 is not in the range"),
    ],
)
def test_options_that_do_not_go_together(failing: Callable[..., str], given: list[str], text: str) -> None:
    assert text in failing("synthesize", "--mix", "cv:1", *given, code=2)
