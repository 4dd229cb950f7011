"""All steps from the text of a mix to a proxy, for a device that is here or one that was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from statsnet.deadline import NEVER, Deadline
from statsnet.devices.counted_dtypes import USUAL, CountsInDtype, dtype_asked
from statsnet.devices.names import canonical_name, is_known
from statsnet.devices.other_devices import known_share, other_devices
from statsnet.devices.recorded_bench import RecordedBench, RecordedDevice, recorded_device
from statsnet.devices.table_times import TableTimes
from statsnet.environment import fingerprint
from statsnet.errors import UsageError
from statsnet.measure.at_hand import PREFIX, is_recorded
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.engine import Pool
from statsnet.measure.process import measuring_environment
from statsnet.progress import Stages, silent
from statsnet.proxy.spec import Proxy
from statsnet.signatures.database import CountsDB, ProfilesDB
from statsnet.signatures.measurement import Environment
from statsnet.signatures.mix import Mix, MixMember, resolve_mix
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench.bench import Bench, BenchSetup
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.common_dtype import common_dtype
from statsnet.synthesis.effort import NORMAL, Effort
from statsnet.synthesis.problem import Design, Problem, ProxyRequest, prepare
from statsnet.synthesis.search.search import SearchLimits, SearchResult, search
from statsnet.synthesis.search.study_storage import StudyStorage
from statsnet.synthesis.synthesize import finish
from statsnet.units import format_duration

LITTLE = 0.5
"""A record that knows less than this share of a mix's time is told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptions:
    """Where and how a proxy is made. On a GPU, hardware counters (`counters`: see gpu.COUNTING) are read for members
    that are profiled here, for candidates if the members' are known, and for the finished proxy; if there are none,
    `note` is told why. At the `deadline` the best proxy so far is made. For a device that tables recorded, members are
    counted in `dtype` (default: that of the mix's file, else float32), and the other devices of the database help to
    choose (other_devices.py), except `without_devices`: those that are to check it. With a `pool`, its places measure
    instead of this machine; counters are not read there."""

    mode: str = "inference"
    device: str = "cpu"
    profiles: Path | None = None
    cache: MeasurementCache = field(default_factory=MeasurementCache)
    counters: str = "off"
    without_devices: tuple[str, ...] = ()
    note: Callable[[str], None] = silent
    dtype: str | None = None
    effort: Effort = NORMAL
    deadline: Deadline = NEVER
    stages: Stages = field(default_factory=Stages)
    pool: Pool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDevice:
    """The device that a proxy is made for, with its record if it is not here, and the database."""

    options: MakeOptions
    db: ProfilesDB
    environment: Environment
    recorded: RecordedDevice | None

    @classmethod
    def open(cls, options: MakeOptions) -> TargetDevice:
        """Raises UsageError for a bad device, DeviceError if it is not there."""
        db = ProfilesDB(options.profiles)
        recorded = None
        if is_recorded(options.device):
            recorded = recorded_device(options.device.removeprefix(PREFIX), db, options.mode)
        here = recorded.environment if recorded else _environment(options)
        return cls(options=options, db=db, environment=here, recorded=recorded)

    def mix_of(self, text: str) -> Mix:
        """The mix's signatures. Raises UsageError for a bad mix."""
        here = fingerprint(self.environment)
        if self.recorded and self.recorded.counted:
            return counted_mix(text, self.db, here, self.options)
        return resolve_mix(text, self.options.mode, self.db, environment=here)

    def bench(self, mix: Mix) -> Bench:
        """What measures blocks and networks for this mix."""
        options, recorded, here = self.options, self.recorded, self.environment
        setup = BenchSetup(
            environment=here,
            mode=options.mode,
            dtype=common_dtype(mix),
            device="cpu" if recorded else options.device,
            cache=options.cache,
            counters=options.counters,
            elsewhere=other_devices(recorded, mix, self.db.path, options.without_devices) if recorded else None,
            own_sizes=here["device"] == "cuda",
            report=options.stages.report,
            note=options.note,
            effort=options.effort,
            deadline=options.deadline,
            stages=options.stages,
            pool=options.pool,
        )
        if recorded is None:
            return LiveBench(setup)
        self._tell_unknown(mix, recorded)
        for member in mix.members:
            self._tell_own_times(member.signature, recorded)
        return RecordedBench(setup, recorded, lists=any(map(_steps_lists, mix.members)))

    def _tell_unknown(self, mix: Mix, recorded: RecordedDevice) -> None:
        """If a record from tables knows little of the mix."""
        if not isinstance(recorded.model, TableTimes):
            return
        share = known_share(recorded.model, recorded.model, mix)
        if share < LITTLE:
            name = recorded.environment["device_name"]
            self.options.note(
                f"the record of {name} knows operators that take {share:.0%} of the mix's time: the rest is estimated "
                f"from the rates that the device reached. statsnet device show {name} says what it lacks"
            )

    def _tell_own_times(self, signature: Signature, recorded: RecordedDevice) -> None:
        """Where a member was measured on this very device: what its record says instead."""
        name = str(recorded.environment["device_name"])
        for measurement in signature.measurements:
            called = str(measurement.environment["device_name"])
            if not recorded.counted or not is_known(called) or canonical_name(called) != name:
                continue
            clusters = [c for c, t in zip(signature.clusters, measurement.cluster_time_s, strict=True) if t]
            here_s, there_s = measurement.operator_time_s, sum(map(recorded.seconds, clusters))
            self.options.note(
                f"a member was measured on {called}: its operators took {format_duration(here_s)} there, and "
                f"{format_duration(there_s)} by the record, which the proxy is made with. statsnet device import "
                "makes a record with the times of a recording"
            )


