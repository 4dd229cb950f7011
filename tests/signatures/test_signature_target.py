"""The arithmetic of a mix against forms computed by hand.

The mix: a quarter `dense` (10 ms a step: mm 6 ms, relu 2 ms, framework 2 ms) and three quarters `sparse`
(2 ms a step: embedding 1 ms, opaque 0.5 ms, relu untimed, framework 0.5 ms). One second of the target holds
25 steps of dense and 375 steps of sparse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import MeasurementError, UsageError
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix, MixMember, resolve_mix
from statsnet.signatures.model import Motif, Signature
from statsnet.signatures.target import Target, target_of, target_of_mix

DENSE_STEPS = 0.25 / 0.010
SPARSE_STEPS = 0.75 / 0.002
MM, RELU, EMBEDDING, OPAQUE = 0.25 * 0.6, 0.25 * 0.2, 0.75 * 0.5, 0.75 * 0.25


@pytest.fixture
def mix(dense_signature: Signature, sparse_signature: Signature) -> Mix:
    members = [
        MixMember(name=name, weight=weight, signature=signature, source="file", path=Path("none"))
        for name, weight, signature in (
            ("cv/dense", 0.25, dense_signature),
            ("recsys/sparse", 0.75, sparse_signature),
        )
    ]
    return Mix(members=tuple(members), mode="inference")


@pytest.fixture
def target(mix: Mix) -> Target:
    return target_of_mix(mix)


def test_clusters_per_second(target: Target) -> None:
    assert [(c.member, c.cluster) for c in target.clusters] == [
        ("cv/dense", 0), ("cv/dense", 1), ("recsys/sparse", 0), ("recsys/sparse", 1), ("recsys/sparse", 2),
    ]  # fmt: skip
    mm, relu, embedding, opaque, untimed = target.clusters
    assert [c.time_share for c in target.clusters] == pytest.approx([MM, RELU, EMBEDDING, OPAQUE, 0])
    assert [c.calls_per_s for c in target.clusters] == pytest.approx([100, 50, 3750, 375, 750])
    assert mm.flops_per_s == pytest.approx(100 * 8192)
    assert mm.bytes_per_s == pytest.approx(100 * 3584)
    assert mm.time_per_call_s == pytest.approx(0.0015)
    assert (opaque.flops_per_s, opaque.bytes_per_s, opaque.intensity_bin) == (None, None, None)
    assert (untimed.timed, untimed.time_per_call_s) == (False, None)
    assert embedding.skew is not None
    assert mm.args[1]["strides"] == [1, 16]
    assert relu.kernel_class == "activation|aten|float32|contiguous"


def test_rates_add_up(target: Target) -> None:
    flops = 100 * 8192 + 50 * 256 + 750 * 256
    moved = 100 * 3584 + 50 * 2048 + 3750 * 4608 + 750 * 2048
    assert target.flops_per_s == pytest.approx(flops)
    assert target.bytes_per_s == pytest.approx(moved)
    assert target.launches_per_s == pytest.approx(DENSE_STEPS * 6 + SPARSE_STEPS * 13)
    assert target.arithmetic_intensity == pytest.approx(flops / moved)


def test_rates_are_weighted_means_of_the_members_rates(target: Target, mix: Mix) -> None:
    rates = [m.signature.flops_per_step / m.signature.measurements[0].latency_s for m in mix.members]
    assert target.flops_per_s == pytest.approx(0.25 * rates[0] + 0.75 * rates[1])


def test_shares_of_operator_time(target: Target) -> None:
    total = MM + RELU + EMBEDDING + OPAQUE
    assert target.operator_share == pytest.approx(total)
    assert target.category_shares == pytest.approx(
        {
            "gemm": MM / total,
            "activation": RELU / total,
            "embedding": EMBEDDING / total,
            "other": OPAQUE / total,
        }
    )
    assert target.kernel_class_shares["gemm|mkl:sgemm|float32|nt"] == pytest.approx(MM / total)
    assert sum(target.kernel_class_shares.values()) == pytest.approx(1)
    assert target.phase_shares == pytest.approx({"forward": 1})


def test_intensity_histogram(target: Target) -> None:
    """mm: 8192/3584 = 2.3, bin 1; relu: 256/2048 = 2^-3 exactly; embedding: no FLOP; opaque: left out."""
    covered = MM + RELU + EMBEDDING
    assert target.intensity_histogram == pytest.approx({1: MM / covered, -3: RELU / covered, -6: EMBEDDING / covered})


def test_shares_of_the_step(target: Target) -> None:
    assert target.framework_share == pytest.approx(0.25 * 0.2 + 0.75 * 0.25)
    assert target.idle_share == 0
    assert target.coverage == pytest.approx((MM + RELU + EMBEDDING) / (MM + RELU + EMBEDDING + OPAQUE))


def test_peak_memory_does_not_mix(target: Target, sparse_signature: Signature) -> None:
    assert target.largest_peak_bytes == 5000
    assert target_of(sparse_signature).largest_peak_bytes is None


def test_motifs_point_at_the_target_s_clusters(mix: Mix, dense_signature: Signature) -> None:
    backwards = target_of_mix(dataclasses.replace(mix, members=mix.members[::-1]))
    (motif,) = backwards.motifs
    assert [backwards.clusters[i].op for i in motif.clusters] == ["aten.mm.default", "aten.relu.default"]
    assert motif.count_per_s == pytest.approx(2 * DENSE_STEPS)


def test_what_a_collective_waits_for_is_nothing_that_runs_together(dense_signature: Signature) -> None:
    clusters = list(dense_signature.clusters)
    clusters[1] = dataclasses.replace(clusters[1], op="c10d.allreduce_.default")
    tied = dataclasses.replace(
        dense_signature,
        clusters=tuple(clusters),
        motifs=(Motif(clusters=(0, 1), count=1.0), Motif(clusters=(0,), count=1.0)),
    )
    assert [motif.clusters for motif in target_of(tied).motifs] == [(0,)]


def test_replayed_measurements_replace_recorded_ones(mix: Mix, dense_signature: Signature) -> None:
    recorded = dense_signature.measurements[0]
    replayed = dataclasses.replace(
        recorded,
        environment=recorded.environment | {"threads": 8},
        step_latency_s=(0.005,),
        cluster_time_s=(0.001, None),
        framework_time_s=None,
        kernel_class=(None, None),
        source="replay",
    )
    target = target_of_mix(mix, {"cv/dense": replayed})
    assert target.clusters[0].time_share == pytest.approx(0.25 * 0.001 / 0.005)
    assert target.clusters[0].kernel_class == "unknown"
    assert target.clusters[0].calls_per_s == pytest.approx(0.25 / 0.005 * 4)
    assert target.clusters[2].time_share == pytest.approx(EMBEDDING)
    assert target.framework_share is None


@pytest.mark.parametrize(
    ("changes", "times_s", "framework_s"),
    [
        ({"cluster_time_s": (0.009, 0.003)}, (0.009 * 10 / 14, 0.003 * 10 / 14), 0.002 * 10 / 14),
        ({"cluster_time_s": (0.003, 0.001)}, (0.003 * 10 / 6, 0.001 * 10 / 6), 0.002 * 10 / 6),
        ({"cluster_time_s": (0.012, 0.004), "idle_time_s": 0.004}, (0.003, 0.001), 0.002),
        ({"idle_time_s": 0.025}, (0.006 * 10 / 35, 0.002 * 10 / 35), 0.002 * 10 / 35),
        ({"cluster_time_s": (0.012, 0.008), "framework_time_s": None}, (0.006, 0.004), None),
        ({"framework_time_s": None}, (0.006, 0.002), None),
        ({"cluster_time_s": (None, None)}, (None, None), 0.002),
    ],
    ids=["longer", "shorter", "streams", "idle of another step", "rest not known", "rest fits", "not timed"],
)
def test_the_parts_of_a_step_add_up_to_it(
    dense_signature: Signature, changes: dict[str, Any], times_s: tuple[float, ...], framework_s: float | None
) -> None:
    """A step of 10 ms: 6 ms and 2 ms in operators, 2 ms in the framework, but for the changes."""
    recorded = dataclasses.replace(dense_signature.measurements[0], **changes)
    found = recorded.in_its_step()
    assert found.cluster_time_s == (times_s if times_s[0] is None else pytest.approx(times_s))
    assert found.framework_time_s == (framework_s if framework_s is None else pytest.approx(framework_s))
    assert found.latency_s == recorded.latency_s
    if times_s[0] is not None and framework_s is not None:
        assert found.explained_share == pytest.approx(1.0)
        assert target_of(dense_signature, recorded).operator_share == pytest.approx(sum(times_s) / 0.010)


def test_a_member_counts_by_its_steps_not_by_what_its_profile_adds_up_to(mix: Mix) -> None:
    """Twice the time in all parts of one member's step changes no share of the mix."""
    measurement = mix.members[0].signature.measurements[0]
    longer = dataclasses.replace(
        measurement,
        cluster_time_s=tuple(2 * t for t in measurement.cluster_time_s if t is not None),
        framework_time_s=2 * (measurement.framework_time_s or 0.0),
    )
    found, usual = target_of_mix(mix, {"cv/dense": longer}), target_of_mix(mix)
    assert found.kernel_class_shares == pytest.approx(usual.kernel_class_shares)
    assert found.framework_share == pytest.approx(usual.framework_share)


