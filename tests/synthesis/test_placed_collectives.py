"""Collectives of a proxy: bytes exactly, calls as whole ones, where and how the suite runs them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from distributed_signatures import ELEMENTS, RUNNING_S, all_reduce, distributed_signature
from hypothesis import given
from hypothesis import strategies as st
from synthesis_builders import (
    GEMM,
    RELU,
    SimulatedBench,
    bench_setup,
    mix_of,
    small_problem,
    small_signature,
    tensor,
)

from statsnet.blocks.collective import OPERATORS
from statsnet.environment.record import usable_cores
from statsnet.measure import sandbox
from statsnet.measure.cache import MeasurementCache
from statsnet.proxy.collective_places import collective_configs
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower
from statsnet.reporting.proxy import fit_report
from statsnet.signatures.computing import computing, computing_share
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.signatures.target import Target, target_of, target_of_members, target_of_mix
from statsnet.synthesis.bench.bench import Unmeasured
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.budget import usual_budget_of
from statsnet.synthesis.collectives import (
    CALLS_ERROR,
    AskedCollective,
    asked_collectives,
    communication_rows,
    placed_collectives,
    step_of_whole_calls,
)
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.synthesize import finish

TOWERS = [Tower(blocks=(Placed(kind="linear", config={"rows": 64, "inputs": 32, "outputs": 32}),))]
ASKED = AskedCollective(operation="all_reduce", dtype="float32", phase="forward", nbytes=4e6, calls_per_s=10.0,
                        time_s=0.01, overlap=0.0, place=0.5)  # fmt: skip


def distributed() -> Target:
    return target_of(distributed_signature())


def test_what_is_computed_has_no_collectives_and_no_waiting() -> None:
    alone = computing(distributed())
    (member,) = alone.members
    assert member.latency_s == pytest.approx(0.010)
    assert [c.op for c in alone.clusters] == [GEMM.op, RELU.op]
    assert [m.clusters for m in alone.motifs] == [(0, 1)]
    assert alone.framework_share == pytest.approx(0.2)
    assert alone.operator_share == pytest.approx(0.8)
    assert computing(alone) is alone


def test_members_keep_their_steps_in_a_mix() -> None:
    """In a second of what is computed, the members' steps are in the same proportion as in a second of the mix."""
    whole = target_of_mix(mix_of(distributed_signature(), small_signature()))
    alone, share = computing(whole), computing_share(whole)
    assert share == pytest.approx(0.5 * 10 / 12 + 0.5)
    assert sum(m.weight for m in alone.members) == pytest.approx(1.0)
    for before, after in zip(whole.members, alone.members, strict=True):
        assert after.steps_per_s * share == pytest.approx(before.steps_per_s)


def test_a_recording_without_waits_leaves_what_must_have_overlapped() -> None:
    """Operators and framework fill 10 of 12 ms, so that 2 of the collectives' 6 ms were waited for."""
    (times,) = distributed_signature().measurements
    recorded = replace(times, cluster_time_s=(0.006, 0.006, 0.002), collectives=None)
    target = target_of(distributed_signature(measurements=(recorded,)))
    assert computing_share(target) == pytest.approx(10 / 12)
    (asked,) = asked_collectives(target)
    assert asked.overlap == pytest.approx(4 / 6)
    assert asked.time_s == pytest.approx(0.006 / 20)


def test_a_proxy_has_its_share_of_bytes_and_calls() -> None:
    """An eighth of a step has two and a half of 20 calls: two, each of 5 MB."""
    target = distributed()
    placed = placed_collectives(target, 0.012 / 8)
    assert sum(p.count for p in placed) == 2
    assert {(p.operation, p.dtype, p.phase) for p in placed} == {("all_reduce", "float32", "backward")}
    assert sum(p.count * p.nbytes for p in placed) == pytest.approx(20 * 4 * ELEMENTS / 8, rel=1e-6)
    rows = {r.name: r for r in communication_rows(target, placed, 0.012 / 8, None)}
    assert rows["all_reduce bytes"].achieved == pytest.approx(rows["all_reduce bytes"].target or 0, rel=1e-6)
    assert (rows["all_reduce calls"].achieved or 0) / (rows["all_reduce calls"].target or 1) == pytest.approx(2 / 2.5)
    assert rows["waiting for collectives"].target == pytest.approx(2 / 12)
    assert rows["collectives beside computation"].target == pytest.approx(3 / 5)
    assert rows["waiting for collectives"].achieved is None