def _steps_lists(member: MixMember) -> bool:
    """Whether its optimizer steps lists of parameters, as torch's do on a GPU."""
    return any(c.op.startswith("aten._foreach_") for c in member.signature.clusters if c.phase == "optimizer")


def _environment(options: MakeOptions) -> Environment:
    if options.pool is not None:
        return cast(Environment, options.pool.environment)
    return measuring_environment(options.device)


def open_bench(mix_text: str, options: MakeOptions) -> tuple[Mix, Bench]:
    """The mix's signatures, and the device's bench. Raises UsageError for a bad mix or device, DeviceError if the
    device is not there."""
    device = TargetDevice.open(options)
    mix = device.mix_of(mix_text)
    return mix, device.bench(mix)


def counts_in(dtype: str | None, db: ProfilesDB, options: MakeOptions) -> CountsDB:
    """The database's sizes for accelerators, counted in this dtype."""
    if dtype in (None, USUAL):
        return CountsDB(db.path)
    return CountsInDtype(db.path, str(dtype), options.cache, options.stages.report)


def counted_mix(text: str, db: ProfilesDB, environment: str, options: MakeOptions) -> Mix:
    """The mix's signatures in the sizes for accelerators, in the dtype that is asked for, where the database has them
    all; else those that were measured. Raises UsageError for a bad mix or one of several dtypes."""
    dtype = dtype_asked(text, options.dtype)
    counts = counts_in(dtype, db, options)
    try:
        mix = resolve_mix(text, options.mode, counts, environment=environment)
    except UsageError:
        if options.dtype is not None:
            raise
        # a member that was only measured: then all are taken from the measured ones, or the error is theirs
        mix = resolve_mix(text, options.mode, db, environment=environment)
        options.note("a member has no counts in the sizes for accelerators: all have the sizes that were measured")
        return mix
    if isinstance(counts, CountsInDtype):
        options.note(
            f"the members' operators were counted on fake tensors in {dtype}: the database has their standard sizes in "
            f"{USUAL} alone"
        )
    return mix


def prepare_proxy(request: ProxyRequest, options: MakeOptions) -> Problem:
    """The problem for a request. Raises as `synthesize` does."""
    mix, bench = open_bench(request.mix_text, options)
    return prepare(mix, bench, request, Design(seed=request.seed))


def synthesize(request: ProxyRequest, options: MakeOptions) -> Proxy:
    """Make a proxy for a mix. Deterministic for the same signatures, seed and cached measurements.

    Raises UsageError for a bad mix or budget, DeviceError if the device is not there, MeasurementError if a measuring
    process fails.
    """
    return finish(prepare_proxy(request, options))


def search_proxy(
    request: ProxyRequest,
    options: MakeOptions,
    *,
    storage: StudyStorage,
    limits: SearchLimits,
    study: str | None,
) -> SearchResult:
    """Make a proxy with a search over designs. Raises as `synthesize` and `search` do."""
    mix, bench = open_bench(request.mix_text, options)
    return search(mix, bench, request, storage=storage, limits=limits, study=study)
