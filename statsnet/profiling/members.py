"""Makes the missing profiles of a mix's members, in a folder that a ProfilesDB can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from statsnet import workloads
from statsnet.environment import differences, fingerprint, slug
from statsnet.errors import StatsNetError, UsageError
from statsnet.measure import process
from statsnet.measure.control import DEFAULT, Control
from statsnet.measure.engine import Done
from statsnet.measure.errand import Errand
from statsnet.measure.network_file import written
from statsnet.measure.several_processes import run_in_group
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.hardware_counters import counted_signature
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.progress import Report, silent
from statsnet.signatures import packed
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import load_in_mode, signature_path
from statsnet.signatures.mix_request import ANY, MixRequest, Selection
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.workloads.registry import DEFAULT_PRESET
from statsnet.workloads.settings import RUNTIME, Setting, parse_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a mix needs a signature for: a workload in one size, or a user's `file`, which is already a signature."""

    name: str
    selection: Selection = ANY
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done for a member, and why."""

    name: str
    what: Literal["profiled", "skipped", "copied", "failed"]
    why: str


def profiled_signature(
    task: ProfileWorkload,
    counters: str,
    *,
    control: Control = DEFAULT,
    report: Report,
    processes: int = 1,
) -> tuple[Signature, tuple[str, ...]]:
    """A workload's signature, on a GPU with hardware counters; and notes: what was cast, why there are no counters,
    whether the GPU was slowed down. Several `processes` run the step together; on "meta" the first one is counted."""
    if task.device == "meta":
        task, processes = replace(task, processes=processes), 1
    profile = (
        process.run(task, control, report=report)
        if processes == 1
        else run_in_group(task, processes, control, timeout_s=task.group_timeout_s, report=report)
    )
    signature, why = profile.signature, ""
    if counters != "off" and (profile.launches is not None or task.device.startswith("cuda")):
        launches = profile.launches or ()
        signature, why = counted_signature(signature, launches, task, counters, control=control, report=report)
    return signature, (*profile.notes, *([why] if why else []), *_throttling(signature))


def setting_of_profile(text: str, device: str) -> Setting:
    """How a workload's step is to be run while it is profiled. Raises UsageError for a setting that there is not, for
    another runtime, and for any on "meta"."""
    setting = parse_setting(text)
    if device == "meta":
        raise UsageError(
            f"the setting '{text}' was given for counting",
            cause="settings change times alone",
            hint="leave out --setting or --device meta",
        )
    if RUNTIME in setting.in_process:
        raise UsageError(
            f"'{text}' was given for a profile",
            cause="a signature holds torch's operators, and another runtime has its own",
            hint=f"time the model there: statsnet validate PROXY --settings {RUNTIME}=NAME",
        )
    return setting


def _throttling(signature: Signature) -> list[str]:
    """Notes on a GPU that was too hot in every attempt, or held at its power cap."""
    return [
        f"the GPU was throttled ({', '.join(m.gpu.power.throttled)}): cool it, raise its power limit, or lock its "
        "clocks lower, and profile again"
        for m in signature.measurements
        if m.gpu is not None and m.gpu.power.throttled
    ]


def members_of(requests: Iterable[MixRequest]) -> list[Member]:
    """Each workload and file that a mix needs, once. A domain means all its registered workloads.

    Raises UsageError for an unknown name, or for a workload that is asked for in two sizes.
    """
    wanted: dict[str, Member] = {}
    known = workloads.names()
    for request in requests:
        if (path := signature_path(request, known)) is not None:
            wanted[str(path)] = Member(name=str(path), file=path)
            continue
        for name in _names(request):
            sizes = {request.selection, wanted[name].selection if name in wanted else ANY} - {ANY}
            if len(sizes) > 1:
                raise UsageError(
                    f"'{name}' is asked for in two sizes: {' and '.join(sorted(map(str, sizes)))}",
                    cause="a folder of profiles holds one signature of a workload in each mode",
                    hint=f"statsnet profile {name} -o FILE, and name FILE in the mix",
                )
            wanted[name] = Member(name=name, selection=next(iter(sizes), ANY))
    return list(wanted.values())


def members_named(targets: Iterable[str], selection: Selection) -> list[Member]:
    """Each known workload that a name or a shell pattern ("cv/*") stands for, once, in one size.

    Raises UsageError for a pattern that matches none, an unknown name, and a factory of the user's own.
    """
    found: dict[str, Member] = {}
    for target in targets:
        if ":" in target or target.endswith(".py"):
            raise UsageError(
                f"'{target}' is a factory of your own",
                cause="a folder of profiles is read by public names, and a signature holds none of yours",
                hint=f"profile it alone, on this machine: statsnet profile {target} -o FILE",
            )
        for name in workloads.names(target) or [workloads.get(target).full_name]:
            found[name] = Member(name=name, selection=_with_preset(name, selection))
    return list(found.values())


def _with_preset(name: str, selection: Selection) -> Selection:
    """The preset that a workload is built with by default is asked for by its name: another one that a folder holds
    is another size."""
    if selection.preset is None and DEFAULT_PRESET in workloads.get(name).presets:
        return replace(selection, preset=DEFAULT_PRESET)
    return selection


def _names(request: MixRequest) -> list[str]:
    is_domain = request.kind == "domain" or (request.kind is None and request.name in workloads.domains())
    if is_domain:
        return [w.full_name for w in workloads.in_domain(request.name)]
    return [workloads.get(request.name).full_name]


Measure = Callable[[Sequence[Model]], Iterable[Done[Signature]]]
"""Profiles models, here or on a fleet, and tells how each ended as soon as it has."""


def profile_members(
    members: Iterable[Member], mode: str, folder: Path, here: Mapping[str, Any], measure: Measure, *, copies: bool
) -> Iterator[Outcome]:
    """Measure the members that have no signature of the environment `here` in the folder. With `copies`, those that
    ship with StatsNet are copied into it, not measured. If a member fails, the others go on."""
    there, shipped = ProfilesDB(folder), ProfilesDB() if copies else None
    missing: list[_Missing] = []
    for member in members:
        try:
            found = _looked_for(member, mode, there, shipped, here)
        except StatsNetError as error:
            yield Outcome(name=member.name, what="failed", why=str(error))
            continue
        if isinstance(found, Outcome):
            yield found
        else:
            missing.append(found)
    for done in measure([each.model for each in missing]) if missing else ():
        yield _kept(missing[done.index], done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    """What has to be profiled, and where its signature goes."""

    model: Model
    path: Path


def _looked_for(
    member: Member, mode: str, there: ProfilesDB, shipped: ProfilesDB | None, here: Mapping[str, Any]
) -> Outcome | _Missing:
    if member.file is not None:
        load_in_mode(member.file, mode)
        return Outcome(name=member.name, what="skipped", why="it is a signature file")
    if (kept := _found(member, mode, there, here)) is not None:
        return Outcome(name=member.name, what="skipped", why=f"'{there.path}' has its signature ({Selection.of(kept)})")
    path = there.path / slug(here) / f"{member.name}.{mode}.json"
    if packed.is_file(path):
        raise _taken(path, here)
    if shipped is not None and (signature := _found(member, mode, shipped, here)) is not None:
        save_signature(path, signature)
        return Outcome(name=member.name, what="copied", why="StatsNet comes with its signature")
    if not workloads.get(member.name).builtin:
        raise StatsNetError(
            f"'{member.name}' does not ship with StatsNet",
            cause="no signature may hold its name, by which a folder of profiles is read",
            hint=f"statsnet profile {member.name} -o FILE, and name FILE in the mix",
        )
    asked = member.selection
    model = Model(target=member.name, mode=mode, preset=asked.preset, batch=asked.batch, dtype=asked.dtype or "float32")
    return _Missing(model=model, path=path)


def _kept(missing: _Missing, done: Done[Signature]) -> Outcome:
    """Written as soon as it is there: what is on the disk is not measured again, nor replaced where another command was
    first."""
    name = missing.model.target
    if packed.is_file(missing.path):
        return Outcome(name=name, what="skipped", why=f"another command has written '{missing.path}' meanwhile")
    if done.result is None:
        return Outcome(name=name, what="failed", why=str(done.error))
    try:
        save_signature(missing.path, done.result)
    except StatsNetError as error:
        return Outcome(name=name, what="failed", why=str(error))
    return Outcome(name=name, what="profiled", why=str(missing.path))


def _found(member: Member, mode: str, db: ProfilesDB, here: Mapping[str, Any]) -> Signature | None:
    """The member's signature from this environment, in the size asked for."""
    loaded = (entry.load() for entry in db.find(member.name, mode))
    return next(
        (s for s in loaded if member.selection.fits(s) and s.measurement_for(fingerprint(here)) is not None),
        None,
    )


def _taken(path: Path, here: Mapping[str, Any]) -> StatsNetError:
    signature = load_signature(path)
    changed = [line for m in signature.measurements[:1] for line in differences(m.environment, here)]
    why = f"it was measured elsewhere ({', '.join(changed)})" if changed else f"it is {Selection.of(signature)}"
    return StatsNetError(
        f"'{path}' is another signature of this workload",
        cause=why,
        hint="choose another folder with -o, or delete the file",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledSignature:
    """A signature, and sentences for the user."""

    signature: Signature
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProfileErrand(Errand[ProfiledSignature]):
    """Profiles as the task says, beside the reference network with this source (None: beside none); `counters` as in
    profiled_signature."""

    task: ProfileWorkload
    counters: str
    reference_source: str | None = None

    def run(self, report: Report = silent) -> ProfiledSignature:
        with written(self.reference_source) if self.reference_source else nullcontext() as folder:
            task = replace(self.task, reference_network=folder)
            signature, notes = profiled_signature(task, self.counters, report=report)
        return ProfiledSignature(signature=signature, notes=notes)

    def environments(self, result: ProfiledSignature) -> Sequence[Mapping[str, Any]]:
        return [measurement.environment for measurement in result.signature.measurements]
