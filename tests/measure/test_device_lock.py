"""One program at a time measures on a device: who waits, for whom, and when a lock is free again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import statsnet
from statsnet.cli.app import main
from statsnet.deadline import Deadline
from statsnet.errors import UsageError
from statsnet.measure import device_lock
from statsnet.measure.device_lock import SWITCH, DeviceLocks, name_of
from statsnet.measure.loadgen import Load
from statsnet.measure.patience import PATIENCE
from statsnet.measure.scenario_tasks import AnswerQueries
from statsnet.measure.task import Task, UnderNcu
from statsnet.measure.timing_tasks import Model, TimeNetwork, TimeWorkload
from statsnet.signatures.scenarios import ScenarioRules
from statsnet.synthesis.bench.capture_tasks import CaptureBlockOperators, CaptureNetworkOperators
from statsnet.synthesis.bench.tasks import MeasureBlocks

HOLDER = """
import subprocess, sys
from statsnet.measure.device_lock import LOCKS
with LOCKS.command():
    with LOCKS.measuring_on("cpu"):
        pass
    heir = subprocess.Popen(["sleep", "600"], pass_fds=LOCKS.descriptors, stdout=subprocess.DEVNULL)
    print(heir.pid, flush=True)
    sys.stdin.read()
"""
"""A command that has measured, and is still at work; and a process that it has started."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(SWITCH, str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def holding(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """That command, and its heir's number."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), SWITCH: str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        heir = int(first.stdout.readline())
        try:
            yield first, heir
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(heir, 9)


def begin_to_measure(locks: DeviceLocks) -> tuple[threading.Thread, threading.Event]:
    """A thread that waits for the CPU's lock, and whether it has got it; returns once it has said that it waits."""
    waits, measures = threading.Event(), threading.Event()

    def measure() -> None:
        with locks.measuring_on("cpu"):
            measures.set()

    locks.tell = lambda text: waits.set() if "another program" in text and "=0" in text else None
    thread = threading.Thread(target=measure)
    thread.start()
    assert waits.wait(600)
    return thread, measures


def test_a_second_command_says_that_it_waits_and_begins_when_the_first_has_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting is no time of the command, nor of the time that it was given."""
    monkeypatch.setattr(PATIENCE, "begun_s", 100.0)
    locks = DeviceLocks()
    before_s = time.monotonic()
    deadline = Deadline.after(1000.0, locks.clock)
    after_s = time.monotonic()
    with holding(folder) as (first, _):
        thread, measures = begin_to_measure(locks)
        assert not measures.is_set()
        first.communicate("")  # it ends as it should: what it has started holds nothing any more
        assert measures.wait(600)
        thread.join()
    assert PATIENCE.begun_s > 100.0
    assert locks.waited_s > 0
    least_s = time.monotonic() - after_s
    spent_s = 1000.0 + locks.waited_s - deadline.left_s
    assert least_s - 1e-6 <= spent_s <= time.monotonic() - before_s + 1e-6


@pytest.fixture
def held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another command holds the lock, and ends as soon as this program waits for it."""
    wait = device_lock._wait_to_lock
    with holding(folder) as (first, _):
        monkeypatch.setattr(device_lock, "_wait_to_lock", lambda lock: (first.communicate(""), wait(lock)))
        yield


