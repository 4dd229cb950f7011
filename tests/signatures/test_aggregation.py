"""Aggregates: one step that is what a mix of signatures is, and that can be aggregated again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import mm, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.analysis.audit import problems_of_signature
from statsnet.errors import UsageError
from statsnet.profiling.costs import cost_of
from statsnet.signatures.aggregation import Part, aggregate
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.conversion import plain
from statsnet.signatures.gpu import Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.levels import coarsen
from statsnet.signatures.measurement import Measurement, ReferenceTime
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Cluster, Memory, Motif, Signature, Skew
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.signatures.target import target_of, target_of_mix

HERE = {"device": "cpu", "device_name": "AMD EPYC 7B13", "threads": 2}
THERE = {"device": "cpu", "device_name": "AMD EPYC 7B13", "threads": 8}


READ = Cluster(
    op="aten.embedding.default", phase="forward", category="embedding", calls=1.0,
    args=({"shape": [1024, 8], "dtype": "float32"}, {"shape": [64], "dtype": "int64"}, -1, False, False),
    outputs=({"shape": [64, 8], "dtype": "float32"},), flops=0.0, bytes_read=2560.0, bytes_written=2048.0,
    skew=Skew(distinct_share=0.5, top1pct_share=0.25, zipf=1.0),
)  # fmt: skip
OWN = Cluster(
    op="custom.opaque.default", phase="backward", category="other", calls=1.0, args=(tensor(8, 8),), outputs=()
)
POOL = (mm(96, 96, 96), mm(128, 128, 128), READ, OWN)


def measured(
    environment: Mapping[str, Any], clusters: Sequence[Cluster], times_s: Sequence[float | None], rest_s: float
) -> Measurement:
    """A step of these times and `rest_s` between them."""
    step_s = math.fsum(t or 0.0 for t in times_s) + rest_s
    return Measurement(
        environment=dict(environment), step_latency_s=(0.9 * step_s, step_s, 1.2 * step_s), warmup_latency_s=(1.0,),
        profiled_latency_s=(step_s,), cluster_time_s=tuple(times_s),
        kernels=tuple("mkl:sgemm" if c.category == "gemm" else "aten" for c in clusters),
        kernel_class=tuple(f"{c.category}|aten|float32|n" for c in clusters),
        launches=sum(c.calls for c in clusters), framework_time_s=0.7 * rest_s, idle_time_s=0.3 * rest_s,
        unexplained_share=0.01, coefficient_of_variation=0.1,
    )  # fmt: skip


def signature_of(calls: Sequence[float], times_s: Sequence[float], rest_s: float, **changes: Any) -> Signature:
    """A step with so many calls of each cluster of POOL; none of those with 0. There, it takes 1.5 times as long."""
    chosen = [(dataclasses.replace(c, calls=n), t) for c, n, t in zip(POOL, calls, times_s, strict=True) if n]
    clusters, times = tuple(c for c, _ in chosen), [t for _, t in chosen]
    fields: dict[str, Any] = {
        "mode": "inference", "dtype": "float32", "batch": 8, "clusters": clusters,
        "motifs": (Motif(clusters=tuple(range(len(clusters))), count=2.0),),
        "memory": Memory(parameter_count=int(1e6 * rest_s), parameter_bytes=None, buffer_bytes=0, input_bytes=8),
        "measurements": (
            measured(HERE, clusters, times, rest_s),
            measured(THERE, clusters, [1.5 * t for t in times], 2 * rest_s),
        ),
    }  # fmt: skip
    return Signature(**(fields | changes))


SIGNATURES = st.builds(
    signature_of,
    st.tuples(st.just(1.0), *(st.sampled_from([0.0, 1.0, 2.5, 12.0]) for _ in POOL[1:])),
    st.tuples(*(st.floats(1e-4, 1e-1) for _ in POOL)),
    st.floats(1e-4, 1e-1),
)
WEIGHTS = st.floats(0.05, 20.0)
MEMBERS = st.lists(st.tuples(SIGNATURES, WEIGHTS), min_size=3, max_size=4, unique_by=lambda pair: pair[0].id)


def added(*members: tuple[Signature, float]) -> Signature:
    return aggregate([Part(name=str(i), weight=w, signature=s) for i, (s, w) in enumerate(members)], cost_of)


def contents(signature: Signature) -> dict[str, Any]:
    """Everything in it but the order of its clusters."""
    names = [
        canonical_json(plain((dataclasses.replace(c, calls=1.0), [m.kernel_class[i] for m in signature.measurements])))
        for i, c in enumerate(signature.clusters)
    ]
    found: dict[str, Any] = {f"calls {name}": c.calls for name, c in zip(names, signature.clusters, strict=True)}
    found |= {f"motif {[names[i] for i in m.clusters]}": m.count for m in signature.motifs}
    for number, measurement in enumerate(signature.measurements):
        times = zip(names, measurement.cluster_time_s, strict=True)
        found |= {f"{number} time {name}": t for name, t in times}
        rest = plain(dataclasses.replace(measurement, cluster_time_s=(), kernels=(), kernel_class=(), gpu=None))
        found |= {f"{number} {name}": value for name, value in rest.items() if isinstance(value, float)}
        found[f"{number} latency"], found[f"{number} where"] = measurement.latency_s, measurement.fingerprint
        found |= flat(f"{number} gpu", plain(measurement.gpu))
        found |= flat(f"{number} reference", plain(measurement.reference))
    return found | plain(signature.memory) | {
        name: getattr(signature, name)
        for name in ("mode", "dtype", "batch", "optimizer", "level", "aggregated", "shape_variants")
    }  # fmt: skip


def flat(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | list):
        return {place: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for name, inner in pairs for k, v in flat(f"{place}.{name}", inner).items()}


def assert_equal(a: Signature, b: Signature) -> None:
    assert contents(a) == {
        name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for name, value in contents(b).items()
    }


@settings(max_examples=40)
@given(MEMBERS)
def test_aggregating_again_loses_nothing(members: list[tuple[Signature, float]]) -> None:
    first, rest = members[:2], members[2:]
    both = added(*first)
    assert_equal(added((both, sum(w for _, w in first)), *rest), added(*members))
    assert_equal(added(*members[::-1]), added(*members))


@settings(max_examples=40)
@given(MEMBERS)
def test_a_mean_step_is_what_the_mix_is(members: list[tuple[Signature, float]]) -> None:
    total = sum(w for _, w in members)
    mixed = Mix(
        mode="inference",
        members=tuple(
            MixMember(name=str(i), weight=w / total, signature=s, source="file", path=Path())
            for i, (s, w) in enumerate(members)
        ),
    )
    alone, mix = target_of(added(*members)), target_of_mix(mixed)
    for name in (
        "flops_per_s", "bytes_per_s", "launches_per_s", "arithmetic_intensity", "operator_share", "framework_share",
        "idle_share", "coverage", "category_shares", "kernel_class_shares", "phase_shares", "intensity_histogram",
        "largest_peak_bytes",
    ):  # fmt: skip
        assert getattr(alone, name) == pytest.approx(getattr(mix, name)), name


@settings(max_examples=20)
@given(MEMBERS)
def test_elsewhere_it_takes_as_much_longer_as_the_suite_does(members: list[tuple[Signature, float]]) -> None:
    """Σ w T' / T over Σ w: the suite's factor from here to there."""
    here, there = added(*members).measurements
    wanted = sum(w * s.measurements[1].latency_s / s.measurements[0].latency_s for s, w in members)
    assert there.latency_s / here.latency_s == pytest.approx(wanted / sum(w for _, w in members))


@settings(max_examples=20)
@given(MEMBERS, st.lists(st.floats(0.5, 2.0), min_size=4, max_size=4), st.floats(0.5, 2.0))
def test_one_speed_stands_for_the_members_speeds(
    members: list[tuple[Signature, float]], speeds: list[float], now: float
) -> None:
    """Brought to another speed by the aggregate's reference network, it takes what the members take there."""
    beside = [(with_reference(s, r), w) for (s, w), r in zip(members, speeds, strict=False)]
    here = added(*beside).measurements[0]
    assert here.reference is not None
    steps = [w / s.measurements[0].latency_s for s, w in members]
    times = [s.measurements[0].latency_s * now / r for (s, _), r in zip(members, speeds, strict=False)]
    wanted = sum(k * t for k, t in zip(steps, times, strict=True)) / sum(steps)
    assert here.latency_s * now / here.reference.latency_s == pytest.approx(wanted)
    first = sum(w for _, w in members[:2])
    assert_equal(added((added(*beside[:2]), first), *beside[2:]), added(*beside))
    assert added(*beside[1:], members[0]).measurements[0].reference is None


