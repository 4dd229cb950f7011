"""Where and how synthesis measures: on a device of this machine (live_bench.py), or from another device's record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from statsnet.deadline import NEVER, Deadline
from statsnet.measure.cache import MeasurementCache
from statsnet.progress import Report, Stages, silent
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Environment, Measurement, Signature
from statsnet.signatures.target import Target
from statsnet.synthesis.block_measurement import BlockMeasurement
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.effort import NORMAL, Effort
from statsnet.synthesis.network_measurement import MachineSpeed, NetworkMeasurement

MeasuredBlocks = list[tuple[Candidate, BlockMeasurement]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSetup:
    """What both kinds of bench need: the proxy's environment record, mode and dtype; the device that tasks run on; and,
    on a GPU, whether hardware counters are read (gpu.COUNTING). `note` is told what could not be measured. `stages`
    keeps where the time goes."""

    environment: Environment
    mode: str
    dtype: str
    device: str
    cache: MeasurementCache
    counters: str = "off"
    report: Report = silent
    note: Callable[[str], None] = silent
    effort: Effort = NORMAL
    deadline: Deadline = NEVER
    stages: Stages = field(default_factory=Stages)


class Bench(Protocol):
    """What synthesis asks of a bench. A bench keeps no knowledge of a problem; its callers pass on what is learnt."""

    @property
    def setup(self) -> BenchSetup: ...

    @property
    def can_time_members(self) -> bool:
        """Whether models can be run: not on a device that is not here."""

    def measure_members(self, mix: Mix) -> tuple[Mix, dict[str, Measurement]]:
        """The mix with its members measured in this environment; and, for members whose models are not at hand,
        measurements that replace those of their signatures."""

    def retime_members(
        self, target: Target, names: Collection[str], reference_network: str
    ) -> tuple[dict[str, Measurement], MachineSpeed]:
        """The measurements of the named members that can be timed, scaled to how long their steps take now; and the
        machine's speed meanwhile, by this reference network (its source)."""

    def measure_blocks(self, wanted: Sequence[Candidate], *, counters: bool = False) -> MeasuredBlocks:
        """The candidates that can be measured, each with its measurement; with hardware counters if asked for."""

    def idle_s(self, optimizers: Iterable[str]) -> dict[str, float]:
        """The result of `MeasureIdleStep` for these optimizers; empty in inference."""

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        """A network measured in one process for each number in `runs`, scaled to the speed."""

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        """The same with hardware counters, if the bench reads any."""

    def evidence(self, signature: Signature) -> dict[str, float] | None:
        """Where times that were not measured come from; None: all were measured."""