def test_what_can_not_be_used_is_refused(
    mix: Mix, dense_signature: Signature, make_measurement: Callable[..., Measurement]
) -> None:
    counts = dataclasses.replace(dense_signature, measurements=())
    with pytest.raises(MeasurementError, match="never measured"):
        target_of(counts)
    only_counts = dataclasses.replace(mix.members[0], signature=counts)
    with pytest.raises(MeasurementError, match="'cv/dense' was never measured"):
        target_of_mix(dataclasses.replace(mix, members=(only_counts,)))
    with pytest.raises(UsageError, match="'nlp/x' is not in the mix"):
        target_of_mix(mix, {"nlp/x": dense_signature.measurements[0]})
    with pytest.raises(MeasurementError, match="of another signature"):
        target_of_mix(mix, {"cv/dense": make_measurement((), ())})


def test_one_signature_alone_is_its_own_target(dense_signature: Signature) -> None:
    target = target_of(dense_signature, name="proxy")
    assert target.flops_per_s == pytest.approx(dense_signature.flops_per_step / 0.010)
    assert target.members[0].weight == 1
    empty = target_of(
        dataclasses.replace(dense_signature, clusters=(), motifs=(), measurements=()),
        dataclasses.replace(dense_signature.measurements[0], cluster_time_s=(), kernel_class=()),
    )
    assert (empty.arithmetic_intensity, empty.coverage, empty.category_shares) == (None, None, {})


def test_from_text_to_target(profiles: Path) -> None:
    target = target_of_mix(resolve_mix("dense:1,sparse:3", "inference", ProfilesDB(profiles)))
    assert [c.time_share for c in target.clusters] == pytest.approx([MM, RELU, EMBEDDING, OPAQUE, 0])