def with_reference(signature: Signature, latency_s: float) -> Signature:
    reference = ReferenceTime(network="sha256:" + "0" * 64, latency_s=latency_s)
    return dataclasses.replace(
        signature, measurements=tuple(dataclasses.replace(m, reference=reference) for m in signature.measurements)
    )


A = signature_of((4.0, 0.0, 2.0, 1.0), (0.006, 0.0, 0.002, 0.001), 0.001)
B = signature_of((1.0, 8.0, 0.0, 0.0), (0.001, 0.027, 0.0, 0.0), 0.002, batch=64)


def test_a_mean_step_by_hand() -> None:
    """Steps of 10 and 30 ms in equal shares of time: three quarters of the steps are the shorter ones."""
    both = added((A, 1.0), (B, 1.0))
    calls = {c.args[0]["shape"][0]: c.calls for c in both.clusters if c.category == "gemm"}
    assert calls == {96: pytest.approx(0.75 * 4 + 0.25), 128: pytest.approx(0.25 * 8)}
    (here, _) = both.measurements
    assert here.latency_s == pytest.approx(0.75 * 0.010 + 0.25 * 0.030)
    assert here.operator_time_s == pytest.approx(0.75 * 0.009 + 0.25 * 0.028)
    assert (both.aggregated, both.batch, both.name, both.level) == (2, None, None, "full")
    assert both.is_private
    assert both.memory.parameter_count == 2000, "the largest"


