"""Making a proxy for a device that is not at hand: operators' times come from what was recorded there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from statsnet.devices.kernel_model import Estimate, KernelModel, Known
from statsnet.environment import fingerprint
from statsnet.errors import UsageError
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall
from statsnet.profiling.trace import StepTrace
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Measurement, Signature
from statsnet.signatures.storage import load_signature
from statsnet.signatures.target import Target
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.capture_tasks import calls_of
from statsnet.synthesis.live_bench import Bench, written
from statsnet.synthesis.network_measurement import MachineSpeed, NetworkMeasurement
from statsnet.synthesis.tasks import blocks_in_place, part_of

PREFIX = "recorded:"
RECORD = "device.json"
"""In an environment's folder of the database: a signature whose clusters are operators that were timed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDevice:
    """`between_s` is what lies between two operators of a step, in seconds; `operators` how many were measured."""

    environment: dict[str, Any]
    model: KernelModel
    between_s: float
    operators: int


def recorded_device(name: str, db: ProfilesDB, mode: str | None = None) -> RecordedDevice:
    """The device of a file that `statsnet device record` wrote; or, of the database's environments, the one whose
    folder's name holds `name`: its record, and what its profiles (in `mode`, or all) measured in place.

    Raises UsageError where no environment, or more than one, is meant.
    """
    if name.endswith(".json"):
        signatures = [load_signature(name)]
    else:
        folder = _folder(name, db)
        entries = [e for e in db.entries if e.environment == folder and mode in (None, e.mode)]
        signatures = [e.load() for e in entries]
        if (path := db.path / folder / RECORD).exists():
            signatures.append(load_signature(path))
    return device_of(signatures)


def device_of(signatures: Iterable[Signature]) -> RecordedDevice:
    """From what was measured in the environment of the last of them, which is the record where there is one. Raises
    UsageError where nothing was."""
    found = [s for s in signatures if s.measurements]
    if not found:
        raise UsageError("nothing was measured on this device", hint="statsnet device record")
    here = found[-1].measurements[0]
    pairs = [(s, m) for s in found if (m := s.measurement_for(here.fingerprint)) is not None]
    known = [entry for signature, measurement in pairs for entry in _known(signature, measurement)]
    between = [
        ((m.framework_time_s or 0.0) + (m.idle_time_s or 0.0)) / m.launches
        for _, m in pairs
        if m.framework_time_s is not None and m.launches
    ]
    return RecordedDevice(
        environment=here.environment,
        model=KernelModel(known),
        between_s=median(between) if between else 0.0,
        operators=len(known),
    )


def _folder(name: str, db: ProfilesDB) -> str:
    folders = {path.parent.name for path in db.path.glob(f"*/{RECORD}")} | {e.environment for e in db.entries}
    meant = [f for f in sorted(folders) if name == f] or [f for f in sorted(folders) if name in f]
    if len(meant) == 1:
        return meant[0]
    raise UsageError(
        f"'{name}' names {'several recorded devices' if meant else 'no recorded device'}",
        cause=f"known: {', '.join(meant or sorted(folders)) or 'none'}",
        hint="give a part of a name that no other has, or a file that statsnet device record wrote",
    )


