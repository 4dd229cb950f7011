"""MLPerf's load generator: it asks, by its own schedule and clock, and a function answers.

mlperf_loadgen is the Python binding of https://github.com/mlcommons/inference, folder loadgen. Its thread asks; the
thread that calls `play` answers, so that steps run where everything else was set up. All that it knows is in two of its
files: the verdict in its detail log, and each query's latency in its trace. They lie in a temporary folder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import MeasurementError, UsageError, first_line
from statsnet.signatures.scenarios import MOST_QUERIES, Answers, ScenarioName, ScenarioRules

LIBRARY = "mlperf_loadgen"

_WORDS: dict[ScenarioName, str] = {
    "single-stream": "SingleStream", "multi-stream": "MultiStream", "offline": "Offline", "server": "Server"
}  # fmt: skip

FASTER = 2.0
"""Queries are drawn before the first is asked. There are enough of them for steps this many times as fast as in the
warm-up."""

OFFLINE_ROOM = 1.3
FEWEST_WAITING = 20

NO_BOUND_S = 3600.0
"""In place of a bound where none is asked for."""

_SAMPLE = re.compile(
    r'"name":"Sample",.*?"ts":(?P<ts>[\d.]+),.*?"query_seq":(?P<query>\d+),.*?'
    r'"issue_start_ns":(?P<issued>-?\d+),"complete_ns":(?P<completed>-?\d+)'
)
_DETAIL = ":::MLLOG "


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked for: `qps` in the server scenario alone. The same seed asks at the same times."""

    scenario: ScenarioName
    rules: ScenarioRules
    qps: float | None = None
    seed: int = 0


def check_library() -> None:
    """Raises UsageError where the load generator is not installed."""
    if find_spec(LIBRARY) is None:
        raise UsageError(
            "scenarios need MLPerf's load generator, which is not installed", hint="pip install 'statsnet[scenarios]'"
        )


def play(load: Load, answer: Callable[[int], object], *, step_s: float, kinds: int = 1) -> Answers:
    """Answer what the load generator asks: `answer(i)` for a query of sample i, one of `kinds` that are drawn alike.

    `step_s` is what an answer takes as far as is known; the number of queries that are drawn follows from it. Raises
    what `answer` raises, and MeasurementError if the generator does not run.
    """
    import mlperf_loadgen

    asked: SimpleQueue[Sequence[Any] | None] = SimpleQueue()
    failures: list[BaseException] = []

    def generate() -> None:
        try:
            _generate(mlperf_loadgen, load, step_s, kinds, asked, Path(folder))
        except BaseException as error:  # it is raised again in the thread that waits
            failures.append(error)
        finally:
            asked.put(None)

    with temporary_folder() as folder:
        thread = Thread(target=generate, daemon=True)
        thread.start()
        while (queries := asked.get()) is not None:
            for query in queries:
                if not failures:
                    try:
                        answer(query.index)
                    except Exception as error:
                        failures.append(error)
                # Even after a failure: the generator's thread ends only when all is answered.
                mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(query.id, 0, 0)])
        thread.join()
        if failures:
            raise failures[0]
        return read_answers(Path(folder), load, step_s)


def _generate(
    lg: Any, load: Load, step_s: float, kinds: int, asked: SimpleQueue[Sequence[Any] | None], folder: Path
) -> None:
    """Runs until every query is answered."""
    log = lg.LogSettings()
    log.log_output.outdir = str(folder)
    log.log_output.copy_summary_to_stdout = False
    log.enable_trace = True
    system = lg.ConstructSUT(lambda queries: asked.put(queries), lambda: None)
    samples = lg.ConstructQSL(kinds, kinds, lambda _: None, lambda _: None)
    try:
        # Without the last argument it reads an audit.config of the working directory, which would change its settings.
        lg.StartTestWithLogSettings(system, samples, _settings(lg, load, step_s), log, str(folder / "no-audit"))
    finally:
        lg.DestroyQSL(samples)
        lg.DestroySUT(system)


