"""Collectives in signatures: what they move, and what each level tells of their times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from clusters import tensor
from hypothesis import given
from hypothesis import strategies as st

from statsnet.analysis.audit import problems_of_signature
from statsnet.profiling.costs import cost_of
from statsnet.reporting.collectives import COLUMNS, collectives_report
from statsnet.signatures.collectives import (
    Collectives,
    CollectiveTime,
    backend_of,
    encoded_group,
    group_size,
    group_stride,
    is_collective,
    kind_of,
    message_bytes,
)
from statsnet.signatures.levels import coarsen
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.order import in_canonical_order
from statsnet.signatures.privacy import assert_clean


@pytest.mark.parametrize(
    ("name", "on_cpu", "on_gpu"),
    [
        ("nccl", "nccl", "nccl"),
        ("cpu:gloo,cuda:nccl", "gloo", "nccl"),
        ("cuda:nccl", "other", "nccl"),
        ("mpi", "other", "other"),
    ],
)
def test_a_group_may_have_a_backend_for_each_kind_of_device(name: str, on_cpu: str, on_gpu: str) -> None:
    assert (backend_of(name, "cpu"), backend_of(name, "cuda")) == (on_cpu, on_gpu)


def cluster(op: str, args: list[Any], outputs: list[Any] | None = None, phase: str = "backward") -> Cluster:
    work = cost_of(op, args, outputs or [])
    assert work is not None
    return Cluster(
        op=op, phase=phase, category="collective", calls=1.0, args=tuple(args), outputs=tuple(outputs or ()),
        flops=work.flops, bytes_read=work.bytes_read, bytes_written=work.bytes_written,
    )  # fmt: skip


ALL_REDUCE = cluster("c10d.allreduce_.default", [{"tensors": [tensor(1000)]}, 2, None, None, True, None])
GATHER = cluster("c10d._allgather_base_.default", [tensor(200), tensor(100), 2, False, None], phase="forward")
LARGER = cluster("c10d._allgather_base_.default", [tensor(4000), tensor(2000), 2, False, None], phase="forward")
SCATTER = cluster("_c10d_functional.reduce_scatter_tensor.default", [tensor(64), "sum", 4, 4], [tensor(16)])
WAIT = "_c10d_functional.wait_tensor.default"

KNOWN = Collectives(
    processes=3, backend="gloo", exposed_time_s=0.0123,
    calls=(
        CollectiveTime(cluster=0, time_s=0.02, exposed_time_s=0.0051, start_share=0.71),
        CollectiveTime(cluster=1, time_s=0.01, exposed_time_s=0.01, start_share=0.1),
        CollectiveTime(cluster=2, time_s=0.03, exposed_time_s=0.0, start_share=0.3),
    ),
    rank_step_latency_s=(0.1011, 0.1023, 0.1005), rank_waiting_s=(0.0123, 0.0042, 0.0311),
)  # fmt: skip


@pytest.fixture
def told(make_dense: Callable[..., Signature], make_measurement: Callable[..., Measurement]) -> Signature:
    clusters = (ALL_REDUCE, GATHER, LARGER)
    measured = make_measurement(clusters, (0.0051, 0.01, 0.001), collectives=KNOWN)
    return make_dense(clusters=clusters, motifs=(), measurements=(measured,), workload=None)


def known_of(signature: Signature) -> Collectives:
    (measurement,) = signature.measurements
    assert measurement.collectives is not None
    return measurement.collectives


def test_bytes_and_groups_by_hand() -> None:
    assert [message_bytes(c) for c in (ALL_REDUCE, GATHER, SCATTER)] == [4000, 800, 256]
    assert [group_size(c) for c in (ALL_REDUCE, GATHER, SCATTER)] == [2, 2, 4]
    assert [kind_of(c.op) for c in (ALL_REDUCE, GATHER, SCATTER)] == ["all_reduce", "all_gather", "reduce_scatter"]
    assert not is_collective(WAIT) and not is_collective("aten.mm.default")


@pytest.mark.parametrize(
    ("ranks", "processes", "encoded"),
    [((0, 1, 2, 3), 4, 4), ((0, 2), 4, [2, 2]), ((3, 2), 4, [2, 1]), ((0, 1, 4, 5), 8, [4, 1]), ((3,), 4, [1, 1])],
)
def test_a_group_that_is_not_all_tells_how_far_apart_its_ranks_are(
    ranks: tuple[int, ...], processes: int, encoded: Any
) -> None:
    assert encoded_group(ranks, processes) == encoded
    call = cluster("c10d.send.default", [{"tensors": [tensor(10)]}, encoded, 1, 0])
    assert group_size(call) == len(ranks)
    assert group_stride(call) == (None if len(ranks) == processes else encoded[1])


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_what_is_gathered_counts_alike_for_the_first_process_and_the_others(op: str) -> None:
    one, all_ = {"tensors": [tensor(10)]}, {"tensors": [tensor(10)] * 4}
    first, other = ([one, all_], [one, []]) if op == "scatter" else ([all_, one], [[], one])
    calls = [cluster(f"c10d.{op}_.default", [*sides, [4, 1], 0, True, None]) for sides in (first, other)]
    assert [message_bytes(c) for c in calls] == [160, 160]


def test_a_barrier_has_no_bytes() -> None:
    assert message_bytes(cluster("c10d.barrier.default", [tensor(1), 4, [], True, None])) == 0


def test_a_recording_does_not_tell_the_group() -> None:
    recorded = dataclasses.replace(ALL_REDUCE, args=({"tensors": [tensor(1000)]}, None))
    assert group_size(recorded) is None
    assert group_size(dataclasses.replace(ALL_REDUCE, args=())) is None
    assert message_bytes(dataclasses.replace(ALL_REDUCE, args=(), outputs=())) == 0


def test_the_table_of_groups_is_that_of_torchs_schemas() -> None:
    """Also: every collective of torch's that has a group is in the table."""
    import torch
    import torch.distributed  # registers them

    seen = 0
    for full in torch._C._dispatch_get_all_op_names():
        library, _, name = full.partition("::")
        if library not in ("c10d", "_c10d_functional"):
            continue
        operator, _, overload = name.partition(".")
        function = getattr(getattr(getattr(torch.ops, library), operator), overload or "default")
        names = [argument.name for argument in function._schema.arguments]
        groups = [i for i, n in enumerate(names) if n in ("process_group", "group_name")]
        if not groups:
            assert not is_collective(str(function)), full
            continue
        args: list[Any] = [None] * len(names)
        args[groups[0]] = 7
        assert is_collective(str(function)), full
        assert group_size(dataclasses.replace(ALL_REDUCE, op=str(function), args=tuple(args))) == 7, full
        seen += 1
    assert seen > 20


