"""Levels: what a coarser signature no longer tells, and what it keeps."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from typing import Any

import pytest
from clusters import mm
from clusters import signature as signature_of
from hypothesis import given
from hypothesis import strategies as st

from statsnet.analysis.audit import problems_of_signature
from statsnet.errors import UsageError
from statsnet.profiling.costs import cost_of
from statsnet.signatures.gpu import Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.levels import LEVELS, coarsen, finest
from statsnet.signatures.measurement import Measurement, Variation
from statsnet.signatures.merging import folded, merge
from statsnet.signatures.model import Cluster, Motif, Signature
from statsnet.signatures.order import canonical_order, in_canonical_order
from statsnet.signatures.rounding import (
    binned_argument,
    binned_size,
    half_octave,
    in_steps,
    is_binned_count,
    rounded,
    without_order,
)
from statsnet.signatures.storage import load_signature, save_signature


@given(st.integers(1, 2**62))
def test_a_half_octave_is_near_and_its_own(value: int) -> None:
    binned = half_octave(value)
    assert half_octave(binned) == binned
    assert half_octave(-value) == -binned
    assert 0.8 < binned / value < 1.25
    assert binned & (binned - 1) == 0 or binned % 3 == 0


def test_half_octaves_by_hand() -> None:
    assert [half_octave(n) for n in (0, 1, 2, 3, 5, 7, 10, 50, 197, 768, 1000, 50257)] == [
        0, 1, 2, 3, 6, 8, 12, 48, 192, 768, 1024, 49152
    ]  # fmt: skip


@given(st.integers(1, 2**63 - 1))
def test_a_size_is_its_own_bin_and_within_a_factor_of_two(size: int) -> None:
    binned = binned_size(size)
    assert binned_size(binned) == binned
    assert 0.49 < binned / size < 2.01
    assert size == 2**63 - 1 or binned_size(-size) == -binned


def test_sizes_and_steps_by_hand() -> None:
    assert [binned_size(n) for n in (3, 12, 17, 30, 48, 72, 80, 100, 768, 50_257, 60_000, 131_000, 10**6)] == [
        3, 12, 16, 32, 64, 64, 96, 96, 768, 49_152, 65_536, 65_536, 1_048_576
    ]  # fmt: skip
    assert [in_steps(n, 8) for n in (0.4, 1, 2.8, 2.9, 12, 22, 23, 80)] == [0, 1, 1, 8, 8, 8, 64, 64]
    assert [is_binned_count(n) for n in (0.1, 0.12, 1, 3, 4)] == [True, False, True, False, True]


def test_a_tensor_keeps_its_layout() -> None:
    transposed = {"shape": [100, 50], "dtype": "float32", "strides": [1, 100]}
    assert binned_argument(transposed) == {"shape": [96, 64], "dtype": "float32", "strides": [1, 96]}
    channels_last = {"shape": [10, 20, 7, 7], "dtype": "float32", "strides": [980, 1, 140, 20]}
    assert binned_argument(channels_last)["strides"] == [16 * 64, 1, 16 * 8, 16]
    broadcast = {"shape": [100, 50], "dtype": "float32", "strides": [0, 1]}
    assert binned_argument(broadcast)["strides"] == [0, 1]
    assert binned_argument([3, 17, True, 2**63 - 1, "mean", 0.1]) == [3, 16, True, 2**63 - 1, "mean", 0.1]


ENTRIES = [{"shape": [n], "dtype": "float32"} for n in (3, 1, 2, 1)]


def test_lists_of_parameters_lose_the_order_of_layers() -> None:
    lists = [without_order({"tensors": list(order)}) for order in itertools.permutations(ENTRIES)]
    assert all(each == lists[0] for each in lists)
    assert lists[0]["tensors"][0] == {"shape": [1], "dtype": "float32", "times": 2}
    with_gap = {"tensors": [ENTRIES[0], None, ENTRIES[1]]}
    assert without_order(with_gap) == with_gap, "it says which axes are indexed"


def many(make_measurement: Any, dense_signature: Signature, sizes: list[int]) -> Signature:
    """Products of several sizes; those of small ones are rare."""
    clusters = tuple(mm(size, size, size, calls=3.0) for size in sizes)
    times = tuple(size**3 * 1e-9 for size in sizes)
    motifs = tuple(Motif(clusters=(i, (i + 1) % len(sizes)), count=1.0 + i % 2) for i in range(len(sizes)))
    return dataclasses.replace(
        dense_signature, clusters=clusters, motifs=motifs, workload=None,
        measurements=(make_measurement(clusters, times),),
    )  # fmt: skip


@pytest.fixture
def signature(make_measurement: Any, dense_signature: Signature) -> Signature:
    return many(make_measurement, dense_signature, [700, 10, 500, 12, 11, 690])


def test_totals_of_a_statistical_one_stay(signature: Signature) -> None:
    told = coarsen(signature, "statistical", cost_of)
    assert told.level == "statistical"
    assert told.flops_per_step == pytest.approx(signature.flops_per_step)
    assert told.bytes_per_step == pytest.approx(signature.bytes_per_step)
    assert told.calls_per_step == pytest.approx(signature.calls_per_step)
    (before,), (after,) = signature.measurements, told.measurements
    assert after.operator_time_s == pytest.approx(before.operator_time_s)
    assert after.latency_s == before.latency_s


def test_rates_of_a_coarse_one_stay(signature: Signature) -> None:
    """The step is another, but its times follow its work."""
    told = coarsen(signature, "coarse", cost_of)
    (before,), (after,) = signature.measurements, told.measurements
    scale = told.bytes_per_step / signature.bytes_per_step
    assert after.operator_time_s == pytest.approx(scale * before.operator_time_s, rel=0.1)
    assert after.latency_s == pytest.approx(scale * before.latency_s, rel=0.1)


@pytest.mark.parametrize("power", [2, 3], ids=["moves data", "computes"])
def test_ratios_of_coarse_times_are_not_those_of_exact_sizes(
    make_measurement: Any, dense_signature: Signature, power: int
) -> None:
    """Of two operators of equal rates, whatever their sizes are within their bins."""
    told = []
    for sizes in ([700, 1400], [800, 1300], [860, 1700]):
        exact = many(make_measurement, dense_signature, sizes)
        if power == 2:
            clusters = tuple(dataclasses.replace(c, op="aten.add.Tensor", flops=None) for c in exact.clusters)
            exact = dataclasses.replace(exact, clusters=clusters)
        times = tuple(1e-9 * size**power for size in sizes)
        measurement = dataclasses.replace(exact.measurements[0], cluster_time_s=times)
        coarse = coarsen(dataclasses.replace(exact, measurements=(measurement,)), "coarse", cost_of)
        told.append(coarse.measurements[0].cluster_time_s)
    assert told[0] == told[1] == told[2]


def layered(make_measurement: Any, dense_signature: Signature, layers: int, width: int) -> Signature:
    """A model of equal layers and a head, with times that follow its work, and its memory."""
    clusters = []
    for calls, out in ((layers, width), (2 * layers + 1, 4 * width), (1, 10 * width)):
        shapes = ([32, width], [width, out], [32, out])
        a, b, c = ({"shape": shape, "dtype": "float32"} for shape in shapes)
        cost = cost_of("aten.mm.default", [a, b], [c])
        assert cost is not None
        clusters.append(
            Cluster(op="aten.mm.default", phase="forward", category="gemm", calls=float(calls), args=(a, b),
                    outputs=(c,), flops=cost.flops, bytes_read=cost.bytes_read, bytes_written=cost.bytes_written)
        )  # fmt: skip
    parameters = layers * 9 * width**2
    lists = [
        {"tensors": [{"shape": [width], "dtype": "float32", "times": 10 * layers + 2},
                     {"shape": [width, width], "dtype": "float32", "times": 4 * layers}]}
    ] * 2  # fmt: skip
    cost = cost_of("aten._foreach_add_.List", [*lists, 1], [])
    assert cost is not None
    clusters.append(
        Cluster(op="aten._foreach_add_.List", phase="optimizer", category="optimizer", calls=2.0, args=(*lists, 1),
                outputs=(), flops=cost.flops, bytes_read=cost.bytes_read, bytes_written=cost.bytes_written)
    )  # fmt: skip
    memory = dataclasses.replace(
        dense_signature.memory, parameter_count=parameters, parameter_bytes=4 * parameters, activation_bytes=None
    )
    return dataclasses.replace(
        dense_signature, clusters=tuple(clusters), motifs=(), memory=memory, workload=None, batch=32,
        measurements=(make_measurement(tuple(clusters), tuple(c.calls * 1e-3 for c in clusters)),),
    )  # fmt: skip


def test_counts_of_look_alikes_are_one_file(make_measurement: Any, dense_signature: Signature) -> None:
    """Whatever is rounded has one limit at most for layers, and one for widths: calls, and lists of an optimizer."""
    files = {
        dataclasses.replace(
            coarsen(layered(make_measurement, dense_signature, layers, width), "coarse", cost_of), measurements=()
        ).id
        for layers in range(7, 17)
        for width in (700, 740, 768, 800, 850)
    }
    assert len(files) <= 2, "only memory may tell them apart"


@pytest.mark.parametrize("layers", [1, 3, 12, 20])
def test_work_of_a_coarse_one_follows_from_its_sizes(
    make_measurement: Any, dense_signature: Signature, layers: int
) -> None:
    told = coarsen(layered(make_measurement, dense_signature, layers, 700), "coarse", cost_of)
    for cluster in told.clusters:
        cost = cost_of(cluster.op, cluster.args, cluster.outputs)
        assert cost is not None
        assert (cluster.flops, cluster.bytes_read) == (cost.flops, cost.bytes_read)
    assert problems_of_signature(told) == []
    exact = dataclasses.replace(told.clusters[0], flops=1234567, calls=11.0)
    problems = problems_of_signature(dataclasses.replace(told, clusters=(exact, *told.clusters[1:])))
    assert any("calls: a count is exact" in p for p in problems)
    assert any("its work is told more exactly" in p for p in problems)
    (listing,) = (c for c in told.clusters if c.phase == "optimizer")
    (told_list, _), (entry, *_) = listing.args[:2], listing.args[0]["tensors"]
    longer = {"tensors": [{**entry, "times": 11}, *told_list["tensors"][1:]]}
    exact = dataclasses.replace(listing, args=(longer, *listing.args[1:]))
    clusters = tuple(exact if c is listing else c for c in told.clusters)
    problems = problems_of_signature(dataclasses.replace(told, clusters=clusters))
    assert any("how many tensors a list holds" in p for p in problems)


def test_a_very_long_list_stays_readable(dense_signature: Signature) -> None:
    """Its rounding must not ask for more tensors than a file may list."""
    lists = {"tensors": [{"shape": [n], "dtype": "float32", "times": 49_000} for n in (2, 3)]}
    long = dataclasses.replace(dense_signature.clusters[0], op="aten._foreach_neg_.default", args=(lists,), outputs=())
    told = coarsen(
        dataclasses.replace(dense_signature, clusters=(long,), motifs=(), measurements=()), "coarse", cost_of
    )
    assert [e["times"] for e in told.clusters[0].args[0]["tensors"]] == [32_768, 32_768]


def test_how_steps_vary_is_told_with_one_digit(signature: Signature) -> None:
    varying = Variation(steps=17, distinct=9, work_deviation=0.1234, work_error=0.0123, time_deviation=0.5678,
                        time_error=0.0)  # fmt: skip
    (measurement,) = signature.measurements
    exact = dataclasses.replace(signature, measurements=(dataclasses.replace(measurement, variation=varying),))
    told = coarsen(exact, "coarse", cost_of)
    assert told.measurements[0].variation == Variation(
        steps=16, distinct=8, work_deviation=0.1, work_error=0.01, time_deviation=0.6, time_error=0.0
    )
    kept = dataclasses.replace(told.measurements[0], variation=varying)
    problems = problems_of_signature(dataclasses.replace(told, measurements=(kept,)))
    assert any(".variation:" in p for p in problems)


def test_rare_clusters_go_and_sizes_of_others_stay_in_a_statistical_one(signature: Signature) -> None:
    told = coarsen(signature, "statistical", cost_of)
    assert sorted(c.args[0]["shape"][0] for c in told.clusters) == [500, 690, 700]
    assert sum(c.calls for c in told.clusters) == 18


def test_a_coarse_one_holds_no_exact_size(signature: Signature) -> None:
    told = coarsen(signature, "coarse", cost_of)
    assert {c.args[0]["shape"][0] for c in told.clusters} == {512, 768}
    assert all(map(is_binned_count, (c.calls for c in told.clusters)))
    assert all(len(m.clusters) == 1 or m.count >= 2 for m in told.motifs)
    assert all(t == rounded(t) for m in told.measurements for t in m.cluster_time_s if t is not None)
    assert {size for size in dataclasses.astuple(told.memory) if size} <= {16**n for n in range(16)}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_layers_leaves_no_trace(signature: Signature, seed: int) -> None:
    """Whatever order clusters came in, the files are the same, byte for byte."""
    first, order = signature, list(range(6))
    random.Random(seed).shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    (measurement,) = first.measurements

    def moved(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[i] for i in order)

    other = dataclasses.replace(
        first,
        clusters=moved(first.clusters),
        motifs=tuple(Motif(clusters=tuple(place[i] for i in m.clusters), count=m.count) for m in first.motifs[::-1]),
        measurements=(
            dataclasses.replace(
                measurement, cluster_time_s=moved(measurement.cluster_time_s), kernels=moved(measurement.kernels),
                kernel_class=moved(measurement.kernel_class),
            ),
        ),
    )  # fmt: skip
    assert in_canonical_order(other) == in_canonical_order(first)
    assert coarsen(other, "statistical", cost_of).id == coarsen(first, "statistical", cost_of).id
    assert coarsen(other, "coarse", cost_of).id == coarsen(first, "coarse", cost_of).id


def test_there_is_no_way_back(signature: Signature) -> None:
    coarse = coarsen(signature, "coarse", cost_of)
    assert coarsen(coarse, "coarse", cost_of) == coarse
    assert coarsen(coarsen(signature, "statistical", cost_of), "coarse", cost_of).level == "coarse"
    for level in ("full", "statistical"):
        with pytest.raises(UsageError, match="cannot become"):
            coarsen(coarse, level, cost_of)  # type: ignore[arg-type]


def test_the_level_is_in_the_file(signature: Signature, tmp_path: Any) -> None:
    for level in LEVELS:
        save_signature(tmp_path / "s.json", coarsen(signature, level, cost_of))
        assert load_signature(tmp_path / "s.json").level == level
    assert finest(["coarse", "statistical"]) == "statistical"


def test_kernels_and_counters_are_merged_with_their_clusters(signature: Signature) -> None:
    (measurement,) = signature.measurements
    kernels = tuple(
        GpuKernel(cluster=i, family="cublas:gemm:f32", grid=(i, 1, 1), block=None, launches=3.0, time_s=1e-3 * (i + 1))
        for i in range(6)
    )
    counters = {"dram_bytes": (1.0,) * 6, "l2_hit_rate": (0.5, 0.1, 0.5, None, 0.1, 0.5)}
    gpu = GpuActivity(busy_time_s=0.0212, streams=1, kernels=kernels, duration_log2_us=((3, 18.0),), gap_log2_us=(),
                      power=Power(missing={}), counters=Counters(tool=None, clusters=counters, missing={}))  # fmt: skip
    measured: Measurement = dataclasses.replace(measurement, gpu=gpu)
    merged = merge(dataclasses.replace(signature, measurements=(measured,)), [[0, 1, 3], [2, 4], [5]]).measurements[0]
    assert merged.gpu is not None
    assert merged.gpu.counters.clusters["dram_bytes"] == (3.0, 2.0, 1.0)
    assert merged.gpu.counters.clusters["l2_hit_rate"][0] == pytest.approx(0.5, abs=1e-3)
    assert sum(k.launches for k in merged.gpu.kernels) == 18
    assert {k.grid for k in gpu.without_grids({2, 4}).kernels} == {(0, 1, 1), (1, 1, 1), None, (3, 1, 1), (5, 1, 1)}
    told = coarsen(dataclasses.replace(signature, measurements=(measured,)), "coarse", cost_of)
    assert problems_of_signature(told) == []
    busy = dataclasses.replace(told.measurements[0].gpu, busy_time_s=0.0212)
    exact = dataclasses.replace(told.measurements[0], gpu=busy, profiled_latency_s=(1e-3,))
    problems = problems_of_signature(dataclasses.replace(told, measurements=(exact,)))
    assert [p.partition(":")[0] for p in problems] == [f"measurements[0].{n}" for n in ("profiled_latency_s", "gpu")]
    coarse = told.measurements[0].gpu
    assert coarse is not None
    assert {k.grid for k in coarse.kernels} == {None}
    scale = coarse.busy_time_s / gpu.busy_time_s
    assert sum(k.time_s for k in coarse.kernels) == pytest.approx(0.021 * scale, rel=0.1)


def test_the_order_is_that_of_content(signature: Signature) -> None:
    sorted_ = in_canonical_order(signature)
    assert canonical_order(sorted_.clusters) == list(range(6))
    assert sorted_.flops_per_step == signature.flops_per_step


def test_autocast_shares_are_tenths_and_coarse_ones_0_or_1(signature: Signature) -> None:
    shares = (0.0, 0.3, 0.4, 0.7, 0.8, 1.0)
    clusters = tuple(dataclasses.replace(c, autocast_share=s) for c, s in zip(signature.clusters, shares, strict=True))
    told = dataclasses.replace(signature, clusters=clusters)
    coarse = {c.autocast_share for c in coarsen(told, "coarse", cost_of).clusters}
    assert coarse <= {0.0, 1.0}
    (merged,) = merge(told, [range(len(clusters))]).clusters
    weighted = sum(c.calls * s for c, s in zip(clusters, shares, strict=True)) / sum(c.calls for c in clusters)
    assert merged.autocast_share == round(weighted, 1)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=40))
def test_a_rare_cluster_is_folded_into_the_nearest_in_size(sizes: list[int]) -> None:
    clusters = [
        dataclasses.replace(mm(8, 8, 8 + i), calls=1.0, flops=0.0, bytes_read=float(n), bytes_written=0.0)
        for i, n in enumerate(sizes)
    ]
    groups = folded(signature_of(*clusters), 0.05)
    assert sorted(i for group in groups for i in group) == [*range(len(sizes))]
    size = [math.log2(1 + n) for n in sizes]
    for first, *others in groups:
        assert all(sizes[i] < 0.05 * (sum(sizes) or 1) for i in others)
        assert all(abs(size[i] - size[first]) <= abs(size[i] - size[other]) for i in others for other, *_ in groups)
