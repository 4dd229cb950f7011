"""Selects the signatures for an analysis, by their names in a folder of profiles or by their files."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statsnet.environment import differences, slug
from statsnet.errors import UsageError
from statsnet.signatures.database import ProfileEntry, ProfilesDB
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSignature:
    """A signature and what it is called: by its place, as one that was imported holds no name."""

    name: str
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Measured signatures of one environment (its folder's name) and mode, and those that were only counted."""

    environment: str
    mode: str
    measured: list[NamedSignature]
    counted: list[NamedSignature]


def select(
    wanted: Sequence[str],
    mode: str | None = None,
    *,
    profiles: str | Path | None = None,
    environment: str | None = None,
) -> Selected:
    """Profiles whose names match one of the patterns `wanted` (none: all) in a mode (None: inference), or the signature
    files `wanted`, which must be of one environment and mode. Raises UsageError if nothing fits."""
    files = [Path(os.path.expanduser(text)) for text in wanted if _is_file(text)]
    if not files:
        patterns = wanted or ("*",)
        mode = mode or "inference"
        name, measured = measured_signatures(patterns, mode, profiles=profiles, environment=environment)
        counted = [_named(e) for e in ProfilesDB(profiles).counts if e.mode == mode and _matches(e, patterns)]
        return Selected(environment=name, mode=mode, measured=measured, counted=counted)
    if len(files) < len(wanted) or profiles is not None or environment is not None:
        other = next((text for text in wanted if not _is_file(text)), None)
        raise UsageError(
            f"'{files[0]}' and {repr(other) if other else 'a folder of profiles'} were both given",
            cause="the first is a file",
            hint="give either files, or names with --profiles and --environment",
        )
    return _of_files(files, mode)


def measured_signatures(
    patterns: Sequence[str], mode: str, *, profiles: str | Path | None = None, environment: str | None = None
) -> tuple[str, list[NamedSignature]]:
    """An environment's name, and its measured signatures in this mode whose full or short name matches a pattern,
    sorted by name.

    Times of two environments cannot be compared: by default it takes the environment with the most matches. Raises
    UsageError if nothing matches.
    """
    db = ProfilesDB(profiles)
    matching = [e for e in db.entries if e.mode == mode and _matches(e, patterns)]
    folders = sorted({e.environment for e in matching})
    shown = ", ".join(f"'{pattern}'" for pattern in patterns)
    if environment is not None and environment not in folders:
        raise UsageError(
            f"there is no {mode} profile of {shown} in the environment '{environment}'",
            hint=f"there are some in {', '.join(folders)}" if folders else "statsnet list profiles",
        )
    if not folders:
        raise UsageError(
            f"there is no {mode} profile of {shown}",
            cause=f"none in '{db.path}' matches",
            hint="statsnet list profiles shows what there is",
        )
    chosen = environment or max(folders, key=lambda name: sum(e.environment == name for e in matching))
    named = [n for e in matching if e.environment == chosen and (n := _named(e)).signature.measurements]
    if not named:
        raise UsageError(
            f"no {mode} profile of {shown} was measured",
            cause=f"those of '{chosen}' hold counts alone",
            hint="profile these workloads on a CPU or a GPU",
        )
    return chosen, named


def _of_files(files: Sequence[Path], mode: str | None) -> Selected:
    signatures = [load_signature(file) for file in files]
    first = signatures[0]
    for file, signature in zip(files, signatures, strict=True):
        if not signature.measurements:
            raise UsageError(
                f"'{file}' was measured nowhere", cause="it holds counts alone", hint="leave it out, or measure it"
            )
        if signature.mode != (mode or first.mode):
            raise UsageError(
                f"'{file}' is of {signature.mode}",
                cause=f"--mode is {mode}" if mode else f"'{files[0]}' is of {first.mode}",
                hint="give the files of one mode",
            )
        if differ := differences(first.measurements[0].environment, signature.measurements[0].environment):
            raise UsageError(
                f"'{file}' was measured in another environment than '{files[0]}'",
                cause="; ".join(differ[:3]),
                hint="give the files of one environment: times of two cannot be compared",
            )
    names = [signature.name or file.stem for file, signature in zip(files, signatures, strict=True)]
    count = Counter(names)
    named = [
        NamedSignature(name=name if count[name] == 1 else str(file), signature=signature)
        for name, file, signature in zip(names, files, signatures, strict=True)
    ]
    environment = slug(first.measurements[0].environment)
    return Selected(environment=environment, mode=first.mode, measured=named, counted=[])


def _named(entry: ProfileEntry) -> NamedSignature:
    return NamedSignature(name=entry.name, signature=entry.load(unnamed_too=True))


def _is_file(text: str) -> bool:
    return text.endswith(".json") or (os.sep in text and Path(os.path.expanduser(text)).is_file())


def _matches(entry: ProfileEntry, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in (entry.name, entry.workload) for pattern in patterns)
