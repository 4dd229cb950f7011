"""Making a proxy for a device that is not at hand: operators' times come from its record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, get_args

from statsnet.devices.device_record import KIND, DeviceRecord, load_record, read_plain, record_in
from statsnet.devices.kernel_model import Estimate, KernelModel, Known
from statsnet.devices.names import canonical_name, device_named, is_known
from statsnet.devices.performance_model import Evidence
from statsnet.devices.record_folder import RECORD, is_record_file, record_paths, recorded_folders
from statsnet.devices.table_times import TableTimes, environment_of
from statsnet.environment import fingerprint
from statsnet.errors import MeasurementError, UsageError
from statsnet.measure.network_file import written
from statsnet.measure.process import run
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import OpCall
from statsnet.profiling.step_trace import StepTrace
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.measurement import Environment, Measurement
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.storage import load_signature
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.bench import BenchSetup, MeasuredBlocks, Unmeasured
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart, part_of
from statsnet.synthesis.bench.capture_tasks import CaptureBlockOperators, CaptureNetworkOperators
from statsnet.synthesis.bench.machine_speed import STEADY, MachineSpeed
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.bench.tasks import blocks_in_place
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDevice:
    """`between_s` is the time between two operators of a step, in seconds."""

    environment: Environment
    model: KernelModel | TableTimes
    between_s: float

    @property
    def counted(self) -> bool:
        """Whether the natural target are the sizes for accelerators, which the database counts and has measured
        nowhere: so it is for devices from tables."""
        return isinstance(self.model, TableTimes)

    def seconds(self, cluster: Cluster) -> float:
        """Of all calls of a cluster in one step, with the time that passes between operators."""
        estimate = self.model.estimate(cluster.op, cluster.phase, cluster.args, cluster.outputs)
        return cluster.calls * (estimate.time_s + self.between_s)


def recorded_device(name: str, db: ProfilesDB, mode: str | None = None) -> RecordedDevice:
    """The device of a file that `statsnet device record` or `import` wrote; or the one in the database whose name is
    or contains `name`: made from tables, or an environment, from its record and from what its profiles (in `mode`, or
    all) measured in place.

    Raises UsageError if `name` fits no device, or several.
    """
    if is_record_file(name):
        path = Path(name)
        data = read_plain(path)
        return table_device(record_in(path, data)) if data.get("kind") == KIND else device_of([load_signature(path)])
    records = record_paths(db.path)
    found = device_named(name, {*recorded_folders(db), *records})
    if found in records:
        return table_device(load_record(records[found]))
    entries = [e for e in db.entries if e.environment == found and mode in (None, e.mode)]
    signatures = [e.load() for e in entries]
    if (path := db.path / found / RECORD).exists():
        signatures.append(load_signature(path))
    return device_of(signatures)


def table_device(record: DeviceRecord) -> RecordedDevice:
    """A device from tables. Its operators follow each other without pauses, as in a CUDA graph."""
    return RecordedDevice(environment=environment_of(record), model=TableTimes(record), between_s=0.0)


def device_of(signatures: Iterable[Signature]) -> RecordedDevice:
    """From what was measured in the environment of the last signature, which is the record if there is one. Raises
    UsageError if nothing was measured."""
    measured = [s for s in signatures if s.measurements]
    if not measured:
        raise UsageError("nothing was measured on this device", hint="statsnet device record")
    here = measured[-1].measurements[0]
    pairs = [(s, m) for s in measured if (m := s.measurement_for(here.fingerprint)) is not None]
    known = [entry for signature, measurement in pairs for entry in _known(signature, measurement)]
    between = [
        ((m.framework_time_s or 0.0) + (m.idle_time_s or 0.0)) / s.calls_per_step  # of a call, however many kernels
        for s, m in pairs
        if m.framework_time_s is not None and s.calls_per_step
    ]
    called = str(here.environment.get("device_name") or "")
    return RecordedDevice(
        environment=here.environment,
        model=KernelModel(known, canonical_name(called) if is_known(called) else "unknown"),
        between_s=median(between) if between else 0.0,
    )


def _known(signature: Signature, measurement: Measurement) -> Iterable[Known]:
    timed = zip(signature.clusters, measurement.cluster_time_s, measurement.kernels, strict=True)
    for cluster, time_s, kernel in timed:
        if time_s and cluster.calls:
            yield Known(
                op=cluster.op, phase=cluster.phase, args=cluster.args, outputs=cluster.outputs,
                time_s=time_s / cluster.calls, kernel=kernel or "unknown",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedBench:
    """A Bench for a device that is not here. Calls are captured on `setup.device`, which is here; their times come from
    the recorded device. `lists`: the members' optimizers step all parameters at once, and so do the blocks'."""

    setup: BenchSetup
    recorded: RecordedDevice
    lists: bool = False
    can_time_members: bool = False

    def machine_speed(self) -> MachineSpeed:
        """All times are from the hours of the record."""
        return STEADY

    def drift(self, speed: MachineSpeed) -> float:
        return 1.0

    def measure_members(self, mix: Mix, speed: MachineSpeed) -> tuple[Mix, dict[str, Measurement]]:
        """The unchanged mix; and modelled measurements for its members that have none from this device."""
        here = fingerprint(self.setup.environment)
        foreign = [m for m in mix.members if m.signature.measurement_for(here) is None]
        return mix, {m.name: self._modelled(m.signature) for m in foreign}

    def _modelled(self, signature: Signature) -> Measurement:
        estimates = [self._estimate(c.op, c.phase, c.args, c.outputs) for c in signature.clusters]
        times = [c.calls * e.time_s for c, e in zip(signature.clusters, estimates, strict=True)]
        between_s = self.recorded.between_s * signature.calls_per_step
        return Measurement(
            environment=self.setup.environment,
            step_latency_s=(sum(times) + between_s,),
            warmup_latency_s=(),
            profiled_latency_s=(),
            cluster_time_s=tuple(times),
            kernels=tuple(e.kernel for e in estimates),
            kernel_class=tuple(e.kernel_class for e in estimates),
            launches=signature.calls_per_step,
            framework_time_s=between_s,
            idle_time_s=0.0,
            unexplained_share=0.0,
            coefficient_of_variation=0.0,
            source="replay",
        )

    def retime_members(self, target: Target, names: Collection[str], speed: MachineSpeed) -> dict[str, Measurement]:
        """No model is run."""
        return {}

    def idle_s(self, optimizers: Iterable[str], speed: MachineSpeed) -> dict[str, float]:
        return {}

    def kept(self, wanted: Sequence[Candidate], speed: MachineSpeed) -> list[Candidate]:
        """None: it would matter for the order alone, and here nothing takes long."""
        return []

    def measure_blocks(
        self, wanted: Sequence[Candidate], speed: MachineSpeed, *, counters: bool = False
    ) -> MeasuredBlocks:
        setup = self.setup
        keys = [self._key(c) for c in wanted]
        known = {k: v for k in keys if (v := setup.cache.get(k, list[OpCall]))}
        missing = [(k, c) for k, c in zip(keys, wanted, strict=True) if k not in known]
        if missing:
            blocks = tuple(c.placed for _, c in missing)
            task = CaptureBlockOperators(
                blocks=blocks,
                mode=setup.mode,
                dtype=setup.dtype,
                device=setup.device,
                fake=self.recorded.counted,
                lists=self.lists,
            )
            try:
                captured = run(task, report=setup.report)
            except MeasurementError:  # not even one of them
                if not known:
                    raise
                captured = [[] for _ in missing]
            for (key, _), calls in zip(missing, captured, strict=True):
                known[key] = calls
                if calls:  # else it may be captured the next time: memory may be free then
                    setup.cache.put(key, calls)
            if failed := [c for k, c in missing if not known[k]]:
                setup.note(f"{plural(len(failed), 'block')} left out that cannot be run, for example {failed[0].named}")
        return [(c, self._measurement(known[k])) for k, c in zip(keys, wanted, strict=True) if known[k]]

    def _key(self, candidate: Candidate) -> str:
        setup = self.setup
        where = {"mode": setup.mode, "dtype": setup.dtype, "device": setup.device}
        here = fingerprint(setup.environment)
        how = ({"fake": True} if self.recorded.counted else {}) | ({"lists": True} if self.lists else {})
        return setup.cache.key(environment=here, **where, **how, calls_of=candidate.to_dict())

    def _measurement(self, calls: list[OpCall]) -> BlockMeasurement:
        timed = list(zip(calls, self._fill_times(calls), strict=True))

        def part(segment: str) -> BlockPart:
            own = [(c, kernel) for c, kernel in timed if c.segment == segment]
            segment_s = sum((c.time_s or 0.0) + self.recorded.between_s for c, _ in own)
            return part_of(own, segment_s, self.setup.elsewhere)

        return BlockMeasurement(block=part("block"), optimizer=part("optimizer"))

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        """The network's calls, each with its time on the recorded device."""
        setup = self.setup
        with written(source) as folder:
            task = CaptureNetworkOperators(
                folder=folder, device=setup.device, fake=self.recorded.counted, lists=self.lists
            )
            captured = run(task, report=setup.report)
        calls = captured.calls
        kernels = self._fill_times(calls)
        working = [c for c in calls if not c.metadata]
        between_s = self.recorded.between_s * len(working)
        trace = StepTrace(
            device=setup.environment["device"],
            calls=calls,
            implementations=kernels,
            step_latency_s=[sum(c.time_s or 0.0 for c in working) + between_s],
            framework_time_s=between_s,
            kernels_launched=len(working),
        )
        signature = build_signature(
            [trace],
            mode=setup.mode,
            dtype=setup.dtype,
            memory=captured.memory,
            environment=setup.environment,
        )
        in_place = tuple(tuple(parts) for parts in blocks_in_place(captured.towers, trace, self.setup.elsewhere))
        return NetworkMeasurement(signature=signature, build_s=0.0, blocks=(in_place,), drift=1.0)

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        """A device that is not here has no known counters."""
        return measurement

    def measure_together(self, source: str, processes: int) -> Unmeasured:
        return Unmeasured("nothing runs on a device that is not here")

    def evidence(self, signature: Signature) -> dict[str, float]:
        """Shares of a step's operator time by what it rests on."""
        estimates = [(c.calls, self._estimate(c.op, c.phase, c.args, c.outputs)) for c in signature.clusters]
        total = sum(calls * e.time_s for calls, e in estimates) or 1.0
        return {
            kind: sum(calls * e.time_s for calls, e in estimates if e.evidence == kind) / total
            for kind in get_args(Evidence)
        }

    def _fill_times(self, calls: list[OpCall]) -> list[str]:
        """Set the times of the calls; returns their kernels."""
        kernels = []
        for call in calls:
            if call.metadata:
                call.time_s = 0.0
                kernels.append("none")
                continue
            estimate = self._estimate(call.op, call.phase, call.args, call.outputs)
            call.time_s = estimate.time_s
            kernels.append(estimate.kernel)
        return kernels

    def _estimate(self, op: str, phase: str, args: Any, outputs: Any) -> Estimate:
        return self.recorded.model.estimate(op, phase, args, outputs)


def record_path(db: ProfilesDB, slug: str) -> Path:
    """Where an environment's record lies in the database."""
    return db.path / slug / RECORD
