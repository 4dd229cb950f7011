"""Members from another environment: profiled again where their model is at hand, replayed where it is not."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import DeviceError, WorkloadError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run_job
from statsnet.profiling.tasks import _slower
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import save_signature
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis import live_bench as measure
from statsnet.synthesis import problem
from statsnet.synthesis.live_bench import Bench
from statsnet.synthesis.network_measurement import MachineSpeed, scale_times
from statsnet.synthesis.problem import prepare

TINY = {"kind": "profile_workload", "target": "recsys/ncf", "preset": "tiny", "batch": 8, "mode": "inference",
        "dtype": "float32", "device": "cpu", "min_time_s": 0.01}  # fmt: skip


@pytest.fixture(scope="module")
def profile() -> Signature:
    """A tiny workload's signature."""
    return Signature.from_dict(run_job(TINY)["signature"])


@pytest.fixture(scope="module")
def elsewhere(profile: Signature) -> Signature:
    """The same, as if measured on another machine."""
    (measurement,) = profile.measurements
    moved = dataclasses.replace(measurement, environment={**measurement.environment, "cpu_model": "Z80"})
    return dataclasses.replace(profile, measurements=(moved,))


def mix_of(signature: Signature) -> Mix:
    member = MixMember(name="recsys/ncf", weight=1.0, signature=signature, source="database", path=Path())
    return Mix(mode="inference", members=(member,))


@pytest.fixture
def bench(tmp_path: Path, profile: Signature) -> Bench:
    return Bench(
        environment=profile.measurements[0].environment, mode="inference", dtype="float32", device="cpu",
        cache=MeasurementCache(tmp_path), report=lambda _stage, _share: None,
    )  # fmt: skip


NETWORK = "a reference network's source"


def beside_a_reference_network(latency_s: float) -> dict[str, Any]:
    """What a process says of a member's steps."""
    return {"window_latency_s": [latency_s] * 3, "reference_latency_s": [0.01] * 3}


def jobs_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the jobs that run from now on."""
    kinds: list[str] = []

    def run(job: dict[str, Any], **options: Any) -> dict[str, Any]:
        kinds.append(job["kind"])
        return run_job(job, **options)

    monkeypatch.setattr(measure, "run_job", run)
    return kinds


def test_a_model_at_hand_is_profiled_once(
    elsewhere: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = jobs_of(monkeypatch)
    for _ in range(2):  # the second time from the cache
        mix, replayed = bench.measured_here(mix_of(elsewhere))
        (member,) = mix.members
        assert member.signature.measurements[0].environment["cpu_model"] != "Z80"
        assert member.signature.measurements[0].source == "profile"
        assert replayed == {}
    assert kinds == ["profile_workload"]
    again, _ = bench.measured_here(mix)
    assert again == mix


def test_afresh_all_models_at_hand_are_profiled(
    profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, for mixes that share the cache; what cannot be profiled keeps the times it has from here."""
    kinds = jobs_of(monkeypatch)
    assert bench.measured_here(mix_of(profile)) == (mix_of(profile), {})
    assert kinds == []
    ignore_cache = dataclasses.replace(
        bench, cache=MeasurementCache(bench.cache.folder, fresh_since_ns=time.time_ns())
    )
    for _ in range(2):
        mix, replayed = ignore_cache.measured_here(mix_of(profile))
        assert mix.members[0].signature.id != profile.id
        assert replayed == {}
    assert kinds == ["profile_workload"]
    unknown = mix_of(dataclasses.replace(profile, workload=None))
    assert ignore_cache.measured_here(unknown) == (unknown, {})