def with_gpu(signature: Signature, busy_s: float, **power: Any) -> Signature:
    def on_gpu(measurement: Measurement) -> Measurement:
        number = len(signature.clusters)
        kernels = (
            GpuKernel(cluster=0, family="cublas:gemm:f32", grid=(8, 1, 1), block=None, launches=3.0, time_s=busy_s),
            GpuKernel(cluster=None, family="opaque", grid=None, block=None, launches=1.0, time_s=1e-5),
        )
        counters = {"dram_bytes": (5.0,) * number, "ipc": (1.0, *(None,) * (number - 1))}
        gpu = GpuActivity(
            busy_time_s=busy_s, streams=1, kernels=kernels, duration_log2_us=((3, 2.0), (4, 1.0)), gap_log2_us=(),
            power=Power(energy_j_per_step=busy_s, power_w=100 * busy_s, sm_clock_min_mhz=1000.0, throttled=(),
                        missing={"temperature": "not_supported"}, **power),
            counters=Counters(tool="ncu 2025.1", clusters=counters, missing={"l2_hit_rate": "off"}),
        )  # fmt: skip
        return dataclasses.replace(measurement, gpu=gpu)

    return dataclasses.replace(signature, measurements=tuple(map(on_gpu, signature.measurements)))


def test_what_a_gpu_did_is_added_up() -> None:
    members = [(with_gpu(A, 0.004), 1.0), (with_gpu(B, 0.020), 1.0)]
    both = added(*members)
    gpu = both.measurements[0].gpu
    assert gpu is not None
    assert gpu.busy_time_s == pytest.approx(0.75 * 0.004 + 0.25 * 0.020)
    assert gpu.power.energy_j_per_step == pytest.approx(gpu.busy_time_s)
    assert gpu.power.power_w == pytest.approx((0.0075 * 0.4 + 0.0075 * 2.0) / 0.015), "the mean over time"
    assert sum(k.launches for k in gpu.kernels) == pytest.approx(4.0)
    assert len([k for k in gpu.kernels if k.cluster is None]) == 1
    assert dict(gpu.duration_log2_us) == {3: pytest.approx(2.0), 4: pytest.approx(1.0)}
    assert math.fsum(v or 0.0 for v in gpu.counters.clusters["dram_bytes"]) == pytest.approx(0.75 * 15 + 0.25 * 10)
    third = (with_gpu(signature_of((2.0, 2.0, 2.0, 2.0), (0.003,) * 4, 0.004), 0.007), 2.0)
    assert_equal(added((both, 2.0), third), added(*members, third))


