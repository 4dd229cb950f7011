"""A device that is recorded on one machine, and a proxy made for it with nothing but the record."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from statsnet.devices import record as recording
from statsnet.devices.record import FEWEST, chosen, record_device
from statsnet.devices.recorded_bench import device_of, record_path, recorded_device
from statsnet.environment import fingerprint, slug
from statsnet.errors import MeasurementError, StatsNetError, UsageError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run_job
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.gpu import Counters
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.synthesis import live_bench as measure
from statsnet.synthesis.synthesize import synthesize

PROFILE = {"kind": "profile_workload", "target": "recsys/ncf", "preset": "tiny", "batch": 64, "dtype": "float32",
           "device": "cpu", "min_time_s": 0.01}  # fmt: skip


def elsewhere(signature: Signature) -> Signature:
    """As if another machine had measured it."""
    (measurement,) = signature.measurements
    moved = {**measurement.environment, "device_name": "Z80", "cpu_model": "Z80"}
    return dataclasses.replace(signature, measurements=(dataclasses.replace(measurement, environment=moved),))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> ProfilesDB:
    """Profiles of one workload in both modes, of this machine."""
    root = tmp_path_factory.mktemp("profiles")
    for mode in ("inference", "training"):
        signature = Signature.from_dict(run_job({**PROFILE, "mode": mode})["signature"])
        folder = root / slug(signature.measurements[0].environment) / "recsys"
        folder.mkdir(parents=True, exist_ok=True)
        save_signature(folder / f"ncf.{mode}.json", signature)
    return ProfilesDB(root)


@pytest.fixture(scope="module")
def record(db: ProfilesDB) -> Signature:
    """Of a device that is not here."""
    reference = recording.REFERENCE
    recording.REFERENCE = {**reference, "target": "recsys/ncf", "preset": "tiny"}
    try:
        return elsewhere(record_device(db, count=60))
    finally:
        recording.REFERENCE = reference


def test_a_record_is_a_signature_of_single_operators(record: Signature, db: ProfilesDB) -> None:
    (measurement,) = record.measurements
    assert {c.calls for c in record.clusters} == {1.0}
    assert {c.phase for c in record.clusters} == {"forward", "backward", "optimizer"}
    timed = [t for t in measurement.cluster_time_s if t]
    assert len(timed) > 0.9 * len(record.clusters)
    device = device_of([record])
    assert device.operators == len(timed)
    assert device.between_s == pytest.approx((measurement.framework_time_s or 0.0) / measurement.launches)
    workload = db.entries[0].load()
    dearest = max(
        zip(workload.measurements[0].cluster_time_s, workload.clusters, strict=True), key=lambda p: p[0] or 0
    )
    found = device.model.estimate(*(getattr(dearest[1], n) for n in ("op", "phase", "args", "outputs")))
    assert found.evidence == "exact"


@pytest.mark.parametrize(("mode", "budget_s"), [("inference", 2e-4), ("training", 4e-3)])
def test_a_proxy_is_made_from_the_record_alone(
    mode: str,
    budget_s: float,
    record: Signature,
    db: ProfilesDB,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: set[str] = set()

    def run(job: dict[str, Any], **options: Any) -> dict[str, Any]:
        kinds.add(job["kind"])
        return run_job(job, **options)

    monkeypatch.setattr(measure, "run_job", run)
    save_signature(tmp_path / "z80.json", record)
    proxy = synthesize(
        "recsys:1", mode=mode, budget_s=budget_s, device=f"recorded:{tmp_path / 'z80.json'}", profiles=db.path,
        cache=MeasurementCache(tmp_path / "cache"),
    )  # fmt: skip
    assert kinds == {"count_candidates", "count_proxy"}
    assert proxy.spec["reference_environment"]["cpu_model"] == "Z80"
    (measurement,) = proxy.signature.measurements
    assert measurement.fingerprint == fingerprint(record.measurements[0].environment)
    fit = proxy.fit()
    assert sum(fit["recorded"].values()) == pytest.approx(1.0)
    assert fit["stored_members"] == []
    spent_s = sum(t for t in measurement.cluster_time_s if t) + (measurement.framework_time_s or 0.0)
    assert measurement.latency_s == pytest.approx(spent_s)
    assert set(fit["rounds"][0]) >= {"measured_error", "predicted_error"}


def test_a_device_is_found_by_a_part_of_its_name(
    record: Signature, db: ProfilesDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here,) = {e.environment for e in db.entries}
    assert recorded_device(here[:8], db).operators == sum(
        sum(bool(t) for t in e.load().measurements[0].cluster_time_s) for e in db.entries
    )
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

    def operator(name: str, size: int) -> Any:
        args = ({"shape": [size], "dtype": "float32"},)
        return dataclasses.replace(cluster, op=f"aten.{name}.default", args=args, outputs=args)

    pool = {f"mm{n}": (operator("mm", n), 0.09 / 90) for n in range(1, 91)}
    pool |= {f"relu{n}": (operator("relu", n), 0.01 / 90) for n in range(1, 91)}
    pool |= {"mm100": (operator("mm", 100), 0.72), "tanh": (operator("tanh", 5), 0.0)}
    found = chosen(pool, 50)
    names = [c.op.split(".")[1] for c in found]
    assert len(found) <= 50
    assert names.count("mm") == pytest.approx(FEWEST + 0.9 * (50 - 3 * FEWEST), abs=2)
    assert names.count("relu") == pytest.approx(FEWEST + 0.1 * (50 - 3 * FEWEST), abs=2)
    assert names.count("tanh") == 1
    sizes = [c.args[0]["shape"][0] for c in found if "mm" in c.op]
    assert 100 in sizes
    assert max(b - a for a, b in zip(sorted(sizes), sorted(sizes)[1:], strict=False)) <= 12
    assert len(chosen(pool, 1000)) == len(pool)
    assert len(chosen(pool, 7)) == 7


def test_an_operator_that_ends_its_process_is_left_out(
    db: ProfilesDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = list(db.entries[0].load().clusters)
    bad = clusters[len(clusters) // 2]

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked = Signature.from_dict(job["signature"])
        if bad.to_dict() in [c.to_dict() for c in asked.clusters]:
            raise MeasurementError("a measuring process was killed")
        count = len(asked.clusters)
        (usual,) = db.entries[0].load().measurements
        timed = dataclasses.replace(
            usual, cluster_time_s=(1e-3,) * count, kernels=("k",) * count, kernel_class=("k",) * count
        )
        return {"measurement": timed.to_dict()}

    monkeypatch.setattr(recording, "run_job", run)
    found = recording.merge_signatures([p.signature for p in recording._timed(clusters, "cpu")], 1e-5)
    assert [c.to_dict() for c in found.clusters] == [c.to_dict() for c in clusters if c is not bad]
    (measurement,) = found.measurements
    assert measurement.launches == len(clusters) - 1
    assert measurement.framework_time_s == pytest.approx(1e-5 * measurement.launches)
    with pytest.raises(MeasurementError, match="no operator"):
        recording.merge_signatures([p.signature for p in recording._timed([bad], "cpu")], 0.0)


def test_a_gpus_record_has_counters_of_the_operators_of_all_processes(
    db: ProfilesDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = list(db.entries[0].load().clusters)[:3]
    (usual,) = db.entries[0].load().measurements

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        count = len(job["signature"]["counts"]["clusters"])
        timed = dataclasses.replace(
            usual, cluster_time_s=(1e-3,) * count, kernels=("k",) * count, kernel_class=("k",) * count
        )
        launches = [
            {"cluster": i, "family": "sgemm_kernel", "time_s": 2e-6, "weight": 1.0} for i in range(count)
        ]
        return {"measurement": timed.to_dict(), "launches": launches}

    def count(_job: Any, launches: Any, clusters: int, _how: str) -> tuple[Counters, str]:
        assert [launch.cluster for launch in launches] == list(range(clusters))
        return Counters(
            tool="ncu 1", clusters={"ipc": (1.5,) * clusters}, missing={"l2_hit_rate": "not_supported"}
        ), ""

    monkeypatch.setattr(recording, "run_job", run)
    monkeypatch.setattr(recording, "counters_of", count)
    parts = [
        recording._counted(part, "cuda", "ncu", lambda _: None).signature
        for some in (clusters[:2], clusters[2:])
        for part in recording._timed(some, "cuda")
    ]
    found = recording.merge_signatures(parts, 1e-5).measurements[0].gpu
    assert found is not None
    assert found.counters.clusters == {"ipc": (1.5, 1.5, 1.5)}
    assert found.counters.missing == {"l2_hit_rate": "not_supported"}
    assert [k.cluster for k in found.kernels] == [0, 1, 2]
    assert found.busy_time_s == pytest.approx(6e-6)
