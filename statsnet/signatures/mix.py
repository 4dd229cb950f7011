"""A mix: weighted signatures, found for what was asked for (mix_request.py)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from statsnet.display import Displayed
from statsnet.errors import UsageError, did_you_mean
from statsnet.signatures.database import MODES, ProfileEntry, ProfilesDB
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.member_key import key_of, keyed
from statsnet.signatures.mix_request import ANY, MixRequest, Selection, mix_requests
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature

_KeyT = TypeVar("_KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixMember:
    """A signature and its share of device time; `source` tells where it came from.

    A user's file is named by its workload if that ships with StatsNet, else by its keyed id (member_key.py), never by
    its path. `environment` is the fingerprint of the environment that was asked for. `keyed_id` is what a proxy's
    folder calls a private signature by.
    """

    name: str
    weight: float
    signature: Signature
    source: Literal["database", "file"]
    path: Path
    environment: str | None = None
    keyed_id: str | None = None

    @property
    def measurement(self) -> Measurement | None:
        """In the environment that was asked for if there is one, else the first; None if there is none."""
        asked = self.signature.measurement_for(self.environment) if self.environment else None
        return asked or next(iter(self.signature.measurements), None)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mix(Displayed):
    """Members with weights that sum to 1, sorted by name. `title` is what was asked for; of files it names no path.
    `text` is what was asked for with all paths, and `profiles` the folder in which names were looked up; neither is
    written anywhere."""

    members: tuple[MixMember, ...]
    mode: str
    title: str = "a mix"
    text: str = field(default="", compare=False)
    profiles: Path | None = field(default=None, compare=False)

    @property
    def environments(self) -> tuple[str, ...]:
        """Fingerprints of the environments its measurements come from; more than one cannot be compared."""
        measurements = (m.measurement for m in self.members)
        return tuple(sorted({m.fingerprint for m in measurements if m is not None}))


def resolve_mix(text: str, mode: str, db: ProfilesDB, *, environment: str | None = None) -> Mix:
    """The signatures that a mix names: `recsys:0.5,cv:0.5`, or the path of a mix's file.

    A member is a domain (its workloads that have a profile in this mode, in equal shares), a workload
    (`resnet50`, `cv/resnet50`) or a path to a signature file. Weights of a signature that is reached twice
    are added up. Where several environments hold a workload, the one with the fingerprint `environment` is
    preferred: whoever names it measures the other members there. After that, an environment that holds all the
    workloads is preferred to one that does not, because measurements of different environments cannot be compared;
    then the first (sorted).

    Raises UsageError for what is not known or not profiled in this mode, FileFormatError for a damaged file.
    """
    if mode not in MODES:
        raise UsageError(f"'{mode}' is not a mode", hint=f"use {' or '.join(MODES)}")
    weights: dict[tuple[str, Selection], float] = {}
    candidates: dict[tuple[str, Selection], tuple[ProfileEntry, ...]] = {}
    requests = mix_requests(text)
    files: list[tuple[MixRequest, Path]] = []
    for request in requests:
        if (path := signature_path(request, db.names)) is not None:
            files.append((request, path))
            continue
        try:
            workloads = _workloads(request, mode, db, text)
        except UsageError as error:
            where = f"{request.place}: " if request.place else ""
            raise UsageError(where + error.message, cause=error.cause, hint=error.hint) from error
        for name, entries in workloads.items():
            key = name, request.selection
            candidates[key] = entries
            weights[key] = weights.get(key, 0.0) + request.weight / len(workloads)
    members: list[MixMember] = []
    for (name, selection), entry in _choose(candidates, environment).items():
        member = MixMember(
            name=name,
            weight=weights[name, selection],
            signature=entry.load(),
            source="database",
            path=entry.path,
            environment=environment,
        )
        add_member(members, member)
    called: dict[str, str] = {}
    for request, path in files:
        member = _member_of_file(path, request.weight, mode, environment)
        called[request.name] = member.name
        add_member(members, member)
    title = ",".join(f"{called.get(r.name, r.name)}:{r.weight:.3g}" for r in requests)
    members.sort(key=lambda m: m.name)
    return Mix(members=tuple(members), mode=mode, title=title, text=text, profiles=db.path)


def shared_names(text: str, mode: str, db: ProfilesDB) -> dict[str, str]:
    """What a proxy's folder calls the signature files that a mix names. Raises as `resolve_mix` does."""
    paths = ((request, signature_path(request, db.names)) for request in mix_requests(text))
    return {r.name: _member_of_file(path, r.weight, mode, None).name for r, path in paths if path is not None}


def signature_path(request: MixRequest, workloads: Container[str]) -> Path | None:
    """The signature file that a member names; None for a workload (the known ones are `workloads`) or a domain."""
    if request.kind is not None:
        return Path(request.name) if request.kind == "file" else None
    if request.name in workloads:
        return None
    path = Path(os.path.expanduser(request.name))
    if request.name.endswith(".json") or (os.sep in request.name and (path.exists() or request.name.count(os.sep) > 1)):
        return path
    return None