@pytest.mark.parametrize("factor", [0.7, 1.6])
def test_members_take_as_long_as_they_take_now(
    factor: float, profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much longer than when they were profiled, in all their parts, as their steps take beside the reference
    network's, on a machine that is not as fast from one moment to the next."""
    target = target_of_mix(mix_of(profile))
    (before,) = profile.measurements
    jobs: list[dict[str, Any]] = []

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        jobs.append(job)
        speeds = (1.0, 0.8, 2.0, 1.0)
        noise = (1.0, 0.9, 1.1, 1.0)
        return {
            "window_latency_s": [
                factor * before.latency_s * s * n for s, n in zip(speeds, noise, strict=True)
            ],
            "reference_latency_s": [0.01 * s for s in speeds],
        }

    monkeypatch.setattr(measure, "run_job", run)
    again, pace = bench.retimed(target, {"recsys/ncf"}, NETWORK)
    now = again["recsys/ncf"]
    speed = pace.latency_s / 0.01
    assert speed == pytest.approx((0.8 * 2.0) ** 0.25)
    factor *= speed * (0.9 * 1.1) ** 0.25
    assert now.latency_s == pytest.approx(factor * before.latency_s)
    assert now.operator_time_s == pytest.approx(factor * before.operator_time_s)
    assert now.framework_time_s == pytest.approx(factor * (before.framework_time_s or 0.0))
    assert now.kernel_class == before.kernel_class
    assert {k: jobs[0][k] for k in ("kind", "target", "preset", "batch", "mode")} == {
        "kind": "time_workload", "target": "recsys/ncf", "preset": "tiny", "batch": 8, "mode": "inference",
    }  # fmt: skip


@pytest.mark.parametrize(("slower", "left_out"), [("window", 3.0), ("reference", 3.0), ("window", 0.3)])
def test_few_members_are_timed_in_several_processes(
    slower: str, left_out: float, profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in which the step or its reference_network had a busy neighbour is outvoted."""
    target = target_of_mix(mix_of(profile))
    times = beside_a_reference_network(1.2 * profile.measurements[0].latency_s)
    disturbed = {**times, f"{slower}_latency_s": [left_out * t for t in times[f"{slower}_latency_s"]]}
    outcomes = [disturbed, times, times]
    monkeypatch.setattr(measure, "run_job", lambda _job, **_: outcomes.pop())
    again, _ = bench.retimed(target, {"recsys/ncf"}, NETWORK)
    assert again["recsys/ncf"].latency_s == pytest.approx(1.2 * profile.measurements[0].latency_s)
    assert outcomes == []


@pytest.mark.parametrize(("count", "limit_s"), [(1, 15.0), (20, 6.0), (200, 4.0)])
def test_many_members_are_timed_for_a_shorter_time_each(
    count: int, limit_s: float, profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is named before its process starts, which says nothing itself."""
    one = mix_of(profile).members[0]
    members = tuple(dataclasses.replace(one, name=f"m{i}", weight=1 / count) for i in range(count))
    target = target_of_mix(Mix(mode="inference", members=members))
    limits: list[float] = []
    stages: list[str] = []

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        limits.append(job["max_time_s"])
        assert len(stages) == len(limits)
        return beside_a_reference_network(1.1 * profile.measurements[0].latency_s)

    monkeypatch.setattr(measure, "run_job", run)
    shown = dataclasses.replace(bench, report=lambda stage, _share: stages.append(stage))
    assert len(shown.retimed(target, {m.name for m in members}, NETWORK)[0]) == count
    processes = max(count, measure.RETIMED_PROCESSES)
    assert limits == [pytest.approx(limit_s)] * processes
    assert stages[-1] == f"timing m{count - 1} once more ({processes} of {processes})"


def test_what_cannot_be_timed_keeps_its_times(
    profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not asked for, a customer's own, one that there is not enough memory for, and another version."""
    ours = target_of_mix(mix_of(profile))
    customers = target_of_mix(mix_of(dataclasses.replace(profile, workload=None)))
    outcomes: list[Any] = [lambda: {"latency_s": [0.01, 0.02, 0.03]}]
    monkeypatch.setattr(measure, "run_job", lambda _job, **_: outcomes.pop()())
    for _ in range(2):  # the second time from the cache
        assert bench.retimed(ours, set(), NETWORK) == ({}, MachineSpeed(source=NETWORK, latency_s=0.02))
        assert bench.retimed(customers, {"recsys/ncf"}, NETWORK)[0] == {}

    def without_memory() -> dict[str, Any]:
        raise DeviceError("not enough memory")

    for factor in (0.3, 3.0, None):
        times = beside_a_reference_network((factor or 0.0) * profile.measurements[0].latency_s)
        processes = 1 if factor is None else measure.RETIMED_PROCESSES
        outcomes += [without_memory if factor is None else lambda times=times: times] * processes
        assert bench.retimed(ours, {"recsys/ncf"}, NETWORK)[0] == {}
    assert outcomes == []


def test_what_keeps_its_stored_times_is_named(
    profile: Signature, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is at hand is timed again, a customer's is not."""
    nothing = {"operators": [], "framework_s": 0.0}

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {
            "signature": profile.to_dict(),
            "columns": [{"block": nothing, "optimizer": nothing} for _ in job.get("candidates", ())],
            "latency_s": [1.0],
            **beside_a_reference_network(profile.measurements[0].latency_s),
        }

    monkeypatch.setattr(measure, "run_job", run)
    monkeypatch.setattr(problem, "measuring_environment", lambda _device: profile.measurements[0].environment)
    files = [tmp_path / "ours.json", tmp_path / "customers.json"]
    for path, signature in zip(files, (profile, dataclasses.replace(profile, workload=None)), strict=True):
        save_signature(path, signature)
    for fresh in (None, 0):
        cache = MeasurementCache(tmp_path / "cache", fresh_since_ns=fresh)
        found = prepare(",".join(f"{path}:1" for path in files), cache=cache)
        assert [name[:10] for name in found.not_retimed] == ["signature-"]


@pytest.mark.parametrize("reason", ["unknown", "other work", "not installed"])
def test_what_is_not_at_hand_is_replayed(
    reason: str, elsewhere: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = elsewhere
    if reason == "unknown":
        signature = dataclasses.replace(elsewhere, workload=None)
    if reason == "other work":
        clusters = tuple(dataclasses.replace(c, calls=3 * c.calls) for c in elsewhere.clusters)
        signature = dataclasses.replace(elsewhere, clusters=clusters)
    kinds = jobs_of(monkeypatch)
    if reason == "not installed":

        def run(job: dict[str, Any], **options: Any) -> dict[str, Any]:
            if job["kind"] == "profile_workload":
                raise WorkloadError("no such library")
            return run_job(job, **options)

        monkeypatch.setattr(measure, "run_job", run)
    mix, replayed = bench.measured_here(mix_of(signature))
    assert mix == mix_of(signature)
    assert replayed["recsys/ncf"].source == "replay"
    assert reason == "not installed" or kinds[-1] == "replay"


def test_what_lies_between_operators_slows_down_as_they_do(elsewhere: Signature) -> None:
    (recorded,) = elsewhere.measurements
    times = [
        None if t is None else 3.0 * t / c.calls
        for t, c in zip(recorded.cluster_time_s, elsewhere.clusters, strict=True)
    ]
    assert _slower(elsewhere, times, recorded) == pytest.approx(3.0)
    assert _slower(elsewhere, [None, *times[1:]], recorded) == pytest.approx(3.0)
    assert _slower(elsewhere, times, None) == 1.0


def test_whole_networks_are_as_fast_as_when_members_were_timed(
    profile: Signature, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes on a machine that was a fifth faster in one of them, and twice as slow in the other."""
    pace = MachineSpeed(source=NETWORK, latency_s=0.01)
    (usual,) = profile.measurements
    speeds = [0.8, 2.0]

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert Path(job["reference_network"], "network.py").read_text() == NETWORK
        speed = speeds.pop(0)
        then = dataclasses.replace(profile, measurements=(scale_times(usual, speed),))
        part = {"operators": [{"time_s": 0.002 * speed, "calls": 1}], "framework_s": 0.0}
        return {
            "signature": then.to_dict(), "build_s": 1.0, "blocks": [[part]],
            "reference_latency_s": 0.01 * speed,
        }  # fmt: skip

    monkeypatch.setattr(measure, "run_job", run)
    for _ in range(2):  # the second time from the cache
        whole = bench.whole("a proxy", range(2), pace)
        assert whole.signature.measurements[0].latency_s == pytest.approx(usual.latency_s)
        assert whole.signature.measurements[0].operator_time_s == pytest.approx(usual.operator_time_s)
        assert [b[0][0]["operators"][0]["time_s"] for b in whole.blocks] == [pytest.approx(0.002)] * 2
        assert whole.drift == pytest.approx((0.8 * 2.0) ** 0.5)
    again = bench.whole("a proxy", range(1), dataclasses.replace(pace, latency_s=0.02))
    assert again.signature.measurements[0].latency_s == pytest.approx(2 * usual.latency_s)
