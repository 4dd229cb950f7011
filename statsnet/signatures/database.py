"""Profiles in folders, `<environment>/<domain>/<workload>.<mode>.json`, found by name without being read.

The folder of a domain may be packed: `<environment>/<domain>.zip` (packed.py).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import statsnet
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures import packed
from statsnet.signatures.canonical import DEFAULT_MAX_BYTES, read_json, read_text, write_bytes_atomically
from statsnet.signatures.kinds import KINDS
from statsnet.signatures.member_key import key_beside, keyed
from statsnet.signatures.model import KIND, Mode, Signature
from statsnet.signatures.storage import load_signature

MODES = get_args(Mode)
COUNTS = "meta"
"""Folder, in place of an environment's, of profiles that were counted on fake tensors and measured nowhere."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One file of the database; `environment` is the folder's name (`environment.slug`)."""

    environment: str
    domain: str
    workload: str
    mode: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.domain}/{self.workload}"

    def load(self, *, unnamed_too: bool = False) -> Signature:
        """Its signature; with `unnamed_too` also one that holds no name, as imported ones do.

        Raises FileFormatError if the file is damaged or holds something else than its name says.
        """
        signature = load_signature(self.path)
        names = (self.name, None) if unnamed_too else (self.name,)
        if signature.name not in names or signature.mode != self.mode:
            raise FileFormatError(
                f"'{self.path}' does not hold what its name says",
                cause=f"it holds {signature.mode} of {signature.name or 'an unnamed workload'}",
                hint="rename the file, or give its path instead of a workload's name",
            )
        return signature


def default_profiles_dir() -> Path:
    """The profiles that came with StatsNet: inside the installed package, or beside it in a checkout."""
    package = Path(statsnet.__file__).resolve().parent
    inside = package / "profiles_db"
    return inside if inside.is_dir() else package.parent / "profiles_db"


def pack(folder: Path) -> Path:
    """Move the profiles in a domain's folder into the archive that stands for it, and return the archive.

    Profiles that the archive holds already stay in it, except those that the folder holds too. Raises StatsNetError
    where a file cannot be read or written; all of them are then still there.
    """
    archive, plain = packed.archive_for(folder), list(folder.glob("*.json"))
    paths = {*plain, *(packed.files(archive) if archive.is_file() else ())}
    texts = {path.name: read_text(path, KINDS[KIND].max_bytes) for path in paths}
    write_bytes_atomically(archive, packed.archive_bytes({name: text.encode() for name, text in texts.items()}))
    for path in plain:
        path.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return archive


class ProfilesDB:
    """Profiles under one folder. The listing is read once, on first use; the files only when asked for."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_profiles_dir()

    @property
    def entries(self) -> tuple[ProfileEntry, ...]:
        """Measured profiles by environment, domain, workload and mode; empty if there is no such folder."""
        return tuple(e for e in self._all if e.environment != COUNTS)

    @property
    def counts(self) -> tuple[ProfileEntry, ...]:
        """Profiles that were only counted, by domain, workload and mode: work and memory of sizes that nobody ran."""
        return tuple(e for e in self._all if e.environment == COUNTS)

    @functools.cached_property
    def _all(self) -> tuple[ProfileEntry, ...]:
        paths = set(self.path.glob("*/*/*.json"))
        for archive in self.path.glob(f"*/*{packed.ENDING}"):
            paths.update(path for path in packed.files(archive) if path.suffix == ".json")
        entries = [self._entry(path) for path in paths]
        return tuple(sorted((e for e in entries if e), key=lambda e: (e.environment, e.domain, e.workload, e.mode)))

    def _entry(self, path: Path) -> ProfileEntry | None:
        environment, domain = path.parent.parent.name, path.parent.name
        workload, _, mode = path.stem.rpartition(".")
        if mode not in MODES or not all(_NAME.fullmatch(part) for part in (environment, domain, workload)):
            return None
        return ProfileEntry(environment=environment, domain=domain, workload=workload, mode=mode, path=path)

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(sorted({e.domain for e in self.entries}))

    @property
    def names(self) -> tuple[str, ...]:
        """Workloads as `cv/resnet50`."""
        return tuple(sorted({e.name for e in self.entries}))

    def find(self, name: str, mode: str | None = None) -> tuple[ProfileEntry, ...]:
        """Entries of a workload (`resnet50` or `cv/resnet50`) in all environments, in one mode or all.

        Empty if there are none. Raises UsageError if the short name stands for workloads of several domains.
        """
        entries = [e for e in self.entries if name in (e.name, e.workload)]
        meant = sorted({e.name for e in entries})
        if len(meant) > 1:
            raise UsageError(
                f"'{name}' stands for several workloads",
                cause=", ".join(meant),
                hint="name it with its domain",
            )
        return tuple(e for e in entries if mode in (None, e.mode))

    def find_domain(self, domain: str, mode: str | None = None) -> tuple[ProfileEntry, ...]:
        """Entries of all workloads of a domain in all environments, in one mode or all."""
        return tuple(e for e in self.entries if e.domain == domain and mode in (None, e.mode))


class CountsDB(ProfilesDB):
    """The counted profiles of a folder in place of the measured ones: the sizes that accelerators run."""

    @property
    def entries(self) -> tuple[ProfileEntry, ...]:
        return self.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSignature:
    """A signature and its file."""

    signature: Signature
    path: Path


def find_files(ids: set[str], folders: Iterable[Path]) -> dict[str, FoundSignature]:
    """Signatures with these ids, or keyed ids, in any file below the folders, packed or not; other files are passed
    over."""
    found: dict[str, FoundSignature] = {}
    for folder in folders:
        for path in _files(folder):
            if len(found) == len(ids):
                return found
            try:
                for known in _ids_in(path, ids) - found.keys():
                    found[known] = FoundSignature(signature=load_signature(path), path=path)
            except FileFormatError:
                continue
    return found


def find_signatures(ids: set[str], folders: Iterable[Path]) -> dict[str, Signature]:
    """As `find_files`, without the files."""
    return {known: found.signature for known, found in find_files(ids, folders).items()}


def _ids_in(path: Path, ids: set[str]) -> set[str]:
    """Those that the signature in a file has: its id or, if its key stands beside it, its keyed id. Raises
    FileFormatError for a file that is damaged."""
    key, text = key_beside(path), read_text(path, DEFAULT_MAX_BYTES)
    if key is None and not any(known in text for known in ids):
        return set()  # reading it as JSON takes ten times as long
    data = read_json(path)
    if data.get("kind") != KIND or not isinstance(data.get("id"), str):
        return set()
    return ids & ({data["id"], keyed(data["id"], key)} if key is not None else {data["id"]})


def _files(folder: Path) -> list[Path]:
    """JSON files below a folder, packed or not; a file stands for itself."""
    if not folder.is_dir():
        return [folder]
    paths = set(folder.rglob("*.json"))
    for archive in folder.rglob(f"*{packed.ENDING}"):
        with contextlib.suppress(FileFormatError):
            paths.update(packed.files(archive))
    return sorted(paths)
