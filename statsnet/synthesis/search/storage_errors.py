"""What a search's storage raises, as errors that a user can act on, which never show a password; and how long a search
waits for it: a database that is started again must not cost a design."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TypeVar
from urllib.parse import quote

from statsnet.deadline import NEVER, Clock, Deadline
from statsnet.errors import StatsNetError, UsageError
from statsnet.units import format_duration

_LIBRARIES = {"alembic", "grpc", "optuna", "psycopg", "sqlalchemy"}
_AT_OPENING = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""A library that lacks another one, a study that was removed, tables of another version, a damaged line. Later, such
errors are more likely our own."""

_LASTING = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
"""Of files: what nobody mends within a minute."""

_LONGEST = 300
_HINTS = (
    ("permission denied", "let the database's owner allow it: GRANT ALL ON SCHEMA public TO your user"),
    ("password", "put the password into ~/.pgpass or the variable PGPASSWORD"),
    ("optuna version", "take another database, or bring this one up to date with `optuna storage upgrade`"),
    ("pq wrapper", "pip install 'statsnet[search]'"),
    ("role ", "check the user in the address; `createuser` makes one"),
    ("database ", "check the name in the address; `createdb NAME` makes one"),
    ("invalid connection option", "leave out of the address what PostgreSQL does not know"),
)
"""The next step, by what a cause says; the first that fits."""

_REACH = "check that it runs and can be reached from here; then the same command goes on with what it holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageErrors:
    """Of one storage. `shown` is its address without a password, `secrets` are what no text may hold."""

    shown: str
    secrets: tuple[str, ...] = ()

    @contextlib.contextmanager
    def told(self, *, opening: bool = False) -> Iterator[None]:
        """Raises StatsNetError instead of what the storage's libraries raise; while it is opened, also instead of what
        Python raises for a storage that is of no use."""
        try:
            yield
        except StatsNetError:
            raise
        except Exception as error:
            if not (is_failure(error) or (opening and isinstance(error, _AT_OPENING))):
                raise
            raise self.error(_cause(error)) from error

    def cause_of(self, error: Exception) -> str:
        """What it says, in one line."""
        return self._without_secrets(_cause(error))

    def error(self, cause: str) -> StatsNetError:
        """What is said of a storage that is of no use."""
        cause = self._without_secrets(cause)
        return StatsNetError(
            f"the search's storage '{self.shown}' can not be used",
            cause=cause,
            hint=next((hint for word, hint in _HINTS if word in cause.lower()), _REACH),
        )

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            for form in (secret, quote(secret, safe="")):
                text = text.replace(form, "***")
        return text[:_LONGEST]  # not before: a part of a secret is not found


def is_failure(error: Exception) -> bool:
    """Whether it is a storage, or what lies between, that has failed."""
    return isinstance(error, OSError) or _library(type(error).__module__) or _is_of_a_removed_study(error)


def may_pass(error: Exception) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, OSError):
        return error.errno not in _LASTING
    return _library(type(error).__module__)


def _library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _is_of_a_removed_study(error: Exception) -> bool:
    """Optuna has no error of its own for that."""
    if not isinstance(error, KeyError) or (place := error.__traceback__) is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    return _library(place.tb_frame.f_globals.get("__name__", ""))


def require(module: str, storage: str) -> None:
    """Raises UsageError if what this kind of storage needs is not installed."""
    package, _, _ = module.partition(".")
    if find_spec(package) is None or find_spec(module) is None:
        raise UsageError(
            f"a search in {storage} needs the library {module}, which is not installed",
            hint="pip install 'statsnet[search]'",
        )


def _cause(error: BaseException) -> str:
    """What the innermost error that says something says, in one line."""
    text = ""
    while True:
        details = getattr(error, "details", None)  # of gRPC's
        text = str((details() if callable(details) else None) or error) or text
        inner = getattr(error, "orig", None) or error.__cause__
        if inner is None:
            return " ".join((text or type(error).__name__).split())
        error = inner


T = TypeVar("T")

LONGEST_PAUSE_S = 15.0


@dataclass(slots=True, kw_only=True)
class StoragePatience:
    """Calls a storage again that fails, for `limit_s` from the first failure and the length of a last call. The
    pauses between begin with `pause_s` and double. `note` is told of each time that the storage is away."""

    errors: StorageErrors
    limit_s: float
    pause_s: float
    clock: Clock
    sleep: Callable[[float], None]
    note: Callable[[str], None]
    _failed: threading.Event = field(default_factory=threading.Event)

    def call(self, function: Callable[[], T], *, opening: bool = False) -> T:
        """What the function returns, which may be called several times. Raises as `StorageErrors.told` does."""
        limit, pause_s = NEVER, 0.0
        with self.errors.told(opening=opening):
            while True:
                try:
                    return function()
                except Exception as error:
                    self.saw(error)
                    if not may_pass(error) or limit.passed:
                        raise
                    if not pause_s:
                        limit = Deadline.after(self.limit_s, self.clock)
                        self.note(self._away(error))
                pause_s = min(2 * pause_s or self.pause_s, LONGEST_PAUSE_S)
                self.sleep(min(pause_s, limit.left_s))

    def saw(self, error: Exception) -> None:
        """Remember that the storage was away."""
        if is_failure(error):
            self._failed.set()

    def was_away(self) -> bool:
        """Whether it was, since this was asked last."""
        failed = self._failed.is_set()
        self._failed.clear()
        return failed

    def _away(self, error: Exception) -> str:
        cause, limit = self.errors.cause_of(error), format_duration(self.limit_s)
        return f"the search's storage '{self.errors.shown}' does not answer ({cause}); it is asked again for {limit}"
