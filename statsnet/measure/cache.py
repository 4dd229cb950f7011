"""Measurements kept between runs, by the content of what was measured and where."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from statsnet.environment import cache_dir
from statsnet.errors import StatsNetError
from statsnet.signatures.canonical import write_json_atomically

CACHE_VERSION = 34
"""Part of every key. Raise it when a measuring method changes, or what is kept of its results."""

IN_KEYS = ("blocks", "profiling/costs")
"""Folders of code that is part of every key, too: what a block runs, and what its operators count, is what is kept."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContents:
    """How much is kept, where, and how long ago the oldest entry was measured (None: there is none)."""

    folder: str
    entries: int
    bytes: int
    oldest_s: float | None


class MeasurementCache:
    """Plain data by key, kept for later runs. An entry counts as absent if it is damaged, or older than
    `fresh_since_ns` (nanoseconds since the epoch)."""

    def __init__(self, folder: Path | None = None, *, fresh_since_ns: int | None = None) -> None:
        self.folder = folder or cache_dir()
        self.fresh_since_ns = fresh_since_ns

    @classmethod
    def of_run(cls, *, fresh: bool) -> MeasurementCache:
        """The user's. If `fresh`, what was measured before this run does not count."""
        return cls(fresh_since_ns=time.time_ns() if fresh else None)

    @property
    def ignores_older(self) -> bool:
        """Whether measurements of earlier runs do not count."""
        return self.fresh_since_ns is not None

    def key(self, **parts: Any) -> str:
        text = json.dumps(
            {**parts, "cache_version": CACHE_VERSION, "code": code_digest()}, sort_keys=True, default=list
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value of this type."""
        try:
            entry = json.loads(self._path(key).read_text(encoding="utf-8"))
            is_fresh = entry["put_ns"] >= (self.fresh_since_ns or 0)
            return msgspec.convert(entry["value"], kind) if is_fresh else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Keep a value. If the cache cannot be written, the next run is only slower."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"value": msgspec.to_builtins(value), "put_ns": time.time_ns()}
            write_json_atomically(path, entry)
        except (OSError, StatsNetError):
            return

    def remember(
        self, key: str, kind: type[T], measure: Callable[[], T], *, is_usable: Callable[[T], bool] = lambda _: True
    ) -> T:
        """The cached value; if there is none that is usable, measure it and keep it. It comes back as later runs will
        read it, with rounded numbers, so that they come to the same results."""
        value = self.get(key, kind)
        if value is None or not is_usable(value):
            measured = measure()
            self.put(key, measured)
            value = self.get(key, kind)
            return measured if value is None else value
        return value

    def contents(self) -> CacheContents:
        files = []
        for path in self._files():
            with contextlib.suppress(FileNotFoundError):  # another program clears the cache
                files.append(path.stat())
        oldest_s = max((time.time() - file.st_mtime for file in files), default=None)
        size = sum(file.st_size for file in files)
        return CacheContents(folder=str(self.folder), entries=len(files), bytes=size, oldest_s=oldest_s)

    def _files(self) -> list[Path]:
        """The files of all entries. Other files in the folder are not the cache's."""
        return [p for p in self.folder.glob("??/*.json") if re.fullmatch(r"[0-9a-f]{64}", p.stem)]

    def clear(self) -> None:
        """Delete all entries. Raises StatsNetError if one cannot be deleted."""
        try:
            for path in self._files():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StatsNetError(
                f"'{error.filename}' cannot be deleted",
                cause=error.strerror or str(error),
                hint="check the permissions of the cache's folder",
            ) from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


@functools.cache
def code_digest(package: Path = Path(__file__).parents[1]) -> str:
    """Of the source of IN_KEYS."""
    files = sorted(path for folder in IN_KEYS for path in (package / folder).rglob("*.py"))
    digests = [(str(path.relative_to(package)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()
