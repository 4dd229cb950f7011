"""MLPerf's load generator asks a function: what it asks, what is read from its logs, and what fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from statsnet.errors import MeasurementError, UsageError
from statsnet.measure import loadgen
from statsnet.measure.loadgen import Load, check_library, play, read_answers
from statsnet.measure.scenario_tasks import DRAWN, AnswerQueries, drawn_by
from statsnet.measure.task import decode_task, encode_task
from statsnet.measure.timing_tasks import TimeNetwork
from statsnet.signatures.scenarios import SCENARIOS, ScenarioName, ScenarioRules

RULES = ScenarioRules(min_time_s=0.001, min_queries=20, percentile=0.9)
BEGIN = '{"name":"Sample","cat":"default","ph":"b","pid":1,"id":%d,"ts":%.3f,"args":{"sample_seq":%d,"query_seq":%d,'
END = '"sample_idx":0,"issue_start_ns":%d,"complete_ns":%d}},\n'


def write_logs(folder: Path, samples: list[tuple[int, float, int, int]], *details: tuple[str, str]) -> Path:
    """`samples`: query, when it was due in us, ns until it was asked, ns until it was answered."""
    events = [BEGIN % (n, due, n, query) + END % (asked, done) for n, (query, due, asked, done) in enumerate(samples)]
    events.append('{"name":"Sample","cat":"default","ph":"e", "pid":1,"id":0,"ts":9.000},\n')
    (folder / "mlperf_log_trace.json").write_text('{"traceEvents":[\n' + "".join(events))
    lines = [
        f':::MLLOG {{"key": "{key}", "value": {value}, "time_ms": 1.0, "metadata": {{}}}}\n' for key, value in details
    ]
    (folder / "mlperf_log_detail.txt").write_text("".join([':::MLLOG {"key": "broken\n', "another line\n", *lines]))
    return folder


VALID = ("result_validity", '"VALID"')


def test_latencies_are_read_in_the_order_of_their_queries(tmp_path: Path) -> None:
    write_logs(tmp_path, [(1, 2000.0, 5000, 3_000_000), (0, 0.0, 0, 1_000_000)], VALID)
    found = read_answers(tmp_path, Load(scenario="server", rules=RULES, qps=500), 0.001)
    assert found.latency_s == (0.001, 0.003)
    assert found.duration_s == pytest.approx(0.002)  # when the last was due
    assert found.completed_s == pytest.approx(0.005)
    assert found.says_valid


def test_a_query_of_several_samples_takes_as_long_as_its_last(tmp_path: Path) -> None:
    write_logs(tmp_path, [(0, 0.0, 0, 1000), (0, 0.0, 0, 9000), (1, 10.0, 0, 4000)], VALID)
    found = read_answers(tmp_path, Load(scenario="multi-stream", rules=RULES), 0.001)
    assert found.latency_s == (9e-6, 4e-6)


def test_offline_every_sample_counts(tmp_path: Path) -> None:
    write_logs(tmp_path, [(0, 0.0, 0, n * 1000) for n in (1, 2, 3)], VALID)
    found = read_answers(tmp_path, Load(scenario="offline", rules=RULES), 0.001)
    assert found.latency_s == pytest.approx((1e-6, 2e-6, 3e-6))
    assert found.duration_s == found.completed_s == pytest.approx(3e-6)


def test_the_generators_verdict_and_reason(tmp_path: Path) -> None:
    reason = ("result_invalid_reason", '"Reduce target QPS"')
    write_logs(tmp_path, [(0, 0.0, 0, 1000)], ("result_validity", '"INVALID"'), reason)
    found = read_answers(tmp_path, Load(scenario="server", rules=RULES, qps=1), 0.001)
    assert (found.says_valid, found.says) == (False, "Reduce target QPS")


def test_logs_without_an_answer(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="wrote no log"):
        read_answers(tmp_path, Load(scenario="server", rules=RULES, qps=1), 0.001)
    write_logs(tmp_path, [], ("error_runtime", '"too hot"'))
    with pytest.raises(MeasurementError, match="did not finish") as failed:
        read_answers(tmp_path, Load(scenario="server", rules=RULES, qps=1), 0.001)
    assert "too hot" in failed.value.cause


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadgen, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="not installed") as refused:
        check_library()
    assert refused.value.hint == "pip install 'statsnet[scenarios]'"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_query_is_answered(scenario: ScenarioName, temporary_files: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    size = 8 if scenario == "multi-stream" else 1
    rules = ScenarioRules(min_time_s=0.001, min_queries=20, percentile=0.9, samples_per_query=size)
    asked: list[int] = []
    load = Load(scenario=scenario, rules=rules, qps=5000.0 if scenario == "server" else None)
    found = play(load, asked.append, step_s=1e-4, kinds=3)
    assert len(asked) == size * len(found.latency_s) >= 20 * size
    assert {*asked} <= {0, 1, 2}
    assert all(latency_s > 0 for latency_s in found.latency_s)
    assert not list(temporary_files.iterdir())


def test_a_rate_far_too_high_ends_early() -> None:
    """As many as are in time, and 1 % of all: twice that, and some more for a short run."""
    load = Load(scenario="server", rules=ScenarioRules(min_time_s=60, percentile=0.99, latency_bound_s=0.05), qps=200)
    assert loadgen._most_waiting(load, 0.010) == pytest.approx(2 * (5 + 120) + loadgen.FEWEST_WAITING, abs=1)
    assert loadgen._most_waiting(Load(scenario="server", rules=RULES, qps=200), 0.010) == 0


def test_offline_asks_for_more_than_the_warm_up_would_need() -> None:
    assert loadgen._offline_samples(10.0, 0.1) == 131
    assert loadgen._offline_samples(0.001, 5.0) == 2


def test_the_same_seed_asks_the_same(temporary_files: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    runs = []
    for seed in (1, 1, 2):
        asked: list[int] = []
        play(Load(scenario="server", rules=RULES, qps=5000, seed=seed), asked.append, step_s=1e-4, kinds=1000)
        runs.append(asked)
    assert runs[0] == runs[1] != runs[2]


def test_a_step_that_fails_ends_the_run_with_its_own_error(temporary_files: Path) -> None:
    pytest.importorskip("mlperf_loadgen")

    def fail(_: int) -> None:
        raise RuntimeError("the weights are gone")

    with pytest.raises(RuntimeError, match="the weights are gone"):
        play(Load(scenario="single-stream", rules=RULES), fail, step_s=1e-4)
    assert not list(temporary_files.iterdir())


def test_samples_are_drawn_by_shares() -> None:
    assert drawn_by([1.0]) == [0]
    drawn = drawn_by([0.5, 0.3, 0.2, 1e-9], seed=3)
    counts = Counter(drawn)
    assert [counts[kind] for kind in range(4)] == pytest.approx([5000, 3000, 2000, 1], abs=1)
    assert DRAWN <= len(drawn) <= DRAWN + 4
    assert drawn != sorted(drawn)
    assert drawn == drawn_by([0.5, 0.3, 0.2, 1e-9], seed=3)


def test_the_task_travels() -> None:
    task = AnswerQueries(load=Load(scenario="server", rules=RULES, qps=10.0), network=TimeNetwork(folder="x"))
    assert decode_task(encode_task(task)) == task
