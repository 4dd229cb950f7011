"""A mix's members whose steps are timed again, at the speed that the machine has now."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from statsnet import workloads
from statsnet.errors import DeviceError, MeasurementError, StatsNetError, UsageError, WorkloadError
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeWorkload
from statsnet.progress import Progress, silent
from statsnet.signatures.intervals import geometric_mean
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, TargetMember
from statsnet.synthesis.bench.bench import BenchSetup, Kept
from statsnet.synthesis.bench.machine_speed import MachineSpeed, reference_work
from statsnet.units import plural
from statsnet.workloads.optimizers import SETTINGS

RETIMED_PROCESSES = 3
"""About this many for all members together: with only one for a single member, its memory placement would decide."""

DEADLINE_SHARE = 1 / 4
"""Of the time that is left, at most this much goes to timing members again."""

MOST_DRIFT = 2.0
"""A step that is this many times longer or shorter than when it was profiled must be of another version of the model:
machines were seen to drift by 0.65 to 1.4."""

NOT_MEASURED = (UsageError, WorkloadError, DeviceError, MeasurementError)
"""A model's library is missing, or there is too little memory: torch says so, or the process is killed."""


def why(error: StatsNetError) -> str:
    """For a note on a member that could not be measured."""
    return ": ".join(filter(None, (error.message, error.cause)))


def at_hand(signature: Signature) -> bool:
    """Whether its model can be built here by its name."""
    return signature.workload is not None and signature.name in workloads.names()


def model_of(signature: Signature, mode: str) -> Model:
    """What is built to run a member that is at hand."""
    assert signature.workload is not None
    return Model(
        target=signature.name or "",
        mode=mode,
        preset=signature.workload.preset or None,
        batch=signature.batch,
        dtype=signature.dtype,
        optimizer=signature.optimizer if signature.optimizer in SETTINGS else None,
    )


@dataclass(frozen=True, slots=True)
class RetimedMembers:
    """Times members at one speed of the machine."""

    setup: BenchSetup
    speed: MachineSpeed

    def measure(self, target: Target, names: Collection[str]) -> dict[str, Measurement]:
        """The measurements of the named members at this speed. Of those whose models are not at hand, only the ones
        that were profiled beside the reference network.

        A virtual machine's speed changes by a third from one quarter of an hour to the next, so that a profile's times
        are of another speed. It changes much alike for members of one domain. So with many members only some of
        each domain are timed, and the others' times change as theirs did. A member that cannot be timed, or whose model
        does other work than its signature says, keeps its signature's times, at this speed if that can be told; if none
        can be timed, so do those that would follow. Notes name those that could not be timed, and count the
        others whose times stay as they are.
        """
        named = sorted((m for m in target.members if m.name in names), key=lambda m: -m.weight)
        timed, reasons = self._timed_again([m for m in named if at_hand(m.signature)])
        left = [m for m in named if m.name not in timed]
        apart = {m.name: again for m in left if (again := self._pace_of(m))}
        for name, reason in reasons.items():
            speed = ", at the speed that the reference network tells" if name in apart else ""
            self.setup.note(f"{name} keeps the times of its signature{speed}: {reason}")
        if others := sum(at_hand(m.signature) for m in left if m.name not in reasons and m.name not in apart):
            self.setup.note(
                f"the times of {plural(others, 'other member')} stay those of their signatures: they would follow "
                "members that could not be timed"
            )
        return {**timed, **apart}

    def _pace_of(self, member: TargetMember) -> Measurement | None:
        """The member's own measurement at this speed; None if it was not profiled beside the reference network, or
        while others slowed that down, which they do not do to all work by the same factor. A note says so of members
        that are not at hand; of the others another one tells why they could not be timed.

        Its operators alone do not tell the speed: they take 0.9 to 1.6 times as long as in the step.
        """
        if self.speed.is_steady:
            return None
        note = silent if at_hand(member.signature) else self.setup.note
        recorded = member.measurement
        work = reference_work(self.setup.mode, self.setup.dtype)
        if recorded.reference is None or recorded.reference.network != work:
            note(
                f"{member.name} was not profiled beside this version's reference network, so its times may be of "
                "another speed of the machine. Profile it again with this version"
            )
            return None
        if self.speed.spoils(recorded.reference.latency_s):
            slower = self.speed.drift(recorded.reference.latency_s)
            note(
                f"{member.name} was profiled on a disturbed machine: the reference network took {slower:.1f} times as "
                "long as now. Profile it again while nothing else runs"
            )
            return None
        return self.speed.at_this_speed(recorded, recorded.reference.latency_s)

    def _timed_again(self, due: Sequence[TargetMember]) -> tuple[dict[str, Measurement], dict[str, str]]:
        """Members at this speed; and, by name, why others that were to be timed are not."""
        steps, failed = self._time(chosen := self._chosen(due))
        factors: dict[str, float] = {}
        reasons: dict[str, str] = {}
        for member in chosen:
            times_s = [self.speed.at_this_speed_s(step) for step in steps[member.name]]
            factor = median(times_s) / member.latency_s if times_s else math.nan
            if 1 / MOST_DRIFT < factor < MOST_DRIFT:
                factors[member.name] = factor
                continue
            reasons[member.name] = failed.get(member.name, "there was no time left to time it")
            if times_s:
                reasons[member.name] = (
                    f"its step takes {factor:.3g} times as long as when it was profiled. Either its model does other "
                    "work now, or the machine did then: profile it again"
                )
        times = {
            m.name: m.measurement.scale_times(factors.get(m.name) or _usual(m, chosen, factors))
            for m in due
            if factors and m.name not in reasons
        }
        return times, reasons

    def _chosen(self, due: Sequence[TargetMember]) -> list[TargetMember]:
        """Those that were timed for an earlier mix. If they have less of a domain's weight than would be timed of it
        without them, those that would be, too."""
        kept = {m.name: m for m in due if self._has_all_time() and self._is_kept(m)}
        chosen = list(worth_timing(due, self._retimed_s()))
        wanted, of_kept = _weights(chosen), _weights(kept.values())
        return [*kept.values(), *(m for m in chosen if m.name not in kept and of_kept[_domain(m)] < wanted[_domain(m)])]

    def _is_kept(self, member: TargetMember) -> bool:
        timing = self._timing(member, 0, 1, None)
        step = self.setup.cache.get(timing.key, TimedStep)
        return step is not None and timing.is_usable(step)

    def _time(self, due: Sequence[TargetMember]) -> tuple[dict[str, list[TimedStep]], dict[str, str]]:
        """For each member, the processes in which its step took turns with the reference network; none after it
        fails. And why members fail."""
        steps: dict[str, list[TimedStep]] = {m.name: [] for m in due}
        failed: dict[str, str] = {}
        rounds = max(1, RETIMED_PROCESSES // max(len(due), 1))
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
                    except NOT_MEASURED as error:
                        failed[member.name] = why(error)
                self.setup.stages.advance(1 / len(repeated))
        return steps, failed

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
            model=model_of(member.signature, setup.mode),
            device=setup.device,
            limits=Limits(max_time_s=time_of_each_s(self._retimed_s(), members)),
            reference_network=reference,
        )
        return Kept(
            key=setup.key(**timed, reference_network=self.speed.reference_id),
            kind=TimedStep,
            task=task,
            stage=f"timing {member.name} once more",
            is_usable=self._has_use_for,
        )

    def _has_use_for(self, kept: TimedStep) -> bool:
        """On a steady device a step is timed without the reference network."""
        return self.speed.is_steady or not self.speed.spoils(median(kept.reference_latency_s))


