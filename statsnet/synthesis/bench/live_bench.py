"""Measuring on a device that is here. Earlier measurements are taken from the cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from statsnet.environment.record import usable_cores
from statsnet.errors import ProcessError, StatsNetError, printable
from statsnet.measure import sandbox
from statsnet.measure.control import JOB_LIMIT_S, Control
from statsnet.measure.network_file import digest, written
from statsnet.measure.reference_network import Looked, TimeReferenceNetwork
from statsnet.measure.several_processes import run_in_group
from statsnet.profiling.hardware_counters import by_place, counted_signature, counters_of
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.bench import BenchSetup, Kept, MeasuredBlocks, Unmeasured
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.block_runs import fastest_measurements, measure_on_pool, silence_s
from statsnet.synthesis.bench.live_members import LiveMembers
from statsnet.synthesis.bench.machine_speed import STEADY, UNDERCUT, MachineSpeed, reference_network
from statsnet.synthesis.bench.network_measurement import (
    NetworkMeasurement,
    disagree,
    merge_undisturbed_runs,
    network_measurement,
)
from statsnet.synthesis.bench.retimed_members import RetimedMembers
from statsnet.synthesis.bench.tasks import IdleTimes, MeasureBlocks, MeasureIdleStep, NetworkTrace, TraceNetwork
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.confirming import last_line
from statsnet.units import plural

LOOKED_S = 0.3
"""Every command waits for it, even one that measures nothing else."""

MOST_OF_A_MESSAGE = 300
"""Characters of an error that stand in a file."""

THIRD = 1000
"""Added to a process's number, of which there are never so many."""


