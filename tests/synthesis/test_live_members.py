"""Members: profiled here where their model is at hand, replayed where it is not, and brought to one speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from live_benches import (
    SPEED,
    answers,
    beside_a_reference_network,
    in_turns,
    with_fresh_cache,
    with_setup,
)
from synthesis_builders import TINY, mix_of, moved, play

from statsnet.errors import DeviceError, WorkloadError
from statsnet.measure.task import Task
from statsnet.measure.timing_tasks import TimedStep, TimeWorkload
from statsnet.profiling.replay_task import ReplayOperators, _slower
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.measurement import Measurement, ReferenceTime, Variation
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature, WorkloadName
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis import bench as benches
from statsnet.synthesis import live_members, retimed_members
from statsnet.synthesis.live_bench import LiveBench
from statsnet.synthesis.machine_speed import reference_work
from statsnet.synthesis.problem import Design, ProxyRequest, prepare

WORK = reference_work("inference", "float32")


def test_a_model_at_hand_is_profiled_once(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the reference network, and its times are those at the speed asked for."""
    tasks = play(monkeypatch, benches, answers(profile, slower=1.25))
    for _ in range(2):  # the second time from the cache
        mix, replayed = bench.measure_members(mix_of(moved(profile)), SPEED)
        (measurement,) = mix.members[0].signature.measurements
        assert measurement.environment["cpu_model"] != "Z80"
        assert measurement.latency_s == pytest.approx(profile.measurements[0].latency_s / 1.25)
        assert replayed == {}
    (task,) = tasks
    assert isinstance(task, ProfileWorkload) and task.reference_network
    assert task.model == replace(TINY, dtype="float32"), "in the dtype of its signature"
    assert task.known == moved(profile), "whose steps are alike: nobody looks again"
    again, _ = bench.measure_members(mix, SPEED)
    assert again == mix


