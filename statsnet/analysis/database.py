"""Selects the signatures for an analysis."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from statsnet.errors import UsageError
from statsnet.signatures.database import ProfileEntry, ProfilesDB
from statsnet.signatures.model import Signature


def measured_signatures(
    pattern: str, mode: str, *, profiles: str | Path | None = None, environment: str | None = None
) -> tuple[str, list[Signature]]:
    """An environment's name, and its measured signatures in this mode whose full or short name matches the pattern,
    sorted by name.

    Times of two environments cannot be compared: by default it takes the environment with the most matches. Raises
    UsageError if nothing matches.
    """
    db = ProfilesDB(profiles)
    matching = [e for e in db.entries if e.mode == mode and _matches(e, pattern)]
    folders = sorted({e.environment for e in matching})
    if environment is not None and environment not in folders:
        raise UsageError(
            f"there is no {mode} profile of '{pattern}' in the environment '{environment}'",
            hint=f"there are some in {', '.join(folders)}" if folders else "statsnet list profiles",
        )
    if not folders:
        raise UsageError(
            f"there is no {mode} profile of '{pattern}'",
            cause=f"none in '{db.path}' matches",
            hint="statsnet list profiles shows what there is",
        )
    chosen = environment or max(folders, key=lambda name: sum(e.environment == name for e in matching))
    signatures = [e.load() for e in matching if e.environment == chosen]
    return chosen, [s for s in signatures if s.measurements]


def counted_signatures(pattern: str, mode: str, *, profiles: str | Path | None = None) -> list[Signature]:
    """Signatures in a mode that were counted on fake tensors only; empty if none matches."""
    counted = ProfilesDB(profiles).counts
    return [e.load() for e in counted if e.mode == mode and _matches(e, pattern)]


def _matches(entry: ProfileEntry, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in (entry.name, entry.workload))
