"""A log of rounds: kept at once, used again, of this environment alone."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError, MeasurementError, StatsNetError, WorkloadError
from statsnet.measure import rounds_log
from statsnet.measure.control import Control, Failure, Job
from statsnet.measure.engine import Asked, Done, LocalEngine, Place, Pool
from statsnet.measure.rounds_log import RoundsLog, Subject, measure_until_known
from statsnet.measure.timing_tasks import TimedStep, TimeNetwork
from statsnet.progress import Progress, Report, silent
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import BASELINE, Setting

ONE_THREAD, TWO_THREADS = (Setting(name=f"threads={n}", threads=n) for n in (1, 2))


def subject(name: str) -> Subject:
    return Subject(
        identity=name, label=name, job=lambda setting: Job(TimeNetwork(folder=name), Control(setting=setting))
    )


class Runs(list[str]):
    """The groups that were run. A process takes as many seconds as groups have run; those in `failing` fail."""

    failing: Sequence[str] = ()

    def run(self, jobs: Sequence[Job[Any]]) -> list[TimedStep | Failure]:
        self.append(" ".join([jobs[0].task.folder, *(job.control.setting.name for job in jobs)]))
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: Job[Any]) -> TimedStep | Failure:
        if job.control.setting.name in self.failing:
            if job.control.may_fail:
                return Failure(why="it needs two")
            raise WorkloadError("it broke", cause="a bad weld", hint="weld it again")
        times = (float(len(self)),) * 3
        return TimedStep(timing=Timing(latency_s=times, window_latency_s=times), environment={"device": "cpu"})


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr(rounds_log, "side_by_side", runs.run)
    return runs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "times.jsonl"


def measured(path: Path | None, settings: Sequence[Setting] = (ONE_THREAD,), **changes: Any) -> RoundsLog:
    log = RoundsLog(path, here="here")
    usual: dict[str, Any] = {"fewest": 2, "most": 2, "uncertain": set}
    measure_until_known(log, [subject("a"), subject("b")], settings, **{**usual, **changes})
    return log


def test_subjects_and_settings_take_turns(path: Path, ran: Runs) -> None:
    said: list[Progress] = []
    log = measured(path, report=said.append)
    assert ran == ["a baseline threads=1", "b baseline threads=1"] * 2
    assert [p.stage for p in said[1:3]] == ["b, round 1 of 2", "a, round 2 of 2"]
    assert [t.latency_s for t in log.of(subject("b"), BASELINE)] == [(2.0,) * 3, (4.0,) * 3]
    before, after = log.pairs(subject("b"), ONE_THREAD)
    assert before == after and [t.window_latency_s for t in after] == [(2.0,) * 3, (4.0,) * 3]
    assert log.pairs(subject("b"), ONE_THREAD, slice(1, None)) == (before[1:], after[1:])
    assert log.environments(subject("b"), ONE_THREAD) == [{"device": "cpu"}] * 2


def test_groups_are_kept_and_used_again(path: Path, ran: Runs) -> None:
    """Also after a stop in the middle of a line."""
    first = measured(path)
    assert RoundsLog(path, here="here").groups == first.groups
    *kept, last = path.read_text().splitlines()
    path.write_text("\n".join(kept) + "\n" + last[:20])
    ran.clear()
    measured(path)
    assert ran == ["b baseline threads=1"]
    ran.clear()
    measured(path)
    assert ran == []


@pytest.mark.parametrize("content", [b"# Notes\n", b'{"kind": "statsnet.result"}\n', b"\xff\xfe\n"])
def test_a_file_that_is_no_log_is_refused_and_stays(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="is no log of rounds"):
        RoundsLog(path, here="here")
    assert path.read_bytes() == content


def test_a_line_that_can_not_be_written_is_an_error_that_names_the_file(path: Path, ran: Runs) -> None:
    log = RoundsLog(path, here="here")
    path.parent.rmdir()
    with pytest.raises(StatsNetError, match="could not write") as raised:
        log.measure(subject("a"), [ONE_THREAD])
    assert "times.jsonl" in raised.value.message


def test_the_time_left_is_that_of_all_rounds(path: Path, ran: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_log.time, "monotonic", lambda: 10.0 * len(ran))
    said: list[Progress] = []
    measured(path, report=said.append)
    assert [(p.done, p.remaining_s) for p in said] == [(0.0, None), (0.25, 30.0), (0.5, 20.0), (0.75, 10.0)]


def test_times_of_another_environment_are_kept_and_not_used(path: Path, ran: Runs) -> None:
    measured(path)
    lines = [{**json.loads(line), "environment": "elsewhere"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran.clear()
    measured(path)
    assert len(ran) == len(lines) == len(path.read_text().splitlines()) / 2


def test_only_uncertain_pairs_run_on(ran: Runs) -> None:
    pairs = {("b", "threads=1"), ("a", "threads=2")}
    log = measured(None, (ONE_THREAD, TWO_THREADS), most=3, uncertain=lambda: pairs)
    assert ran[4:] == ["a baseline threads=2", "b baseline threads=1"]
    assert [log.tried(subject("a"), s) for s in (BASELINE, ONE_THREAD, TWO_THREADS)] == [3, 2, 3]


def test_without_settings_the_baseline_runs_alone(path: Path, ran: Runs) -> None:
    measured(path, ())
    assert ran == ["a baseline", "b baseline"] * 2


def test_a_setting_that_is_to_be_skipped_is_left_out_from_then_on(ran: Runs) -> None:
    measured(None, (ONE_THREAD, TWO_THREADS), skip=lambda s: s == ONE_THREAD and len(ran) > 0)
    two = [f"{name} baseline threads=2" for name in "bab"]
    assert ran == ["a baseline threads=1 threads=2", *two]
    ran.clear()
    measured(None, skip=lambda _: True)
    assert ran == []


def test_that_a_subject_does_not_run_in_a_setting_is_kept(path: Path, ran: Runs) -> None:
    ran.failing = ["threads=1"]
    measured(path, fewest=1, most=1)
    log = RoundsLog(path, here="here")
    assert log.failed(subject("a"), ONE_THREAD) == "it needs two"
    assert log.failed(subject("a"), BASELINE) is None
    assert (log.tried(subject("a"), ONE_THREAD), log.of(subject("a"), ONE_THREAD)) == (1, [])
    assert log.pairs(subject("a"), ONE_THREAD) == ([], [])
    assert len(log.of(subject("a"), BASELINE)) == 1


def test_a_failing_baseline_is_an_error_that_names_the_subject(path: Path, ran: Runs) -> None:
    ran.failing = ["baseline"]
    with pytest.raises(MeasurementError, match="measuring a failed") as raised:
        measured(path)
    assert (raised.value.cause, raised.value.hint) == ("it broke\na bad weld", "weld it again")
    assert not path.exists()


class Gone(LocalEngine):
    """Its places have ended."""

    def run(self, asked: Sequence[Asked[Any]], *, report: Report = silent) -> Generator[Done[Any], None, None]:
        yield Done(index=0, error=MeasurementError("no node is left", hint="start one"))


def pool(engine: LocalEngine) -> Pool:
    return Pool(engine=engine, places=[Place(id="1", name="node-1", device="cpu", environment={})])


def test_a_pool_measures_the_same_groups(path: Path, ran: Runs) -> None:
    log = measured(path, pool=pool(LocalEngine()))
    assert ran == ["a baseline threads=1", "b baseline threads=1"] * 2
    assert RoundsLog(path, here="here").groups == log.groups
    assert len(log.pairs(subject("b"), ONE_THREAD)[0]) == 2


def test_what_fails_on_a_pool_is_named_with_its_place_after_all_have_ended(path: Path, ran: Runs) -> None:
    ran.failing = ("baseline",)
    with pytest.raises(MeasurementError, match="measuring a failed") as raised:
        measured(path, pool=pool(LocalEngine()))
    assert raised.value.cause == "node-1: it broke\na bad weld\nalso: measuring b failed"
    assert ran == ["a baseline threads=1", "b baseline threads=1"]


def test_where_no_place_is_left_the_subject_is_not_to_blame(path: Path, ran: Runs) -> None:
    with pytest.raises(StatsNetError, match="no node is left") as raised:
        measured(path, pool=pool(Gone()))
    assert not isinstance(raised.value, MeasurementError)


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(FileFormatError, match="no log of rounds") as refused:
        RoundsLog(tmp_path / "log.jsonl", here="here")
    assert "pipe or a device" in refused.value.cause
