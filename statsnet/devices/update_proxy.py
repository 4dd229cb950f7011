"""A proxy made anew: from the signatures that its spec pins, less some members, plus others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from statsnet.devices.make_proxy import TargetDevice, counts_in
from statsnet.environment import fingerprint, slug
from statsnet.errors import UsageError
from statsnet.proxy.spec import Proxy
from statsnet.signatures.database import FoundSignature, ProfilesDB, find_files
from statsnet.signatures.documents import ProxySpec, SpecMember
from statsnet.signatures.member_key import key_of, keyed
from statsnet.signatures.mix import Mix, MixMember, add_member, short_id
from statsnet.signatures.mix_change import MixChange
from statsnet.signatures.model import Signature
from statsnet.synthesis.problem import Design, ProxyRequest, prepare
from statsnet.synthesis.synthesize import finish
from statsnet.units import listed, plural
from statsnet.workloads.dtypes import MIXED

NAMED = 3
"""Most members that a note, an error or a title names."""

_OF_A_MIX = re.compile(r"[^,:]+:[\d.e-]+(,[^,:]+:[\d.e-]+)*")
_OF_A_FILE = re.compile(r"\bsignature-[0-9a-f]{8}\b")


def update_proxy(spec: ProxySpec, change: MixChange, device: TargetDevice, budget_s: float | None) -> Proxy:
    """The proxy for the changed mix, with the seed, the notes and, if none is given, the budget of the old one. What
    the cache holds is not measured again.

    Raises UsageError as `changed_mix` does, else as `make_proxy.synthesize`.
    """
    mix = changed_mix(spec, change, device)
    request = ProxyRequest(
        mix_text="", title=mix.title, notes=spec.notes, seed=spec.seed, budget_s=budget_s or spec.budget_s
    )
    return finish(prepare(mix, device.bench(mix), request, Design(seed=spec.seed)))


def changed_mix(spec: ProxySpec, change: MixChange, device: TargetDevice) -> Mix:
    """The new mix. Members that stay have the signatures that the spec pins. A private one that the spec calls by its
    plain id, as versions before keys did, gets its keyed id, in its name too.

    Raises UsageError as `MixChange.staying` and `resolve_mix` do, and for members whose signatures are not found;
    FileFormatError for a damaged file; StatsNetError as `key_of` does.
    """
    stay = change.staying(spec.mix)
    found = _signatures([m for m, _ in stay], spec, device)
    keyed_ids = [keyed(f.signature.id, key_of(f.path)) if f.signature.is_private else None for f in found]
    told = _renaming({f.signature.id: keyed_id for f, keyed_id in zip(found, keyed_ids, strict=True) if keyed_id})
    members = [
        MixMember(
            name=told(m.name),
            weight=weight,
            signature=f.signature,
            source="database",
            path=Path(),
            environment=fingerprint(device.environment),
            keyed_id=keyed_id,
        )
        for (m, weight), f, keyed_id in zip(stay, found, keyed_ids, strict=True)
    ]
    for added in change.added:
        for member in device.mix_of(f"{added.name}:1").members:
            add_member(members, replace(member, weight=added.share * member.weight))
    title = _title(spec, change, members)
    return Mix(members=tuple(sorted(members, key=lambda m: m.name)), mode=spec.mode, title=title)


def _renaming(keyed_ids: Mapping[str, str]) -> Callable[[str], str]:
    """What puts the digits of keyed ids in place of those of plain ones."""
    digits = {short_id(plain): short_id(keyed_id) for plain, keyed_id in keyed_ids.items()}

    def told(text: str) -> str:
        for plain, keyed_digits in digits.items():
            text = text.replace(plain, keyed_digits)
        return text

    return told


def _title(spec: ProxySpec, change: MixChange, members: Sequence[MixMember]) -> str:
    """What the old one was called, where that is still true and names no member that has left or is private. Else the
    public members, the largest first, and how many are private: whoever gets the proxy need not know who was in it."""
    public = sorted((m for m in members if not m.signature.is_private), key=lambda m: (-m.weight, m.name))
    hidden = {m.name for m in spec.mix} - {m.name for m in public}
    is_stale = bool(change.added or change.removed) and _OF_A_MIX.fullmatch(spec.title) is not None
    if not is_stale and not _OF_A_FILE.search(spec.title) and not _names_any(spec.title, hidden):
        return spec.title
    private = len(members) - len(public)
    named = listed([f"{m.name}:{m.weight:.3g}" for m in public], NAMED)
    return ", ".join(filter(None, [named, plural(private, "private workload") if private else ""]))


def _names_any(title: str, names: Collection[str]) -> bool:
    """Whether a title has one of these names in it, with its domain or, unless it is very short, without."""
    words = {word for name in names for word in (name, name.rpartition("/")[2]) if len(word) > 2}
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", title, re.IGNORECASE) for word in words)


def _signatures(members: Sequence[SpecMember], spec: ProxySpec, device: TargetDevice) -> list[FoundSignature]:
    """The signatures that are pinned: of any file in the folder of profiles, else of the database by name.

    One that was measured while the proxy was made is in no file. The signature of that name and those sizes stands for
    it: measured here, it is the same workload, and the cache may still hold that measurement.
    """
    found: dict[str, FoundSignature] = {}
    if (profiles := device.options.profiles) is not None:
        found = find_files({m.signature for m in members}, [profiles])
    chosen = [(m, found.get(m.signature) or _named(m, spec, device)) for m in members]
    if missing := [m for m, f in chosen if f is None]:
        raise UsageError(
            f"there is no signature of {listed([m.name for m in missing], NAMED)}",
            cause=f"no file has the id {missing[0].signature[:19]}..., nor its name and sizes",
            hint=f"--profiles DIR names the folder that holds it (a private one with its key, FILE.key); --remove "
            f"{missing[0].name} leaves it out, and --add FILE:SHARE takes another signature of it",
        )
    known = {m.signature for m, f in chosen if f is not None and f.signature.id == m.signature}
    if others := [m.name for m, _ in chosen if m.signature not in known | found.keys()]:
        device.options.note(
            f"{listed(others, NAMED)}: what was measured when the proxy was made is in no file; a signature of the "
            "same name and sizes takes its place"
        )
    return [f for _, f in chosen if f is not None]


def _named(member: SpecMember, spec: ProxySpec, device: TargetDevice) -> FoundSignature | None:
    """The pinned signature among those of the member's name, else one of the same sizes; None where there is none. Of
    several, one that was measured in the device's environment is preferred."""
    name, here = member.name.partition("@")[0], slug(device.environment)
    like = None
    for db in _databases(spec, device):
        for entry in sorted(db.find(name, spec.mode), key=lambda e: e.environment != here):
            found = FoundSignature(signature=entry.load(), path=entry.path)
            if found.signature.id == member.signature:
                return found
            if like is None and _is_like(found.signature, member, spec):
                like = found
    return like


def _databases(spec: ProxySpec, device: TargetDevice) -> list[ProfilesDB]:
    """Where signatures are looked for by name, in this order."""
    dbs = [device.db, *([ProfilesDB()] if device.options.profiles is not None else [])]
    if device.recorded and device.recorded.counted:
        return [*(counts_in(spec.dtype, db, device.options) for db in dbs), *dbs]
    return dbs


def _is_like(signature: Signature, member: SpecMember, spec: ProxySpec) -> bool:
    if signature.dtype not in (spec.dtype, MIXED):
        return False
    preset = signature.workload.preset if signature.workload else None
    pairs = (signature.batch, member.batch), (preset, member.preset), (signature.optimizer, member.optimizer)
    return all(ours == theirs for ours, theirs in pairs if theirs is not None)
