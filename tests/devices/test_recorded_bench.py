"""A device that is recorded on one machine, and a proxy made for it with nothing but the record."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from device_tables import gemm_record
from synthesis_builders import (
    TINY,
    candidate,
    few_jumps,
    measured,
    mix_of,
    moved,
    play,
    small_signature,
)  # fmt: skip

from benchmarks.diagnostics import left_out_devices
from statsnet.devices import record as recording
from statsnet.devices import recorded_bench
from statsnet.devices.device_record import DeviceRecord, save_record
from statsnet.devices.kernel_model import KernelModel
from statsnet.devices.make_proxy import MakeOptions, TargetDevice, open_bench, synthesize
from statsnet.devices.record import FEWEST, chosen, record_device
from statsnet.devices.recorded_bench import device_of, record_path, recorded_device, table_device
from statsnet.environment import fingerprint, slug
from statsnet.errors import MeasurementError, StatsNetError, UsageError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.measure.task import Context
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.proxy.towers import Placed
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.gpu import Counters
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.synthesis.bench.bench import Bench
from statsnet.synthesis.bench.capture_tasks import CaptureBlockOperators, CaptureNetworkOperators
from statsnet.synthesis.bench.machine_speed import STEADY
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.problem import ProxyRequest

FEW_BLOCKS = replace(QUICK, candidates=24, candidates_in_order=24)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> ProfilesDB:
    """Profiles of one workload in both modes, of this machine."""
    root = tmp_path_factory.mktemp("profiles")
    for mode in ("inference", "training"):
        model = replace(TINY, batch=64, mode=mode)
        signature = run(ProfileWorkload(model=model, min_time_s=0.01)).signature
        folder = root / slug(signature.measurements[0].environment) / "recsys"
        folder.mkdir(parents=True, exist_ok=True)
        save_signature(folder / f"ncf.{mode}.json", signature)
    return ProfilesDB(root)


@pytest.fixture(scope="module")
def record(db: ProfilesDB) -> Signature:
    """Of a device that is not here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "REFERENCE", replace(TINY, batch=None))
        return moved(record_device(db, count=30))


def test_a_record_is_a_signature_of_single_operators(record: Signature, db: ProfilesDB) -> None:
    (measurement,) = record.measurements
    assert {c.calls for c in record.clusters} == {1.0}
    assert {c.phase for c in record.clusters} <= {"forward", "backward", "optimizer"}  # which ones, times decide
    timed = [t for t in measurement.cluster_time_s if t]
    assert len(timed) > 0.9 * len(record.clusters)
    device = device_of([record])
    assert isinstance(device.model, KernelModel)
    assert device.model.operators == len(timed)
    assert device.between_s == pytest.approx((measurement.framework_time_s or 0.0) / record.calls_per_step)
    workload = db.entries[0].load()
    times = zip(workload.measurements[0].cluster_time_s, workload.clusters, strict=True)
    _, dearest = max(times, key=lambda pair: pair[0] or 0)
    estimate = device.model.estimate(dearest.op, dearest.phase, dearest.args, dearest.outputs)
    assert estimate.evidence == "exact"


def test_between_two_calls_lies_the_same_however_many_kernels_each_launches(record: Signature) -> None:
    (measurement,) = record.measurements
    launched = replace(record, measurements=(replace(measurement, launches=40 * measurement.launches),))
    assert device_of([launched]).between_s == device_of([record]).between_s


