"""A mix's members on a device that is here: profiled, or replayed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from statsnet.environment import fingerprint
from statsnet.profiling.hardware_counters import counted_signature
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.progress import Progress
from statsnet.signatures.comparison import same_work
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench.bench import BenchSetup, Kept
from statsnet.synthesis.bench.disturbances import PROFILE_USELESS, PROFILED_AGAIN
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.bench.retimed_members import NOT_MEASURED, at_hand, model_of, why

PROFILED_S = (0.4, 2.0)
"""How long a member's steps are profiled, at least and at most. The smaller its share of the mix, the less its time
matters."""

LARGE_SHARE, FEW_REPEATS, MANY_REPEATS = 0.1, 3, 5
"""A member with this share of the mix is profiled in many steps at least, others in few. With only two, nobody could
tell which one was disturbed."""

FEW_NAMES = 3
"""Operators that a message names at most."""


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """Measures members at one speed of the machine."""

    setup: BenchSetup
    speed: MachineSpeed

    def measure(self, mix: Mix) -> tuple[Mix, dict[str, Measurement]]:
        """Members without a measurement in this environment are measured now; with a fresh cache, all members are. If
        their model is at hand, they are profiled, which is the better evidence. If not, and they have no measurement
        from here, their operators are replayed."""
        here = fingerprint(self.setup.environment)
        members = {member.name: member for member in mix.members}
        replayed: dict[str, Measurement] = {}
        foreign = {m.name for m in mix.members if m.signature.measurement_for(here) is None}
        due = [m for m in mix.members if self.setup.cache.ignores_older or m.name in foreign]
        profiles: dict[str, Profile] = {}
        unknown = [m for m in due if at_hand(m.signature) and self._kept(m, False) is None]
        with self.speed.network_folder() as reference:
            self.setup.measure_ahead(self._profiling(m, reference, f"profiling {m.name}", False) for m in unknown)
        for number, member in enumerate(due, 1):
            what = f"{member.name} ({number} of {len(due)})"
            self.setup.report(Progress(stage=f"profiling {what}"))
            if (profiled := self._profile(member, f"profiling {what}")) is not None:
                profiles[member.name] = profiled
            elif member.name in foreign:
                replayed[member.name] = self._replay(member.signature, f"re-timing {what}")
            self.setup.stages.advance(1 / len(due))
        for name, profile in self._without_disturbed(members, profiles).items():
            members[name] = replace(members[name], signature=self._signature_of(members[name], profile))
        return replace(mix, members=tuple(members.values())), replayed

    def _without_disturbed(
        self, members: Mapping[str, MixMember], profiles: Mapping[str, Profile]
    ) -> Mapping[str, Profile]:
        """The profiles; those of disturbed moments made once more. Neighbours slow a model down otherwise than the
        reference network, so bringing such a profile to another speed does not make it right."""
        if self.speed.is_steady or not profiles:
            return profiles
        best_s = min(self.speed.reference_latency_s, *(_reference_s(p) for p in profiles.values()))
        better = dict(profiles)
        for name in [n for n, p in profiles.items() if _disturbed(p, best_s) > PROFILED_AGAIN]:
            again = None
            if not self.setup.deadline.passed:
                again = self._profile(members[name], f"profiling {name} once more", again=True)
                if again is not None and _disturbed(again, best_s) < _disturbed(better[name], best_s):
                    better[name] = again
            if (slower := _disturbed(better[name], best_s)) > PROFILED_AGAIN:
                self.setup.note(_told(name, better[name], slower, "two profiles" if again else "its profile"))
        return better

    def _profile(self, member: MixMember, stage: str, *, again: bool = False) -> Profile | None:
        """The profile of a member's model in this environment, or a second one; None if its model is not at hand, or
        does other work than the member's signature says."""
        pinned = member.signature
        if not at_hand(pinned):
            return None
        try:
            profile = self._kept(member, again) or self._measured(member, stage, again)
            if not same_work(profile.signature, pinned) and self._known(pinned):  # its steps may not be as they were
                profile = self._measured(member, stage, again, looks_again=True)
        except NOT_MEASURED as error:
            self._tell_not_profiled(member, why(error), again)
            return None
        if same_work(profile.signature, pinned):
            return profile
        self._tell_not_profiled(member, "its model does other work than its signature says", again)
        return None

    def _tell_not_profiled(self, member: MixMember, reason: str, again: bool) -> None:
        """Nothing of a second profile: the first one is used."""
        if not again:
            is_foreign = member.signature.measurement_for(fingerprint(self.setup.environment)) is None
            instead = "its operators are replayed" if is_foreign else "the times of its signature stay"
            self.setup.note(f"{member.name} was not profiled, so {instead}: {reason}")

    def _known(self, signature: Signature) -> Signature | None:
        """The signature, if it says of the same kind of device what a step does, exactly."""
        kinds = {m.environment["device"] for m in signature.measurements}
        varies = any(m.variation for m in signature.measurements)
        is_known = signature.level == "full" and self.setup.environment["device"] in kinds and not varies
        return signature if is_known else None

    def _kept(self, member: MixMember, again: bool) -> Profile | None:
        """A profile of this member from an earlier mix, in as many steps as its share of this one asks for, or more."""
        enough = [n for n in (FEW_REPEATS, MANY_REPEATS) if n >= _repeats(member)]
        found = (self.setup.cache.get(self._profile_key(member, n, again), Profile) for n in enough)
        usable = (p for p in found if p is not None and self._has_use_for(p))
        return next(usable, None)

    def _measured(self, member: MixMember, stage: str, again: bool, looks_again: bool = False) -> Profile:
        with self.speed.network_folder() as reference:
            kept = self._profiling(member, reference, stage, again)
            if looks_again:
                key = self._profile_key(member, _repeats(member), again, named="profile_without_known")
                kept = replace(kept, key=key, task=replace(self._profile_task(member, reference), known=None))
            return self.setup.remember(kept)

    def _profiling(self, member: MixMember, reference: str | None, stage: str, again: bool) -> Kept[Profile]:
        key, task = self._profile_key(member, _repeats(member), again), self._profile_task(member, reference)
        return Kept(key=key, kind=Profile, task=task, stage=stage, is_usable=self._has_use_for)

    def _has_use_for(self, profile: Profile) -> bool:
        return self.speed.has_use_for(profile) and (self.speed.is_steady or _explained(profile) < PROFILE_USELESS)

    def _profile_task(self, member: MixMember, reference: str | None) -> ProfileWorkload:
        least_s, most_s = PROFILED_S
        return ProfileWorkload(
            model=model_of(member.signature, self.setup.mode),
            device=self.setup.device,
            min_time_s=min(max(least_s, self.setup.effort.profiled_s * member.weight), most_s),
            repeats=_repeats(member),
            reference_network=reference,
            known=self._known(member.signature),
        )

    def _profile_key(self, member: MixMember, repeats: int, again: bool, named: str = "profile") -> str:
        measured = {named: member.signature.id, "profiled_s": self.setup.effort.profiled_s, "again": again}
        return self.setup.key(**measured, repeats=repeats, reference_network=self.speed.reference_id)

    def _signature_of(self, member: MixMember, profile: Profile) -> Signature:
        """The profile's signature at this speed, on a GPU with its counters."""
        setup, fresh = self.setup, self._at_speed(profile)
        if not setup.counts:
            return fresh
        stage = f"profiling {member.name}"

        def count() -> tuple[Signature, str]:
            setup.say_counting(stage)
            task = self._profile_task(member, None)
            return counted_signature(fresh, profile.launches or (), task, setup.counters)

        return setup.count_once(
            setup.key(counters_of=member.signature.id, measured_s=fresh.measurements[0].latency_s), Signature, count
        )

    def _at_speed(self, profile: Profile) -> Signature:
        """The signature, with its times at this speed."""
        measurements = tuple(
            self.speed.at_this_speed(m, profile.reference_latency_s) for m in profile.signature.measurements
        )
        return replace(profile.signature, measurements=measurements)

    def _replay(self, signature: Signature, stage: str) -> Measurement:
        setup = self.setup
        with self.speed.network_folder() as reference:
            task = ReplayOperators(signature=signature, device=setup.device, reference_network=reference)
            key = setup.key(replay=signature.id, reference_network=self.speed.reference_id)
            usable = self._has_use_for_replay
            replayed = setup.remember(Kept(key=key, kind=Replayed, task=task, stage=stage, is_usable=usable))
        self._tell_failures(signature, replayed)
        return self.speed.at_this_speed(replayed.measurement, replayed.reference_latency_s)

    def _has_use_for_replay(self, kept: Replayed) -> bool:
        return self.speed.has_use_for(kept) and not kept.lacked_memory

    def _tell_failures(self, signature: Signature, replayed: Replayed) -> None:
        """Their times are those of the signature's own device, times how much longer the others take here."""
        failed = {op for op, _ in replayed.failures}
        named = ", ".join(sorted(failed)[:FEW_NAMES])
        times = zip(signature.clusters, replayed.measurement.cluster_time_s, strict=True)
        guessed_s = math.fsum(time_s or 0.0 for c, time_s in times if c.op in failed)
        if guessed_s > 0:
            share = guessed_s / replayed.measurement.operator_time_s
            self.setup.note(
                f"{share:.1%} of the time of a member's operators is an estimate from the device that it was measured "
                f"on: {named} cannot be run here"
            )
        elif failed:
            self.setup.note(f"operators of a member cannot be run here, and their times are not known: {named}")


def _repeats(member: MixMember) -> int:
    return MANY_REPEATS if member.weight >= LARGE_SHARE else FEW_REPEATS


def _reference_s(profile: Profile) -> float:
    assert profile.reference_latency_s is not None
    return profile.reference_latency_s


def _disturbed(profile: Profile, best_s: float) -> float:
    """How many times as long as at its best the reference network took, or as its step what the step consists of; the
    larger."""
    return max(_reference_s(profile) / best_s, _explained(profile))


def _told(name: str, profile: Profile, slower: float, looked_at: str) -> str:
    if _explained(profile) < slower:
        what = f"the reference network took {slower:.1f} times as long as at its best"
        return f"{name} was profiled on a disturbed machine: {what}"
    return (
        f"the operators of {name} and the time between them add up to {slower:.1f} times its step, in {looked_at}: "
        "other programs are busy, or recording takes long beside so short a step"
    )


def _explained(profile: Profile) -> float:
    return max(m.explained_share for m in profile.signature.measurements)
