"""Starting anew with the allocator's settings, in real processes; an empty module stands for torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from statsnet.measure import timing as harness
from statsnet.proxy.run_file import RUN_BY_ITSELF, run_source

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's variables, and exec")

PROGRAM = """

if __name__ == "__main__":
    first_pid = os.environ.setdefault("FIRST_PID", str(os.getpid()))
    relaunch_with_allocator()
    names = [*ALLOCATOR_ENV, "STATSNET_ALLOCATOR"]
    print(json.dumps({
        "arguments": sys.argv[1:],
        "same_process": first_pid == str(os.getpid()),
        "variables": {name: os.environ.get(name) for name in names},
    }), flush=True)
    if "wait" in sys.argv:
        time.sleep(600)
    sys.exit(3)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "torch.py").touch()
    file = tmp_path / "program.py"
    file.write_text(run_source().removesuffix(RUN_BY_ITSELF) + PROGRAM)
    return file


def clean_environment(**extra: str) -> dict[str, str]:
    ours = (*harness.ALLOCATOR_ENV, "STATSNET_ALLOCATOR", "FIRST_PID")
    return {k: v for k, v in os.environ.items() if k not in ours} | extra


def run(program: Path, *arguments: str, **extra: str) -> dict[str, Any]:
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, env=clean_environment(**extra), capture_output=True, text=True, timeout=600)
    assert done.returncode == 3, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_sets_the_variables_once_and_keeps_process_arguments_and_exit_code(program: Path) -> None:
    seen = run(program, "--json", "a b")
    assert seen["variables"] == {**harness.ALLOCATOR_ENV, "STATSNET_ALLOCATOR": "set"}
    assert seen["arguments"] == ["--json", "a b"]
    assert seen["same_process"]


def test_does_nothing_where_the_variables_are_set(program: Path) -> None:
    seen = run(program, **harness.ALLOCATOR_ENV)
    assert seen["variables"] == {**harness.ALLOCATOR_ENV, "STATSNET_ALLOCATOR": None}


def test_keeps_the_users_own_values(program: Path) -> None:
    seen = run(program, MALLOC_TOP_PAD_="1")
    assert seen["variables"] == {**harness.ALLOCATOR_ENV, "MALLOC_TOP_PAD_": "1", "STATSNET_ALLOCATOR": "set"}


def test_can_be_refused(program: Path) -> None:
    seen = run(program, STATSNET_ALLOCATOR="system")
    assert seen["variables"] == {**dict.fromkeys(harness.ALLOCATOR_ENV), "STATSNET_ALLOCATOR": "system"}


def test_ctrl_c_reaches_the_program(program: Path) -> None:
    command = [sys.executable, str(program), "wait"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background a shell has it ignored
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heard
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=600) != 3
            assert process.stderr is not None
            assert b"KeyboardInterrupt" in process.stderr.read()
        finally:
            process.kill()
