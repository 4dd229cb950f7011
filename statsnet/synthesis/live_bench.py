"""Measuring on a device that is here. Earlier measurements are taken from the cache."""

from __future__ import annotations

import contextlib
import hashlib
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from statsnet import workloads
from statsnet.environment import fingerprint
from statsnet.errors import DeviceError, MeasurementError, UsageError, WorkloadError
from statsnet.measure.process import run
from statsnet.measure.task import Task
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeNetwork, TimeWorkload
from statsnet.profiling.hardware_counters import by_place, counted_signature, counters_of
from statsnet.profiling.tasks import Profile, ProfileWorkload, ReplayOperators
from statsnet.progress import Progress, silent
from statsnet.signatures.comparison import same_work
from statsnet.signatures.intervals import geometric_mean
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Measurement, Signature
from statsnet.signatures.target import Target, TargetMember
from statsnet.synthesis.bench import BenchSetup, MeasuredBlocks
from statsnet.synthesis.block_measurement import BlockMeasurement
from statsnet.synthesis.block_runs import PROCESSES, fastest_measurements
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.network_measurement import (
    MachineSpeed,
    NetworkMeasurement,
    at_reference_speed_s,
    merge_undisturbed_runs,
    network_measurement,
    scale_times,
)
from statsnet.synthesis.tasks import MeasureBlocks, MeasureIdleStep, NetworkTrace, TraceNetwork

T = TypeVar("T")

RETIMED_S = (4.0, 15.0, 120.0)
"""How long a member's steps are timed again: at least, at most, and for all members together. The more members there
are, the less each one's time matters."""

RETIMED_PROCESSES = 3
"""At least this many for all members together: with only one, its memory placement would decide."""

MOST_DRIFT = 2.0
"""A step that is this many times longer or shorter than when it was profiled must be of another version of the model:
machines were seen to drift by 0.65 to 1.4."""

_NOT_MEASURED = (UsageError, WorkloadError, DeviceError, MeasurementError)
"""A model's library is missing, or there is too little memory: torch says so, or the process is killed."""


