"""Measuring processes: what they are given, and every way in which they can go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import MeasurementError, UsageError, WorkloadError
from statsnet.measure.process import run_job
from statsnet.measure.process_main import JOBS, find_job
from statsnet.workloads.settings import parse_settings


def job(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": f"statsnet.jobs_of_tests:{name}", **fields}


def is_running(pid: int) -> bool:
    """A zombie has ended, though the name is still there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_all_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.02)


def test_returns_the_result_and_passes_progress_on(jobs: Path) -> None:
    events: list[dict[str, Any]] = []
    assert run_job(job("progressing", question=21), on_progress=events.append) == {"answer": 42}
    assert events == [{"stage": "working", "done": 0.0}, {"stage": "working", "done": 0.5}]
    assert list(jobs.iterdir()) == []


def test_the_environment_of_a_job(jobs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STATSNET_ALLOCATOR", raising=False)
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.chdir(tmp_path)
    (setting,) = parse_settings("onednn=sse41")
    seen = run_job(job("environment", setting=setting.to_dict()), env={"EXTRA": "yes"})
    assert seen["OMP_NUM_THREADS"] == "7"
    assert seen["MALLOC_TOP_PAD_"] == "67108864"
    assert seen["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    assert seen["EXTRA"] == "yes"
    assert str(tmp_path) not in seen["path"]
    assert "" not in seen["path"]
    assert seen["pid"] != os.getpid()


def test_the_systems_own_allocator_can_be_kept(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_ALLOCATOR", "system")
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    assert run_job(job("environment"))["MALLOC_TOP_PAD_"] is None


def test_an_exception_becomes_an_error_with_its_last_lines(jobs: Path) -> None:
    with pytest.raises(MeasurementError) as failed:
        run_job(job("raising"))
    assert "exit code 1" in failed.value.message
    assert failed.value.cause.endswith("RuntimeError: the sky fell")
    assert list(jobs.iterdir()) == []


def test_an_error_of_ours_keeps_its_class_and_its_hint(jobs: Path) -> None:
    with pytest.raises(WorkloadError) as failed:
        run_job(job("refusing"))
    error = failed.value
    assert (error.message, error.cause, error.hint) == ("no such model", "it was never made", "make it")


def test_a_killed_process_is_named_as_such(jobs: Path) -> None:
    with pytest.raises(MeasurementError, match=r"was killed.*memory"):
        run_job(job("killed"))


def test_instructions_that_a_processor_only_names_are_named(jobs: Path) -> None:
    with pytest.raises(MeasurementError, match="SIGILL") as failed:
        run_job(job("killed", signal=int(signal.SIGILL)))
    assert "ONEDNN_MAX_CPU_ISA" in failed.value.hint


def test_a_result_counts_whatever_ends_the_process_behind_it(jobs: Path) -> None:
    assert run_job(job("aborted_behind_its_result")) == {"answer": 42}
    with pytest.raises(MeasurementError):  # what the program that runs it has recorded may be a part
        run_job(job("aborted_behind_its_result"), under=["nice"])


def test_nan_is_not_a_result(jobs: Path) -> None:
    with pytest.raises(MeasurementError) as failed:
        run_job(job("not_a_number"))
    assert "not JSON compliant" in failed.value.cause


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
class TestNothingIsLeftBehind:
    def pids(self, jobs: Path) -> list[int]:
        found: list[int] = json.loads((jobs.parent / "pids").read_text())
        return found

    def test_after_ctrl_c(self, jobs: Path) -> None:
        def interrupt(event: dict[str, Any]) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_job(job("hanging", pids=str(jobs.parent / "pids")), on_progress=interrupt)
        assert_all_end(self.pids(jobs))
        assert list(jobs.iterdir()) == []

    def test_after_the_time_is_over(self, jobs: Path) -> None:
        with pytest.raises(MeasurementError, match="did not end within 2 s"):
            run_job(job("hanging", pids=str(jobs.parent / "pids")), timeout_s=2.0)
        assert_all_end(self.pids(jobs))

    def test_when_we_are_killed_ourselves(self, jobs: Path) -> None:
        pids = jobs.parent / "pids"
        program = (
            "from statsnet.measure.process import run_job\n"
            f"run_job({job('hanging', pids=str(pids))!r}, on_progress=lambda e: print('up', flush=True))"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(jobs)}
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"up\n"
            worker, helper = self.pids(jobs)
            parent.kill()
        assert_all_end([worker])
        os.kill(helper, signal.SIGKILL)  # what the job started itself gets no such signal


class TestFindJob:
    @pytest.mark.parametrize("kind", ["unknown", "os:system", "statsnetwork:evil", "os.path:join", ""])
    def test_only_our_own_modules(self, kind: str) -> None:
        with pytest.raises(UsageError, match="is not a kind of job"):
            find_job(kind)

    def test_registered_functions_are_dotted_names(self) -> None:
        assert all(name.startswith("statsnet.") and ":" in name for name in JOBS.values())
        assert find_job("time_proxy") is find_job("statsnet.measure.timing_tasks:time_proxy")