MOST_OF_TIME = 1 / 2
"""Of the time for all members, what one counts for at most."""

RETIMED_S = (1.2, 3.0)
"""How long a member's steps are timed again in a process, at least and at most."""

TIMED_SHARE = 1 / 3
"""Of what timing members again takes; the rest goes to processes and models."""

START_S, BUILT_BYTES_PER_S, STEPS = 1.0, 5e8, 5
"""What timing a member takes in all: its process and the reference network, making its weights, and so many steps at
least."""


def _usual(member: TargetMember, chosen: Iterable[TargetMember], factors: Mapping[str, float]) -> float:
    """By what the times of members of its domain changed; if none of them could be timed, of all."""
    alike = [factors[m.name] for m in chosen if m.name in factors and _domain(m) == _domain(member)]
    return geometric_mean(alike or list(factors.values()))


def worth_timing(members: Sequence[TargetMember], left_s: float) -> Iterator[TargetMember]:
    """Those that can be timed within this time together, in the order of `_by_promise`. The first one is timed in any
    case, and counts for MOST_OF_TIME at most: where it is a large model, others are not left out for it."""
    timed_s, most_s = time_of_each_s(left_s, len(members)), MOST_OF_TIME * left_s
    for number, member in enumerate(_by_promise(members)):
        expected_s = _expected_s(member, timed_s)
        if number and expected_s > left_s:
            continue
        left_s -= min(expected_s, most_s)
        yield member


def _by_promise(members: Sequence[TargetMember]) -> list[TargetMember]:
    """First from the domain of which the smallest share is chosen so far, so that each is known by some; within a
    domain by weight, then the quickest first."""
    waiting: dict[str, list[TargetMember]] = defaultdict(list)
    for member in sorted(members, key=lambda m: (m.weight, -m.latency_s, m.name)):
        waiting[_domain(member)].append(member)
    weights, known = _weights(members), dict.fromkeys(waiting, 0.0)
    chosen: list[TargetMember] = []
    while left := [domain for domain, own in waiting.items() if own]:
        domain = min(left, key=lambda d: (known[d] / weights[d], -weights[d]))
        member = waiting[domain].pop()
        known[domain] += member.weight
        chosen.append(member)
    return chosen


def _weights(members: Iterable[TargetMember]) -> defaultdict[str, float]:
    """By domain."""
    weights: defaultdict[str, float] = defaultdict(float)
    for member in members:
        weights[_domain(member)] += member.weight
    return weights


def _domain(member: TargetMember) -> str:
    return member.signature.workload.domain if member.signature.workload else ""


def _expected_s(member: TargetMember, timed_s: float) -> float:
    building_s = (member.signature.memory.parameter_bytes or 0) / BUILT_BYTES_PER_S
    return START_S + building_s + max(timed_s, STEPS * member.latency_s)


def time_of_each_s(retimed_s: float, count: int) -> float:
    """How long each of so many members is timed, in `retimed_s` for all."""
    least_s, most_s = RETIMED_S
    return min(max(least_s, TIMED_SHARE * retimed_s / max(count, 1)), most_s)
