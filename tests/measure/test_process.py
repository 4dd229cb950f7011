"""Measuring processes, forked and fresh: what they are given, and every way in which they can go wrong."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cli_support import GOLDEN
from fake_tasks import (
    AbortedAfterItsResult,
    Doubling,
    Environment,
    Hanging,
    Killed,
    Measuring,
    NotANumber,
    Raising,
    Refusing,
    TooLong,
    Waiting,
)
from measuring import assert_all_end

from statsnet.environment.record import usable_cores
from statsnet.errors import MeasurementError, UsageError, WorkloadError
from statsnet.measure import end_with_parent, process
from statsnet.measure.control import Control
from statsnet.measure.forked_process import SWITCH
from statsnet.measure.patience import PATIENCE, SHARE
from statsnet.measure.process import run
from statsnet.measure.task import Task, UnderNcu, decode_task, encode_task, to_json
from statsnet.measure.timing_tasks import Model, TimeWorkload
from statsnet.progress import Progress
from statsnet.proxy.towers import Placed
from statsnet.signatures.storage import load_signature
from statsnet.synthesis.bench.tasks import MeasureBlocks, TraceNetwork
from statsnet.workloads.settings import parse_settings

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(params=[pytest.param("forked", marks=needs_linux), "fresh"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How processes are started."""
    if request.param == "fresh":
        monkeypatch.setenv(SWITCH, "0")
    return str(request.param)


def test_both_ways_are_there(way: str) -> None:
    for _ in range(2):  # tests before may have changed variables: a new server needs two tasks
        run(Environment())
    seen = run(Environment(), Control(rank_env={"EXTRA": "yes"}))
    assert (seen["parent"] == os.getpid(), seen["EXTRA"]) == (way == "fresh", "yes")


@pytest.mark.parametrize(
    "control",
    [
        Control(env={"EXTRA": "yes"}),
        Control(under=["nice"]),
        Control(setting=parse_settings("onednn=sse41")[0]),
    ],
)
def test_what_cannot_be_changed_after_a_fork_makes_a_fresh_process(control: Control) -> None:
    assert run(Environment(), control)["parent"] == os.getpid()


@pytest.mark.usefixtures("way")
def test_returns_the_result_and_passes_progress_on(temporary_files: Path) -> None:
    reported: list[Progress] = []
    assert run(Doubling(question=21), report=reported.append) == (42.0,)
    assert reported == [Progress(stage="working", done=done) for done in (0.0, 0.5)]
    assert list(temporary_files.iterdir()) == []