@dataclass(frozen=True, slots=True)
class LiveBench:
    """A Bench. Counters are read if they are asked for and the device is a GPU."""

    setup: BenchSetup
    can_time_members: bool = True

    def machine_speed(self) -> MachineSpeed:
        if self.setup.device.startswith("cuda"):
            return STEADY
        source = reference_network(self.setup.mode, self.setup.dtype)
        key, cache = self.setup.key(speed_of=digest(source)), self.setup.cache
        now, kept_s = self._look(source), cache.get(key, float)
        now_s = now.latency_s
        if kept_s is not None and kept_s > UNDERCUT * now_s:
            slower = f"the reference network took {kept_s / now_s:.1f} times as long as now"
            self.setup.note(f"the machine was disturbed when its speed was measured: {slower}, so that is forgotten")
        if kept_s is None or kept_s > UNDERCUT * now_s:
            cache.put(key, now_s)
            put_s = cache.get(key, float)
            kept_s = now_s if put_s is None or put_s == kept_s else put_s  # rounded, as later runs read it
        return MachineSpeed(reference_network=source, reference_latency_s=kept_s, now_s=now_s, page_s=now.page_s)

    def drift(self, speed: MachineSpeed) -> float:
        return 1.0 if speed.is_steady else speed.drift(self._look(speed.reference_network).latency_s)

    def _look(self, source: str) -> Looked:
        """At the reference network, now."""
        with written(source) as folder:
            task = TimeReferenceNetwork(folder=folder, device=self.setup.device, time_s=LOOKED_S)
            return self.setup.run(task, "the machine's speed")

    def measure_members(self, mix: Mix, speed: MachineSpeed) -> tuple[Mix, dict[str, Measurement]]:
        return LiveMembers(self.setup, speed).measure(mix)

    def retime_members(self, target: Target, names: Collection[str], speed: MachineSpeed) -> dict[str, Measurement]:
        return RetimedMembers(self.setup, speed).measure(target, names)

    def kept(self, wanted: Sequence[Candidate], speed: MachineSpeed) -> list[Candidate]:
        known = self._kept(wanted, speed)
        return [c for c in wanted if c.key in known]

    def _kept(self, wanted: Sequence[Candidate], speed: MachineSpeed) -> dict[str, BlockMeasurement]:
        """What the cache has of these, by the candidates' keys."""
        cached = ((c.key, self.setup.cache.get(self._block_key(c, speed), BlockMeasurement)) for c in wanted)
        return {name: found for name, found in cached if found is not None and speed.has_use_for(found)}

    def measure_blocks(
        self, wanted: Sequence[Candidate], speed: MachineSpeed, *, counters: bool = False
    ) -> MeasuredBlocks:
        """Candidates that cannot be measured are noted, and tried again the next time: memory may be free then. Raises
        MeasurementError if none can be measured."""
        cache, known = self.setup.cache, self._kept(wanted, speed)
        keys = {c.key: self._block_key(c, speed) for c in wanted}
        processes = self.setup.effort.block_processes

        def keep(measured: Mapping[str, BlockMeasurement]) -> None:
            if self.setup.pool is not None:
                self.setup.stages.advance(len(measured) / self.setup.most_candidates)
            for name, measurement in measured.items():
                known[name] = measurement
                if not measurement.lacked_memory:
                    cache.put(keys[name], measurement)
                    known[name] = cache.get(keys[name], BlockMeasurement) or measurement  # as later runs read it

        if missing := [c for c in wanted if c.key not in known]:
            with speed.network_folder() as reference:

                def measure(some: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
                    told: set[int] = set()

                    def begin(number: int) -> None:
                        if number not in told:
                            self.setup.stages.advance(1 / (processes * self.setup.most_candidates))
                        told.add(number)
                        begun(number)

                    task = self._blocks_task(some, reference)
                    return self.setup.run(task, "blocks", begin, silent_s=silence_s(some))

                faults: Mapping[str, StatsNetError]
                if (pool := self.setup.pool) is not None:
                    task = self._blocks_task((), reference)
                    faults = measure_on_pool(pool, missing, task, processes, keep, report=self.setup.report)
                else:
                    measured, faults = fastest_measurements(missing, measure, processes)
                    keep(measured)
            for fault in faults.values():
                if not known:
                    raise fault
                self.setup.note(f"a block was left out: {fault.message}")
        refused = [(c, why) for c in wanted if c.key in known and (why := known[c.key].refused) is not None]
        sound = [(c, known[c.key].at(speed)) for c in wanted if c.key in known and known[c.key].refused is None]
        self._tell_refused(refused, all_of_them=not sound)
        return self._count_blocks(sound, speed) if counters and self.setup.counts else sound

    def _tell_refused(self, refused: Sequence[tuple[Candidate, str]], *, all_of_them: bool) -> None:
        """Note blocks that raise an exception. Raises ProcessError if all do."""
        if not refused:
            return
        first, why = refused[0]
        if all_of_them:
            raise ProcessError(
                f"none of {plural(len(refused), 'block')} runs",
                cause=f"{first.named}: {why}",
                hint="run statsnet doctor; if it finds nothing, report the signature",
            )
        what = " ".join([first.kind, *first.config.get("operator", ())[:1]])
        self.setup.note(f"{plural(len(refused), 'block')} left out that cannot be run, for example {what}: {why}")

    def _block_key(self, candidate: Candidate, speed: MachineSpeed) -> str:
        processes = self.setup.effort.block_processes
        return self.setup.key(candidate=candidate.to_dict(), reference_network=speed.reference_id, processes=processes)

    def _blocks_task(self, wanted: Sequence[Candidate], reference: str | None = None) -> MeasureBlocks:
        return MeasureBlocks(
            blocks=tuple(c.placed for c in wanted),
            mode=self.setup.mode,
            dtype=self.setup.dtype,
            device=self.setup.device,
            reference_network=reference,
        )

    def _count_blocks(self, measured: MeasuredBlocks, speed: MachineSpeed) -> MeasuredBlocks:
        """The measurements with hardware counters for all operators whose kernels were counted."""
        candidates = [c for c, _ in measured]

        def count() -> tuple[list[BlockMeasurement], str]:
            self.setup.say_counting("blocks")
            task = self._blocks_task(candidates)
            return counted_blocks([m for _, m in measured], task, self.setup.counters)

        keys = [self._block_key(c, speed) for c in candidates]
        key = self.setup.key(counters_of=keys, reference_latency_s=speed.reference_latency_s)
        counted = self.setup.count_once(key, list[BlockMeasurement], count)
        return list(zip(candidates, counted, strict=True))

    def idle_s(self, optimizers: Iterable[str], speed: MachineSpeed) -> dict[str, float]:
        names = sorted(set(optimizers))
        if self.setup.mode != "training" or not names:
            return {}
        with speed.network_folder() as reference:
            task = MeasureIdleStep(
                optimizers=tuple(names), dtype=self.setup.dtype, device=self.setup.device, reference_network=reference
            )
            key = self.setup.key(idle=names, reference_network=speed.reference_id)
            kept = Kept(key=key, kind=IdleTimes, task=task, stage="an idle step", is_usable=speed.has_use_for)
            idle = self.setup.remember(kept)
        drift = speed.drift(idle.reference_latency_s)
        return {name: time_s / drift for name, time_s in idle.idle_s.items()}

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        """Operators have their median times. Processes that were disturbed (see PROCESSES_DIFFER) are left out. If
        there are two and one of them was, a third tells which."""
        setup, network_s = self.setup, self.setup.effort.network_s
        with written(source) as folder, speed.network_folder() as reference:
            task = TraceNetwork(
                folder=folder,
                dtype=setup.dtype,
                device=setup.device,
                reference_network=reference,
                min_time_s=network_s,
            )

            def process(number: int) -> Kept[NetworkTrace]:
                known = {"network": digest(source), "reference_network": speed.reference_id, "network_s": network_s}
                return Kept(
                    key=setup.key(**known, run=number),
                    kind=NetworkTrace,
                    task=task,
                    stage="whole network",
                    is_usable=speed.has_use_for,
                )

            setup.measure_ahead(map(process, runs))
            measured = [network_measurement(setup.remember(process(number)), speed) for number in runs]
            if len(measured) == 2 and disagree(*measured):
                measured.append(network_measurement(setup.remember(process(THIRD + runs.start)), speed))
        return merge_undisturbed_runs(measured)

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        if not self.setup.counts:
            return measurement
        self.setup.say_counting("the proxy")
        with written(source) as folder:
            task = TraceNetwork(folder=folder, dtype=self.setup.dtype, device=self.setup.device)
            signature, why = counted_signature(measurement.signature, measurement.launches, task, self.setup.counters)
        if why:
            self.setup.note(why)
        return replace(measurement, signature=signature)

    def measure_together(self, source: str, processes: int) -> Measurement | Unmeasured:
        """On a CPU, each process has its part of the cores; there must be one for each."""
        setup = self.setup
        kind = setup.device.partition(":")[0]  # each process takes a GPU of its own
        places = torch.cuda.device_count() if kind == "cuda" else usable_cores()
        if setup.pool is not None:
            return Unmeasured("processes are not started together on a fleet")
        if processes > places:
            what = "GPU" if kind == "cuda" else "core"
            return Unmeasured(f"each of {processes} processes needs a {what}, and there is room for {places} here")
        if sandbox.is_on():
            return Unmeasured("processes in a sandbox cannot find each other")

        def measure() -> NetworkTrace:
            with written(source) as folder:
                task = TraceNetwork(folder=folder, dtype=setup.dtype, device=kind, together=True)
                return run_in_group(task, processes, Control(timeout_s=JOB_LIMIT_S), report=setup.report)

        key = setup.key(network=digest(source), processes=processes)
        try:
            trace = setup.cache.remember(key, NetworkTrace, measure)
        except StatsNetError as error:
            setup.note(f"the proxy was not measured in {processes} processes: {error.message}: {last_line(error)}")
            return Unmeasured(printable(error.message)[:MOST_OF_A_MESSAGE])  # its cause may name paths and hosts
        return trace.signature.measurements[0]

    def evidence(self, signature: Signature) -> dict[str, float] | None:
        return None


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
