"""A mix's members on a device that is here: profiled, replayed, or their steps timed again."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from statsnet import workloads
from statsnet.environment import fingerprint
from statsnet.errors import DeviceError, MeasurementError, UsageError, WorkloadError
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeWorkload
from statsnet.profiling.hardware_counters import counted_signature
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.progress import Progress
from statsnet.signatures.comparison import same_work
from statsnet.signatures.intervals import geometric_mean
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, TargetMember
from statsnet.synthesis.bench import BenchSetup, Kept
from statsnet.synthesis.machine_speed import MachineSpeed, reference_work
from statsnet.synthesis.worth_timing import time_of_each_s, worth_timing

PROFILED_S = (0.4, 2.0)
"""How long a member's steps are profiled, at least and at most. The smaller its share of the mix, the less its time
matters."""

LARGE_SHARE, FEW_REPEATS, MANY_REPEATS = 0.1, 3, 5
"""A member with this share of the mix is profiled in many steps at least, others in few. With only two, nobody could
tell which one was disturbed."""

RETIMED_PROCESSES = 3
"""At least this many for all members together: with only one, its memory placement would decide."""

DEADLINE_SHARE = 1 / 4
"""Of the time that is left, at most this much goes to timing members again."""

FEW_NAMES = 3
"""Operators that a message names at most."""

DISTURBED = 1.5
"""A member is profiled once more if the reference network took this many times as long meanwhile as at its best."""

MOST_DRIFT = 2.0
"""A step that is this many times longer or shorter than when it was profiled must be of another version of the model:
machines were seen to drift by 0.65 to 1.4."""

_NOT_MEASURED = (UsageError, WorkloadError, DeviceError, MeasurementError)
"""A model's library is missing, or there is too little memory: torch says so, or the process is killed."""


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
        at_hand = [m for m in due if _at_hand(m.signature) and self._kept(m, False) is None]
        with self.speed.network_folder() as reference:
            self.setup.measure_ahead(self._profiling(m, reference, f"profiling {m.name}", False) for m in at_hand)
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
        for name in [n for n, p in profiles.items() if _reference_s(p) > DISTURBED * best_s]:
            if self.setup.deadline.passed:
                break
            again = self._profile(members[name], f"profiling {name} once more", again=True)
            if again is not None and _reference_s(again) < _reference_s(better[name]):
                better[name] = again
            if (slower := _reference_s(better[name]) / best_s) > DISTURBED:
                self.setup.note(
                    f"{name} was profiled on a disturbed machine: the reference network took {slower:.1f} times as "
                    "long as at its best"
                )
        return better

    def _profile(self, member: MixMember, stage: str, *, again: bool = False) -> Profile | None:
        """The profile of a member's model in this environment, or a second one; None if its model is not at hand, or
        does other work than the member's signature says."""
        pinned = member.signature
        if not _at_hand(pinned):
            return None
        try:
            profile = self._kept(member, again) or self._measured(member, stage, again)
        except _NOT_MEASURED:
            return None
        return profile if same_work(profile.signature, pinned) else None

    def _kept(self, member: MixMember, again: bool) -> Profile | None:
        """A profile of this member from an earlier mix, in as many steps as its share of this one asks for, or more."""
        enough = [n for n in (FEW_REPEATS, MANY_REPEATS) if n >= _repeats(member)]
        found = (self.setup.cache.get(self._profile_key(member, n, again), Profile) for n in enough)
        usable = (p for p in found if p is not None and self.speed.has_use_for(p))
        return next(usable, None)

    def _measured(self, member: MixMember, stage: str, again: bool) -> Profile:
        with self.speed.network_folder() as reference:
            return self.setup.remember(self._profiling(member, reference, stage, again))

    def _profiling(self, member: MixMember, reference: str | None, stage: str, again: bool) -> Kept[Profile]:
        key, task = self._profile_key(member, _repeats(member), again), self._profile_task(member, reference)
        return Kept(key=key, kind=Profile, task=task, stage=stage, is_usable=self.speed.has_use_for)

    def _profile_task(self, member: MixMember, reference: str | None) -> ProfileWorkload:
        least_s, most_s = PROFILED_S
        return ProfileWorkload(
            model=self._model_of(member.signature),
            device=self.setup.device,
            min_time_s=min(max(least_s, self.setup.effort.profiled_s * member.weight), most_s),
            repeats=_repeats(member),
            reference_network=reference,
        )

    def _profile_key(self, member: MixMember, repeats: int, again: bool) -> str:
        measured = {"profile": member.signature.id, "profiled_s": self.setup.effort.profiled_s, "again": again}
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
        measurements = tuple(self._scaled(m, profile.reference_latency_s) for m in profile.signature.measurements)
        return replace(profile.signature, measurements=measurements)

    def _replay(self, signature: Signature, stage: str) -> Measurement:
        setup = self.setup
        with self.speed.network_folder() as reference:
            task = ReplayOperators(signature=signature, device=setup.device, reference_network=reference)
            key, usable = (
                setup.key(replay=signature.id, reference_network=self.speed.reference_id),
                self.speed.has_use_for,
            )
            replayed = setup.remember(Kept(key=key, kind=Replayed, task=task, stage=stage, is_usable=usable))
        self._tell_failures(signature, replayed)
        return self._scaled(replayed.measurement, replayed.reference_latency_s)

    def _tell_failures(self, signature: Signature, replayed: Replayed) -> None:
        """Their times are those of the signature's own device, times how much longer the others take here."""
        failed = {op for op, _ in replayed.failures}
        times = zip(signature.clusters, replayed.measurement.cluster_time_s, strict=True)
        guessed_s = math.fsum(time_s or 0.0 for c, time_s in times if c.op in failed)
        if guessed_s > 0:
            share = guessed_s / replayed.measurement.operator_time_s
            self.setup.note(
                f"{share:.1%} of the time of a member's operators is an estimate from the device that it was measured "
                f"on: {', '.join(sorted(failed)[:FEW_NAMES])} cannot be run here"
            )

    def _scaled(self, measurement: Measurement, reference_latency_s: float | None) -> Measurement:
        """From a process in which the reference network took this long."""
        return measurement.scale_times(1 / self.speed.drift(reference_latency_s))

    def time_again(self, target: Target, names: Collection[str]) -> dict[str, Measurement]:
        """The measurements of the named members at this speed. Of those whose models are not at hand, only the ones
        that were profiled beside the reference network.

        A virtual machine's speed changes by a third from one quarter of an hour to the next, so that a profile's times
        are of another speed. It changes much alike for all members. So with many members only some are timed, and the
        others' times change as those did. A member is left out if it cannot be timed, or if its model does other work
        than its signature says.
        """
        named = sorted((m for m in target.members if m.name in names), key=lambda m: -m.weight)
        apart = {m.name: again for m in named if not _at_hand(m.signature) and (again := self._pace_of(m))}
        return {**self._timed_again(target, names), **apart}

    def _pace_of(self, member: TargetMember) -> Measurement | None:
        """The member's own measurement at this speed; None if it was not profiled beside the reference network, or
        while others slowed that down, which they do not do to all work by the same factor.

        Its operators alone do not tell the speed: they take 0.9 to 1.6 times as long as in the step.
        """
        if self.speed.is_steady:
            return None
        recorded = member.measurement
        work = reference_work(self.setup.mode, self.setup.dtype)
        if recorded.reference is None or recorded.reference.network != work:
            self.setup.note(
                f"{member.name} was not profiled beside this version's reference network, so its times may be of "
                "another speed of the machine. Profile it again with this version"
            )
            return None
        if self.speed.spoils(recorded.reference.latency_s):
            slower = self.speed.drift(recorded.reference.latency_s)
            self.setup.note(
                f"{member.name} was profiled on a disturbed machine: the reference network took {slower:.1f} times as "
                "long as now. Profile it again while nothing else runs"
            )
            return None
        return self._scaled(recorded, recorded.reference.latency_s)

    def _timed_again(self, target: Target, names: Collection[str]) -> dict[str, Measurement]:
        due = [m for m in target.members if m.name in names and _at_hand(m.signature)]
        steps = self._time(chosen := list(worth_timing(due, self._retimed_s())))
        factors: dict[str, float] = {}
        for member in chosen:
            times_s = [self.speed.at_this_speed_s(step) for step in steps[member.name]]
            if times_s and 1 / MOST_DRIFT < (factor := median(times_s) / member.latency_s) < MOST_DRIFT:
                factors[member.name] = factor
        if not factors:
            return {}
        usual = geometric_mean(list(factors.values()))
        timed = {m.name for m in chosen}
        return {
            m.name: m.measurement.scale_times(factors.get(m.name, usual))
            for m in due
            if m.name in factors or m.name not in timed
        }

    def _time(self, due: Sequence[TargetMember]) -> dict[str, list[TimedStep]]:
        """For each member, the processes in which its step took turns with the reference network; none after it
        fails."""
        steps: dict[str, list[TimedStep]] = {m.name: [] for m in due}
        failed: set[str] = set()
        rounds = math.ceil(RETIMED_PROCESSES / max(len(due), 1))
        repeated = [(member, number) for number in range(rounds) for member in due]
        with self.speed.network_folder() as folder:
            if self._has_all_time():
                self.setup.measure_ahead(self._timing(member, run, len(due), folder) for member, run in repeated)
            for number, (member, run) in enumerate(repeated, 1):
                stage = f"timing {member.name} once more ({number} of {len(repeated)})"
                self.setup.report(Progress(stage=stage))
                in_time = not self.setup.deadline.passed or not any(steps.values())
                if member.name not in failed and in_time:
                    try:
                        steps[member.name].append(self._time_once(self._timing(member, run, len(due), folder), stage))
                    except _NOT_MEASURED:
                        failed.add(member.name)
                self.setup.stages.advance(1 / len(repeated))
        return steps

    def _retimed_s(self) -> float:
        return min(self.setup.effort.retimed_s, DEADLINE_SHARE * self.setup.deadline.left_s)

    def _has_all_time(self) -> bool:
        """Else another command may have the time that this one lacks, so that nothing is kept."""
        return self._retimed_s() >= self.setup.effort.retimed_s

    def _time_once(self, timing: Kept[TimedStep], stage: str) -> TimedStep:
        return self.setup.remember(timing) if self._has_all_time() else self.setup.run(timing.task, stage)

    def _timing(self, member: TargetMember, run: int, members: int, reference: str | None) -> Kept[TimedStep]:
        """A process that times the step of one of so many members."""
        setup = self.setup
        timed = {"timed": member.signature.id, "run": run, "retimed_s": setup.effort.retimed_s}
        task = TimeWorkload(
            model=self._model_of(member.signature),
            device=setup.device,
            limits=Limits(max_time_s=time_of_each_s(self._retimed_s(), members)),
            reference_network=reference,
        )
        return Kept(
            key=setup.key(**timed, reference_network=self.speed.reference_id),
            kind=TimedStep,
            task=task,
            stage=f"timing {member.name} once more",
            is_usable=lambda kept: not self.speed.spoils(median(kept.reference_latency_s)),
        )

    def _model_of(self, signature: Signature) -> Model:
        assert signature.workload is not None
        return Model(
            target=signature.name or "",
            mode=self.setup.mode,
            preset=signature.workload.preset or None,
            batch=signature.batch,
            dtype=signature.dtype,
            optimizer=signature.optimizer if signature.optimizer != "custom" else None,
        )


def _repeats(member: MixMember) -> int:
    return MANY_REPEATS if member.weight >= LARGE_SHARE else FEW_REPEATS


def _reference_s(profile: Profile) -> float:
    assert profile.reference_latency_s is not None
    return profile.reference_latency_s


def _at_hand(signature: Signature) -> bool:
    """Whether its model can be built here by its name."""
    return signature.workload is not None and signature.name in workloads.names()
