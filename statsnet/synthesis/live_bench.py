"""Measurements that synthesis needs, from the cache where they are there."""

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
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run_job
from statsnet.profiling.hardware_counters import counted_signature
from statsnet.signatures.intervals import geometric_mean
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Measurement, Signature
from statsnet.signatures.target import Target, TargetMember
from statsnet.synthesis.block_runs import PROCESSES, fastest_columns
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.counted import counted_columns
from statsnet.synthesis.network_measurement import (
    MachineSpeed,
    NetworkMeasurement,
    at_reference_speed_s,
    merge_undisturbed_runs,
    network_measurement,
    scale_times,
)

Report = Callable[[str, float], None]
T = TypeVar("T")

ROUND_PROCESSES = 3
"""One process is one sample, and samples of one network differ by several percent; of three, one that was disturbed is
outvoted."""

RETIMED_S = (4.0, 15.0, 120.0)
"""How long a member's steps are timed once more: at least, at most, and what all members share. The more members, the
less each of their times counts."""

RETIMED_PROCESSES = 3
"""For all members together, at least: where one process decided, so would its memory's layout."""

MOST_DRIFT = 2.0
"""A step that takes so much longer or shorter than when it was profiled is that of another version of the model:
machines were seen to drift by 0.65 to 1.4."""

