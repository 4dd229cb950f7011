"""Members that have times from here: timed again beside the reference network, as they are or by what others say."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from live_benches import SPEED, answers, beside_a_reference_network, in_turns, with_fresh_cache, with_setup
from synthesis_builders import mix_of, moved, play

from statsnet.errors import DeviceError
from statsnet.measure.timing_tasks import TimedStep, TimeWorkload
from statsnet.signatures.measurement import ReferenceTime
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature, WorkloadName
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench import retimed_members
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.machine_speed import STEADY, reference_work
from statsnet.synthesis.problem import Design, ProxyRequest, prepare

WORK = reference_work("inference", "float32")


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


def weighted(mix: Mix, weights: Iterable[float]) -> Mix:
    return replace(mix, members=tuple(replace(m, weight=w) for m, w in zip(mix.members, weights, strict=True)))


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


def test_those_that_are_not_timed_follow_their_domain(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vision models take 1.2 times as long as they did, others 0.9 times."""
    before_s = profile.measurements[0].latency_s
    change = {"cv": 1.2, "recsys": 0.9}

    def answer(task: Any) -> TimedStep:
        return beside_a_reference_network(change[task.model.target.partition("/")[0]] * before_s)

    tasks: list[Any] = play(monkeypatch, benches, answer)
    target = target_of_mix(many(profile, 90))
    again = bench.retime_members(target, {m.name for m in target.members}, SPEED)
    assert len(tasks) < len(again) == 90
    for member in target.members:
        assert member.signature.workload is not None
        factor = change[member.signature.workload.domain]
        assert again[member.name].latency_s == pytest.approx(factor * before_s)


def test_members_of_the_largest_share_are_timed_first(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = profile.measurements
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(before.latency_s))
    mix = many(profile, 90)
    target = target_of_mix(weighted(mix, [(1 + (i == 77)) / 91 for i in range(90)]))
    bench.retime_members(target, {m.name for m in target.members}, SPEED)
    assert tasks[0].model.batch == 8 + 77


def _shares(timed: Collection[int], of_timed: float) -> list[float]:
    """Of 90 members."""
    return [of_timed / len(timed) if i in timed else (1 - of_timed) / (90 - len(timed)) for i in range(90)]


def test_in_another_mix_of_the_same_members_none_is_timed_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless those that were are few of it."""
    (before,) = profile.measurements
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(1.1 * before.latency_s))
    mix = many(profile, 90)
    target = target_of_mix(mix)
    names = [m.name for m in target.members]
    bench.retime_members(target, names, SPEED)
    timed = {task.model.batch - 8 for task in tasks}
    assert 0 < len(timed) < 90 / 4
    usual = len(timed) / 90
    of_two_domains = [(0.7, 0.3)[i % 2] / 45 for i in range(90)]
    cases = [(of_two_domains, 0), *((_shares(timed, of), n) for of, n in ((3 * usual, 0), (0.9 * usual, 1)))]
    for shares, others in cases:
        tasks.clear()
        again = bench.retime_members(target_of_mix(weighted(mix, shares)), names, SPEED)
        assert bool(tasks) == bool(others)
        assert len(again) == 90


def test_a_domain_of_which_nothing_is_kept_is_timed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though members of another domain, which has most of the mix, were timed for an earlier one."""
    (before,) = profile.measurements
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(before.latency_s))
    target = target_of_mix(many(profile, 4))
    bench.retime_members(target, {"m1", "m3"}, SPEED)
    assert {task.model.target.partition("/")[0] for task in tasks} == {"cv"}
    tasks.clear()
    bench.retime_members(target, {m.name for m in target.members}, SPEED)
    assert {task.model.target.partition("/")[0] for task in tasks} == {"recsys"}