def test_the_level_is_that_of_the_one_that_tells_least(tmp_path: Path) -> None:
    for told in ("statistical", "coarse"):
        both = added((coarsen(A, told, cost_of), 1.0), (B, 1.0))  # type: ignore[arg-type]
        assert both.level == told
        save_signature(tmp_path / "both.json", both)
        kept = load_signature(tmp_path / "both.json")
        assert problems_of_signature(kept) == []
        assert kept.aggregated == 2
    sizes = {n for c in both.clusters for a in c.args if isinstance(a, dict) for n in a["shape"]}
    assert 1024 in sizes and sizes <= {8, 64, 96, 128, 1024}
    coarser = coarsen(added((A, 1.0), (B, 1.0)), "coarse", cost_of)
    assert problems_of_signature(dataclasses.replace(coarser, aggregated=None)) == [], "its counts are rounded, too"


def test_members_of_one_level_are_aggregated_again_at_each_level() -> None:
    c = signature_of((2.0, 2.0, 2.0, 2.0), (0.003,) * 4, 0.004)
    for level in ("statistical", "coarse"):
        a, b, d = (coarsen(s, level, cost_of) for s in (A, B, c))  # type: ignore[arg-type]
        assert_equal(added((added((a, 1.0), (b, 3.0)), 4.0), (d, 2.0)), added((a, 1.0), (b, 3.0), (d, 2.0)))


def moved(signature: Signature) -> Signature:
    return dataclasses.replace(
        signature, measurements=(dataclasses.replace(signature.measurements[0], environment={**HERE, "threads": 4}),)
    )


@pytest.mark.parametrize(
    ("members", "message", "cause"),
    [
        (lambda: [(A, 1.0)], "at least two", "hide nothing"),
        (lambda: [(A, 1.0), (A, 2.0)], "'0' and '1' are one signature", "count twice"),
        (lambda: [(A, 1.0), (dataclasses.replace(B, mode="training"), 1.0)], "'1' is of training, '0' of inf", "mode"),
        (lambda: [(A, 1.0), (dataclasses.replace(B, dtype="bfloat16"), 1.0)], "'1' is of bfloat16", "one dtype"),
        (lambda: [(A, 1.0), (dataclasses.replace(B, measurements=()), 1.0)], "'1' was measured nowhere", "of time"),
        (lambda: [(A, 1.0), (moved(B), 1.0)], "no environment in which all", "threads: 2 against 4"),
        (lambda: [(A, 1.0), (B, 1e-12)], "'1' hardly counts", "of the steps"),
    ],
)  # fmt: skip
def test_what_can_not_be_aggregated(
    members: Callable[[], list[tuple[Signature, float]]], message: str, cause: str
) -> None:
    with pytest.raises(UsageError) as caught:
        added(*members())
    assert message in caught.value.message
    assert cause in caught.value.cause
    assert caught.value.hint


def test_only_environments_that_all_share_are_kept() -> None:
    one = dataclasses.replace(B, measurements=B.measurements[1:])
    both = added((A, 1.0), (one, 1.0))
    assert [m.environment["threads"] for m in both.measurements] == [8]
    assert both.measurements[0].latency_s == pytest.approx(
        2 / (1 / A.measurements[1].latency_s + 1 / B.measurements[1].latency_s)
    )
