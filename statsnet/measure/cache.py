"""Measurements kept between runs, by the content of what was measured and where."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from statsnet.environment import cache_dir
from statsnet.errors import StatsNetError
from statsnet.signatures.canonical import write_json_atomically

CACHE_VERSION = 16
"""Part of every key: raise it when a measuring method changes."""


class MeasurementCache:
    """JSON values by key. A damaged or unreadable entry counts as absent, as does one from before `fresh_since_ns`, in
    nanoseconds since the epoch; what is put is kept for others."""

    def __init__(
        self, folder: Path | None = None, *, enabled: bool = True, fresh_since_ns: int | None = None
    ) -> None:
        self.folder = folder or cache_dir()
        self.enabled = enabled
        self.fresh_since_ns = fresh_since_ns

    def key(self, **parts: Any) -> str:
        text = json.dumps({**parts, "cache_version": CACHE_VERSION}, sort_keys=True, default=list)
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, key: str) -> Any | None:
        if not self.enabled:
            return None
        try:
            entry = json.loads(self._path(key).read_text(encoding="utf-8"))
            return entry["value"] if entry["put_ns"] >= (self.fresh_since_ns or 0) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Keep a value; a cache that cannot be written slows the next run down, nothing else."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomically(path, {"value": value, "put_ns": time.time_ns()})
        except (OSError, StatsNetError):
            return

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