def test_as_much_is_computed_beside_a_call_as_in_the_suite() -> None:
    """Each of ten calls takes a 20th of 5 ms, three fifths of it beside a backward pass that computes for 5 ms of a
    half step. They are spread over it."""
    target = distributed()
    backward = replace(target, clusters=tuple(replace(c, phase="backward") for c in target.clusters))
    placed = placed_collectives(backward, 0.006)
    assert sum(p.count for p in placed) == 10
    for p in placed:
        assert p.awaited_at - p.begins_at == pytest.approx(0.6 * RUNNING_S / 20 / 0.005, abs=0.011)
    begins = [p.begins_at for p in placed]
    assert begins == sorted(begins)
    assert len(set(begins)) == 10


def test_what_stands_for_both_phases_has_the_place_of_those_in_its_own() -> None:
    early = replace(ASKED, calls_per_s=0.6, place=0.1)
    late = replace(ASKED, calls_per_s=0.4, place=0.9, phase="backward")
    (placed,) = placed_collectives(distributed(), 1.0, asked=[early, late])
    assert (placed.phase, placed.begins_at) == ("forward", pytest.approx(0.1))


def test_a_call_beside_computation_alone_is_awaited_at_the_end_of_its_phase() -> None:
    asked = replace(ASKED, overlap=0.99, place=0.2)
    (placed, *_) = placed_collectives(distributed(), 0.1, asked=[asked])
    assert placed.awaited_at == 1.0
    (placed, *_) = placed_collectives(distributed(), 0.1, asked=[replace(asked, overlap=0.0, place=1.0)])
    assert placed.begins_at == placed.awaited_at


def test_calls_of_other_groups_stay_apart_and_barriers_have_no_bytes() -> None:
    """Ten all-reduces of neighbours and ten of every second process; two barriers; a send that receives, too."""
    one = replace(ASKED, group_size=2, group_stride=1)
    barrier = replace(one, operation="barrier", dtype="uint8", nbytes=0.0, calls_per_s=2.0, group_stride=None)
    placed = placed_collectives(distributed(), 1.0, asked=[one, replace(one, group_stride=2), barrier])
    counted: Counter[tuple[str, int | None, int]] = Counter()
    for p in placed:
        counted[p.operation, p.group_stride, p.elements] += p.count
    assert counted == {
        ("all_reduce", 1, 1_000_000): 10, ("all_reduce", 2, 1_000_000): 10, ("barrier", None, 0): 2,
    }  # fmt: skip
    configs = collective_configs(placed, TOWERS, training=True)
    assert {(c.get("group"), c.get("stride")) for c in configs} == {(2, 1), (2, 2), (None, None)}


@pytest.mark.parametrize(
    ("dtype", "moved"), [("float8_e4m3fn", "uint8"), ("int16", "uint8"), ("complex64", "float32"), ("int64", "int64")]
)
def test_gloo_can_move_what_is_asked_for(dtype: str, moved: str) -> None:
    bucket = {**tensor(100), "dtype": dtype}
    cluster = replace(all_reduce(calls=1.0), args=({"tensors": [bucket]}, 2, None, None, True, None), outputs=(bucket,))
    (made,) = placed_collectives(target_of(distributed_signature(clusters=(GEMM, cluster, RELU))), 0.012)
    assert (made.dtype, made.nbytes) == (moved, 100 * ITEM_SIZE[dtype])


