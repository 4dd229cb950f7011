"""The Python API: what each function gives, and what it says of bad input."""

from __future__ import annotations

import inspect
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from api_support import KINDS, PROXY, REFERENCE
from cli_support import GOLDEN, MODEL, environment, read

import statsnet
from statsnet.devices import make_proxy
from statsnet.devices.make_proxy import MakeOptions
from statsnet.errors import DeviceError, StatsNetError, UsageError
from statsnet.measure.device_lock import LOCKS
from statsnet.synthesis.problem import ProxyRequest

QUICK = {"min_time_s": 0.02, "max_time_s": 0.1}

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
        ({"batch": 2.5}, "2.5 is no value for batch"),
        ({"workload": torch.nn.Linear}, "is no name of a workload"),
        ({"arguments": {"width": None}}, "None is no value for width"),
        ({"min_time_s": -1.0}, "-1.0 is no value for min_time_s"),
        ({"setting": "speed=high"}, "'speed' is not a setting"),
    ],
)
def test_what_can_not_be_profiled(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        statsnet.profile_workload(**{"workload": "recsys/ncf", **options})


def test_arguments_may_be_those_of_other_libraries() -> None:
    signature = statsnet.profile_workload(
        "recsys/ncf",
        preset="tiny",
        mode="training",
        device=torch.device("meta"),  # type: ignore[arg-type]
        dtype=torch.bfloat16,  # type: ignore[arg-type]
        batch=numpy.int64(8),
        optimizer=torch.optim.Adam,  # type: ignore[arg-type]
    )
    assert (signature.dtype, signature.batch, signature.optimizer) == ("bfloat16", 8, "adam")


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


def test_only_results_are_compared() -> None:
    with pytest.raises(UsageError, match="type int is not compared"):
        statsnet.compare(3, 4)  # type: ignore[arg-type]


def test_a_home_is_expanded(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    statsnet.save(statsnet.load("r.json"), "~/again.json")
    assert statsnet.load("~/again.json") == statsnet.load("r.json")


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
