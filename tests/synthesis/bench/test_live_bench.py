"""Blocks, networks and the machine's speed, measured on a device that is here; and what the cache keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_benches import NETWORK, SPEED, answers, with_fresh_cache, with_setup
from synthesis_builders import candidate, mix_of, moved, part, play

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.network_file import digest
from statsnet.measure.reference_network import Looked
from statsnet.signatures.canonical import content_id
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.machine_speed import reference_network
from statsnet.synthesis.bench.tasks import NetworkTrace

MEASURED: dict[str, Callable[[LiveBench, Signature], Any]] = {
    "profiles": lambda bench, profile: bench.measure_members(mix_of(moved(profile)), SPEED)[0].members[0].signature,
    "replays": lambda bench, profile: bench.measure_members(mix_of(moved(replace(profile, workload=None))), SPEED)[1],
    "blocks": lambda bench, _: bench.measure_blocks([candidate("a"), candidate("b", "adam", shape=(2, 3))], SPEED),
    "an idle step": lambda bench, _: bench.idle_s(["adam", "sgd", "adam"], SPEED),
    "a network": lambda bench, _: bench.measure_network("a proxy", range(2), SPEED),
}


@pytest.mark.parametrize("what", MEASURED)
def test_what_was_measured_is_taken_from_the_cache(
    what: str, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if the dtype is another, or the entry has another form, as that of a version before."""
    tasks = play(monkeypatch, benches, answers(profile))

    def measured(bench: LiveBench) -> str:
        """To nine digits, as a cache keeps them."""
        return content_id({"measured": msgspec.to_builtins(MEASURED[what](bench, profile))})

    bench = with_setup(bench, mode="training")
    first = measured(bench)
    run_once = len(tasks)
    assert run_once > 0
    assert measured(bench) == first
    assert measured(with_setup(bench, cache=MeasurementCache(bench.setup.cache.folder))) == first
    assert len(tasks) == run_once
    measured(with_setup(bench, dtype="bfloat16"))
    assert len(tasks) == 2 * run_once
    for path in bench.setup.cache.folder.rglob("*.json"):
        path.write_text(f'{{"value": {{"of": "another form"}}, "put_ns": {time.time_ns()}}}')
    assert measured(bench) == first
    assert len(tasks) == 3 * run_once


def test_whole_networks_are_as_fast_as_when_members_were_timed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes on a machine that was a fifth faster in one of them, and twice as slow in the other."""
    (usual,) = profile.measurements
    speeds = [0.8, 2.0]

    def answer(task: Any) -> NetworkTrace:
        assert Path(task.folder, "network.py").read_text() == "a proxy"
        assert Path(task.reference_network, "network.py").read_text() == NETWORK
        speed = speeds.pop(0)
        return NetworkTrace(
            signature=replace(profile, measurements=(usual.scale_times(speed),)),
            build_s=1.0,
            blocks=((part("k", 0.002 * speed),),),
            reference_latency_s=0.01 * speed,
        )

    play(monkeypatch, benches, answer)
    for _ in range(2):  # the second time from the cache
        network = bench.measure_network("a proxy", range(2), SPEED)
        assert network.latency_s == pytest.approx(usual.latency_s)
        assert network.signature.measurements[0].operator_time_s == pytest.approx(usual.operator_time_s)
        assert [b[0][0].operator_time_s for b in network.blocks] == [pytest.approx(0.002)] * 2
        assert network.drift == pytest.approx((0.8 * 2.0) ** 0.5)
    again = bench.measure_network("a proxy", range(1), replace(SPEED, reference_latency_s=0.02))
    assert again.latency_s == pytest.approx(2 * usual.latency_s)


def test_the_speed_is_that_of_the_first_time(bench: LiveBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a second run of the same command comes out the same; a fresh cache forgets it."""
    seen_s = [0.030, 0.045, 0.045, 0.040]
    play(monkeypatch, benches, lambda _: Looked(latency_s=seen_s.pop(0)))
    first, second = (bench.machine_speed() for _ in range(2))
    assert (first.reference_latency_s, second.reference_latency_s) == (0.030, 0.030)
    assert second.now_s == 0.045
    assert bench.drift(first) == pytest.approx(1.5)
    assert with_fresh_cache(bench, time.time_ns()).machine_speed().reference_latency_s == 0.040


def test_the_speed_of_a_disturbed_machine_is_forgotten(bench: LiveBench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen_s = [0.412, 0.012, 0.011, 0.300]
    play(monkeypatch, benches, lambda _: Looked(latency_s=seen_s.pop(0)))
    speeds = [bench.machine_speed() for _ in range(4)]
    assert [speed.reference_latency_s for speed in speeds] == [0.412, 0.012, 0.012, 0.012]


def test_blocks_that_were_measured_on_a_disturbed_machine_are_measured_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, benches, answers(profile, slower=2.5))
    bench.measure_blocks([candidate("a")], replace(SPEED, now_s=0.02))
    tasks = play(monkeypatch, benches, answers(profile))
    bench.measure_blocks([candidate("a")], replace(SPEED, now_s=0.02))  # on a machine that is slow for hours, not again
    assert not tasks
    ((_, block),) = bench.measure_blocks([candidate("a")], SPEED)
    assert tasks
    assert block.operator_time_s == pytest.approx(0.001)


def test_blocks_take_as_long_as_at_the_speed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = play(monkeypatch, benches, answers(profile, slower=2.0))
    for _ in range(2):  # the second time from the cache
        ((_, block),) = bench.measure_blocks([candidate("a")], SPEED)
        assert block.operator_time_s == pytest.approx(0.001 / 2)
    assert len({type(task) for task in tasks}) == 1


def test_a_third_process_tells_which_of_two_was_disturbed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that agree, no third is run."""
    (usual,) = profile.measurements
    slower = [1.0, 1.5, 1.01, 1.0, 1.01]

    def answer(_: Any) -> NetworkTrace:
        signature = replace(profile, measurements=(usual.scale_times(slower.pop(0)),))
        return NetworkTrace(signature=signature, build_s=1.0, blocks=(), reference_latency_s=0.01)

    tasks = play(monkeypatch, benches, answer)
    network = bench.measure_network("a proxy", range(2), SPEED)
    assert network.latency_s == pytest.approx(1.0 * usual.latency_s, rel=0.02)
    assert len(tasks) == 3
    bench.measure_network("another", range(2), SPEED)
    assert len(tasks) == 5


def test_the_reference_network_s_source_is_known() -> None:
    """Its step is what brings stored signatures to today's pace. If another source takes as long, write its digest
    here; if not, raise WORK_VERSION as well."""
    assert digest(reference_network("training", "float32")).startswith("1a268fc93042282a")
