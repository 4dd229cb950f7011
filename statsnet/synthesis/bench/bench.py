"""Where and how synthesis measures: on a device of this machine (live_bench.py), or from another device's record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from statsnet.deadline import NEVER, Deadline
from statsnet.environment import fingerprint
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.engine import Pool
from statsnet.measure.errand import RunJob
from statsnet.measure.process import run
from statsnet.measure.task import Task
from statsnet.progress import Progress, Report, Stages, silent
from statsnet.signatures.measurement import Environment, Measurement
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.effort import NORMAL, Effort
from statsnet.synthesis.program.elsewhere import Elsewhere

T = TypeVar("T")
MeasuredBlocks = list[tuple[Candidate, BlockMeasurement]]


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """In place of a measurement: why there is none, as the end of a sentence."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[T]):
    """A task whose result the cache keeps under a key; one that is not usable is measured again."""

    key: str
    kind: type[T]
    task: Task[T]
    stage: str
    is_usable: Callable[[T], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSetup:
    """What both kinds of bench need: the proxy's environment record, mode and dtype; the device that tasks run on; and,
    on a GPU, whether hardware counters are read (gpu.COUNTING). `note` is told what could not be measured. `stages`
    keeps where the time goes. `elsewhere` is what is known of other devices. With `own_sizes`, blocks come in their
    motifs' own sizes first: so they do for GPUs, where a smaller operator does not change from device to device as the
    one it stands for. With a `pool`, tasks run on its places instead of this machine."""

    environment: Environment
    mode: str
    dtype: str
    device: str
    cache: MeasurementCache
    counters: str = "off"
    elsewhere: Elsewhere | None = None
    own_sizes: bool = False
    report: Report = silent
    note: Callable[[str], None] = silent
    effort: Effort = NORMAL
    deadline: Deadline = NEVER
    stages: Stages = field(default_factory=Stages)
    pool: Pool | None = None

    @property
    def counts(self) -> bool:
        """Whether hardware counters are asked for and the device is a GPU."""
        return self.counters != "off" and self.device.startswith("cuda")

    @property
    def most_candidates(self) -> int:
        """So many candidates are measured here at most."""
        return self.effort.candidates_in_order if self.own_sizes else self.effort.candidates

    def key(self, **parts: Any) -> str:
        """The cache's key of what is measured here in this mode and dtype."""
        where = {"mode": self.mode, "dtype": self.dtype, "device": self.device}
        return self.cache.key(environment=fingerprint(self.environment), **where, **parts)

    def run(
        self, task: Task[T], stage: str, begun: Callable[[int], None] = silent, *, silent_s: float | None = None
    ) -> T:
        """A task's result. `begun` is told the index of each block as it begins; `silent_s`: see Control."""

        def report(progress: Progress) -> None:
            self.report(replace(progress, stage=f"{stage}: {progress.stage}"))

        control = Control(timeout_s=JOB_LIMIT_S, silent_s=silent_s)
        if self.pool is None:
            return run(task, control, report=report, begun=begun)
        result: T = self.pool.results([(stage, RunJob.of(Job(task, control)))], report=self.report)[0]
        return result

    def remember(self, kept: Kept[T]) -> T:
        """Its result from the cache, or measured now."""
        return self.cache.remember(
            kept.key, kept.kind, lambda: self.run(kept.task, kept.stage), is_usable=kept.is_usable
        )

    def measure_ahead(self, wanted: Iterable[Kept[Any]]) -> None:
        """Let all places of the pool measure what the cache lacks of these, so that `remember` finds it. What fails is
        not kept: it is tried once more by whoever needs it, who knows what to do then."""
        if self.pool is None:
            return
        cached = ((each, self.cache.get(each.key, each.kind)) for each in wanted)
        missing = [each for each, value in cached if value is None or not each.is_usable(value)]
        control = Control(timeout_s=JOB_LIMIT_S)
        errands = [(each.stage, RunJob.of(Job(each.task, control))) for each in missing]
        with closing(self.pool.run(errands if len(missing) > 1 else [], report=self.report)) as ended:
            for done in ended:
                if done.result is not None:
                    self.cache.put(missing[done.index].key, done.result)
                if self.deadline.passed:
                    break

    def count_once(self, key: str, kind: type[T], count: Callable[[], tuple[T, str]]) -> T:
        """The counted result, from the cache if it is there. If there are no counters, the reason is noted and not
        cached: a permission may be given, or a tool installed, before the next time."""
        cached = self.cache.get(key, kind)
        if cached is not None:
            return cached
        counted, why = count()
        if why:
            self.note(why)
        else:
            self.cache.put(key, counted)
        return counted

    def say_counting(self, stage: str) -> None:
        self.report(Progress(stage=f"{stage}: counting (each kernel runs several times)"))


class Bench(Protocol):
    """What synthesis asks of a bench. A bench keeps no knowledge of a problem; its callers pass on what is learnt."""

    @property
    def setup(self) -> BenchSetup: ...

    @property
    def can_time_members(self) -> bool:
        """Whether models can be run: not on a device that is not here."""

    def machine_speed(self) -> MachineSpeed:
        """The speed of the machine to which all times are scaled: that of the first time, so that what was measured
        then is of use later, and gives the same proxy again; the present one if the machine was disturbed then."""

    def drift(self, speed: MachineSpeed) -> float:
        """How many times as long everything takes now."""

    def measure_members(self, mix: Mix, speed: MachineSpeed) -> tuple[Mix, dict[str, Measurement]]:
        """The mix with its members measured in this environment at this speed; and, for members whose models are not at
        hand, measurements that replace those of their signatures."""

    def retime_members(self, target: Target, names: Collection[str], speed: MachineSpeed) -> dict[str, Measurement]:
        """The measurements of the named members, at this speed: timed anew where their models are at hand, else scaled
        if they were profiled beside the reference network. Without those of which neither is so."""

    def kept(self, wanted: Sequence[Candidate], speed: MachineSpeed) -> list[Candidate]:
        """Those that were measured before, maybe for other mixes, so that they cost no time now."""

    def measure_blocks(
        self, wanted: Sequence[Candidate], speed: MachineSpeed, *, counters: bool = False
    ) -> MeasuredBlocks:
        """The candidates that can be measured, each with its measurement at this speed; with hardware counters if asked
        for. Raises MeasurementError if none can be."""

    def idle_s(self, optimizers: Iterable[str], speed: MachineSpeed) -> dict[str, float]:
        """`IdleTimes.idle_s` for these optimizers at this speed; empty in inference."""

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        """A network measured in one process for each number in `runs`, scaled to the speed."""

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        """The same with hardware counters, if the bench reads any."""

    def measure_together(self, source: str, processes: int) -> Measurement | Unmeasured:
        """A network in so many processes that run each step together, at the machine's present speed."""

    def evidence(self, signature: Signature) -> dict[str, float] | None:
        """Where times that were not measured come from; None: all were measured."""
