"""Counters of candidates and of a finished proxy, with a GPU's events and its counters played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_benches import SPEED
from synthesis_builders import (
    NOTHING,
    alone,
    bench_setup,
    candidate,
    linear,
    part,
    play,
    row,
    small_signature,
)

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.device_kernels import Kernel
from statsnet.profiling.gpu_activity import Launch, no_counters
from statsnet.profiling.timeline import Timeline
from statsnet.proxy.towers import Tower
from statsnet.signatures.gpu import Counters
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench import live_bench
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.blocks_in_turn import launches_in_order
from statsnet.synthesis.bench.live_bench import LiveBench, counted_blocks
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.bench.tasks import MeasureBlocks
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.costs.loads import groups_of

TASK = MeasureBlocks(blocks=(), mode="inference", dtype="float32", device="cuda:0")


def launching(*clusters: int | None, block: int = 1, optimizer: int = 0) -> BlockMeasurement:
    """So many operators in both parts; the kernels are of these, in their order."""
    own, stepped = (replace(NOTHING, operators=(row(),) * count) for count in (block, optimizer))
    launches = tuple(Launch(cluster=c, family="k", time_s=1e-6) for c in clusters)
    return BlockMeasurement(block=own, optimizer=stepped, launches=launches)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Of the kernels that were to be counted; the occupancy of row i is i / 10."""
    seen: list[int | None] = []

    def count(_task: Any, launches: Sequence[Launch], clusters: int, how: str) -> tuple[Counters, str]:
        seen.extend(launch.cluster for launch in launches)
        if how == "auto":
            return no_counters("not_permitted"), "no hardware counters"
        values = tuple(i / 10 for i in range(clusters))
        return Counters(tool="ncu 1", clusters={"achieved_occupancy": values}, missing={}), ""

    monkeypatch.setattr(live_bench, "counters_of", count)
    return seen


def test_rows_are_counted_through_all_candidates(places: list[int | None]) -> None:
    blocks = [launching(None, 0, 1, block=1, optimizer=1), launching(1, 0, block=2)]
    counted, why = counted_blocks(blocks, TASK, "ncu")
    assert places == [None, 0, 1, 3, 2]
    assert why == ""
    rows = [each.counters for block in counted for part in block.parts for each in part.operators]
    assert rows == [{"achieved_occupancy": i / 10} for i in range(4)]
    assert groups_of(counted[1].block)[0].counters == (("achieved_occupancy", 0.2),)


def test_without_counters_blocks_are_as_they_were(places: list[int | None]) -> None:
    counted, why = counted_blocks([launching(0)], TASK, "auto")
    assert why == "no hardware counters"
    assert groups_of(counted[0].block)[0].counters == ()


def test_a_block_in_place_has_the_counters_that_it_has_alone() -> None:
    counted = part("k", 1e-3, counters={"achieved_occupancy": 0.4})
    costs = BlockCosts.of([(candidate("linear", **linear(4).config), alone(counted))])
    costs = costs.learn([Tower(blocks=(linear(4),))], [((part("k", 1e-3),),)])
    (work,) = costs._load(linear(4), {}).groups
    assert work.counters == (("achieved_occupancy", 0.4),)


def test_kernels_come_in_their_order_with_the_operators_they_belong_to() -> None:
    names = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ampere_sgemm_128x64_nt", "Memcpy DtoD", "fill")
    fill, gemm, copy, last = (Kernel(name, 2 * i, 2 * i + 1) for i, name in enumerate(names))
    timeline = Timeline(
        step_s=1.0, op_time_s=[], op_kernels=[[fill], [gemm, copy]],
        on_device=[fill, gemm, copy, last], framework_s=0.0, idle_s=0.0, events=0, unmatched=0,
    )  # fmt: skip
    launches = launches_in_order(timeline, {1: 5})
    assert [(x.cluster, x.family) for x in launches] == [
        (None, "nccl:all_reduce_sum_ring_ll:f32"),
        (5, "cublas:gemm:f32:nt"),
        (None, "opaque"),
    ]


def test_what_was_counted_is_kept_and_what_could_not_be_is_tried_again(
    places: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    tasks = play(monkeypatch, benches, lambda _: [replace(launching(0), reference_latency_s=0.01)])
    block = candidate("k")
    setup = bench_setup(
        MeasurementCache(tmp_path), environment={"device": "cuda"}, device="cuda:0", counters="auto", note=notes.append
    )  # fmt: skip
    LiveBench(setup).measure_blocks([block], SPEED)
    assert (places, notes) == ([], [])
    for times in (1, 2):  # a permission may be given in between
        LiveBench(setup).measure_blocks([block], SPEED, counters=True)
        assert (places, notes) == ([0] * times, ["no hardware counters"] * times)
    allowed = LiveBench(replace(setup, counters="ncu"))
    for _ in range(2):  # the second time from the cache
        ((_, measurement),) = allowed.measure_blocks([block], SPEED, counters=True)
        assert measurement.block.operators[0].counters == {"achieved_occupancy": 0.0}
    assert (places, len(notes)) == ([0] * 3, 2)
    assert [type(task) for task in tasks] == [MeasureBlocks]  # timed once
    for other in (replace(setup, device="cpu"), replace(setup, counters="off")):
        LiveBench(other).measure_blocks([block], SPEED, counters=True)
    assert (places, len(notes)) == ([0] * 3, 2)


def test_a_finished_proxy_is_counted_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = (Launch(cluster=0, family="k", time_s=1e-6),)
    network = NetworkMeasurement(signature=small_signature(), build_s=1.0, blocks=(), drift=1.0, launches=launches)
    counted = replace(network.signature, optimizer="adam")

    def count(signature: Signature, given: Any, task: Any, how: str) -> tuple[Signature, str]:
        assert (signature, given, how) == (network.signature, launches, "ncu")
        assert Path(task.folder, "network.py").read_text() == "a proxy"
        return counted, "no hardware counters"

    monkeypatch.setattr(live_bench, "counted_signature", count)
    notes: list[str] = []
    setup = bench_setup(device="cuda:0", counters="ncu", note=notes.append)
    assert LiveBench(setup).count_network("a proxy", network) == replace(network, signature=counted)
    assert notes == ["no hardware counters"]
    assert LiveBench(replace(setup, device="cpu")).count_network("a proxy", network) == network
