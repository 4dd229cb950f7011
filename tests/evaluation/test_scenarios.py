"""What a scenario runs: rates, instances and threads; and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import member, write_proxy
from scenario_results import ENVIRONMENT, answers

from statsnet.errors import DeviceError, MeasurementError, UsageError
from statsnet.evaluation import scenario_suite, scenarios, suite
from statsnet.evaluation.scenario_factors import scenario_factors
from statsnet.evaluation.scenario_suite import SuiteScenarioOptions, validate_scenario
from statsnet.evaluation.scenarios import (
    BEYOND,
    CLOSE,
    MOST_BEYOND,
    ScenarioOptions,
    environment_of,
    instances_and_threads,
    run_scenario,
    search_rates,
)
from statsnet.measure.control import Job
from statsnet.measure.loadgen import Load
from statsnet.measure.scenario_tasks import Answered, AnswerQueries
from statsnet.signatures.conversion import plain
from statsnet.signatures.storage import validate
from statsnet.workloads.settings import parse_settings


@given(st.floats(0.08, 1.9), st.floats(0.1, 1000))
def test_the_search_ends_between_two_close_rates(limit: float, capacity: float) -> None:
    tried: list[float] = []

    def is_valid(qps: float) -> bool:
        tried.append(qps)
        return qps <= limit * capacity

    valid, invalid = search_rates(capacity, is_valid)
    assert valid is not None and invalid is not None
    assert valid <= limit * capacity < invalid
    assert invalid <= 1.06 * CLOSE * valid  # rates have three digits
    assert len(tried) == len({*tried}) <= 16


def test_a_search_that_meets_no_end() -> None:
    assert search_rates(10, lambda _: True) == (float(f"{10 * BEYOND**MOST_BEYOND:.3g}"), None)
    valid, invalid = search_rates(10, lambda _: False)
    assert (valid, invalid) == (None, 0.75)


@pytest.mark.parametrize(
    ("cores", "threads", "pairs"),
    [
        (1, None, [(1, None)]),
        (2, None, [(1, 1), (2, 1), (1, 2)]),
        (6, None, [(1, 1), (6, 1), (3, 2), (1, 4), (1, 6)]),
        (8, 2, [(1, 2), (2, 2), (4, 2)]),
        (6, 2, [(1, 2), (2, 2), (3, 2)]),
        (2, 4, [(1, 4)]),
    ],
)
def test_instances_and_threads(cores: int, threads: int | None, pairs: list[tuple[int, int | None]]) -> None:
    assert instances_and_threads(cores, threads) == pairs


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"scenario": "offline", "qps": 5.0}, "--qps does not belong to the scenario 'offline'"),
        ({"scenario": "single-stream", "latency_bound_s": 0.1}, "--latency-bound does not belong"),
        ({"scenario": "server", "qps": 0.0}, "0 is not a rate of queries"),
        ({"scenario": "server", "qps": float("nan")}, "nan is not a rate of queries"),
        ({"scenario": "server", "qps": 1e5}, "more than one run holds"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        ScenarioOptions(**given)


def test_environments_of_several_threads() -> None:
    one = {**ENVIRONMENT, "settings": {"OMP_NUM_THREADS": "1", "MKL_CBWR": "AVX2"}}
    two = {**one, "threads": 2, "settings": {"OMP_NUM_THREADS": "2", "MKL_CBWR": "AVX2"}}
    assert environment_of([one, two]) == {**two, "settings": {"MKL_CBWR": "AVX2"}}
    with pytest.raises(MeasurementError, match="the environment changed"):
        environment_of([one, {**two, "device_name": "Z81"}])


class Machine:
    """In place of measuring processes: a step takes `step_s`, and a queue grows with the load."""

    def __init__(self, step_s: Callable[[AnswerQueries, str], float]) -> None:
        self.step_s, self.asked = step_s, list[tuple[Load, str, int]]()

    def run_together(self, jobs: list[Job[Answered]]) -> list[Answered]:
        task, setting = jobs[0].task, jobs[0].control.setting.name
        assert isinstance(task, AnswerQueries)
        load, step_s = task.load, self.step_s(task, setting)
        self.asked.append((load, setting, len(jobs)))
        busy = (load.qps or 0.0) * step_s
        latency_s = step_s / (1 - busy) if busy < 1 else 1000.0
        count = max(load.rules.min_queries, 700)
        one = answers([latency_s] * count, duration_s=load.rules.min_time_s, completed_s=count * step_s, step_s=step_s)
        return [Answered(answers=one, environment={**ENVIRONMENT, "settings": {}})] * len(jobs)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    def made(step_s: Callable[[AnswerQueries, str], float]) -> Machine:
        found = Machine(step_s)
        monkeypatch.setattr(scenarios, "run_together", found.run_together)
        monkeypatch.setattr(scenarios, "check_library", lambda: None)
        monkeypatch.setattr(scenario_suite, "check_library", lambda: None)
        monkeypatch.setattr(suite, "find_signatures", lambda *_: {})  # there are hundreds of files to look into
        return found

    return made


def test_the_server_scenario_finds_the_rate_that_keeps_the_bound(
    machine: Callable[..., Machine], proxy_folder: Path
) -> None:
    """A latency of step / (1 - load) keeps 40 ms up to a load of 3/4."""
    machine(lambda *_: 0.010)
    result = run_scenario(proxy_folder, ScenarioOptions(scenario="server", latency_bound_s=0.040))
    assert validate(plain(result), "statsnet.scenario") == result
    rates = sorted(trial.qps or 0 for trial in result.trials)
    assert rates[0] == 30
    assert max(qps for qps in rates if qps <= 75) > 75 / CLOSE / 1.01
    assert result.rules.min_queries == 662


def test_a_bound_follows_from_the_step_where_none_is_given(machine: Callable[..., Machine], proxy_folder: Path) -> None:
    asked = machine(lambda *_: 0.0101).asked
    result = run_scenario(proxy_folder, ScenarioOptions(scenario="server", qps=10.0, processes=2))
    assert result.rules.latency_bound_s == pytest.approx(0.051, rel=0.02)
    assert [(load.scenario, load.qps, load.seed) for load, *_ in asked] == [
        ("single-stream", None, 0), ("server", 10.0, 0), ("server", 10.0, 1)
    ]  # fmt: skip


def test_a_bound_that_is_shorter_than_the_step(machine: Callable[..., Machine], proxy_folder: Path) -> None:
    machine(lambda *_: 0.010)
    with pytest.raises(UsageError, match="bound of 2 ms is shorter than the step") as refused:
        run_scenario(proxy_folder, ScenarioOptions(scenario="server", latency_bound_s=0.002))
    assert refused.value.hint == "--latency-bound 50ms"


def test_a_search_that_no_file_would_hold(machine: Callable[..., Machine], proxy_folder: Path) -> None:
    machine(lambda *_: 1e-4)
    with pytest.raises(UsageError, match=r"would hold about 4.8e\+06 queries") as refused:
        run_scenario(proxy_folder, ScenarioOptions(scenario="server"))
    assert refused.value.hint == "--min-time 45s"


def test_offline_runs_instances_at_the_same_time(
    machine: Callable[..., Machine], proxy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = machine(lambda *_: 0.010).asked
    monkeypatch.setattr(scenarios, "usable_cores", lambda: 2)
    result = run_scenario(proxy_folder, ScenarioOptions(scenario="offline"))
    assert [instances for *_, instances in asked] == [1, 2, 1]
    assert [trial.instances for trial in result.trials] == [1, 2, 1]


def test_the_suite_is_asked_in_shares_of_time(machine: Callable[..., Machine], tmp_path: Path) -> None:
    """Equal weights: the member with a step of half the length gets twice the queries."""
    members = (
        member("recsys/ncf", 0.4, latency_s=0.010),
        member("cv/resnet50", 0.4, latency_s=0.020),
        member("signature-12345678", 0.2, latency_s=0.1),
    )
    folder = write_proxy(tmp_path / "p", *members)
    asked = machine(lambda task, setting: (0.001 if task.network else 0.1) * (3 if setting == "threads=1" else 1)).asked
    options = SuiteScenarioOptions(scenario="server", settings=parse_settings("threads=1"))
    result = validate_scenario(folder, options)
    assert validate(plain(result), "statsnet.scenario") == result
    assert result.beside is not None
    assert [m.query_share for m in result.beside.members] == pytest.approx([2 / 3, 1 / 3])
    assert result.beside.notes == (
        "20% of the suite is left out, since these models are not at hand: signature-12345678",
    )
    rates = {load.qps for load, *_ in asked if load.qps is not None}
    assert rates == {3.0, 300.0}  # 30 % of what each side's step allows
    rows, missing = scenario_factors(result)
    assert not missing
    assert [row.figure for row in rows] == ["p50", "p90", "p99"]
    slower = 3 * (1 - 0.3) / (1 - 0.9)
    assert [row.suite.value for row in rows] == pytest.approx([slower] * 3)
    assert [row.error.value for row in rows] == pytest.approx([0] * 3)


def test_a_suite_that_does_not_fit_into_memory(machine: Callable[..., Machine], tmp_path: Path) -> None:
    machine(lambda *_: 0.01)
    folder = write_proxy(tmp_path / "p", member("recsys/ncf", 1.0, peak_bytes=1 << 60))
    with pytest.raises(DeviceError, match="do not fit into memory together"):
        validate_scenario(folder, SuiteScenarioOptions(scenario="single-stream"))


def test_a_suite_without_models(machine: Callable[..., Machine], proxy_folder: Path) -> None:
    machine(lambda *_: 0.01)
    with pytest.raises(UsageError, match="the suite cannot be run in a scenario"):
        validate_scenario(proxy_folder, SuiteScenarioOptions(scenario="single-stream"))
