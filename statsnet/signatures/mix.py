"""A mix: weighted signatures, from text such as `recsys:0.5,cv:0.5`."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from statsnet.errors import UsageError
from statsnet.signatures.database import MODES, ProfileEntry, ProfilesDB
from statsnet.signatures.model import Measurement, Signature
from statsnet.signatures.storage import load_signature

_EXAMPLE = "for example recsys:0.5,cv:0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixMember:
    """A signature and its share of device time; `source` tells where it came from.

    A user's file is named by its workload if that ships with StatsNet, else by its id, never by its path.
    `environment` is the fingerprint of the environment that was asked for.
    """

    name: str
    weight: float
    signature: Signature
    source: Literal["database", "file"]
    path: Path
    environment: str | None = None

    @property
    def measurement(self) -> Measurement | None:
        """In the environment that was asked for if there is one, else the first; None if there is none."""
        asked = self.signature.measurement_for(self.environment) if self.environment else None
        return asked or next(iter(self.signature.measurements), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Members with weights that sum to 1, sorted by name."""

    members: tuple[MixMember, ...]
    mode: str

    @property
    def environments(self) -> tuple[str, ...]:
        """Fingerprints of the environments its measurements come from; more than one can not be compared."""
        found = (m.measurement for m in self.members)
        return tuple(sorted({m.fingerprint for m in found if m is not None}))


def parse_mix(text: str) -> list[tuple[str, float]]:
    """`"recsys:1,cv:3"` -> [("recsys", 0.25), ("cv", 0.75)]: names as given, weights normalised.

    Raises UsageError for an empty mix, a name given twice, a weight that is missing or not a positive number.
    """
    parsed: list[tuple[str, float]] = []
    for part in text.split(","):
        name, colon, weight = (piece.strip() for piece in part.rpartition(":"))
        if not part.strip():
            raise UsageError(
                "the mix is empty" if not text.strip(" ,") else "the mix has an empty part", hint=_EXAMPLE
            )
        if not colon or not name:
            missing = "weight" if not colon else "name"
            raise UsageError(
                f"'{part.strip()}' has no {missing}", cause="NAME:WEIGHT is expected", hint=_EXAMPLE
            )
        if name in (known for known, _ in parsed):
            raise UsageError(
                f"'{name}' stands twice in the mix", hint="give it once, with the sum of its weights"
            )
        parsed.append((name, _weight(name, weight)))
    largest = max(weight for _, weight in parsed)
    total = math.fsum(weight / largest for _, weight in parsed)  # the plain sum may overflow
    normalised = [(name, weight / largest / total) for name, weight in parsed]
    if not all(weight > 0 for _, weight in normalised):
        raise UsageError("the weights are too far apart", hint=_EXAMPLE)
    return normalised