def test_overlap_and_the_slowest_process() -> None:
    assert KNOWN.calls[0].overlap == pytest.approx(1 - 0.0051 / 0.02)
    assert KNOWN.calls[1].overlap == 0
    assert KNOWN.slowest_rank == 1  # the others wait for it
    assert KNOWN.step_spread == pytest.approx((0.1023 - 0.1005) / 0.1011)


def test_a_file_holds_it_and_nothing_else(told: Signature) -> None:
    assert_clean(told.to_dict())
    assert Signature.from_dict(told.to_dict()) == told
    short = dataclasses.replace(
        told.measurements[0], cluster_time_s=(0.1, 0.1), kernels=("aten",) * 2, kernel_class=(None,) * 2
    )
    with pytest.raises(ValueError, match="collective names a cluster"):
        dataclasses.replace(told, clusters=told.clusters[:2], measurements=(short,))


def test_canonical_order_moves_collectives_with_their_clusters(told: Signature) -> None:
    ordered = in_canonical_order(told)
    for call in known_of(ordered).calls:
        (before,) = [c for c in KNOWN.calls if c.time_s == call.time_s]
        assert ordered.clusters[call.cluster] == told.clusters[before.cluster]


def test_the_statistical_level_has_one_place_for_each_kind_and_phase(told: Signature) -> None:
    statistical = coarsen(told, "statistical", cost_of)
    places = {(statistical.clusters[c.cluster].phase, c.start_share) for c in known_of(statistical).calls}
    assert places == {("backward", 0.71), ("forward", round((0.01 * 0.1 + 0.03 * 0.3) / 0.04, 2))}
    assert known_of(statistical).rank_step_latency_s == KNOWN.rank_step_latency_s
    assert sum(c.time_s for c in known_of(statistical).calls) == pytest.approx(0.06)


def test_the_coarse_level_rounds_and_tells_only_the_extremes_of_processes(told: Signature) -> None:
    coarse = coarsen(told, "coarse", cost_of)
    known = known_of(coarse)
    assert problems_of_signature(coarse) == []
    assert known.processes == 4
    assert len(known.rank_step_latency_s) == len(known.rank_waiting_s) == 2
    assert {c.start_share for c in known.calls} <= {0.7, 0.2, 0.3}
    assert all(float(f"{c.time_s:.2g}") == c.time_s for c in known.calls)
    exact = dataclasses.replace(coarse.measurements[0], collectives=dataclasses.replace(known, processes=3))
    assert any("collectives" in p for p in problems_of_signature(dataclasses.replace(coarse, measurements=(exact,))))


@given(st.lists(st.just(0.0) | st.floats(1e-9, 10), min_size=1, max_size=6), st.floats(0.1, 10))
def test_times_scale_and_add_up(times: list[float], factor: float) -> None:
    calls = tuple(
        CollectiveTime(cluster=i, time_s=t, exposed_time_s=t / 2, start_share=0.5) for i, t in enumerate(times)
    )
    known = dataclasses.replace(KNOWN, calls=calls)
    (merged,) = known.scale_times(factor).moved(dict.fromkeys(range(len(times)), 0)).calls
    assert merged.time_s == pytest.approx(factor * sum(times))
    assert merged.exposed_time_s == pytest.approx(factor * sum(times) / 2)
    assert merged.start_share == pytest.approx(0.5)
    assert known.coarse() == known.coarse().coarse()


def test_what_two_were_waited_for_at_once_counts_once_in_the_table(told: Signature) -> None:
    (measurement,) = told.measurements
    together = dataclasses.replace(measurement, collectives=dataclasses.replace(KNOWN, exposed_time_s=0.0101))
    _, rows = collectives_report(told, together)
    shares = [float(str(cell).rstrip("%")) for cell in rows.columns[COLUMNS.index("exposed")].cells]  # type: ignore[union-attr]
    assert sum(shares) == pytest.approx(100 * 0.0101 / measurement.latency_s, abs=0.2)
