"""What every bench promises, held to by real processes: on a device that is here, and on a recorded one."""

from __future__ import annotations

from collections import Counter

import pytest
from synthesis_builders import bench_setup, candidate, mix_of, moved, play, small_signature

from statsnet.devices import recorded_bench
from statsnet.devices.recorded_bench import RecordedBench, device_of
from statsnet.environment import fingerprint
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import measuring_environment
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import build_towers
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench.bench import Bench
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.costs.block_costs import BlockCosts

SMALL = candidate("linear", "sgd", rows=8, inputs=16, outputs=4)
LARGE = candidate("linear", rows=64, inputs=32, outputs=128, activation="relu")
TOWERS = build_towers([(SMALL.placed, 2), (LARGE.placed, 1)], training=True)
SOURCE = network_source(TOWERS, title="t", spec_id="", mode="training", dtype="float32", seed=0)
SPEED = MachineSpeed(reference_network=SOURCE, reference_latency_s=0.01)
MIX = mix_of(small_signature())
"""Of no model, and measured on neither device."""


@pytest.fixture(params=["live", "recorded"], scope="module")
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """For training. Of the recorded device two operators are known."""
    recorded = device_of([moved(small_signature())])
    here = measuring_environment() if request.param == "live" else recorded.environment
    cache = MeasurementCache(tmp_path_factory.mktemp("cache"))
    setup = bench_setup(cache, environment=here, mode="training")
    live: Bench = LiveBench(setup)
    elsewhere: Bench = RecordedBench(setup, recorded)
    return live if request.param == "live" else elsewhere


def test_blocks_come_back_in_the_order_asked_for(bench: Bench) -> None:
    for wanted in ([SMALL, LARGE], [LARGE, SMALL]):
        blocks = bench.measure_blocks(wanted, SPEED)
        assert [c for c, _ in blocks] == wanted
    (_, large), (_, small) = blocks
    assert {row.phase for row in large.block.operators} == {"forward", "backward"}
    assert {row.category for row in small.optimizer.operators} == {"optimizer"}
    assert large.optimizer.operators == ()
    assert all(row.time_s > 0 for m in (large, small) for row in m.block.operators)


def test_what_was_measured_of_blocks_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [SMALL, LARGE]
    bench.measure_blocks(wanted, SPEED)
    tasks = [play(monkeypatch, module, lambda _: None) for module in (benches, recorded_bench)]
    assert [c for c, _ in bench.measure_blocks(wanted, SPEED)] == wanted
    assert tasks == [[], []]


def test_an_idle_step_is_known_by_its_parts_or_not_at_all(bench: Bench) -> None:
    idle_s = bench.idle_s(["sgd", "adam", "sgd"], SPEED)
    assert idle_s.keys() in ({"block", "sgd", "adam"}, set())
    assert bench.idle_s([], SPEED) == {}


def test_members_from_elsewhere_are_measured(bench: Bench) -> None:
    mix, replayed = bench.measure_members(MIX, SPEED)
    assert mix == MIX
    measurement = replayed["m0"]
    assert measurement.fingerprint == fingerprint(bench.setup.environment)
    assert measurement.source == "replay"
    assert all(t is not None and t > 0 for t in measurement.cluster_time_s)


def test_members_without_models_are_not_timed_again(bench: Bench) -> None:
    assert bench.retime_members(target_of_mix(MIX, {}), {"m0"}, SPEED) == {}


def test_a_network_holds_its_sources_blocks(bench: Bench) -> None:
    """And its blocks in place teach what they cost."""
    network = bench.measure_network(SOURCE, range(1), SPEED)
    (measurement,) = network.signature.measurements
    assert measurement.fingerprint == fingerprint(bench.setup.environment)
    assert network.latency_s > 0
    products: Counter[tuple[int, ...]] = Counter()
    for cluster in network.signature.clusters:
        if cluster.op == "aten.addmm.default":
            products[tuple(cluster.outputs[0]["shape"])] += round(cluster.calls)
    assert products == {(8, 4): 2, (64, 128): 1}
    for blocks in network.blocks:
        assert [len(tower) for tower in blocks] == [len(tower.blocks) for tower in TOWERS]
        assert all(part.operator_time_s > 0 for tower in blocks for part in tower)
        costs = BlockCosts.of(bench.measure_blocks([SMALL, LARGE], SPEED)).learn(TOWERS, [blocks])
        assert len(costs.seen()) == 3  # the small block also without its optimizer
    assert bench.count_network(SOURCE, network) == network, "no counters are asked for"
    evidence = bench.evidence(network.signature)
    assert evidence is None or sum(evidence.values()) == pytest.approx(1.0)