def _settings(lg: Any, load: Load, step_s: float) -> Any:
    """The load as the generator's settings (loadgen/test_settings.h)."""
    rules, scenario = load.rules, load.scenario
    made = lg.TestSettings()
    made.scenario = getattr(lg.TestScenario, _WORDS[scenario])
    made.mode = lg.TestMode.PerformanceOnly
    made.min_duration_ms = max(1, round(1e3 * rules.min_time_s))
    made.min_query_count = rules.min_queries
    made.max_query_count = 0 if scenario == "offline" else MOST_QUERIES
    for seed in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(made, seed, load.seed)
    query_s = step_s * rules.samples_per_query
    # It draws queries for twice the shortest time.
    expected_s = max(2 * query_s / FASTER, 2 * rules.min_time_s / MOST_QUERIES)
    if scenario == "single-stream":
        made.single_stream_expected_latency_ns = 1e9 * expected_s
        made.single_stream_target_latency_percentile = rules.percentile
    elif scenario == "multi-stream":
        made.multi_stream_expected_latency_ns = 1e9 * expected_s
        made.multi_stream_target_latency_percentile = rules.percentile
        made.multi_stream_samples_per_query = rules.samples_per_query
    elif scenario == "server":
        made.server_target_qps = load.qps
        made.server_target_latency_ns = round(1e9 * (rules.latency_bound_s or NO_BOUND_S))
        made.server_target_latency_percentile = rules.percentile
        made.server_max_async_queries = _most_waiting(load, step_s)
    else:
        # It would ask for a tenth more than the expected rate gives, but rounds down; so the number is said instead.
        made.offline_expected_qps = 1e-9
        made.min_query_count = max(rules.min_queries, min(MOST_QUERIES, _offline_samples(rules.min_time_s, step_s)))
    return made


def _offline_samples(min_time_s: float, step_s: float) -> int:
    """Offline, all samples are asked at once: more than the warm-up's speed would need, lest the run be too short."""
    return math.ceil(OFFLINE_ROOM * min_time_s / step_s) + 1


def _most_waiting(load: Load, step_s: float) -> int:
    """So many queries that wait at once end a run early (0: it is never ended): then more than 1 % of all are late for
    certain, and a rate far too high would take as many times longer."""
    if load.rules.latency_bound_s is None or load.qps is None:
        return 0
    in_time, late = load.rules.latency_bound_s / step_s, (1 - load.rules.percentile) * load.qps * load.rules.min_time_s
    return math.ceil(2 * (in_time + late)) + FEWEST_WAITING


def read_answers(folder: Path, load: Load, step_s: float) -> Answers:
    """What a run left in its folder. Raises MeasurementError if its files are not there or hold no answer."""
    try:
        details = dict(_details((folder / "mlperf_log_detail.txt").read_text(encoding="utf-8", errors="replace")))
        trace = (folder / "mlperf_log_trace.json").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise MeasurementError("the load generator wrote no log", cause=first_line(error)) from error
    samples = [_Sample.of(match) for match in _SAMPLE.finditer(trace)]
    validity = details.get("result_validity")
    if not samples or validity is None:
        errors = details.get("error_runtime") or details.get("error_invalid_test_settings")
        cause = f"its log says: {errors}" if errors else "its log holds no verdict"
        raise MeasurementError("the load generator did not finish", cause=cause, hint="measure again")
    scenario = load.scenario
    queries: dict[int, list[_Sample]] = {}
    for sample in samples:
        # Offline, all samples are one query; each is its own here.
        queries.setdefault(len(queries) if scenario == "offline" else sample.query, []).append(sample)
    latency_ns = [max(s.latency_ns for s in of_query) for _, of_query in sorted(queries.items())]
    begin_us = min(sample.begin_us for sample in samples)
    last_us = max(sample.begin_us + sample.latency_ns / 1e3 for sample in samples) - begin_us
    asked_us = max(s.begin_us if scenario == "server" else s.begin_us + s.issued_ns / 1e3 for s in samples) - begin_us
    duration_s = max((last_us if scenario == "offline" else asked_us) / 1e6, 1e-9)
    if str(details.get("result_min_duration_met")).lower() == "true":
        duration_s = max(duration_s, load.rules.min_time_s)  # it counts from a moment before the first query
    return Answers(
        latency_s=tuple(max(latency, 1) / 1e9 for latency in latency_ns),
        duration_s=duration_s,
        completed_s=max(last_us, 1e-3) / 1e6,
        step_s=step_s,
        says_valid=validity == "VALID",
        says=str(details.get("result_invalid_reason") or details.get("early_stopping_result") or "")[:2000],
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """One event of the trace: when its query was due, when that was asked and when it was answered after that."""

    query: int
    begin_us: float
    issued_ns: int
    latency_ns: int

    @staticmethod
    def of(match: re.Match[str]) -> _Sample:
        return _Sample(int(match["query"]), float(match["ts"]), int(match["issued"]), int(match["completed"]))


def _details(text: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of the detail log; a line whose message is no valid JSON is passed over."""
    for line in text.splitlines():
        _, found, data = line.partition(_DETAIL)
        if found:
            try:
                entry = json.loads(data)
                yield str(entry["key"]), entry["value"]
            except (ValueError, KeyError, TypeError):
                continue