def test_a_command_on_the_command_line_waits(
    held: None, proxy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(proxy_folder), "--processes", "1", "--min-time", "20ms", "--max-time", "100ms"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "statsnet: another program of StatsNet measures on cpu: waiting for its end" in said


def test_a_function_of_the_python_api_waits_and_keeps_the_lock_until_its_end(
    held: None, proxy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    take = DeviceLocks._take
    monkeypatch.setattr(DeviceLocks, "_take", lambda *given: taken.append(given[1]) or take(*given))
    monkeypatch.setattr(device_lock.LOCKS, "tell", DeviceLocks().tell)  # a command in this process may have changed it
    with pytest.warns(UserWarning, match="another program of StatsNet measures on cpu: waiting for its end"):
        statsnet.run(proxy_folder, processes=2, min_time_s=0.02, max_time_s=0.1)
    assert taken == ["cpu"]
    assert device_lock.LOCKS.descriptors == ()


def test_the_lock_of_a_killed_command_is_free_when_its_processes_have_ended(folder: Path) -> None:
    with holding(folder) as (first, heir):
        thread, measures = begin_to_measure(DeviceLocks())
        first.kill()
        first.wait()
        assert not measures.is_set(), "a process that it has started may still measure"
        os.kill(heir, 9)
        assert measures.wait(600)
        thread.join()


def test_a_program_holds_it_while_it_measures_and_a_command_until_its_end(folder: Path) -> None:
    locks = DeviceLocks()
    with locks.measuring_on("cpu"), locks.measuring_on("cpu"), locks.measuring_on("cuda:1"):
        assert len(locks.descriptors) == 2
    assert locks.descriptors == ()
    with locks.command():
        with locks.measuring_on("cpu"):
            pass
        assert len(locks.descriptors) == 1
    assert locks.descriptors == ()
    assert sorted(p.name for p in folder.iterdir()) == ["statsnet-cpu.lock", "statsnet-cuda-1.lock"]


def test_what_is_not_measured_on_needs_no_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = DeviceLocks()
    with locks.measuring_on("meta"):
        assert locks.descriptors == ()
    monkeypatch.setenv(SWITCH, "0")
    with locks.measuring_on("cpu"):
        assert locks.descriptors == ()


def test_commands_of_several_threads_end_with_the_last(folder: Path) -> None:
    locks = DeviceLocks()
    with locks.command():
        with locks.command(), locks.measuring_on("cpu"):
            pass
        assert len(locks.descriptors) == 1
    assert locks.descriptors == ()


def test_a_notebook_is_told_each_time_that_it_waits(folder: Path) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(2):
            DeviceLocks().tell("another program measures")
    assert [str(each.message) for each in warned] == ["another program measures"] * 2


def run_of(monkeypatch: pytest.MonkeyPatch, run: str, port: str = "29500") -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", run)
    monkeypatch.setenv("MASTER_PORT", port)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who holds a lock")
def test_processes_of_one_run_share_a_lock_and_others_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(monkeypatch, "none")
    with holding(folder) as (first, _):
        with DeviceLocks().measuring_on("cpu"):
            pass
        waiting = []
        for run, port in (("none", "29501"), ("other", "29500"), ("", "")):
            run_of(monkeypatch, run, port)
            waiting.append(begin_to_measure(DeviceLocks()))
        assert not any(measures.is_set() for _, measures in waiting)
        first.communicate("")
        for thread, measures in waiting:
            assert measures.wait(600)
            thread.join()


def test_a_rank_alone_makes_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with holding(folder) as (first, _):
        thread, measures = begin_to_measure(DeviceLocks())
        assert not measures.is_set()
        first.communicate("")
        thread.join()


@pytest.mark.parametrize("name", ["1", "missing/folder"])
def test_a_folder_that_is_not_there(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SWITCH, name)
    locks = DeviceLocks()
    with pytest.raises(UsageError, match=f"{SWITCH} is '{name}'") as refused, locks.measuring_on("cpu"):
        pass
    assert f"{SWITCH}=0" in refused.value.hint
    assert main(["device", "record", "-o", "there"]) == 2
    assert f"{SWITCH} is '{name}'" in capsys.readouterr().err
    assert main(["list", "proxies"]) == 0  # nothing is measured
    monkeypatch.setenv(SWITCH, str(folder))
    with locks.measuring_on("cpu"):
        assert len(locks.descriptors) == 1


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_file_that_somebody_else_has_put_there(folder: Path, kind: str) -> None:
    """It is neither followed nor waited for; without a lock, measuring goes on."""
    path = folder / "statsnet-cpu.lock"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(folder / "elsewhere")
    with DeviceLocks().measuring_on("cpu"):
        pass
    assert not (folder / "elsewhere").exists()


@pytest.mark.parametrize(
    ("device", "visible", "name"),
    [
        ("cpu", "", "cpu"), ("meta", "", None), ("cuda", "", "cuda-0"), ("cuda:2", "", "cuda-2"),
        ("cuda:1", "3,5", "cuda-5"), ("cuda", "GPU-8a/../b", "cuda-GPU-8ab"), ("cuda:9", "3", "cuda-9"),
        ("cuda:x", "", "cuda-0"),
    ],
)  # fmt: skip
def test_the_name_of_a_devices_lock(
    device: str, visible: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert name_of(device) == name


def test_all_users_can_lock_what_one_has_made(folder: Path) -> None:
    mask = os.umask(0o077)
    try:
        with DeviceLocks().measuring_on("cpu"):
            pass
    finally:
        os.umask(mask)
    assert (folder / "statsnet-cpu.lock").stat().st_mode & 0o777 == 0o644
    assert device_lock.FOLDER == "/tmp"


LOAD = Load(scenario="offline", rules=ScenarioRules(min_time_s=0.001, min_queries=20, percentile=0.9))
PROXY, MODEL = TimeNetwork(folder="x", device="cuda:1"), TimeWorkload(model=Model(target="x", mode="inference"))


@pytest.mark.parametrize(
    ("task", "device"),
    [
        (AnswerQueries(load=LOAD, network=PROXY), "cuda:1"),
        (AnswerQueries(load=LOAD, models=(replace(MODEL, device="cuda"), MODEL), shares=(0.5, 0.5)), "cuda"),
        (CaptureNetworkOperators(folder="x", device="cuda"), "cuda"),
        (CaptureNetworkOperators(folder="x", device="cuda", fake=True), "meta"),
        (CaptureBlockOperators(blocks=(), mode="inference", dtype="float32", fake=True), "meta"),
        (UnderNcu(MeasureBlocks(blocks=(), mode="inference", dtype="float32", device="cuda")), "cuda"),
        (MODEL, "cpu"),
    ],
)
def test_whose_lock_a_task_takes(task: Task[Any], device: str) -> None:
    assert task.measured_device == device
