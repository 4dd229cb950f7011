"""Processes in a sandbox: what its command says, what happens where there is none, and what it keeps from them."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_tasks import Escaping
from sandboxes import needs_sandbox

from statsnet.errors import StatsNetError
from statsnet.measure import sandbox
from statsnet.measure.process import run
from statsnet.measure.sandbox import command, sandboxed


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def places(words: list[str], option: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == option]


def test_the_command_leaves_one_folder_to_write_to_and_no_network(tmp_path: Path) -> None:
    words = command(
        tmp_path, shown=[Path("/tmp/a"), Path("/tmp/a/b")], hidden=["/tmp", "/run"], devices=["/dev/nvidia0"]
    )
    assert words[0] == "bwrap" and words[-1] == "--"
    assert {"--unshare-net", "--unshare-pid", "--unshare-user", "--unshare-ipc", "--die-with-parent"} <= {*words}
    assert places(words, "--bind") == [str(tmp_path)]
    assert places(words, "--ro-bind") == ["/", "/tmp/a", "/tmp/a/b"]
    assert places(words, "--dev-bind") == ["/dev/nvidia0"]
    assert places(words, "--tmpfs") == ["/tmp", "/run"]
    order = [words.index("--dev"), words.index("--dev-bind"), words.index("--tmpfs"), words.index("--bind")]
    assert order == sorted(order), "later ones hide earlier ones"


def test_only_what_is_hidden_is_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hidden" / "inner").mkdir(parents=True)
    shown = sandbox._within([tmp_path / "hidden" / "inner", tmp_path / "hidden", tmp_path / "missing", Path("/usr")],
                            [str(tmp_path / "hidden")])  # fmt: skip
    assert shown == [(tmp_path / "hidden" / "inner").resolve()]


def test_a_system_that_does_not_let_users_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(StatsNetError, match="cannot be started") as refused, sandboxed():
        pass
    assert "No permissions" in refused.value.cause
    assert not sandbox.is_on()


def test_no_process_is_forked_in_one_and_none_is_in_one_after_it(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the place of bubblewrap writes down what it was given, and runs it."""
    fake, seen = tmp_path / "bwrap", tmp_path / "seen"
    fake.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done > {seen}\n'
                    'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')  # fmt: skip
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with sandboxed():
        run(Escaping(folder=str(tmp_path), port=port))
        (bound,) = places(seen.read_text().splitlines(), "--bind")
        assert Path(bound).name.startswith("statsnet-")
        seen.unlink()
    found = run(Escaping(folder=str(tmp_path), port=port))
    assert found == {"writes": True, "connects": True, "speaks": False, "temporary": True}
    assert not seen.exists()


@needs_sandbox
def test_what_a_sandbox_keeps_from_a_process(port: int) -> None:
    """The socket lies in a folder that is seen, as those of ssh do."""
    home = Path.home()
    with tempfile.TemporaryDirectory(dir=home) as folder, socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path := f"{folder}/agent")
        agent.listen()
        task = Escaping(folder=str(home), port=port, socket=path)
        with sandboxed():
            found = run(task)
        assert found == {"writes": False, "connects": False, "speaks": False, "temporary": True}
        assert run(task)["speaks"], "outside it can"
        (home / "statsnet-escaped").unlink()


def test_off_is_off() -> None:
    with sandboxed(False):
        assert not sandbox.is_on()
        assert sandbox.around(Path("x")) == []