def _workloads(request: MixRequest, mode: str, db: ProfilesDB, text: str) -> dict[str, tuple[ProfileEntry, ...]]:
    """Workloads that a member stands for, each with its profiles in this mode and of the sizes asked for."""
    name = request.name
    entries = db.find_domain(name) if request.kind != "workload" else ()
    if not entries and request.kind != "domain":
        entries = db.find(name)
    if not entries:
        raise _unknown(name, db)
    in_mode = [e for e in entries if e.mode == mode]
    if not in_mode:
        modes = sorted({e.mode for e in entries})
        raise UsageError(
            f"there is no {mode} profile of '{name}'",
            cause=f"there is {' and '.join(modes)}",
            hint=f"use --mode {modes[0]}, or profile it with --mode {mode}",
        )
    profiles = [e for e in in_mode if request.selection == ANY or request.selection.fits(e.load())]
    if not profiles:
        raise _other_sizes(request, in_mode, mode, text)
    return {n: tuple(e for e in profiles if e.name == n) for n in sorted({e.name for e in profiles})}


def _other_sizes(request: MixRequest, there: list[ProfileEntry], mode: str, text: str) -> UsageError:
    sizes = sorted({str(Selection.of(e.load())) for e in there})
    training = "" if mode == MODES[0] else f" --mode {mode}"
    one = f"statsnet profile {there[0].name}{request.selection.options}{training} -o FILE makes one, and "
    return UsageError(
        f"there is no {mode} profile of '{request.name}' with {request.selection}",
        cause=f"there is {' and '.join(f'({size})' for size in sizes[:5])}",
        hint=f"{one if len({e.name for e in there}) == 1 else ''}statsnet profile --mix {text}{training} -o DIR makes "
        "all that this mix lacks",
    )


def _unknown(name: str, db: ProfilesDB) -> UsageError:
    known = [*db.domains, *db.names, *(n.split("/")[1] for n in db.names)]
    if not known:
        hint = "profile a workload first, or give the path of a signature file"
        return UsageError(f"'{name}' is not known", cause=f"there are no profiles in '{db.path}'", hint=hint)
    hint = did_you_mean(name, known, otherwise=f"known domains: {', '.join(db.domains)}", most=3)
    return UsageError(f"'{name}' is no domain, workload or signature file", hint=hint)


def _choose(candidates: dict[_KeyT, tuple[ProfileEntry, ...]], environment: str | None) -> dict[_KeyT, ProfileEntry]:
    """One entry of each: if possible from the environment that is asked for, else all from one other."""
    folders = sorted({e.environment for entries in candidates.values() for e in entries})
    here = []
    if len(folders) > 1 and environment is not None:
        here = [folder for folder in folders if _measured_in(folder, candidates.values(), environment)]
    complete = [f for f in folders if all(any(e.environment == f for e in es) for es in candidates.values())]
    order = [*here, *complete[:1], *folders]
    return {name: min(entries, key=lambda e: order.index(e.environment)) for name, entries in candidates.items()}


def _measured_in(folder: str, candidates: Iterable[tuple[ProfileEntry, ...]], environment: str) -> bool:
    """Whether the first entry holds a measurement of that environment: a folder is one machine's."""
    first = next(e for entries in candidates for e in entries if e.environment == folder)
    return first.load().measurement_for(environment) is not None


def load_in_mode(path: Path, mode: str) -> Signature:
    """A user's signature. Raises UsageError for one of the other mode, FileFormatError for a damaged file."""
    signature = load_signature(path)
    if signature.mode != mode:
        raise UsageError(
            f"'{path}' is a signature of {signature.mode}, not of {mode}",
            hint=f"use --mode {signature.mode}, or give a signature of {mode}",
        )
    return signature


def _member_of_file(path: Path, weight: float, mode: str, environment: str | None) -> MixMember:
    signature = load_in_mode(path, mode)
    keyed_id = keyed(signature.id, key_of(path)) if signature.is_private else None
    return MixMember(
        name=signature.name or f"signature-{short_id(keyed_id or signature.id)}",
        weight=weight,
        signature=signature,
        source="file",
        path=path,
        environment=environment,
        keyed_id=keyed_id,
    )


def add_member(members: list[MixMember], new: MixMember) -> None:
    """Another size of a workload that is there has its id in its name; the weights of one signature are added up."""
    for i, member in enumerate(members):
        if member.signature == new.signature:
            members[i] = dataclasses.replace(member, weight=member.weight + new.weight)
            return
    if new.name in (m.name for m in members):
        new = dataclasses.replace(new, name=f"{new.name}@{short_id(new.keyed_id or new.signature.id)}")
    members.append(new)


def short_id(signature_id: str) -> str:
    """The digits of an id that stand in names."""
    return signature_id.removeprefix("sha256:")[:8]