@dataclass(frozen=True, slots=True)
class LiveBench:
    """A Bench. Counters are read if they are asked for and the device is a GPU."""

    setup: BenchSetup
    can_time_members: bool = True

    def measure_members(self, mix: Mix) -> tuple[Mix, dict[str, Measurement]]:
        """Members without a measurement in this environment are measured now; with a fresh cache, all members are. If
        their model is at hand, they are profiled, which is the better evidence. If not, and they have no measurement
        from here, their operators are replayed."""
        here = fingerprint(self.setup.environment)
        members = {member.name: member for member in mix.members}
        replayed: dict[str, Measurement] = {}
        foreign = {m.name for m in mix.members if m.signature.measurement_for(here) is None}
        due = [m for m in mix.members if self.setup.cache.ignores_older or m.name in foreign]
        for number, member in enumerate(due, 1):
            what = f"{member.name} on this machine ({number} of {len(due)})"
            if (profiled := self._profile(member, f"profiling {what}")) is not None:
                members[member.name] = replace(member, signature=profiled)
            elif member.name in foreign:
                replayed[member.name] = self._replay(member, f"re-timing {what}")
            self.setup.stages.advance(1 / len(due))
        return replace(mix, members=tuple(members.values())), replayed

    def _profile(self, member: MixMember, stage: str) -> Signature | None:
        """The signature of a member's model in this environment; None if its model is not at hand, or does other work
        than the member's signature says."""
        pinned = member.signature
        if not _at_hand(pinned):
            return None
        task = ProfileWorkload(model=self._model_of(pinned), device=self.setup.device)
        key = self._key(profile=pinned.id)
        try:
            profile = self.setup.cache.remember(key, Profile, lambda: self._run(task, stage))
        except _NOT_MEASURED:
            return None
        fresh = profile.signature
        if not same_work(fresh, pinned):
            return None
        if not self._counts:
            return fresh

        def count() -> tuple[Signature, str]:
            self._say_counting(stage)
            return counted_signature(fresh, profile.launches or (), task, self.setup.counters)

        return self._count_once(self._key(profile=pinned.id, counters=True), Signature, count)

    def _replay(self, member: MixMember, stage: str) -> Measurement:
        task = ReplayOperators(signature=member.signature, device=self.setup.device)
        return self.setup.cache.remember(
            self._key(replay=member.signature.id), Measurement, lambda: self._run(task, stage).measurement
        )

    def retime_members(
        self, target: Target, names: Collection[str], reference_network: str
    ) -> tuple[dict[str, Measurement], MachineSpeed]:
        """A virtual machine's speed changes by a third from one quarter of an hour to the next, and blocks are timed
        at another hour than the profiles. A member is left out if it cannot be timed, or if its model does other work
        than its signature says."""
        due = [m for m in target.members if m.name in names and _at_hand(m.signature)]
        steps = self._time_members(due, reference_network)
        looks = [geometric_mean(s.reference_latency_s) for of_member in steps.values() for s in of_member]
        if not looks:
            return {}, self.machine_speed(reference_network)
        speed = MachineSpeed(reference_network=reference_network, reference_latency_s=median(looks))
        measurements = {}
        for member in due:
            times_s = [at_reference_speed_s(step, speed) for step in steps[member.name]]
            if times_s and 1 / MOST_DRIFT < (factor := median(times_s) / member.latency_s) < MOST_DRIFT:
                measurements[member.name] = scale_times(member.measurement, factor)
        return measurements, speed

    def _time_members(self, due: Sequence[TargetMember], reference_network: str) -> dict[str, list[TimedStep]]:
        """For each member, the processes in which its step took turns with the reference network; none after it
        fails."""
        steps: dict[str, list[TimedStep]] = {m.name: [] for m in due}
        failed: set[str] = set()
        least_s, most_s, shared_s = RETIMED_S
        limits = Limits(max_time_s=min(max(least_s, shared_s / max(len(due), 1)), most_s))
        repeated = [*due] * math.ceil(RETIMED_PROCESSES / max(len(due), 1))
        with written(reference_network) as folder:
            for number, member in enumerate(repeated, 1):
                stage = f"timing {member.name} once more ({number} of {len(repeated)})"
                self.setup.report(Progress(stage=stage))
                model = self._model_of(member.signature)
                task = TimeWorkload(model=model, device=self.setup.device, limits=limits, reference_network=folder)
                try:
                    if member.name not in failed:
                        steps[member.name].append(self._run(task, stage))
                except _NOT_MEASURED:
                    failed.add(member.name)
                self.setup.stages.advance(1 / len(repeated))
        return steps

    def machine_speed(self, reference_network: str) -> MachineSpeed:
        """The machine's speed now, or when this reference network was first timed."""

        def measure() -> float:
            with written(reference_network) as folder:
                task = TimeNetwork(folder=folder, device=self.setup.device)
                return median(self._run(task, "a reference network").timing.latency_s)

        key = self._key(reference_network=_digest(reference_network))
        latency_s = self.setup.cache.remember(key, float, measure)
        return MachineSpeed(reference_network=reference_network, reference_latency_s=latency_s)

    def measure_blocks(self, wanted: Sequence[Candidate], *, counters: bool = False) -> MeasuredBlocks:
        """Candidates that cannot be measured are noted, and tried again the next time: memory may be free then. Raises
        ProcessError if none can be measured."""
        cache = self.setup.cache
        cached = {c.key: cache.get(self._block_key(c), BlockMeasurement) for c in wanted}
        known = {key: measurement for key, measurement in cached.items() if measurement is not None}
        if missing := [c for c in wanted if c.key not in known]:
            measured, faults = fastest_measurements(missing, self._measure_missing)
            known |= measured
            for candidate in missing:
                if candidate.key in measured:
                    cache.put(self._block_key(candidate), measured[candidate.key])
            for fault in faults.values():
                if not known:
                    raise fault
                self.setup.note(f"a block was left out: {fault.message}")
        sound = [(c, known[c.key]) for c in wanted if c.key in known]
        return self._count_blocks(sound) if counters and self._counts else sound

    def _block_key(self, candidate: Candidate) -> str:
        return self._key(candidate=candidate.to_dict())

    def _measure_missing(self, wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
        def begin(number: int) -> None:
            self.setup.stages.advance(1 / (PROCESSES * len(wanted)))
            begun(number)

        return self._run(self._measure_blocks_task(wanted), "blocks", begin)

    def _measure_blocks_task(self, wanted: Sequence[Candidate]) -> MeasureBlocks:
        setup = self.setup
        return MeasureBlocks(
            blocks=tuple(c.placed for c in wanted), mode=setup.mode, dtype=setup.dtype, device=setup.device
        )

    def _count_blocks(self, measured: MeasuredBlocks) -> MeasuredBlocks:
        """The measurements with hardware counters for all operators whose kernels were counted."""
        candidates = [c for c, _ in measured]

        def count() -> tuple[list[BlockMeasurement], str]:
            self._say_counting("blocks")
            task = self._measure_blocks_task(candidates)
            return counted_blocks([m for _, m in measured], task, self.setup.counters)

        key = self._key(counters_of=[self._block_key(c) for c in candidates])
        counted = self._count_once(key, list[BlockMeasurement], count)
        return list(zip(candidates, counted, strict=True))

    def idle_s(self, optimizers: Iterable[str]) -> dict[str, float]:
        """The fastest of several processes."""
        names = sorted(set(optimizers))
        if self.setup.mode != "training" or not names:
            return {}
        task = MeasureIdleStep(optimizers=tuple(names), dtype=self.setup.dtype, device=self.setup.device)

        def measure() -> dict[str, float]:
            runs = [self._run(task, "an idle step") for _ in range(PROCESSES)]
            return {name: min(idle_s[name] for idle_s in runs) for name in runs[0]}

        return self.setup.cache.remember(self._key(idle=names), dict[str, float], measure)

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        """Operators have their median times. Processes that were disturbed (see DISTURBED) are left out."""
        return merge_undisturbed_runs([self._trace_once(source, number, speed) for number in runs])

    def _trace_once(self, source: str, number: int, speed: MachineSpeed) -> NetworkMeasurement:
        """From one process; `number` distinguishes it from the network's others."""

        def measure() -> NetworkTrace:
            with written(source) as folder, written(speed.reference_network) as reference:
                task = TraceNetwork(
                    folder=folder,
                    dtype=self.setup.dtype,
                    device=self.setup.device,
                    reference_network=reference,
                )
                return self._run(task, "whole network")

        reference_digest = _digest(speed.reference_network)
        key = self._key(network=_digest(source), reference_network=reference_digest, run=number)
        return network_measurement(self.setup.cache.remember(key, NetworkTrace, measure), speed)

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        if not self._counts:
            return measurement
        self._say_counting("the proxy")
        with written(source) as folder:
            task = TraceNetwork(folder=folder, dtype=self.setup.dtype, device=self.setup.device)
            signature, why = counted_signature(measurement.signature, measurement.launches, task, self.setup.counters)
        if why:
            self.setup.note(why)
        return replace(measurement, signature=signature)

    def evidence(self, signature: Signature) -> dict[str, float] | None:
        return None

    @property
    def _counts(self) -> bool:
        """Whether hardware counters are asked for and the device is a GPU."""
        return self.setup.counters != "off" and self.setup.device.startswith("cuda")

    def _count_once(self, key: str, kind: type[T], count: Callable[[], tuple[T, str]]) -> T:
        """The counted result, from the cache if it is there. If there are no counters, the reason is noted and not
        cached: a permission may be given, or a tool installed, before the next time."""
        cached = self.setup.cache.get(key, kind)
        if cached is not None:
            return cached
        counted, why = count()
        if why:
            self.setup.note(why)
        else:
            self.setup.cache.put(key, counted)
        return counted

    def _say_counting(self, stage: str) -> None:
        self.setup.report(Progress(stage=f"{stage}: counting (each kernel runs several times)"))

    def _run(self, task: Task[T], stage: str, begun: Callable[[int], None] = silent) -> T:
        """A task's result. `begun` is told the index of each block as it begins."""

        def report(progress: Progress) -> None:
            self.setup.report(replace(progress, stage=f"{stage}: {progress.stage}"))

        return run(task, report=report, begun=begun)

    def _key(self, **parts: Any) -> str:
        setup = self.setup
        where = {"mode": setup.mode, "dtype": setup.dtype, "device": setup.device}
        return setup.cache.key(environment=fingerprint(setup.environment), **where, **parts)

    def _model_of(self, signature: Signature) -> Model:
        assert signature.workload is not None
        return Model(
            target=signature.name or "",
            mode=self.setup.mode,
            preset=signature.workload.preset or None,
            batch=signature.batch,
            dtype=self.setup.dtype,
            optimizer=signature.optimizer if signature.optimizer != "custom" else None,
        )


def counted_blocks(
    measured: Sequence[BlockMeasurement], task: MeasureBlocks, how: str
) -> tuple[list[BlockMeasurement], str]:
    """The measurements with `counters` for all operators whose kernels were counted; and, if there are none, why."""
    launches = []
    begins = [0]
    for block in measured:
        for launch in block.launches or ():
            place = None if launch.cluster is None else begins[-1] + launch.cluster
            launches.append(replace(launch, cluster=place))
        begins.append(begins[-1] + sum(len(part.operators) for part in block.parts))
    counters, why = counters_of(task, launches, begins[-1], how)
    values = iter(by_place(counters, begins[-1]))
    counted = []
    for block in measured:
        own, stepped = (
            replace(part, operators=tuple(replace(row, counters=next(values)) for row in part.operators))
            for part in block.parts
        )
        counted.append(replace(block, block=own, optimizer=stepped))
    return counted, why


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


@contextlib.contextmanager
def written(source: str) -> Iterator[str]:
    """A temporary folder with this network."""
    with tempfile.TemporaryDirectory(prefix="statsnet-") as folder:
        Path(folder, "network.py").write_text(source, encoding="utf-8")
        yield folder


def _at_hand(signature: Signature) -> bool:
    """Whether its model can be built here by its name."""
    return signature.workload is not None and signature.name in workloads.names()
