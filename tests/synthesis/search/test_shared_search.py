"""Several workers on one search: in a journal, in a real PostgreSQL database, and through Optuna's gRPC proxy."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import postgresql_server
import pytest
import search_workshop
from postgresql_server import KEEPER, PASSWORD, Server

from statsnet.errors import StatsNetError, UsageError
from statsnet.synthesis.search.study_storage import _grpc_storage, study_storage

TRIALS = 6

PROXY = """
import sys
import warnings
warnings.simplefilter("ignore")
from optuna.storages import RDBStorage, get_storage, run_grpc_proxy_server
run_grpc_proxy_server(get_storage(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if postgresql_server.programs() is None or find_spec("psycopg") is None:
        missing = "PostgreSQL or psycopg is not installed"
        pytest.fail(missing) if os.environ.get("STATSNET_CONSUMERS") == "required" else pytest.skip(missing)
    with postgresql_server.server() as running:
        running.sql(f"CREATE USER {KEEPER} PASSWORD '{PASSWORD}'")
        yield running


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> str:
    """The address of a new database."""
    name = f"d{abs(hash(request.node.name))}"
    server.sql(f"CREATE DATABASE {name}")
    return server.url(name)


def listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxy(database: str) -> Iterator[str]:
    """The address of a gRPC proxy before a new database."""
    pytest.importorskip("grpc")
    with socket.socket() as kept:  # gRPC shares the port with it, and nobody else is given it
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        address = database.replace("postgresql:", "postgresql+psycopg:")
        process = subprocess.Popen([sys.executable, "-c", PROXY, address, str(port)], stderr=subprocess.DEVNULL)
        try:
            while not listens(port):
                assert process.poll() is None
                time.sleep(0.05)
            yield f"grpc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


class Workers:
    """The program that forks them. It imports torch and Optuna once for all searches."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors

    def search(self, *words: object) -> tuple[list[int], list[dict[str, Any]], str]:
        """How they ended, what they found, and their errors."""
        assert self._process.stdin is not None and self._process.stdout is not None
        before = len(self._errors.read_text())
        print(*words, file=self._process.stdin, flush=True)
        told = json.loads(self._process.stdout.readline() or "{}")
        errors = self._errors.read_text()[before:]
        assert told, errors
        return told["ended"], told["found"], errors


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    paths = os.pathsep.join([*sys.path, *filter(None, [os.environ.get("PYTHONPATH")])])
    errors = tmp_path_factory.mktemp("workshop") / "errors"
    with errors.open("w") as file, subprocess.Popen(
        [sys.executable, search_workshop.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
        text=True, env={**os.environ, "PYTHONPATH": paths},
    ) as process:  # fmt: skip
        yield Workers(process, errors)
        assert process.stdin is not None
        process.stdin.close()  # it ends then


@pytest.mark.parametrize("kind", ["journal", "database", "proxy"])
def test_workers_share_the_designs_and_one_is_killed(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, workers: Workers
) -> None:
    """Its design alone is lost: another takes the place, and all that are left find the same designs."""
    url = str(tmp_path / "shared.journal") if kind == "journal" else request.getfixturevalue(kind)
    ended, found, errors = workers.search(url, TRIALS)
    assert ended == [9, 0, 0], errors
    one, other = found
    assert len(one["numbers"]) == len(set(one["numbers"])) == TRIALS
    assert one["numbers"] == other["numbers"]
    assert len(one["usual"]) == 1
    assert one["tried"] + other["tried"] + 1 == TRIALS
    assert not errors


def test_a_database_that_crashes_loses_no_design(server: Server, database: str, workers: Workers) -> None:
    """It is killed and started again while one worker tries a design, whatever the others are at."""
    ended, found, errors = workers.search(database, TRIALS, server.crash)
    assert ended == [0, 0, 0], errors
    assert len(set(found[0]["numbers"])) == TRIALS
    assert all(each["numbers"] == found[0]["numbers"] for each in found)
    assert sum(each["tried"] for each in found) == TRIALS
    assert not errors


def opens(url: str) -> None:
    study_storage(url).check()


def test_a_password_is_never_shown(server: Server, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    wrong, quoted = "not/it:at@all{}", "not%2Fit%3Aat%40all{}"
    for url in (server.url(name, f"{KEEPER}:{quoted}"), f"{server.url(name, KEEPER)}&password={quoted}"):
        with pytest.raises(StatsNetError, match="password") as caught:
            opens(url)
        assert wrong not in str(caught.value)
        assert quoted not in str(caught.value)
        assert "~/.pgpass" in caught.value.hint
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with pytest.raises(StatsNetError, match="permission denied") as caught:
        opens(server.url(name, KEEPER))
    assert "GRANT" in caught.value.hint
    server.sql(f"GRANT ALL ON SCHEMA public TO {KEEPER}", name)
    opens(server.url(name, KEEPER))
    monkeypatch.delenv("PGPASSWORD")
    quoted = PASSWORD.replace("/", "%2F").replace("@", "%40").replace(":", "%3A")
    opens(server.url(name, f"{KEEPER}:{quoted}"))


def test_databases_that_can_not_be_used(server: Server, database: str, tmp_path: Path) -> None:
    for url, cause, hint in (
        (server.url("nowhere"), "does not exist", "createdb"),
        (server.url("postgres", "nobody_known"), "does not exist", "createuser"),
        (database.replace("host=", "host=/none"), "No such file", "can be reached"),
        ("postgresql://me@127.0.0.1:1/d", "refused", "can be reached"),
        (f"{database}&colour=blue", "colour", "leave out"),
    ):
        with pytest.raises(StatsNetError, match="can not be used") as caught:
            opens(url)
        assert cause in caught.value.cause, caught.value
        assert hint in caught.value.hint


def test_tables_of_another_version_of_optuna(server: Server, database: str) -> None:
    opens(database)
    name = database.partition("?")[0].rpartition("/")[2]
    server.sql("UPDATE alembic_version SET version_num = 'v0.9.0.a'", name)
    with pytest.raises(StatsNetError, match="can not be used") as caught:
        opens(database)
    assert "optuna storage upgrade" in caught.value.hint


def test_a_proxy_that_nobody_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setattr("statsnet.synthesis.search.study_storage.CONNECT_S", 0.05)
    with pytest.raises(StatsNetError, match=r"'grpc://127\.0\.0\.1:1' can not be used\ncause: GRPC connection timeout"):
        opens("grpc://127.0.0.1:1")


def test_a_proxy_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    grpc = pytest.importorskip("grpc")
    monkeypatch.setattr("statsnet.synthesis.search.study_storage.ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        storage = _grpc_storage("127.0.0.1", silent.getsockname()[1])
        with contextlib.closing(storage), pytest.raises(grpc.RpcError) as caught:
            storage.get_all_studies()
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_channel_of_a_proxy_is_closed_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Channel:
        is_closed = False

        def wait_server_ready(self, timeout: float) -> None: ...

        def get_all_studies(self) -> None:
            raise OSError("the database is away")

        def close(self) -> None:
            self.is_closed = True

    channel = Channel()
    monkeypatch.setattr("statsnet.synthesis.search.study_storage._grpc_storage", lambda host, port: channel)
    monkeypatch.setattr("statsnet.synthesis.search.study_storage.require", lambda module, storage: None)
    with pytest.raises(StatsNetError, match="the database is away"):
        study_storage("grpc://there:1").check()
    assert channel.is_closed


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "the storage is empty"),
        ("mysql://me:secret@there/d", "'mysql:' begins no storage that StatsNet knows"),
        ("postgres://me:secret@there/d", "did you mean postgresql?"),
        ("postgresql+psycopg2://me:secret@there/d", "'postgresql\\+psycopg2:' begins no storage"),
        ("postgresql:/me:secret@there/d", "'postgresql:' begins no storage"),
        ("grpc:there:13000", "'grpc:' begins no storage"),
        ("sqlite:///secret.db", "'sqlite:' begins no storage"),
        ("postgresql://me:secret@there:port/d", "the database's address can not be read"),
        ("grpc://there", "not a host and a port"),
        ("grpc://there:0", "not a host and a port"),
        ("grpc://there:123456", "not a host and a port"),
        ("grpc://:13000", "not a host and a port"),
        ("grpc://me:secret@there:13000", "not a host and a port"),
        ("grpc://there:13000/secret", "not a host and a port"),
    ],
)
def test_what_is_no_address(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        study_storage(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_an_address_is_shown_without_what_is_secret() -> None:
    shown = study_storage("postgresql://me:secret@there/d?sslpassword=secret&sslmode=require").shown
    assert shown.startswith("postgresql://me:***@there/d?")
    assert "sslmode=require" in shown
    assert "secret" not in shown
    assert study_storage("grpc://[::1]:13000").shown == "grpc://[::1]:13000"


def test_no_part_of_a_password_is_shown_where_a_long_cause_is_cut() -> None:
    errors = study_storage("postgresql://me:secret@there/d").errors
    for before in range(290, 301):
        cause = errors.cause_of(OSError("-" * before + "secret"))
        assert len(cause) <= 300 and "s" not in cause


@pytest.mark.parametrize(("module", "url"), [("psycopg", "postgresql://me@there/d"), ("grpc", "grpc://there:1")])
def test_without_the_library(module: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match="not installed") as caught:
        opens(url)
    assert "statsnet[search]" in caught.value.hint


def test_a_journal_s_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        opens(str(tmp_path / "disk" / "j"))
    opens(str(tmp_path / "j"))
    assert not (tmp_path / "j").exists()
