"""Bringing an older file up to date, one function per step from a version to the next.

A step takes and returns the whole document as plain data; it must not measure, guess or invent: a field that
the older version did not have becomes null. `migrate` sets the new version itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from statsnet.errors import FileFormatError
from statsnet.signatures.kinds import KINDS

Migration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: dict[tuple[str, int], Migration] = {}
"""(kind, version it starts from) -> step. None yet: every kind is at its first version."""


def migrate(
    data: dict[str, Any],
    path: object,
    *,
    migrations: Mapping[tuple[str, int], Migration] = MIGRATIONS,
    versions: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The document at its kind's current version. Raises FileFormatError for a newer or unknown version."""
    kind = str(data["kind"])
    current = (versions or {kind: KINDS[kind].version})[kind]
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FileFormatError(f"'{path}' has no valid schema_version", cause=f"it says {str(version)[:40]}")
    if version > current:
        raise FileFormatError(
            f"'{path}' was made by a newer StatsNet",
            cause=f"its schema_version is {version}, this program knows up to {current}",
            hint="upgrade StatsNet",
        )
    while version < current:
        step = migrations.get((kind, version))
        if step is None:
            raise FileFormatError(
                f"'{path}' is too old to be read", cause=f"no step leads on from schema_version {version}"
            )
        version += 1
        data = step(data) | {"schema_version": version}
    return data