def _known(signature: Signature, measurement: Measurement) -> Iterable[Known]:
    rows = zip(signature.clusters, measurement.cluster_time_s, measurement.kernels, strict=True)
    for cluster, time_s, kernel in rows:
        if time_s and cluster.calls:
            yield Known(
                op=cluster.op, phase=cluster.phase, args=cluster.args, outputs=cluster.outputs,
                time_s=time_s / cluster.calls, kernel=kernel or "unknown",
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBench(Bench):
    """A bench whose `device` is one that is here, on which calls are counted; the times are the recorded one's."""

    recorded: RecordedDevice

    def measured_here(self, mix: Mix) -> tuple[Mix, dict[str, Measurement]]:
        """The mix as it is; measurements by the model for those of its members that have none of this device."""
        here = fingerprint(self.environment)
        foreign = [m for m in mix.members if m.signature.measurement_for(here) is None]
        return mix, {m.name: self._modelled(m.signature) for m in foreign}

    def _modelled(self, signature: Signature) -> Measurement:
        found = [self._estimate(c.op, c.phase, c.args, c.outputs) for c in signature.clusters]
        times = [c.calls * e.time_s for c, e in zip(signature.clusters, found, strict=True)]
        between_s = self.recorded.between_s * signature.calls_per_step
        return Measurement(
            environment=self.environment,
            step_latency_s=(sum(times) + between_s,),
            warmup_latency_s=(),
            profiled_latency_s=(),
            cluster_time_s=tuple(times),
            kernels=tuple(e.kernel for e in found),
            kernel_class=tuple(e.kernel_class for e in found),
            launches=signature.calls_per_step,
            framework_time_s=between_s,
            idle_time_s=0.0,
            unexplained_share=0.0,
            coefficient_of_variation=0.0,
            source="replay",
        )

    def retimed(
        self, target: Target, names: Collection[str], reference_network: str
    ) -> tuple[dict[str, Measurement], MachineSpeed]:
        """No model is run: all times are of the record's hours."""
        return {}, MachineSpeed(source=reference_network, latency_s=1.0)

    def idle_s(self, optimizers: Iterable[str]) -> dict[str, float]:
        return {}

    def columns(
        self, wanted: list[Candidate], *, counters: bool = False
    ) -> list[tuple[Candidate, dict[str, Any]]]:
        """What each candidate costs there."""
        keys = [self._key(calls_of=c.to_dict()) for c in wanted]
        known = {k: v for k in keys if (v := self.cache.get(k)) is not None}
        missing = [(k, c) for k, c in zip(keys, wanted, strict=True) if k not in known]
        if missing:
            job = {"candidates": [c.to_dict() for _, c in missing]}
            for (key, _), rows in zip(
                missing, self._job("count_candidates", "blocks", **job)["calls"], strict=True
            ):
                known[key] = rows
                self.cache.put(key, rows)
        return [(c, self._column(calls_of(known[k]))) for k, c in zip(keys, wanted, strict=True)]

    def _column(self, calls: list[OpCall]) -> dict[str, Any]:
        kernels = self._timed(calls)
        parts = {}
        for segment in ("block", "optimizer"):
            chosen = [(c, k) for c, k in zip(calls, kernels, strict=True) if c.segment == segment]
            spent_s = sum((c.time_s or 0.0) + self.recorded.between_s for c, _ in chosen)
            parts[segment] = part_of(chosen, spent_s)
        return parts

    def whole(self, source: str, runs: range, pace: MachineSpeed) -> NetworkMeasurement:
        """The network's calls, each with its time there."""
        with written(source) as folder:
            data = self._job("count_proxy", "whole network", folder=folder)
        calls = calls_of(data["calls"])
        kernels = self._timed(calls)
        working = [c for c in calls if not c.metadata]
        between_s = self.recorded.between_s * len(working)
        trace = StepTrace(
            device=self.environment["device"],
            calls=calls,
            implementations=kernels,
            step_latency_s=[sum(c.time_s or 0.0 for c in working) + between_s],
            framework_time_s=between_s,
            kernels_launched=len(working),
        )
        signature = build_signature(
            [trace], mode=self.mode, dtype=self.dtype, memory=data["memory"], environment=self.environment
        )
        return NetworkMeasurement(
            signature=signature, build_s=0.0, blocks=[blocks_in_place(data["towers"], trace)], drift=1.0
        )

    def evidence(self, signature: Signature) -> dict[str, float]:
        """Shares of a step's operator time by where it comes from: `exact`, `model`, `roofline`."""
        found = [(c.calls, self._estimate(c.op, c.phase, c.args, c.outputs)) for c in signature.clusters]
        total = sum(calls * e.time_s for calls, e in found) or 1.0
        return {
            kind: sum(calls * e.time_s for calls, e in found if e.evidence == kind) / total
            for kind in ("exact", "model", "roofline")
        }

    def _timed(self, calls: list[OpCall]) -> list[str]:
        """Fill in their times; their kernels."""
        kernels = []
        for call in calls:
            if call.metadata:
                call.time_s = 0.0
                kernels.append("none")
                continue
            found = self._estimate(call.op, call.phase, call.args, call.outputs)
            call.time_s = found.time_s
            kernels.append(found.kernel)
        return kernels

    def _estimate(self, op: str, phase: str, args: Any, outputs: Any) -> Estimate:
        return self.recorded.model.estimate(op, phase, args, outputs)


def is_recorded(device: str) -> bool:
    return device.startswith(PREFIX)


def record_path(db: ProfilesDB, slug: str) -> Path:
    """Where an environment's record lies in the database."""
    return db.path / slug / RECORD
