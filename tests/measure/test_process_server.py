"""The server that forks measuring processes: what its copies share, what they must not share, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_tasks import (
    Calling,
    ChangingASetting,
    Drawing,
    Environment,
    Importing,
    ImportingAsWell,
    InParallel,
    KillingItsParent,
    Placement,
    Variable,
)
from measuring import assert_all_end

from statsnet.errors import MeasurementError
from statsnet.measure import forked_process
from statsnet.measure.control import Control
from statsnet.measure.process import MeasuringProcess, run
from statsnet.measure.process_server import WITHOUT_CUDA, cuda_is_initialized

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

LIBRARY = "reference_workloads.coverage"
"""Nothing else here imports it."""

MODULES = (
    "statsnet.synthesis.bench.tasks",
    "statsnet.profiling.tasks",
    "transformers.models.bert.modeling_bert",
    "diffusers",
    "torch_geometric.nn",
)


@pytest.fixture
def empty_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty module that stands for torch in processes from now on: servers import it first of all,
    which takes seconds, and few tasks here use it."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "torch.py").touch()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def new_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That of other tests goes on."""
    monkeypatch.setattr(forked_process, "_current", current := forked_process._Current())
    yield
    current.close()


@pytest.fixture
def light_server(empty_torch: Path, new_server: None) -> None:
    """A new one that is ready within a moment."""


@pytest.fixture
def settled(light_server: None) -> None:
    """The server is there."""
    assert is_forked()


def is_forked() -> bool:
    return run(Environment())["parent"] != os.getpid()


def server_pid() -> int:
    return int(run(Environment())["parent"])


@pytest.mark.usefixtures("light_server")  # beside one with other variables the first process is a fresh one
def test_all_processes_come_from_one_server() -> None:
    first, second = run(Environment()), run(Environment())
    assert first["parent"] == second["parent"] != os.getpid()
    assert first["pid"] != second["pid"]


def test_every_process_has_its_own_luck() -> None:
    large, small = zip(*(run(Placement()) for _ in range(5)), strict=True)
    assert len({*large}) > 3
    assert len({address % 4096 for address in large}) > 1  # against the lines of a page too
    assert len({*small}) > 1


def test_random_numbers_are_drawn_anew() -> None:
    by_python, by_numpy = zip(run(Drawing()), run(Drawing()), strict=True)
    assert len({*by_python}) == len({*by_numpy}) == 2


