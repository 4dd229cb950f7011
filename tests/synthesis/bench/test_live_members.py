"""Members: profiled here where their model is at hand, replayed where it is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from live_benches import SPEED, answers, with_fresh_cache, with_setup
from synthesis_builders import TINY, mix_of, moved, play

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.task import Task
from statsnet.profiling.replay_task import ReplayOperators, _slower
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.measurement import Measurement, Variation
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench import live_members
from statsnet.synthesis.bench.live_bench import LiveBench


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


def test_what_lies_between_operators_slows_down_as_they_do(profile: Signature) -> None:
    (recorded,) = profile.measurements
    times = [
        None if t is None else 3.0 * t / c.calls for t, c in zip(recorded.cluster_time_s, profile.clusters, strict=True)
    ]
    assert _slower(profile, times, recorded) == pytest.approx(3.0)
    assert _slower(profile, [None, *times[1:]], recorded) == pytest.approx(3.0)
    assert _slower(profile, times, None) == 1.0


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


def test_a_profile_whose_operators_take_longer_than_its_step_is_made_once_more(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the reference network ran as fast as ever: it had the quiet moments."""
    (before,) = profile.measurements
    longer = replace(before, cluster_time_s=tuple(t and 3 * t for t in before.cluster_time_s))
    outcomes = [before, longer]
    play(
        monkeypatch,
        benches,
        lambda _: Profile(signature=replace(profile, measurements=(outcomes.pop(),)), reference_latency_s=0.01),
    )
    mix, _replayed = bench.measure_members(mix_of(moved(profile)), SPEED)
    assert outcomes == []
    assert mix.members[0].signature.measurements[0].cluster_time_s == pytest.approx(before.cluster_time_s)


def test_a_useless_profile_is_not_used_later(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour was busy during both profiles."""
    (before,) = profile.measurements
    longer = replace(before, cluster_time_s=tuple(t and 5 * t for t in before.cluster_time_s))
    outcomes, said = [before, longer, longer], list[str]()
    play(
        monkeypatch,
        benches,
        lambda _: Profile(signature=replace(profile, measurements=(outcomes.pop(),)), reference_latency_s=0.01),
    )
    for left, notes in ((1, 1), (0, 1)):
        with_setup(bench, note=said.append).measure_members(mix_of(moved(profile)), SPEED)
        assert len(outcomes) == left
        assert [("times its step" in note) for note in said] == [True] * notes


def test_why_a_member_was_not_profiled_is_told(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operators are replayed."""
    other = replace(profile, clusters=tuple(replace(c, calls=9 * c.calls) for c in profile.clusters))
    outcomes: list[Callable[[], Profile]] = []

    def fail() -> Profile:
        raise MeasurementError("a measuring process took more memory than there is", cause="9 GiB were at hand")

    def answer(task: Any) -> Any:
        return outcomes.pop()() if isinstance(task, ProfileWorkload) else answers(profile)(task)

    play(monkeypatch, benches, answer)
    for outcome, reason in (
        ([fail], "more memory than there is: 9 GiB were at hand"),
        ([lambda: Profile(signature=other, reference_latency_s=0.01)] * 2, "other work than its signature says"),
    ):
        outcomes[:], said = outcome, list[str]()
        _mix, replayed = with_setup(bench, note=said.append).measure_members(mix_of(moved(profile)), SPEED)
        assert set(replayed) == {"m0"}
        (note,) = said
        assert note.startswith("m0 was not profiled, so its operators are replayed: ") and reason in note


def test_a_replay_that_lacked_memory_is_not_used_later(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = mix_of(replace(moved(profile), workload=None))
    replayed = answers(profile)(ReplayOperators(signature=profile, device="cpu"))
    outcomes = [replace(replayed, lacked_memory=lacked) for lacked in (False, True)]
    tasks = play(monkeypatch, benches, lambda _: outcomes.pop())
    for made in (1, 2, 2):
        bench.measure_members(unknown, SPEED)
        assert len(tasks) == made