def test_a_send_and_receive_in_one_call_is_both() -> None:
    both = Cluster(op="_c10d_functional.batch_p2p_ops.default", phase="forward", category="collective", calls=2.0,
                   args=([None, None], [1, 1], [0, 0], {"tensors": [tensor(100), tensor(100)]}, 2), outputs=(),
                   flops=0.0, bytes_read=800.0, bytes_written=400.0)  # fmt: skip
    asked = asked_collectives(target_of(distributed_signature(clusters=(GEMM, both, RELU))))
    assert {a.operation for a in asked} == {"send", "receive"}
    assert {a.nbytes for a in asked} == {400}


asked_of_any_size = st.builds(
    AskedCollective,
    operation=st.sampled_from(sorted(OPERATORS)), dtype=st.sampled_from(["float32", "bfloat16"]),
    phase=st.sampled_from(["forward", "backward"]), nbytes=st.floats(1e3, 1e8),
    calls_per_s=st.floats(0.1, 1e4), time_s=st.floats(0, 1e-2), overlap=st.floats(0, 1), place=st.floats(0, 1),
)  # fmt: skip


@given(st.lists(asked_of_any_size, min_size=1, max_size=6), st.floats(1e-3, 0.1))
def test_bytes_are_those_owed_and_calls_whole(asked: list[AskedCollective], step_s: float) -> None:
    placed = placed_collectives(distributed(), step_s, asked=asked)
    assert all(p.begins_at <= p.awaited_at for p in placed)
    for operation in {a.operation for a in asked}:
        mine, made = [a for a in asked if a.operation == operation], [p for p in placed if p.operation == operation]
        owed = step_s * math.fsum(a.calls_per_s * a.nbytes for a in mine)
        calls = max(1, round(step_s * math.fsum(a.calls_per_s for a in mine)))
        assert (
            abs(sum(p.count * p.nbytes for p in made) - owed) <= 4 * calls + 0.0051 * owed
        )  # half an element each, and three digits
        assert sum(p.count for p in made) <= calls


@given(st.lists(asked_of_any_size, max_size=4), st.floats(1e-3, 0.05))
def test_a_longer_step_has_whole_calls_if_one_can(asked: list[AskedCollective], least_s: float) -> None:
    most_s = 20 * least_s
    step_s = step_of_whole_calls(asked, least_s, most_s)
    assert least_s <= step_s <= most_s
    rates = [math.fsum(a.calls_per_s for a in asked if a.operation == o) for o in {a.operation for a in asked}]
    if rates and all(rate * least_s > 1 / CALLS_ERROR for rate in rates):
        assert step_s == least_s
    if len(rates) == 1 and rates[0] * most_s >= 1:
        assert abs(max(1, round(rates[0] * step_s)) / (rates[0] * step_s) - 1) <= CALLS_ERROR * 1.001


def test_the_usual_step_of_one_workload_ends_with_whole_calls() -> None:
    """At a compression of 53, a step of 20 calls has less than a half: it is made as long as one call needs."""
    asked = asked_collectives(distributed())
    assert step_of_whole_calls(asked, 0.012 / 53, 0.012) == pytest.approx(0.012 / 20, rel=CALLS_ERROR * 1.01)


def test_a_short_step_has_a_proxy_as_long() -> None:
    (member,) = distributed().members
    (measurement,) = member.signature.measurements
    slower = target_of(replace(member.signature, measurements=(measurement.scale_times(0.03 / 0.012),)))
    assert usual_budget_of(slower, own_sizes=False) == pytest.approx(0.03)
    assert usual_budget_of(computing(slower), own_sizes=False) == pytest.approx(0.025)


def test_an_operation_that_is_never_called_makes_no_step_longer() -> None:
    (asked, *_) = asked_collectives(distributed())
    assert step_of_whole_calls([replace(asked, calls_per_s=0.0)], 0.01, 0.2) == 0.01


