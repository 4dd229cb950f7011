"""Where a search keeps what it has tried: in a journal of its own, or in a storage that several machines work on.

Storages are Optuna's: a journal in a file, a PostgreSQL database, and Optuna's gRPC proxy before a database.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch
from urllib.parse import urlsplit

from statsnet.errors import StatsNetError, UsageError, did_you_mean
from statsnet.synthesis.search.journal import WriterLock, check_journal, held_journal, ready_journal, shared_journal
from statsnet.synthesis.search.postgresql import DRIVER, hidden, opened_database, parsed
from statsnet.synthesis.search.storage_errors import StorageErrors, require

CONNECT_S = 10.0
ANSWER_S = 60.0
"""A gRPC proxy that has not answered by then is asked again: its machine may have vanished without a word."""
_SCHEMES = ("postgresql", "grpc")
_HINT = "a path for a journal on a shared disk, postgresql://USER@HOST/DATABASE, or grpc://HOST:PORT"


class StudyStorage(ABC):
    """A place for studies. Unless it says otherwise, other workers may use it at the same time, what was tried before
    counts, and nobody is kept out."""

    __slots__ = ()
    shared: ClassVar[bool] = True

    @property
    def goes_on(self) -> bool:
        """Whether what was tried before counts."""
        return True

    @property
    @abstractmethod
    def shown(self) -> str:
        """Its path or address, without a password."""

    @property
    def errors(self) -> StorageErrors:
        """Turns what the storage raises into errors that a user can act on."""
        return StorageErrors(shown=self.shown)

    @abstractmethod
    def check(self) -> None:
        """Raises StatsNetError or UsageError now for all that opening it would fail at."""

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Keep out whoever would disturb a search in it. Raises UsageError if that one was first."""
        return contextlib.nullcontext()

    @abstractmethod
    def opened(self) -> Any:
        """Optuna's storage, once it is held; it must be closed. Raises what `errors.told` turns into StatsNetError."""

    def close(self, opened: Any) -> None:  # noqa: B027 - a journal's file is open only while it is read or written
        """Ends the connections of a storage that was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJournal(StudyStorage):
    """A journal that one search writes alone, and begins anew unless it resumes."""

    path: Path
    resume: bool = False
    shared: ClassVar[bool] = False

    @property
    def shown(self) -> str:
        return str(self.path)

    @property
    def goes_on(self) -> bool:
        return self.resume

    def check(self) -> None:
        check_journal(self.path)

    def held(self) -> contextlib.AbstractContextManager[None]:
        return held_journal(self.path)

    def opened(self) -> Any:
        ready_journal(self.path, resume=self.resume)
        return _journal_storage(self.path.resolve(), threading.Lock())  # nobody else writes while it is held


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJournal(StudyStorage):
    """A journal on a disk that all workers see."""

    path: Path

    @property
    def shown(self) -> str:
        return str(self.path)

    def check(self) -> None:
        check_journal(self.path)
        if not self.path.parent.is_dir():  # made anew, it would not be the one that others share
            raise UsageError(
                f"'{self.path.parent}', the journal's folder, does not exist",
                hint="make it on a disk that all workers share, or check whether the disk is mounted",
            )
        place = self.path if self.path.exists() else self.path.parent
        if not os.access(place, os.W_OK):
            raise StatsNetError(
                f"'{place}' can not be written to", cause="permission denied", hint="let all workers write there"
            )

    def held(self) -> contextlib.AbstractContextManager[None]:
        return shared_journal(self.path)

    def opened(self) -> Any:
        path = self.path.resolve()
        return _journal_storage(path, WriterLock(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Database(StudyStorage):
    """A PostgreSQL database. `url` is SQLAlchemy's, and may hold a password."""

    url: Any

    @property
    def shown(self) -> str:
        return hidden(self.url)

    @property
    def errors(self) -> StorageErrors:
        return StorageErrors(shown=self.shown, secrets=_secrets(self.url))

    def check(self) -> None:
        with self.errors.told(opening=True):
            self.close(self.opened())

    def opened(self) -> Any:
        require("psycopg", "PostgreSQL")
        return opened_database(self.url, connect_s=CONNECT_S)

    def close(self, opened: Any) -> None:
        opened.remove_session()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcProxy(StudyStorage):
    """Optuna's gRPC server before a database."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        return f"grpc://{self.host}:{self.port}"

    def check(self) -> None:
        with self.errors.told(opening=True), contextlib.ExitStack() as ending:
            storage = self.opened()
            ending.callback(self.close, storage)
            storage.get_all_studies()  # asks the database behind it

    def opened(self) -> Any:
        require("grpc", "Optuna's gRPC proxy")
        require("google.protobuf", "Optuna's gRPC proxy")
        storage = _grpc_storage(self.host, self.port)
        try:
            storage.wait_server_ready(timeout=CONNECT_S)
        except BaseException:
            self.close(storage)
            raise
        return storage

    def close(self, opened: Any) -> None:
        opened.close()


def study_storage(text: str) -> StudyStorage:
    """What `--storage` names. Raises UsageError, which does not repeat the text: it may hold a password."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        if not text.strip():
            raise UsageError("the storage is empty", hint=_HINT)
        if found := re.match(r"([A-Za-z][\w+.-]*):", text):
            raise _other_scheme(found[1])
        return SharedJournal(path=Path(text))
    if scheme in ("postgresql", DRIVER):
        return Database(url=parsed(rest))
    if scheme == "grpc":
        return _grpc_proxy(text)
    raise _other_scheme(scheme)


def _other_scheme(scheme: str) -> UsageError:
    near = did_you_mean(scheme, _SCHEMES)
    cause = f"'{scheme}:' begins no storage that StatsNet knows" + (f"; {near}" if near else "")
    return UsageError("the storage has another form", cause=cause, hint=_HINT)


def _grpc_proxy(text: str) -> GrpcProxy:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.username or parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(
            "the address of the gRPC proxy is not a host and a port", hint="for example --storage grpc://10.0.0.5:13000"
        )
    return GrpcProxy(host=f"[{host}]" if ":" in host else host, port=port)


def _secrets(url: Any) -> tuple[str, ...]:
    values = [url.password, *(value for key, value in url.query.items() if "password" in key)]
    return tuple(str(value) for value in values if value)


def _journal_storage(path: Path, lock: Any) -> Any:
    """With a lock in the place of Optuna's own, a link beside the journal that whoever is killed leaves there."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _grpc_storage(host: str, port: int) -> Any:
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # no process that is forked here uses it
    import grpc
    from optuna.exceptions import ExperimentalWarning
    from optuna.storages import GrpcStorageProxy
    from optuna.storages._grpc import client

    limit = json.dumps({"methodConfig": [{"name": [{}], "timeout": f"{ANSWER_S}s"}]})
    options = [("grpc.max_receive_message_length", -1), ("grpc.service_config", limit)]

    def channel(host: str, port: int) -> Any:
        return grpc.insecure_channel(f"{host}:{port}", options=options)

    # Optuna's own calls have no time limit.
    with warnings.catch_warnings(), patch.object(client, "create_insecure_channel", channel):
        warnings.simplefilter("ignore", ExperimentalWarning)
        return GrpcStorageProxy(host=host, port=port)