@pytest.mark.usefixtures("light_server")
@pytest.mark.parametrize(("status", "initialized"), [(3, False), (0, True), (201, True)])
def test_a_server_that_has_initialized_cuda_forks_nothing(
    status: int, initialized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver says 3 (CUDA_ERROR_NOT_INITIALIZED) as long as nobody has."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("needs a C compiler for a driver that answers so")
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(f"int cuCtxGetCurrent(void **context) {{ return {status}; }}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    assert cuda_is_initialized(str(library)) == initialized
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert is_forked() != initialized


def test_a_copy_asks_cuda_itself() -> None:
    assert not cuda_is_initialized(str(Path("no", "such", "driver")))
    assert not run(Variable(*WITHOUT_CUDA))


class TestModules:
    @pytest.mark.usefixtures("light_server")
    def test_what_a_task_needed_is_there_for_the_next_of_its_class(self) -> None:
        assert [run(Importing(LIBRARY)) for _ in range(3)] == [False, True, True]

    @pytest.mark.usefixtures("light_server")
    def test_other_tasks_do_not_wait_for_it(self) -> None:
        run(Importing(LIBRARY))
        assert not run(ImportingAsWell(LIBRARY))

    @pytest.mark.usefixtures("light_server")
    def test_a_users_module_is_never_shared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "users_own.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        assert is_forked()
        assert [run(Importing("users_own")) for _ in range(2)] == [False, False]

    def test_a_users_file_is_read_anew(self, tmp_path: Path) -> None:
        model = tmp_path / "model.py"
        model.write_text("def make():\n    return 1\n")
        assert run(Calling(f"{model}:make")) == 1
        model.write_text("def make():\n    return 1 + 1\n")
        assert run(Calling(f"{model}:make")) == 2

    @pytest.mark.usefixtures("light_server")
    def test_what_changes_a_setting_is_not_shared(self) -> None:
        assert [run(ChangingASetting(LIBRARY)) for _ in range(2)] == [False, False]
        assert not run(ImportingAsWell(LIBRARY))


class TestSurroundings:
    @pytest.mark.usefixtures("settled")
    def test_a_change_for_once_makes_a_fresh_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        server = server_pid()
        with monkeypatch.context() as changed:
            changed.setenv("EXTRA", "yes")
            seen = run(Environment())
        assert (seen["parent"], seen["EXTRA"]) == (os.getpid(), "yes")
        assert server_pid() == server

    @pytest.mark.usefixtures("light_server")
    def test_a_change_that_lasts_makes_a_new_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        server = server_pid()
        monkeypatch.setenv("EXTRA", "yes")
        assert [is_forked() for _ in range(3)] == [False, True, True]
        assert run(Environment())["EXTRA"] == "yes"
        assert server_pid() != server

    @pytest.mark.usefixtures("light_server")
    def test_a_server_in_use_is_not_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with MeasuringProcess(Environment()) as process:
            monkeypatch.setenv("EXTRA", "yes")
            assert [is_forked() for _ in range(3)] == [False, False, False]
            assert process.result()["EXTRA"] is None
        assert is_forked()

    @pytest.mark.usefixtures("light_server")
    def test_one_that_was_in_use_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However often its process was ended."""
        with MeasuringProcess(Environment()) as process:
            process.end()
            process.end()
        monkeypatch.setenv("EXTRA", "yes")
        assert [is_forked() for _ in range(3)] == [False, True, True]

    @pytest.mark.usefixtures("light_server")
    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
    def test_other_cores(self) -> None:
        cores = os.sched_getaffinity(0)
        assert is_forked()
        try:
            os.sched_setaffinity(0, {min(cores)})
            assert not is_forked()
        finally:
            os.sched_setaffinity(0, cores)

    @pytest.mark.usefixtures("settled")
    def test_the_working_directory_is_this_process(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        server = server_pid()
        monkeypatch.chdir(tmp_path)
        seen = run(Environment())
        assert (seen["parent"], seen["directory"]) == (server, str(tmp_path))


@pytest.mark.usefixtures("new_server")
def test_operators_still_run_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server has imported, it has started no threads that its copies would wait for."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    run(InParallel(modules=MODULES, only_says_so=True))  # the server imports them for the next one
    assert run(InParallel(modules=MODULES), Control(timeout_s=600.0)) == 2


class TestTheServersEnd:
    @pytest.mark.usefixtures("settled")
    def test_the_running_task_says_so_and_the_next_gets_a_new_one(self, temporary_files: Path) -> None:
        pids = temporary_files.parent / "pids"
        with pytest.raises(MeasurementError, match="ended with the server") as failed:
            run(KillingItsParent(pids=str(pids)))
        assert failed.value.cause == "the last words"
        killed, server = json.loads(pids.read_text())
        assert [is_forked(), is_forked()] == [False, True]
        assert server_pid() != server
        assert_all_end([killed])
        assert list(temporary_files.iterdir()) == []

    @pytest.mark.usefixtures("light_server")
    def test_one_that_cannot_start_is_tried_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as changed:
            changed.setattr(forked_process, "_MODULE", "no_such_module")
            assert not is_forked()
        assert not is_forked()

    @pytest.mark.parametrize("ending", ["", "os.kill(os.getpid(), 9)"])
    def test_it_ends_with_its_parent(self, ending: str, empty_torch: Path) -> None:
        program = (
            "import os\nfrom fake_tasks import Environment\nfrom statsnet.measure.process import run\n"
            f"print(run(Environment())['parent'], flush=True)\n{ending}"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert_all_end([int(done.stdout)])