def _weight(name: str, text: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(
            f"'{text}' is not a weight for '{name}'", cause="a positive number is expected", hint=_EXAMPLE
        )
    return value


def resolve_mix(text: str, mode: str, db: ProfilesDB, *, environment: str | None = None) -> Mix:
    """The signatures that a mix names.

    NAME is a domain (its workloads that have a profile in this mode, in equal shares), a workload
    (`resnet50`, `cv/resnet50`) or a path to a signature file. Weights of a workload that is reached twice
    are added up. Where several environments hold a workload, the one with the fingerprint `environment` is
    preferred, then the first (sorted). Measurements of different environments can not be compared, so an
    environment that holds all the workloads goes before one that does not.

    Raises UsageError for what is not known or not profiled in this mode, FileFormatError for a damaged file.
    """
    if mode not in MODES:
        raise UsageError(f"'{mode}' is not a mode", hint=f"use {' or '.join(MODES)}")
    weights: dict[str, float] = {}
    files: list[tuple[Path, float]] = []
    for name, weight in parse_mix(text):
        if (path := _as_path(name, db)) is not None:
            files.append((path, weight))
            continue
        workloads = _workloads(name, mode, db)
        for workload in workloads:
            weights[workload] = weights.get(workload, 0.0) + weight / len(workloads)
    members = _from_database(weights, mode, db, environment)
    for path, weight in files:
        _add_file(members, path, weight, mode, environment)
    return Mix(members=tuple(sorted(members, key=lambda m: m.name)), mode=mode)


def _as_path(name: str, db: ProfilesDB) -> Path | None:
    if name in db.names:
        return None
    path = Path(name).expanduser()
    if name.endswith(".json") or (os.sep in name and (path.exists() or name.count(os.sep) > 1)):
        return path
    return None


def _workloads(name: str, mode: str, db: ProfilesDB) -> list[str]:
    """Workloads with a profile in this mode that a domain or workload name stands for."""
    entries = db.find_domain(name) or db.find(name)
    if not entries:
        raise _unknown(name, db)
    found = sorted({e.name for e in entries if e.mode == mode})
    if not found:
        modes = sorted({e.mode for e in entries})
        raise UsageError(
            f"there is no {mode} profile of '{name}'",
            cause=f"there is {' and '.join(modes)}",
            hint=f"use --mode {modes[0]}, or profile it with --mode {mode}",
        )
    return found


def _unknown(name: str, db: ProfilesDB) -> UsageError:
    known = [*db.domains, *db.names, *(n.split("/")[1] for n in db.names)]
    if not known:
        hint = "profile a workload first, or give the path of a signature file"
        return UsageError(f"'{name}' is not known", cause=f"there are no profiles in '{db.path}'", hint=hint)
    near = difflib.get_close_matches(name, dict.fromkeys(known), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known domains: {', '.join(db.domains)}"
    return UsageError(f"'{name}' is no domain, workload or signature file", hint=hint)


def _from_database(
    weights: dict[str, float], mode: str, db: ProfilesDB, environment: str | None
) -> list[MixMember]:
    chosen = _choose({name: db.find(name, mode) for name in weights}, environment)
    return [
        MixMember(
            name=name,
            weight=weights[name],
            signature=entry.load(),
            source="database",
            path=entry.path,
            environment=environment,
        )
        for name, entry in chosen.items()
    ]


def _choose(
    candidates: dict[str, tuple[ProfileEntry, ...]], environment: str | None
) -> dict[str, ProfileEntry]:
    """One entry per workload, from one environment if that is possible."""
    folders = sorted({e.environment for entries in candidates.values() for e in entries})
    if len(folders) > 1 and environment is not None:
        # Stable: what was measured in the environment asked for goes first.
        folders.sort(key=lambda folder: not _measured_in(folder, candidates.values(), environment))
    complete = [f for f in folders if all(any(e.environment == f for e in es) for es in candidates.values())]
    order = [*complete[:1], *(f for f in folders if f not in complete[:1])]
    return {
        name: min(entries, key=lambda e: order.index(e.environment)) for name, entries in candidates.items()
    }


def _measured_in(folder: str, candidates: Iterable[tuple[ProfileEntry, ...]], environment: str) -> bool:
    """Whether the first entry holds a measurement of that environment: a folder is one machine's."""
    first = next(e for entries in candidates for e in entries if e.environment == folder)
    return first.load().measurement_for(environment) is not None


def _add_file(
    members: list[MixMember], path: Path, weight: float, mode: str, environment: str | None
) -> None:
    signature = load_signature(path)
    if signature.mode != mode:
        raise UsageError(
            f"'{path}' is a signature of {signature.mode}, not of {mode}",
            hint=f"use --mode {signature.mode}, or give a signature of {mode}",
        )
    short_id = signature.id.removeprefix("sha256:")[:8]
    name = signature.name or f"signature-{short_id}"
    for i, member in enumerate(members):
        if member.signature == signature:
            members[i] = dataclasses.replace(member, weight=member.weight + weight)
            return
        if member.name == name:
            name = f"{name}@{short_id}"
    members.append(
        MixMember(
            name=name, weight=weight, signature=signature, source="file", path=path, environment=environment
        )
    )