@pytest.mark.parametrize(("mode", "budget_s"), [("inference", 1e-3), ("training", 4e-3)])
def test_a_proxy_is_made_from_the_record_alone(
    mode: str,
    budget_s: float,
    record: Signature,
    db: ProfilesDB,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_jumps(monkeypatch)
    tasks = play(monkeypatch, recorded_bench, run)
    save_signature(tmp_path / "z80.json", record)
    options = MakeOptions(
        mode=mode, device=f"recorded:{tmp_path / 'z80.json'}", profiles=db.path,
        cache=MeasurementCache(tmp_path / "cache"), effort=FEW_BLOCKS,
    )  # fmt: skip
    proxy = synthesize(ProxyRequest(mix_text="recsys:1", budget_s=budget_s), options)
    assert {type(task) for task in tasks} == {CaptureBlockOperators, CaptureNetworkOperators}
    assert proxy.spec.reference_environment["cpu_model"] == "Z80"
    (measurement,) = proxy.signature.measurements
    assert measurement.fingerprint == fingerprint(record.measurements[0].environment)
    fit = proxy.fit()
    assert sum((fit.recorded or {}).values()) == pytest.approx(1.0)
    assert fit.stored_members == ()
    spent_s = sum(t for t in measurement.cluster_time_s if t) + (measurement.framework_time_s or 0.0)
    assert measurement.latency_s == pytest.approx(spent_s)
    assert len(fit.rounds) == 1
    assert fit.effort == "quick"
    assert {"blocks measured", "solving", "networks measured"} < options.stages.spent_s.keys()


@pytest.fixture
def for_acme_one(db: ProfilesDB, tmp_path: Path) -> MakeOptions:
    """A database of counts and of one device that tables recorded."""
    counts = tmp_path / "db" / "meta" / "recsys"
    counts.mkdir(parents=True)
    for entry in db.entries:
        shutil.copy(entry.path, counts / f"{entry.workload}.{entry.mode}.json")
    save_record(tmp_path / "db" / "devices" / "acme-one.json.gz", gemm_record())
    return MakeOptions(
        mode="inference", device="recorded:acme-one", profiles=tmp_path / "db",
        cache=MeasurementCache(tmp_path / "cache"), effort=FEW_BLOCKS,
    )  # fmt: skip


def test_a_proxy_for_a_device_that_tables_recorded(for_acme_one: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted sizes are the target, blocks are captured without memory, and times come from the tables' models."""
    few_jumps(monkeypatch)
    tasks = play(monkeypatch, recorded_bench, run)
    options = replace(for_acme_one, device="recorded:acme")
    proxy = synthesize(ProxyRequest(mix_text="recsys:1", budget_s=1e-3), options)
    assert all(task.fake for task in tasks)  # type: ignore[attr-defined]
    assert proxy.spec.reference_environment["device_name"] == "acme-one"
    recorded = proxy.fit().recorded or {}
    assert recorded["exact"] == 0.0 and recorded["roofline"] > 0.0
    assert sum(recorded.values()) == pytest.approx(1.0)


def test_blocks_that_cannot_be_captured_are_named_and_tried_again(
    for_acme_one: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory may be free then."""
    notes: list[str] = []
    _mix, bench = open_bench("recsys:1", replace(for_acme_one, note=notes.append))
    wanted = [candidate("linear", rows=rows, inputs=8, outputs=8, activation="") for rows in (40, 130, 400)]
    wanted[0] = candidate("linear", rows=40, inputs=8, outputs=8, activation="no such")
    tasks: list[Any] = play(monkeypatch, recorded_bench, run)
    for tried in (3, 1):
        assert [c for c, _ in bench.measure_blocks(wanted, STEADY)] == wanted[1:]
        assert len(tasks.pop().blocks) == tried
        assert notes.pop() == f"1 block left out that cannot be run, for example {wanted[0].named}"
    with pytest.raises(MeasurementError):
        bench.measure_blocks(wanted[:1], STEADY)


def test_a_device_that_is_left_out_takes_no_part_in_a_proxy_that_follows_it(
    for_acme_one: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, recorded_bench, run)
    for name, factor in (("acme-two", 2.0), ("acme-three", 3.0)):
        save_record(tmp_path / "db" / "devices" / f"{name}.json.gz", gemm_record(name, factor))
    asked: list[tuple[str, ...]] = []

    def opened(text: str, options: MakeOptions) -> tuple[Mix, Bench]:
        mix, bench = open_bench(text, options)
        assert bench.setup.elsewhere is not None
        asked.append(bench.setup.elsewhere.names)
        return mix, bench

    monkeypatch.setattr(left_out_devices, "open_bench", opened)
    ways = {"rows": left_out_devices.Way(own_sizes=True, has_devices=True)}
    (row,) = left_out_devices.compared("recsys:1", for_acme_one, ways, 1e-3, most=1)
    assert asked == [("acme-three", "acme-two"), ("acme-two",)]
    assert row.device == "acme-three"
    assert 2.0 < row.suite_factor <= 3.0, "the shortest calls take no longer there"
    assert row.error < 0.1


def test_a_device_is_found_by_a_part_of_its_name(record: Signature, db: ProfilesDB) -> None:
    (here,) = {e.environment for e in db.entries}
    model = recorded_device(here[:8], db).model
    assert isinstance(model, KernelModel)
    assert model.operators == sum(sum(bool(t) for t in e.load().measurements[0].cluster_time_s) for e in db.entries)
    path = record_path(db, "cpu-z80")
    path.parent.mkdir()
    save_signature(path, record)
    try:
        assert recorded_device("z80", db).environment["cpu_model"] == "Z80"
        with pytest.raises(UsageError, match="several recorded devices"):
            recorded_device("cpu", db)
        with pytest.raises(UsageError, match="no recorded device"):
            recorded_device("h200", db)
    finally:
        path.unlink()
        path.parent.rmdir()
    assert load_signature(db.entries[0].path).id == db.entries[0].load().id


def test_nothing_to_record(tmp_path: Path) -> None:
    with pytest.raises(StatsNetError, match="nothing to record"):
        record_device(ProfilesDB(tmp_path))
    with pytest.raises(UsageError, match="nothing was measured"):
        device_of([])


def test_kinds_of_operators_are_recorded_by_their_time(db: ProfilesDB) -> None:
    """The root of a kind's share of the time, the dearest of it and others evenly over their sizes."""
    cluster = db.entries[0].load().clusters[0]

    def operator(name: str, size: int) -> Cluster:
        args = ({"shape": [size], "dtype": "float32"},)
        return replace(cluster, op=f"aten.{name}.default", args=args, outputs=args)

    pool = {f"mm{n}": (operator("mm", n), 0.09 / 90) for n in range(1, 91)}
    pool |= {f"relu{n}": (operator("relu", n), 0.01 / 90) for n in range(1, 91)}
    pool |= {"mm100": (operator("mm", 100), 0.72), "tanh": (operator("tanh", 5), 0.0)}
    some = chosen(pool, 50)
    names = [c.op.split(".")[1] for c in some]
    assert len(some) <= 50
    assert names.count("mm") == pytest.approx(FEWEST + 0.9 * (50 - 3 * FEWEST), abs=2)
    assert names.count("relu") == pytest.approx(FEWEST + 0.1 * (50 - 3 * FEWEST), abs=2)
    assert names.count("tanh") == 1
    sizes = [c.args[0]["shape"][0] for c in some if "mm" in c.op]
    assert 100 in sizes
    assert max(b - a for a, b in zip(sorted(sizes), sorted(sizes)[1:], strict=False)) <= 12
    assert len(chosen(pool, 1000)) == len(pool)
    assert len(chosen(pool, 7)) == 7


@pytest.fixture
def recorded(db: ProfilesDB, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Signature]:
    """A record of some operators in several processes, which end at those that are `bad`. No block is captured."""
    monkeypatch.setattr(recording, "AT_ONCE", 8)
    reference = db.entries[0].load()

    def answer(task: Any, bad: Callable[[Cluster], bool]) -> Any:
        if isinstance(task, CaptureBlockOperators):
            return []
        if isinstance(task, ProfileWorkload):
            return Profile(signature=reference)
        assert isinstance(task, ReplayOperators)
        if any(map(bad, task.signature.clusters)):
            raise MeasurementError("a measuring process was killed")
        count = len(task.signature.clusters)
        launches = tuple(Launch(cluster=i, family="sgemm_kernel", time_s=2e-6) for i in range(count))
        return Replayed(measurement=measured((1e-3,) * count, ("k",) * count), launches=launches)

    def make(bad: Callable[[Cluster], bool] = lambda _: False, **options: Any) -> Signature:
        play(monkeypatch, recording, lambda task: answer(task, bad))
        return record_device(db, count=20, **options)

    return make


def test_an_operator_that_ends_its_process_is_left_out(recorded: Callable[..., Signature], db: ProfilesDB) -> None:
    everything = recorded()
    bad = everything.clusters[len(everything.clusters) // 2]
    record = recorded(lambda cluster: cluster == bad)
    assert record.clusters == tuple(c for c in everything.clusters if c != bad)
    assert len(record.clusters) == len(everything.clusters) - 1 == 19
    (measurement,) = record.measurements
    whole = db.entries[0].load()
    (reference,) = whole.measurements
    between_s = ((reference.framework_time_s or 0.0) + (reference.idle_time_s or 0.0)) / whole.calls_per_step
    assert measurement.launches == 19
    assert measurement.framework_time_s == pytest.approx(19 * between_s)
    with pytest.raises(MeasurementError, match="no operator"):
        recorded(lambda _: True)


def test_a_gpus_record_has_counters_of_the_operators_of_all_processes(
    recorded: Callable[..., Signature], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(task: Any, launches: Any, clusters: int, how: str) -> tuple[Counters, str]:
        assert (len(task.signature.clusters), task.device, how) == (clusters, "cuda", "ncu")
        assert [launch.cluster for launch in launches] == list(range(clusters))
        values = {"ipc": (1.5,) * clusters}
        return Counters(tool="ncu 1", clusters=values, missing={"l2_hit_rate": "not_supported"}), ""

    monkeypatch.setattr(recording, "counters_of", count)
    activity = recorded(device="cuda", counters="ncu").measurements[0].gpu
    assert activity is not None
    assert activity.counters.clusters == {"ipc": (1.5,) * 20}
    assert activity.counters.missing == {"l2_hit_rate": "not_supported"}
    assert [k.cluster for k in activity.kernels] == list(range(20))
    assert activity.busy_time_s == pytest.approx(20 * 2e-6)
    assert recorded(device="cpu", counters="ncu").measurements[0].gpu is None


def test_why_there_are_no_counters_is_noted(
    recorded: Callable[..., Signature], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    nothing = (Counters(tool=None, clusters={}, missing={"ipc": "not_permitted"}), "no hardware counters")
    monkeypatch.setattr(recording, "counters_of", lambda *_: nothing)
    recorded(device="cuda", counters="auto", note=notes.append)
    assert notes == ["no hardware counters"] * 3  # of each process


def test_operators_of_a_block_that_a_compiler_fuses_are_known_whatever_views_lie_between() -> None:
    config = {"shape": (8, 32), "functions": ("tanh", "relu"), "operand": ()}
    task = CaptureBlockOperators(
        blocks=(Placed(kind="pointwise", config=config),), mode="inference", dtype="float32", fake=True
    )
    (calls,) = task.run(Context())
    assert [call.op for call in calls if call.fused] == ["aten.relu.default"]


@pytest.mark.parametrize("lists", [False, True])
def test_optimizers_of_blocks_step_as_those_of_the_members_do(lists: bool) -> None:
    block = Placed(kind="parameters", config={"shape": (64, 64)}, optimizer="adam")
    task = CaptureBlockOperators(blocks=(block,), mode="training", dtype="float32", fake=True, lists=lists)
    (calls,) = task.run(Context())
    stepped = [call.op for call in calls if call.segment == "optimizer"]
    assert stepped and any(op.startswith("aten._foreach_") for op in stepped) == lists


def notes_on(member: Signature, record: DeviceRecord, folder: Path) -> list[str]:
    """What is told when a bench is made of a record for a mix of one member."""
    notes: list[str] = []
    recorded = table_device(record)
    options = MakeOptions(device="recorded:h100", note=notes.append, cache=MeasurementCache(folder / "cache"))
    device = TargetDevice(options=options, db=ProfilesDB(folder), environment=recorded.environment, recorded=recorded)
    device.bench(mix_of(member))
    return notes


@pytest.mark.parametrize("known", [True, False])
def test_a_member_that_was_measured_on_the_device_itself_is_told(known: bool, tmp_path: Path) -> None:
    (measurement,) = small_signature().measurements
    here = {**measurement.environment, "device_name": "NVIDIA H100 80GB HBM3" if known else "NVIDIA H200"}
    member = small_signature(measurements=(replace(measurement, environment=here),))
    notes = notes_on(member, replace(gemm_record(), device="nvidia-h100-sxm"), tmp_path)
    own = [note for note in notes if "was measured on" in note]
    assert [("NVIDIA H100 80GB HBM3" in note, "8 ms" in note) for note in own] == [(True, True)] * known


def test_a_record_that_knows_nothing_of_the_mix_is_told(tmp_path: Path) -> None:
    (note,) = notes_on(small_signature(), replace(gemm_record(), models=()), tmp_path)
    assert "knows operators that take 0% of the mix's time" in note
