"""A PostgreSQL server for tests: on a socket in a folder of its own, never as root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEBIANS = Path("/usr/lib/postgresql")
OWNER, KEEPER, PASSWORD = "statsnet", "keeper", "s3cret/@{of}:mine"
"""A user who may do everything and is asked for nothing, and one who has a password and may make no tables."""

KEEPER_S_RIGHTS = f"local all {KEEPER} scram-sha-256\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One that runs. Its socket is in `folder`; `crash` is a program that kills it and starts it again."""

    folder: Path
    crash: Path

    def url(self, database: str, user: str = OWNER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, text: str, database: str = "postgres") -> str:
        words = ["psql", "-h", str(self.folder), "-U", OWNER, "-d", database, "-qtAc", text]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None where it is not installed."""
    folders = sorted(DEBIANS.glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return folders[-1] if folders else Path(found).parent if found else None


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Runs meanwhile, and is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="statsnet-postgresql-", dir="/tmp"))  # sockets have short paths
    as_nobody = []
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        folder.chmod(0o755)
        as_nobody = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]

    bin_folder = programs()
    assert bin_folder is not None

    def command_of(program: str, *arguments: str) -> list[str]:
        return [*as_nobody, str(bin_folder / program), *arguments]

    def call(program: str, *arguments: str) -> None:
        command = command_of(program, *arguments)
        with open(folder.with_suffix(".log"), "ab") as log:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        assert done.returncode == 0, folder.with_suffix(".log").read_text()

    data = str(folder / "data")
    try:
        call("initdb", "-D", data, "-U", OWNER, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
        rights = folder / "data" / "pg_hba.conf"
        rights.write_text(KEEPER_S_RIGHTS + rights.read_text())
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=40"
        started = ("-w", "-t", "600", "-D", data, "-o", options)
        call("pg_ctl", "start", *started)
        crash = folder / "crash"
        words = shlex.join(command_of("pg_ctl", "restart", "-m", "immediate", *started))
        crash.write_text(f"#!/bin/sh\ncd {folder} && {words} >> {folder.with_suffix('.log')} 2>&1\n")
        crash.chmod(0o755)
        try:
            yield Server(folder=folder, crash=crash)
        finally:
            call("pg_ctl", "stop", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".log").unlink(missing_ok=True)