class Alone(SimulatedBench):
    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        return measurement

    def evidence(self, signature: Signature) -> None:
        return None

    def measure_together(self, source: str, processes: int) -> Unmeasured:
        assert processes == 2
        assert "all_reduce" in source
        return Unmeasured("there is no core")


def test_a_finished_proxy_holds_them_and_its_fit_says_how_many() -> None:
    whole = distributed()
    proxy = finish(replace(small_problem(Alone()), target=computing(whole), whole=whole), effort=QUICK)
    assert proxy.spec.collectives
    assert proxy.spec.mix[0].latency_s == pytest.approx(0.012)
    rows = {r.name: r for r in proxy.fit().characteristics if r.group == "collective"}
    assert rows["all_reduce bytes"].achieved == pytest.approx(rows["all_reduce bytes"].target or 0, rel=0.01)
    assert "was not measured: there is no core." in str(fit_report(proxy.fit())[-1])


@pytest.mark.skipif(usable_cores() < 2, reason="two processes need two cores")
def test_a_proxy_is_measured_in_two_processes(tmp_path: Path) -> None:
    """Real ones: their signature's collectives are those of the source."""
    placed = placed_collectives(distributed(), 0.012 / 10)
    source = network_source(TOWERS, title="", spec_id="", mode="training", dtype="float32", seed=0,
                            collectives=collective_configs(placed, TOWERS, training=True))  # fmt: skip
    setup = bench_setup(MeasurementCache(tmp_path), mode="training")
    together = LiveBench(setup).measure_together(source, 2)
    assert isinstance(together, Measurement)
    assert together.collectives is not None
    assert (together.collectives.processes, together.collectives.backend) == (2, "gloo")
    assert sum(c.time_s for c in together.collectives.calls) > 0
    rows = {r.name: r for r in communication_rows(distributed(), placed, 0.012 / 10, together)}
    waiting = rows["waiting for collectives"].achieved
    assert waiting is not None
    assert 0 <= waiting <= 1
    assert LiveBench(setup).measure_together(source, 2) == together, "it is kept"
    too_many = LiveBench(setup).measure_together(source, 1000)
    assert isinstance(too_many, Unmeasured)
    assert "each of 1000 processes needs a core" in too_many.why
    told: list[str] = []
    failed = LiveBench(replace(setup, note=told.append)).measure_together("raise ValueError('no such thing')", 2)
    assert isinstance(failed, Unmeasured)
    assert told[0].endswith("ValueError: no such thing")
    assert "no such thing" not in failed.why, "it goes into a file, and the cause may name paths"


def test_processes_in_a_sandbox_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statsnet.synthesis.bench.live_bench.usable_cores", lambda: 2)
    monkeypatch.setattr(sandbox, "check", lambda: None)
    setup = bench_setup(MeasurementCache(tmp_path), mode="training")
    with sandbox.sandboxed():
        assert LiveBench(setup).measure_together("", 2) == Unmeasured("processes in a sandbox cannot find each other")


def test_what_computes_beside_moving_stays_in_the_target() -> None:
    """One predicate says what is asked of a proxy as a collective and what is left out of its target."""
    whole = distributed()
    member = whole.members[0]
    clusters = [
        replace(c, op="symm_mem._async_input_mm.default") if c.op.startswith("c10d.") else c
        for c in member.signature.clusters
    ]
    target = target_of_members((replace(member, signature=replace(member.signature, clusters=tuple(clusters))),))
    assert not asked_collectives(target)
    assert computing(target) == target


def test_barriers_and_calls_of_unknown_sizes_make_no_step_longer() -> None:
    (asked, *_) = asked_collectives(distributed())
    rare = replace(asked, calls_per_s=0.5, nbytes=0.0)
    barrier = replace(rare, operation="barrier", dtype="uint8")
    alone = step_of_whole_calls([asked], 0.01, 2.0)
    assert step_of_whole_calls([asked, rare, barrier], 0.01, 2.0) == alone < 1.0
    assert not placed_collectives(distributed(), 1.0, asked=[rare])
