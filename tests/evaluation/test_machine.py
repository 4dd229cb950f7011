"""What `doctor` looks at, and what it advises."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from statsnet.evaluation import machine
from statsnet.evaluation.machine import EXTRAS, Finding, findings
from statsnet.evaluation.noise import Noise, TimeOperator
from statsnet.measure.task import Context
from statsnet.reporting.machine import idle_memory_finding, machine_report, noise_finding

ROOT = Path(__file__).parents[2]


def by_name(found: tuple[Finding, ...]) -> dict[str, Finding]:
    return {each.name: each for each in found}


def test_every_line_is_there_and_what_harms_has_an_advice() -> None:
    found = by_name(findings())
    assert {"torch", "CPU", "threads", "cores", "quota", "governor", "memory", "GPU counters", "cache"} <= found.keys()
    assert all(each.advice for each in found.values() if each.state in ("change", "absent"))


def test_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    assert machine._threads(2).state == "ok"
    found = machine._threads(8)
    assert (found.state, found.value) == ("change", "8 on 2 cores")
    assert "--threads 2" in found.advice


def test_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    found = by_name(tuple(machine._cores()))
    assert (found["quota"].state, found["quota"].value) == ("change", "CPU time for 4 of 16 cores")


@pytest.mark.parametrize(("governor", "state"), [("performance", "ok"), ("powersave", "change"), ("", "unknown")])
def test_the_governor(governor: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "file_text", lambda path: governor if str(path).endswith("scaling_governor") else "")
    monkeypatch.setattr(machine.Path, "glob", lambda *_: [Path("cpu0/cpufreq/scaling_governor")])
    assert by_name(tuple(machine._clock_speed()))["governor"].state == state


def test_a_cache_that_can_not_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STATSNET_CACHE", str(tmp_path / "new" / "cache"))
    assert "free" in machine._cache().value
    monkeypatch.setattr(machine.os, "access", lambda *_: False)
    assert machine._cache().state == "change"


def test_what_cannot_be_asked_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine.Path, "exists", refuse)
    assert machine._cache().state == "unknown"
    monkeypatch.setattr(machine.os, "getloadavg", refuse)
    assert machine._load(2).state == "unknown"


def test_extras_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {name: lines for name, lines in extras.items() if name not in ("docs", "fuzz", "simulators", "dev")}
    assert wanted.keys() == EXTRAS.keys()
    for name, lines in wanted.items():
        packages = {re.split(r"[>=\[]", line)[0] for line in lines if not line.startswith("statsnet[")}
        packages -= {"protobuf"}  # comes with gRPC's own packages, and has no module of that name
        modules = {re.sub("iree-base-.*", "iree", p.replace("grpcio", "grpc")).replace("-", "_") for p in packages}
        assert modules <= set(EXTRAS[name])
    assert machine._extra("x", ["no_such_module"]).advice == "pip install 'statsnet[x]'"


def test_noise() -> None:
    quiet = Noise(median_s=1e-3, spread=0.01, precision=0.001, steps=100, warnings=(), page_s=3e-7)
    assert noise_finding(quiet).state == "ok"
    busy = replace(quiet, warnings=("other programs kept the cores busy",))
    assert noise_finding(busy).advice == "other programs kept the cores busy"
    assert len(machine_report([noise_finding(busy)])) == 2


def test_memory_that_the_host_takes_away() -> None:
    usual = Noise(median_s=1e-3, spread=0.01, precision=0.001, steps=100, warnings=(), page_s=3e-7)
    assert idle_memory_finding(usual).state == "ok"
    assert idle_memory_finding(replace(usual, page_s=None)).state == "unknown"
    taken = idle_memory_finding(replace(usual, page_s=6e-5))
    assert taken.state == "change"
    assert "60 µs a page" in taken.advice


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_operator_is_timed() -> None:
    timed = TimeOperator(time_s=0.02).run(Context())
    assert len(timed.timing.latency_s) >= 3
    assert timed.page_s is None  # tests do not look at the machine's state