def test_with_a_fresh_cache_all_models_at_hand_are_profiled(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, for mixes that share the cache; what cannot be profiled keeps the times it has from here."""
    tasks = play(monkeypatch, benches, answers(profile, slower=1.25))
    assert bench.measure_members(mix_of(profile), SPEED) == (mix_of(profile), {})
    assert tasks == []
    fresh = with_fresh_cache(bench, time.time_ns())
    for _ in range(2):
        mix, replayed = fresh.measure_members(mix_of(profile), SPEED)
        assert mix.members[0].signature.id != profile.id
        assert replayed == {}
    assert [type(task) for task in tasks] == [ProfileWorkload]
    unknown = mix_of(replace(profile, workload=None))
    assert fresh.measure_members(unknown, SPEED) == (unknown, {})


def test_a_member_that_does_other_work_than_is_known_is_looked_at_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps as built may be others than those that its signature is of."""
    usual = answers(profile)
    less = replace(profile, clusters=tuple(replace(c, flops=0.5 * (c.flops or 0.0)) for c in profile.clusters))
    as_built = Profile(signature=less, reference_latency_s=0.01)
    tasks: list[Any] = play(monkeypatch, benches, lambda task: usual(task) if task.known is None else as_built)
    mix, replayed = bench.measure_members(mix_of(moved(profile)), SPEED)
    assert [task.known is None for task in tasks] == [False, True]
    assert replayed == {}
    assert mix.members[0].signature.flops_per_step == profile.flops_per_step


@pytest.mark.parametrize("measured", [True, False])
def test_only_what_was_measured_and_does_not_vary_is_taken_as_known(
    measured: bool, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Any] = play(monkeypatch, benches, answers(profile))
    spread = Variation(steps=8, distinct=2, work_deviation=0.1, work_error=0.01, time_deviation=0.1, time_error=0.01)
    (measurement,) = moved(profile).measurements
    varying = replace(profile, measurements=(replace(measurement, variation=spread),) if measured else ())
    bench.measure_members(mix_of(varying), SPEED)
    assert [task.known for task in tasks] == [None]


def test_a_member_of_a_large_share_is_profiled_longer(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Any] = play(monkeypatch, benches, answers(profile))
    other = replace(profile, batch=16)
    mix = mix_of(moved(profile), moved(other))
    large, small = (replace(m, weight=w) for m, w in zip(mix.members, (0.9, 0.1), strict=True))
    bench.measure_members(replace(mix, members=(large, small)), SPEED)
    first, second = (task.min_time_s for task in tasks)
    assert first > second > 0


def test_a_kept_profile_serves_shares_that_ask_for_no_more_steps(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a small share does not serve a large one; that of a large one serves both."""
    tasks: list[Any] = play(monkeypatch, benches, answers(profile))
    mix = mix_of(moved(profile))
    (member,) = mix.members
    repeats = []
    for weight in (0.01, 0.5, 0.02, 0.6):
        bench.measure_members(replace(mix, members=(replace(member, weight=weight),)), SPEED)
        repeats.append([task.repeats for task in tasks])
    fewer, more = live_members.FEW_REPEATS, live_members.MANY_REPEATS
    assert repeats == [[fewer], [fewer, more], [fewer, more], [fewer, more]]


@pytest.mark.parametrize("factor", [0.7, 1.6])
def test_members_take_as_long_as_at_the_speed(
    factor: float, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much longer than when they were profiled, in all their parts, as their steps take beside the reference
    network's, on a machine that is not as fast from one moment to the next."""
    (before,) = profile.measurements
    speeds, noise = (1.0, 0.8, 2.0, 1.0), (1.0, 0.9, 1.1, 1.0)
    steps_s = [factor * before.latency_s * s * n for s, n in zip(speeds, noise, strict=True)]
    tasks = play(monkeypatch, benches, lambda _: in_turns(steps_s, [0.01 * s for s in speeds]))
    factor *= (0.9 * 1.1) ** 0.25
    for _ in range(2):  # the second time from the cache
        now = bench.retime_members(target_of_mix(mix_of(profile)), {"m0"}, SPEED)["m0"]
        assert now.latency_s == pytest.approx(factor * before.latency_s)
        assert now.operator_time_s == pytest.approx(factor * before.operator_time_s)
        assert now.framework_time_s == pytest.approx(factor * (before.framework_time_s or 0.0))
        assert now.kernel_class == before.kernel_class
    assert [type(task) for task in tasks] == [TimeWorkload] * retimed_members.RETIMED_PROCESSES


@pytest.mark.parametrize(("slower", "factor"), [("step", 3.0), ("reference", 3.0), ("step", 0.3)])
def test_few_members_are_timed_in_several_processes(
    slower: str, factor: float, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in which the step or its reference network had a busy neighbour is outvoted."""
    now_s = 1.2 * profile.measurements[0].latency_s
    step_s, reference_s = (factor if slower == name else 1.0 for name in ("step", "reference"))
    disturbed = in_turns([step_s * now_s] * 3, [reference_s * 0.01] * 3)
    outcomes = [disturbed, beside_a_reference_network(now_s), beside_a_reference_network(now_s)]
    play(monkeypatch, benches, lambda _: outcomes.pop())
    again = bench.retime_members(target_of_mix(mix_of(profile)), {"m0"}, SPEED)
    assert again["m0"].latency_s == pytest.approx(now_s)
    assert outcomes == []


def many(profile: Signature, count: int) -> Mix:
    """Members of one workload, which differ in their batch; every other one of another domain."""
    assert profile.workload is not None
    cv = WorkloadName(domain="cv", name="alexnet", preset="tiny")
    signatures = [replace(profile, batch=8 + i, workload=cv if i % 2 else profile.workload) for i in range(count)]
    return mix_of(*signatures)


def test_of_many_members_some_are_timed_and_the_others_follow(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of each domain. Each is named before its process starts, which says nothing itself."""
    (before,) = profile.measurements
    stages: list[str] = []
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(1.1 * before.latency_s))
    target = target_of_mix(many(profile, 90))
    shown = with_setup(bench, report=lambda progress: stages.append(progress.stage))
    again = shown.retime_members(target, {m.name for m in target.members}, SPEED)
    assert 5 < len(tasks) < 60
    assert len(stages) == len(tasks)
    domains = [task.model.target.partition("/")[0] for task in tasks]
    assert abs(domains.count("cv") - domains.count("recsys")) <= 1
    assert len(again) == 90
    assert all(m.latency_s == pytest.approx(1.1 * before.latency_s) for m in again.values())


def test_members_of_the_largest_share_are_timed_first(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = profile.measurements
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(before.latency_s))
    mix = many(profile, 90)
    weights = [1 + (i == 77) for i in range(90)]
    members = tuple(replace(m, weight=w / 91) for m, w in zip(mix.members, weights, strict=True))
    target = target_of_mix(replace(mix, members=members))
    bench.retime_members(target, {m.name for m in target.members}, SPEED)
    assert tasks[0].model.batch == 8 + 77


def test_what_cannot_be_timed_keeps_its_times(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that there is not enough memory for, and another version."""
    ours = target_of_mix(mix_of(profile))
    outcomes: list[Callable[[], TimedStep]] = []
    play(monkeypatch, benches, lambda _: outcomes.pop()())
    assert bench.retime_members(ours, set(), SPEED) == {}

    def without_memory() -> TimedStep:
        raise DeviceError("not enough memory")

    outcomes.append(without_memory)
    assert bench.retime_members(ours, {"m0"}, SPEED) == {}
    for factor in (0.3, 3.0):
        step = beside_a_reference_network(factor * profile.measurements[0].latency_s)
        outcomes += [lambda step=step: step] * retimed_members.RETIMED_PROCESSES  # type: ignore[misc]
        assert with_fresh_cache(bench, time.time_ns()).retime_members(ours, {"m0"}, SPEED) == {}
    assert outcomes == []


@pytest.mark.parametrize("reason", ["unknown", "other work", "not installed"])
def test_what_is_not_at_hand_is_replayed(
    reason: str, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = moved(profile)
    if reason == "unknown":
        signature = replace(signature, workload=None)
    if reason == "other work":
        clusters = tuple(replace(c, calls=3 * c.calls) for c in signature.clusters)
        signature = replace(signature, clusters=clusters)
    usual = answers(profile, slower=1.25)

    def answer(task: Task[Any]) -> Any:
        if reason == "not installed" and isinstance(task, ProfileWorkload):
            raise WorkloadError("no such library")
        return usual(task)

    tasks = play(monkeypatch, benches, answer)
    mix, replayed = bench.measure_members(mix_of(signature), SPEED)
    assert mix == mix_of(signature)
    assert replayed["m0"].source == "replay"
    (alone,) = replay_of(profile.measurements[0], 1.0).step_latency_s
    assert replayed["m0"].latency_s == pytest.approx(alone / 1.25)
    assert isinstance(tasks[-1], ReplayOperators) and tasks[-1].reference_network


def test_what_could_not_be_replayed_is_told(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, op, notes = answers(profile), profile.clusters[0].op, list[str]()

    def answer(task: Task[Any]) -> Any:
        found = usual(task)
        return replace(found, failures=((op, "is not here"),)) if isinstance(task, ReplayOperators) else found

    play(monkeypatch, benches, answer)
    strange = replace(moved(profile), workload=None)
    with_setup(bench, note=notes.append).measure_members(mix_of(strange), SPEED)
    assert [op in note and "is an estimate" in note for note in notes] == [True]


@pytest.mark.parametrize("fresh", [None, 0])
def test_what_keeps_its_stored_times_is_named(
    fresh: int | None, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is at hand is timed again, or profiled; a customer's is neither."""
    play(monkeypatch, benches, answers(profile))
    mix = mix_of(profile, replace(profile, workload=None))
    bench = bench if fresh is None else with_fresh_cache(bench, fresh)
    problem = prepare(mix, bench, ProxyRequest(mix_text="a mix"), Design())
    assert (problem.not_retimed, problem.replayed) == (("m1",), ())


@pytest.mark.parametrize(
    ("network", "beside_s", "factor", "why"),
    [
        (WORK, 0.02, 0.5, ""),
        ("sha256:" + "0" * 64, 0.02, None, "not profiled beside"),
        (WORK, 0.065, None, "6.5 times as long as now"),
    ],
)
def test_a_customers_times_are_brought_to_the_pace_of_the_others(
    network: str, beside_s: float, factor: float | None, why: str, profile: Signature, bench: LiveBench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The reference network took 20 ms beside the profile, and 10 at this speed. Another network tells nothing, nor
    does this one beside busy programs, which slow a model down otherwise."""
    (before,) = profile.measurements
    beside = replace(before, reference=ReferenceTime(network=network, latency_s=beside_s))
    tasks = play(monkeypatch, benches, answers(profile))
    target = target_of_mix(mix_of(replace(profile, workload=None, measurements=(beside,))))
    said: list[str] = []
    again = with_setup(bench, note=said.append).retime_members(target, {"m0"}, SPEED)
    assert not tasks
    assert [why in note for note in said] == [True] * (not factor)
    assert [m.latency_s for m in again.values()] == ([factor * before.latency_s] if factor else [])


def test_a_profile_of_a_disturbed_machine_is_not_used_later(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both profiles of it are kept from a time when everything took 2.5 times as long."""
    foreign = mix_of(moved(profile))
    play(monkeypatch, benches, answers(profile, slower=2.5))
    bench.measure_members(foreign, SPEED)
    tasks = play(monkeypatch, benches, answers(profile))
    bench.measure_members(foreign, SPEED)
    assert tasks
    tasks = play(monkeypatch, benches, answers(profile))
    bench.measure_members(foreign, SPEED)
    assert not tasks


def replay_of(measurement: Measurement, factor: float) -> Measurement:
    """All operators and what lies between them take `factor` times as long as in the step."""
    parts = [*measurement.cluster_time_s, measurement.framework_time_s]
    step_s = factor * sum(t or 0.0 for t in parts)
    return replace(measurement, step_latency_s=(step_s,), source="replay")


def test_what_was_profiled_beside_the_reference_network_is_not_timed_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = play(monkeypatch, benches, answers(profile))
    prepare(mix_of(moved(profile)), bench, ProxyRequest(mix_text="a mix"), Design())
    assert not any(isinstance(task, TimeWorkload) for task in tasks)


def test_what_lies_between_operators_slows_down_as_they_do(profile: Signature) -> None:
    (recorded,) = profile.measurements
    times = [
        None if t is None else 3.0 * t / c.calls for t, c in zip(recorded.cluster_time_s, profile.clusters, strict=True)
    ]
    assert _slower(profile, times, recorded) == pytest.approx(3.0)
    assert _slower(profile, [None, *times[1:]], recorded) == pytest.approx(3.0)
    assert _slower(profile, times, None) == 1.0


def test_one_member_that_fails_does_not_stop_the_others(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left out, and does not follow the others: its model may do other work."""
    (before,) = profile.measurements

    def answer(task: Any) -> TimedStep:
        if task.model.batch == 9:
            raise DeviceError("not enough memory")
        return beside_a_reference_network(before.latency_s)

    play(monkeypatch, benches, answer)
    target = target_of_mix(many(profile, 3))
    again = bench.retime_members(target, {m.name for m in target.members}, SPEED)
    assert sorted(again) == ["m0", "m2"]


@pytest.mark.parametrize(("second", "kept", "notes"), [(0.011, 1.0, 0), (0.018, 1.0, 1), (0.020, 2.0, 1)])
def test_a_profile_of_a_disturbed_moment_is_made_once_more(
    second: float, kept: float, notes: int, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference network took 20 ms beside the first profile, 10 ms at its best. The better profile stays, and is
    taken from the cache the next time."""
    (before,) = profile.measurements
    references = [0.020, second]
    said: list[str] = []

    def answer(_: Any) -> Profile:
        slowed = before.scale_times(2.0 if len(references) == 2 else 1.0)
        return Profile(signature=replace(profile, measurements=(slowed,)), reference_latency_s=references.pop(0))

    play(monkeypatch, benches, answer)
    for _ in range(2):
        mix, _replayed = with_setup(bench, note=said.append).measure_members(mix_of(moved(profile)), SPEED)
        latency_s = mix.members[0].signature.measurements[0].latency_s
        reference_s = 0.020 if kept == 2.0 else second
        assert latency_s == pytest.approx(kept * before.latency_s * 0.01 / reference_s, rel=1e-6)
    assert len(said) == 2 * notes
    assert all("the reference network took" in note for note in said)