SAME_WORK = 0.01
"""A model whose FLOPs differ from its signature's by more than this share is another version of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where and how measurements are made: the environment record, mode, dtype and device of the proxy; and, of a GPU,
    whether hardware counters are among them (gpu.COUNTING). `note` is told what could not be measured."""

    environment: dict[str, Any]
    mode: str
    dtype: str
    device: str
    cache: MeasurementCache
    report: Report
    counters: str = "off"
    note: Callable[[str], None] = lambda _text: None

    @property
    def ignore_cache(self) -> bool:
        """Nothing that was measured before counts."""
        return self.cache.fresh_since_ns is not None

    def _job(
        self, kind: str, stage: str, *, begun: Callable[[int], None] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """A job's result. `begun` is told the place of each block that it begins with."""

        def heard(event: dict[str, Any]) -> None:
            self.report(f"{stage}: {event['stage']}", float(event.get("done", 0.0)))
            if begun is not None:
                begun(event["block"])

        return run_job(
            {"kind": kind, "device": self.device, "mode": self.mode, "dtype": self.dtype, **fields},
            on_progress=heard,
        )

    @property
    def counts(self) -> bool:
        """Whether hardware counters are asked for, and there may be some."""
        return self.counters != "off" and self.device.startswith("cuda")

    def _key(self, **parts: Any) -> str:
        return self.cache.key(
            environment=fingerprint(self.environment),
            mode=self.mode,
            dtype=self.dtype,
            device=self.device,
            **parts,
        )

    def measured_here(self, mix: Mix) -> tuple[Mix, dict[str, Measurement]]:
        """The mix, with members that were not measured in this environment measured now, with a fresh cache all of
        them: profiled again where their model is at hand, which is the better evidence; and measurements by replay for
        those of the others that have none from here."""
        here = fingerprint(self.environment)
        members = {member.name: member for member in mix.members}
        replayed: dict[str, Measurement] = {}
        foreign = {m.name for m in mix.members if m.signature.measurement_for(here) is None}
        due = [m for m in mix.members if self.ignore_cache or m.name in foreign]
        for number, member in enumerate(due, 1):
            turn = f"{member.name} on this machine ({number} of {len(due)})"
            if found := self._profiled(member, f"profiling {turn}"):
                members[member.name] = replace(member, signature=found)
            elif member.name in foreign:
                replayed[member.name] = self._replayed(member, f"re-timing {turn}")
        return replace(mix, members=tuple(members.values())), replayed

    def _profiled(self, member: MixMember, stage: str) -> Signature | None:
        """The signature of a member's model in this environment; None where its model is not at hand, or does other
        work than the member's signature says."""
        pinned = member.signature
        if not _at_hand(pinned):
            return None
        key = self._key(profile=pinned.id)
        found = self.cache.get(key)
        if found is None:
            try:
                found = self._job("profile_workload", stage, **_model_of(pinned))
            except _NOT_MEASURED:
                return None
            self.cache.put(key, found)
        fresh = Signature.from_dict(found["signature"])
        if not math.isclose(fresh.flops_per_step, pinned.flops_per_step, rel_tol=SAME_WORK):
            return None
        if not self.counts:
            return fresh

        def count() -> tuple[dict[str, Any], str]:
            job = self._counting("count_workload", stage, **_model_of(pinned))
            signature, why = counted_signature(fresh, found["launches"], job, self.counters)
            return signature.to_dict(), why

        return Signature.from_dict(self._counted_once(self._key(profile=pinned.id, counters=True), count))

    def retimed(
        self, target: Target, names: Collection[str], reference_network: str
    ) -> tuple[dict[str, Measurement], MachineSpeed]:
        """The measurements of those of these members whose models are at hand, as long as their steps take now, and
        the pace of now: a virtual machine is a third faster or slower from one quarter of an hour to the next, and
        blocks are timed in another one than that in which a member was profiled. A member that cannot be timed is left
        out, as is one whose model does other work than its signature says."""
        due = [m for m in target.members if m.name in names and _at_hand(m.signature)]
        turns = self._turns(due, reference_network)
        looks = [geometric_mean(turn["reference_latency_s"]) for found in turns.values() for turn in found]
        if not looks:
            return {}, self.pace(reference_network)
        pace = MachineSpeed(source=reference_network, latency_s=median(looks))
        found = {
            m.name: scale_times(m.measurement, factor)
            for m in due
            if (steps := [at_reference_speed_s(turn, pace) for turn in turns[m.name]])
            and 1 / MOST_DRIFT < (factor := median(steps) / m.latency_s) < MOST_DRIFT
        }
        return found, pace

    def _turns(self, due: Sequence[TargetMember], reference_network: str) -> dict[str, list[dict[str, Any]]]:
        """By member, its processes in which its step took turns with the reference_network; none for one that fails."""
        turns: dict[str, list[dict[str, Any]]] = {m.name: [] for m in due}
        failed: set[str] = set()
        least_s, most_s, shared_s = RETIMED_S
        limit_s = min(max(least_s, shared_s / max(len(due), 1)), most_s)
        again = [*due] * math.ceil(RETIMED_PROCESSES / max(len(due), 1))
        with written(reference_network) as folder:
            for number, member in enumerate(again, 1):
                stage = f"timing {member.name} once more ({number} of {len(again)})"
                self.report(stage, (number - 1) / len(again))  # its process says nothing
                job = {**_model_of(member.signature), "max_time_s": limit_s, "reference_network": folder}
                try:
                    if member.name not in failed:
                        turns[member.name].append(self._job("time_workload", stage, **job))
                except _NOT_MEASURED:
                    failed.add(member.name)
        return turns

    def pace(self, reference_network: str) -> MachineSpeed:
        """The pace of now, or of the first time that this reference_network was timed."""
        key = self._key(reference_network=_digest(reference_network))
        latency_s = self.cache.get(key)
        if latency_s is None:
            with written(reference_network) as folder:
                latency_s = median(self._job("time_proxy", "a reference network", folder=folder)["latency_s"])
            self.cache.put(key, latency_s)
        return MachineSpeed(source=reference_network, latency_s=latency_s)

    def _replayed(self, member: MixMember, stage: str) -> Measurement:
        key = self._key(replay=member.signature.id)
        data = self.cache.get(key)
        if data is None:
            result = self._job("replay", stage, signature=member.signature.to_dict())
            data = result["measurement"]
            self.cache.put(key, data)
        return Measurement.from_dict(data)

    def columns(
        self, wanted: list[Candidate], *, counters: bool = False
    ) -> list[tuple[Candidate, dict[str, Any]]]:
        """The candidates that can be measured, with what each costs; the others are noted, and tried again the next
        time: memory may be free then. Those not in the cache are measured. With `counters` their kernels are counted
        too, where the bench counts. Raises ProcessError where none can be measured."""
        known = {c.key: v for c in wanted if (v := self.cache.get(self._column_key(c))) is not None}
        if missing := [c for c in wanted if c.key not in known]:
            measured, faults = fastest_columns(missing, self._measure)
            known |= measured
            for candidate in missing:
                if candidate.key in measured:
                    self.cache.put(self._column_key(candidate), measured[candidate.key])
            for fault in faults.values():
                if not known:
                    raise fault
                self.note(f"a block was left out: {fault.message}")
        sound = [c for c in wanted if c.key in known]
        columns = [known[c.key] for c in sound]
        if counters and self.counts:

            def count() -> tuple[list[dict[str, Any]], str]:
                job = self._counting("count_measured", "blocks", candidates=[c.to_dict() for c in sound])
                return counted_columns(columns, job, self.counters)

            key = self._key(counters_of=[self._column_key(c) for c in sound])
            columns = self._counted_once(key, count)
        return list(zip(sound, columns, strict=True))

    def _column_key(self, candidate: Candidate) -> str:
        return self._key(candidate=candidate.to_dict())

    def _measure(self, wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[dict[str, Any]]:
        job = {"candidates": [c.to_dict() for c in wanted]}
        columns: list[dict[str, Any]] = self._job("measure_candidates", "blocks", begun=begun, **job)[
            "columns"
        ]
        return columns

    def counted(self, source: str, whole: NetworkMeasurement) -> NetworkMeasurement:
        """The measured network with its hardware counters, where the bench counts."""
        if not self.counts:
            return whole
        with written(source) as folder:
            job = self._counting("count_traced", "the proxy", folder=folder)
            signature, why = counted_signature(whole.signature, whole.launches, job, self.counters)
        if why:
            self.note(why)
        return replace(whole, signature=signature)

    def _counted_once(self, key: str, count: Callable[[], tuple[T, str]]) -> T:
        """What was counted, from the cache where it is there. Why there is nothing is noted, and not kept: a permission
        may be given, or a tool installed, before the next time."""
        found: T | None = self.cache.get(key)
        if found is None:
            found, why = count()
            if why:
                self.note(why)
            else:
                self.cache.put(key, found)
        return found

    def _counting(self, kind: str, stage: str, **fields: Any) -> dict[str, Any]:
        self.report(f"{stage}: counting (each kernel runs several times)", 0.0)
        return {"kind": kind, "device": self.device, "mode": self.mode, "dtype": self.dtype, **fields}

    def idle_s(self, optimizers: Iterable[str]) -> dict[str, float]:
        """What `jobs.measure_idle` gives for a training step with these optimizers, the fastest of several processes;
        empty in inference."""
        names = sorted(set(optimizers))
        if self.mode != "training" or not names:
            return {}
        key = self._key(idle=names)
        found: dict[str, float] | None = self.cache.get(key)
        if found is None:
            runs = [self._job("measure_idle", "an idle step", optimizers=names) for _ in range(PROCESSES)]
            found = {name: min(run[name] for run in runs) for name in runs[0]}
            self.cache.put(key, found)
        return found

    def whole(self, source: str, runs: range, pace: MachineSpeed) -> NetworkMeasurement:
        """A proxy measured as a whole in one process per number in `runs`, each brought to the pace; each operator's
        median time counts. Processes that were disturbed (see DISTURBED) are left out."""
        return merge_undisturbed_runs([self._whole_once(source, run, pace) for run in runs])

    def evidence(self, signature: Signature) -> dict[str, float] | None:
        """Where times come from that were not measured; None: all were."""
        return None

    def _whole_once(self, source: str, run: int, pace: MachineSpeed) -> NetworkMeasurement:
        """From `jobs.trace_proxy` in one process; `run` tells it from the others of the same network."""
        key = self._key(network=_digest(source), reference_network=_digest(pace.source), run=run)
        data: dict[str, Any] | None = self.cache.get(key)
        if data is None:
            with written(source) as folder, written(pace.source) as reference_network:
                data = self._job(
                    "trace_proxy", "whole network", folder=folder, reference_network=reference_network
                )
            self.cache.put(key, data)
        return network_measurement(data, pace)


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


@contextlib.contextmanager
def written(source: str) -> Iterator[str]:
    """A folder with this network, while it is needed."""
    with tempfile.TemporaryDirectory(prefix="statsnet-") as folder:
        Path(folder, "network.py").write_text(source, encoding="utf-8")
        yield folder


_NOT_MEASURED = (UsageError, WorkloadError, DeviceError, MeasurementError)
"""A model's library is not there, or there is not enough memory for it: torch says so, or the process is killed."""


def _at_hand(signature: Signature) -> bool:
    """Whether its model is one that can be built here by its name."""
    return signature.workload is not None and signature.name in workloads.names()


def _model_of(signature: Signature) -> dict[str, Any]:
    """What a job needs to run it."""
    assert signature.workload is not None
    return {
        "target": signature.name,
        "preset": signature.workload.preset or None,
        "batch": signature.batch,
        "optimizer": signature.optimizer if signature.optimizer != "custom" else None,
    }