def test_the_environment_of_a_job(temporary_files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STATSNET_ALLOCATOR", raising=False)
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.chdir(tmp_path)
    (setting,) = parse_settings("onednn=sse41")
    seen = run(Environment(), Control(setting=setting, env={"EXTRA": "yes"}))
    assert seen["OMP_NUM_THREADS"] == "7"
    assert seen["MALLOC_TOP_PAD_"] == "67108864"
    assert seen["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    assert seen["EXTRA"] == "yes"
    assert str(tmp_path) not in seen["path"]
    assert "" not in seen["path"]
    assert seen["pid"] != os.getpid()


def test_the_systems_own_allocator_can_be_kept(temporary_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_ALLOCATOR", "system")
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    found = run(Environment())
    assert found["MALLOC_TOP_PAD_"] is None
    assert found["arguments"] == []  # a user's script reads its command line there


def test_two_processes_in_a_row_share_what_a_command_may_wait(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", "10")
    monkeypatch.setenv(SWITCH, "0")  # a server would be started for the changed variable
    PATIENCE.restart()
    assert run(Waiting(4.0)) == (0.0, 6.0)
    assert run(Waiting(5.0)) == (4.0, 1.0)
    assert PATIENCE.spent_s == 9.0


def test_measurements_of_a_disturbed_machine_are_counted_for_the_command(temporary_files: Path) -> None:
    PATIENCE.restart()
    for at_best in (True, False, False):
        run(Measuring(at_best))
    assert (PATIENCE.measured, PATIENCE.disturbed) == (3, 2)


def test_a_process_knows_when_the_command_began(temporary_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATSNET_PATIENCE_S")
    PATIENCE.restart()
    monkeypatch.setattr(PATIENCE, "begun_s", PATIENCE.begun_s - 1e6)
    _, left_s = run(Waiting(4.0))
    now_s = time.monotonic() - PATIENCE.begun_s
    assert SHARE * 1e6 - 4.0 <= left_s <= SHARE * now_s - 4.0


@pytest.mark.usefixtures("way")
def test_an_exception_becomes_an_error_with_its_last_lines(temporary_files: Path) -> None:
    with pytest.raises(MeasurementError) as failed:
        run(Raising())
    assert "exit code 1" in failed.value.message
    assert failed.value.cause.endswith("RuntimeError: the sky fell")
    assert list(temporary_files.iterdir()) == []


@pytest.mark.usefixtures("way")
def test_an_error_of_ours_keeps_its_class_and_its_hint(temporary_files: Path) -> None:
    with pytest.raises(WorkloadError) as failed:
        run(Refusing())
    error = failed.value
    assert (error.message, error.cause, error.hint) == ("no such model", "it was never made", "make it")


@pytest.mark.usefixtures("way")
def test_a_killed_process_is_named_as_such(temporary_files: Path) -> None:
    with pytest.raises(MeasurementError, match=r"was killed.*memory"):
        run(Killed())


@pytest.mark.usefixtures("way")
def test_instructions_that_a_processor_only_names_are_named(temporary_files: Path) -> None:
    with pytest.raises(MeasurementError, match="SIGILL") as failed:
        run(Killed(signal=int(signal.SIGILL)))
    assert "ONEDNN_MAX_CPU_ISA" in failed.value.hint
    assert "in run" in failed.value.cause  # the innermost call


@pytest.mark.usefixtures("way")
def test_a_result_counts_whatever_ends_the_process_behind_it(temporary_files: Path) -> None:
    assert run(AbortedAfterItsResult()) == 42
    with pytest.raises(MeasurementError):  # what the program that runs it has recorded may be a part
        run(AbortedAfterItsResult(), Control(under=["nice"]))


@pytest.mark.usefixtures("way")
def test_nan_is_not_a_result(temporary_files: Path) -> None:
    with pytest.raises(MeasurementError) as failed:
        run(NotANumber())
    assert "not JSON compliant" in failed.value.cause


def test_a_result_that_can_not_be_written_is_an_error(temporary_files: Path) -> None:
    with pytest.raises(MeasurementError, match="a measuring process failed") as failed:
        run(TooLong())
    assert "File too large" in failed.value.cause
    assert list(temporary_files.iterdir()) == []


@needs_linux
@pytest.mark.usefixtures("way")
class TestNothingIsLeftBehind:
    def pids(self, temporary_files: Path) -> list[int]:
        pids: list[int] = json.loads((temporary_files.parent / "pids").read_text())
        return pids

    def test_after_ctrl_c(self, temporary_files: Path) -> None:
        def interrupt(_: Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(Hanging(pids=str(temporary_files.parent / "pids")), report=interrupt)
        assert_all_end(self.pids(temporary_files))
        assert list(temporary_files.iterdir()) == []

    @pytest.mark.parametrize(
        ("control", "what"),
        [(Control(timeout_s=2.0), "did not end within 2 s"), (Control(silent_s=1.0), "said nothing for 1 s")],
    )
    def test_after_the_time_is_over(
        self, control: Control, what: str, temporary_files: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a clock that stands still until the task has begun, however long that takes here."""
        now_s = [0.0]
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

        def begun(_: Progress) -> None:
            now_s[0] = 10.0

        with pytest.raises(MeasurementError, match=what):
            run(Hanging(pids=str(temporary_files.parent / "pids")), control, report=begun)
        assert_all_end(self.pids(temporary_files))

    def test_when_we_are_killed_ourselves(self, temporary_files: Path) -> None:
        pids = temporary_files.parent / "pids"
        program = (
            "from fake_tasks import Hanging\nfrom statsnet.measure.process import run\n"
            f"run(Hanging(pids={str(pids)!r}), report=lambda _: print('up', flush=True))"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary_files)}
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"up\n"
            worker, helper = self.pids(temporary_files)
            parent.kill()
        assert_all_end([worker])
        os.kill(helper, signal.SIGKILL)  # what the job started itself gets no such signal


@needs_linux
def test_a_program_around_a_process_ends_with_us(temporary_files: Path) -> None:
    """As ncu, which asks for no such thing itself."""
    around, pid = temporary_files.parent / "around", temporary_files.parent / "pid"
    around.write_text(f"#!/bin/sh\necho $$ > {pid}.partial\nmv {pid}.partial {pid}\nexec sleep 600\n")
    around.chmod(0o755)
    program = (
        "from fake_tasks import Environment\nfrom statsnet.measure.control import Control\n"
        f"from statsnet.measure.process import run\nrun(Environment(), Control(under=[{str(around)!r}]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary_files)}
    with subprocess.Popen([sys.executable, "-c", program], env=env) as parent:
        while not pid.exists():
            assert parent.poll() is None
            time.sleep(0.01)
        parent.kill()
    assert_all_end([int(pid.read_text())])


@needs_linux
def test_a_program_whose_parent_has_ended_meanwhile_does_not_begin(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-S", end_with_parent.__file__, "1", "touch", str(tmp_path / "begun")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "has ended" in done.stderr
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("name", ["os:system", "fake_tasks:VARIABLES", "fake_tasks:Missing", "json", ""])
def test_only_tasks_are_run(name: str) -> None:
    with pytest.raises(UsageError, match="is not a task"):
        decode_task({"class": name, "fields": {}})


@pytest.mark.parametrize(
    "task",
    [
        TimeWorkload(model=Model(target="cv/x", mode="training", overrides={"width": 8}), device="cuda:1"),
        UnderNcu(TraceNetwork(folder="here", dtype="float32", reference_network="there")),
        MeasureBlocks(
            blocks=(Placed(kind="conv", config={"size": [8, 8], "norm": True}),),
            mode="training",
            dtype="float32",
        ),
    ],
)
def test_a_task_travels_as_plain_data(task: Task[Any]) -> None:
    assert decode_task(json.loads(to_json(encode_task(task)))) == task


RACE = """
import pickle, sys, threading
from concurrent.futures import ThreadPoolExecutor
from statsnet.measure.task import converted
from statsnet.signatures.model import Signature

sys.setswitchinterval(1e-5)
data, together = pickle.load(sys.stdin.buffer), threading.Barrier(4)


def read(_):
    together.wait()
    return converted(data, tuple[Signature, ...])


with ThreadPoolExecutor(4) as pool:
    results = [*pool.map(read, range(4))]  # raises what a thread has raised
assert len(results) == 4 and all(isinstance(signature, Signature) for (signature,) in results)
"""


def test_threads_may_read_results_of_one_type_at_once() -> None:
    """Each rank of a group has a thread that reads its result; msgspec by itself ends the program there."""
    data = pickle.dumps((msgspec.to_builtins(load_signature(GOLDEN)),))
    assert subprocess.run([sys.executable, "-c", RACE], input=data, check=False).returncode == 0


@pytest.mark.parametrize(("work", "code"), [("3", 3), ("1 / 0", 1), ("sys.exit('why')", 1), ("sys.exit()", 0)])
def test_a_thread_that_runs_forever_does_not_keep_a_process(work: str, code: int) -> None:
    text = (
        "import sys, threading\nfrom statsnet.measure.process_main import end_process\n"
        f"threading.Thread(target=threading.Event().wait).start()\nprint('measured')\nend_process(lambda: {work})"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (code, "measured\n")


@pytest.mark.parametrize("left", [
    "import multiprocessing as m; m.get_context('fork').Process(target=time.sleep, args=(600,)).start()",
    "atexit.register(lambda: time.sleep(600))",
])  # fmt: skip
def test_what_a_model_leaves_behind_does_not_keep_a_process(left: str) -> None:
    text = (
        "import atexit, sys, time\nfrom statsnet.measure import process_main\nprocess_main.EXIT_S = 0.5\n"
        f"{left}\nprint('measured', flush=True)\nprocess_main.end_process(lambda: 3)"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (3, "measured\n")


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs two cores of Linux")
@pytest.mark.parametrize("binding", [{"OMP_PROC_BIND": "true"}, {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}])
def test_bound_threads_hide_no_cores(binding: dict[str, str]) -> None:
    """libgomp holds the thread that loads it to one core. What that thread starts runs on all of them."""
    text = (
        "import os, subprocess, sys, torch\nfrom statsnet.environment.record import on_all_cores, usable_cores\n"
        "count = 'import os; print(len(os.sched_getaffinity(0)))'\n"
        "own = os.sched_getaffinity(0)\n"
        "with on_all_cores():\n    started = subprocess.check_output([sys.executable, '-c', count], text=True)\n"
        "print(usable_cores(), int(started), own == os.sched_getaffinity(0))"
    )
    unbound = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    ended = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=unbound | binding, timeout=120, check=True
    )
    cores = usable_cores()
    assert ended.stdout.split() == [str(cores), str(len(os.sched_getaffinity(0))), "True"]