def test_a_large_model_leaves_time_for_others(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of 30 GB takes a minute to make, but is the most of its mix."""
    (before,) = profile.measurements
    tasks: list[Any] = play(monkeypatch, benches, lambda _: beside_a_reference_network(before.latency_s))
    large = replace(profile, batch=1, memory=replace(profile.memory, parameter_bytes=3 * 10**10))
    mix = mix_of(large, profile)
    bench.retime_members(target_of_mix(weighted(mix, (0.9, 0.1))), {"m0", "m1"}, SPEED)
    assert {task.model.batch for task in tasks} == {1, profile.batch}


def test_what_cannot_be_timed_keeps_its_times(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that there is not enough memory for, and another version. A note says which."""
    said: list[str] = []
    bench = with_setup(bench, note=said.append)
    ours = target_of_mix(mix_of(profile))
    outcomes: list[Callable[[], TimedStep]] = []
    play(monkeypatch, benches, lambda _: outcomes.pop()())
    assert bench.retime_members(ours, set(), SPEED) == {}

    def without_memory() -> TimedStep:
        raise DeviceError("not enough memory")

    outcomes.append(without_memory)
    assert bench.retime_members(ours, {"m0"}, SPEED) == {}
    assert said.pop() == "m0 keeps the times of its signature: not enough memory"
    for factor in (0.3, 3.0):
        step = beside_a_reference_network(factor * profile.measurements[0].latency_s)
        outcomes += [lambda step=step: step] * retimed_members.RETIMED_PROCESSES  # type: ignore[misc]
        assert with_fresh_cache(bench, time.time_ns()).retime_members(ours, {"m0"}, SPEED) == {}
        assert f"takes {factor:g} times as long" in said.pop()
    assert outcomes == [] and said == []


def test_what_cannot_be_timed_is_brought_to_the_pace_that_it_was_profiled_at(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: Any) -> TimedStep:
        raise DeviceError("not enough memory")

    (before,) = profile.measurements
    beside = replace(before, reference=ReferenceTime(network=WORK, latency_s=0.02))
    play(monkeypatch, benches, answer)
    said: list[str] = []
    target = target_of_mix(mix_of(replace(profile, measurements=(beside,))))
    again = with_setup(bench, note=said.append).retime_members(target, {"m0"}, SPEED)
    assert again["m0"].latency_s == 0.5 * before.latency_s
    assert said == [
        "m0 keeps the times of its signature, at the speed that the reference network tells: not enough memory"
    ]


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


def test_what_was_profiled_beside_the_reference_network_is_not_timed_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = play(monkeypatch, benches, answers(profile))
    prepare(mix_of(moved(profile)), bench, ProxyRequest(mix_text="a mix"), Design())
    assert not any(isinstance(task, TimeWorkload) for task in tasks)


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


def test_if_none_can_be_timed_those_that_would_follow_are_told_of(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: Any) -> TimedStep:
        raise DeviceError("not enough memory")

    tasks, said = play(monkeypatch, benches, answer), []
    target = target_of_mix(many(profile, 90))
    assert with_setup(bench, note=said.append).retime_members(target, {m.name for m in target.members}, SPEED) == {}
    *each, others = said
    beside = replace(profile.measurements[0], reference=ReferenceTime(network=WORK, latency_s=0.02))
    known = target_of_mix(many(replace(profile, measurements=(beside,)), 90))
    silent_bench = with_fresh_cache(bench, time.time_ns())
    assert len(silent_bench.retime_members(known, {m.name for m in known.members}, SPEED)) == 90
    assert len(each) == len({task.model.batch for task in tasks}) < 90
    assert others.startswith(f"the times of {90 - len(each)} other members stay those of their signatures")


def test_on_a_steady_device_steps_are_timed_once(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the reference network; the next command takes them from the cache."""
    now_s = 1.2 * profile.measurements[0].latency_s
    tasks: list[Any] = play(monkeypatch, benches, lambda _: in_turns([now_s] * 3, []))
    for _ in range(2):
        again = bench.retime_members(target_of_mix(mix_of(profile)), {"m0"}, STEADY)
        assert again["m0"].latency_s == pytest.approx(now_s)
    assert [task.reference_network for task in tasks] == [None] * retimed_members.RETIMED_PROCESSES
