"""Temporary files and folders: what a killed process leaves goes, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from statsnet.environment import temporary
from statsnet.environment.temporary import PREFIX, is_left_over, live_folders, sweep, temporary_folder
from statsnet.signatures.canonical import read_json, write_json_atomically

KILLED = """
import os, signal, sys
from pathlib import Path
from statsnet.environment.temporary import temporary_folder
with temporary_folder(within=Path(sys.argv[1])) as folder:
    (folder / "file").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from statsnet.environment.temporary import temporary_folder

came = []

def hear(event, arguments):
    inside = event == "os.remove" and arguments[1] >= 0  # by its name in a folder that is open
    if event == sys.argv[2] and (inside or ".tmp" in str(arguments[0])) and not came:
        came.append(event)
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hear)
with temporary_folder(within=Path(sys.argv[1])) as folder:
    for name in "abz":
        (folder / name).touch()
"""


def killed(*arguments: str, program: str = KILLED) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=variables, check=False)
    assert done.returncode == -signal.SIGKILL


def make_old(path: Path) -> None:
    before_s = time.time() - temporary.SETTLED_S - 1
    os.utime(path, (before_s, before_s))


def test_a_folder_goes_with_its_block(tmp_path: Path) -> None:
    with temporary_folder(within=tmp_path) as folder:
        (folder / "inner").mkdir()
        assert live_folders() == [folder]
        assert folder.name.startswith(PREFIX)
    assert list(tmp_path.iterdir()) == live_folders() == []


def test_what_a_killed_process_leaves_goes_with_the_next_one(tmp_path: Path) -> None:
    killed(str(tmp_path))
    (left,) = tmp_path.iterdir()
    with temporary_folder(within=tmp_path):
        assert left.exists(), "it is so young that it may not be locked yet"
    make_old(left / ".temporary")
    with temporary_folder(within=tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("event", ["open", "os.remove", "os.rmdir"])
def test_whenever_a_process_is_killed_its_folder_goes_with_the_next_one(event: str, tmp_path: Path) -> None:
    """Before it marks its folder, and while it removes it."""
    killed(str(tmp_path), event, program=KILLED_AT)
    (left,) = tmp_path.iterdir()
    for path in (*left.iterdir(), left):
        make_old(path)
    with temporary_folder(within=tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("event", ["os.mkdir", "open", "os.remove", "os.rmdir"])
def test_whenever_a_process_is_asked_to_end_its_folder_goes_with_it(event: str, tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = "\n".join(["import signal", "signal.signal(signal.SIGTERM, lambda *_: exit(143))", KILLED_AT])
    words = [sys.executable, "-c", program.replace("SIGKILL", "SIGTERM"), str(tmp_path), event]
    assert subprocess.run(words, env=variables, check=False).returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_what_is_held_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}my-results").mkdir()
    (tmp_path / f"{PREFIX}linked").mkdir()
    (tmp_path / f"{PREFIX}linked" / ".temporary").symlink_to(tmp_path / "target")
    (tmp_path / "target").touch()
    make_old(tmp_path / "target")
    with temporary_folder(within=tmp_path) as folder:
        make_old(folder / ".temporary")
        sweep(tmp_path, PREFIX)
        assert len(list(tmp_path.iterdir())) == 4
    assert not is_left_over(tmp_path / "missing")


WRITING = """
import os, signal, sys
from statsnet.signatures import canonical
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
canonical.write_json_atomically(sys.argv[1], {"new": True})
"""


def test_a_process_that_is_killed_while_it_writes_a_file(tmp_path: Path) -> None:
    path, other = tmp_path / "a.json", tmp_path / ".a.json.mine.tmp"
    write_json_atomically(path, {"old": True})
    other.touch()
    make_old(other)
    killed(str(path), program=WRITING)
    assert read_json(path) == {"old": True}
    (left,) = {*tmp_path.iterdir()} - {path, other}
    make_old(left)
    write_json_atomically(path, {"new": True})
    assert {*tmp_path.iterdir()} == {path, other}


@pytest.mark.skipif(os.getuid() == 0, reason="root may list any folder")
def test_a_folder_that_may_not_be_listed_can_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o300)
    try:
        write_json_atomically(tmp_path / "a.json", {})
    finally:
        tmp_path.chmod(0o700)
    assert read_json(tmp_path / "a.json") == {}
