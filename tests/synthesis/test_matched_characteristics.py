"""Rows, modelled devices and candidates of small synthetic targets, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthesis_builders import (
    CLASSES,
    GEMM,
    GEMM_S,
    RELU,
    RELU_S,
    STEP_S,
    cluster,
    measured,
    row,
    small_signature,
    tensor,
)

from statsnet.blocks import KINDS
from statsnet.signatures.comparison import characteristics
from statsnet.signatures.gpu import Counters, GpuActivity, Power
from statsnet.signatures.model import Cluster, Motif, Signature
from statsnet.signatures.target import Target, target_of
from statsnet.signatures.target_cluster import counters_over
from statsnet.synthesis.block_measurement import BlockPart
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.loads import OperatorGroup, OperatorTable, StepLoad, groups_of, load_of_target
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.modelled_devices import ModelledDevice, modelled_devices
from statsnet.synthesis.overhead import Overhead


@pytest.fixture
def target() -> Target:
    return target_of(small_signature())


@pytest.fixture
def value(target: Target) -> Callable[..., float]:
    rows = MatchedCharacteristics(target)

    def of(vector: np.ndarray, group: str, name: str = "") -> float:
        return float(vector[rows.keys.index((group, name))])

    return of


def test_rows_of_the_target_are_its_shares(target: Target, value: Callable[..., float]) -> None:
    rows = MatchedCharacteristics(target)
    assert len(rows.keys) == len(set(rows.keys)) == len(rows.weights) == len(rows.target)
    expected = {
        ("total", ""): 1.0,
        ("flops", ""): 1.0,
        ("bytes", ""): 1.0,
        ("framework", ""): 0.2,
        ("category", "gemm"): 0.6,
        ("category", "activation"): 0.2,
        ("category", "elsewhere"): 0.0,
        ("kernel_class", "gemm|mkl"): 0.6,
        ("kernel_class", "elsewhere"): 0.0,
    }
    for (group, name), wanted in expected.items():
        assert value(rows.target, group, name) == pytest.approx(wanted), (group, name)
    devices = [v for (group, _), v in zip(rows.keys, rows.target, strict=True) if group == "device"]
    assert devices == pytest.approx([1.0] * len(rows.devices))


def test_intensity_rows_are_cumulative(target: Target) -> None:
    """Relu has 1/8 FLOP per byte (bin -3), the product 2^4.6; operators make 0.8 together."""
    rows = MatchedCharacteristics(target)
    bins = {int(n): v for (g, n), v in zip(rows.keys, rows.target, strict=True) if g == "intensity"}
    assert [v for b, v in bins.items() if b < -3] == pytest.approx([0.0] * sum(b < -3 for b in bins))
    assert bins[-3] == bins[3] == pytest.approx(0.2)
    assert bins[max(bins)] == pytest.approx(0.8)


def test_what_a_compiler_runs_in_one_pass_has_a_row(target: Target, value: Callable[..., float]) -> None:
    """Relu behind a product begins a pass; of two thirds of its calls a batch norm comes first."""
    assert value(MatchedCharacteristics(target).target, "fused", "activation") == 0.0
    norm = cluster("aten.native_batch_norm.default", "normalization", (tensor(64, 512),), tensor(64, 512))
    measurement = measured((GEMM_S, RELU_S, 0.001), (*CLASSES, "normalization|aten"))
    motifs = (Motif(clusters=(0, 1), count=2.0), Motif(clusters=(0, 2, 1), count=4.0))
    rows = MatchedCharacteristics(
        target_of(small_signature(clusters=(GEMM, RELU, norm), motifs=motifs, measurements=(measurement,)))
    )
    share = 0.2 / 1.1  # the norm makes the times longer than the step
    assert rows.target[rows.keys.index(("fused", "activation"))] == pytest.approx(share * 4 / 6)
    assert rows.target[rows.keys.index(("fused", "normalization"))] == 0.0
    lone = replace(rows.load.groups[1], fused=0.0)
    vector = rows.vector(StepLoad(groups=(lone,), framework_s=0.0))
    assert vector[rows.keys.index(("fused", "activation"))] == 0.0


@pytest.mark.parametrize("step_s", [0.008, 0.01, 0.014])
def test_what_nobody_can_explain_is_no_framework_time(step_s: float) -> None:
    """A neighbour was busy while the bare steps ran, or while the profiled ones did."""
    signature = small_signature(measurements=(replace(measured((GEMM_S, RELU_S), CLASSES), step_latency_s=(step_s,)),))
    quiet = small_signature(measurements=(measured((GEMM_S, RELU_S), CLASSES),))
    load, wanted = load_of_target(target_of(signature)), load_of_target(target_of(quiet))
    assert load.framework_s == pytest.approx(wanted.framework_s)
    assert [g.time_s for g in load.groups] == pytest.approx([g.time_s for g in wanted.groups])


def test_operators_whose_rest_is_not_known_only_become_shorter() -> None:
    def load(step_s: float) -> StepLoad:
        measurement = measured((GEMM_S, RELU_S), CLASSES, framework_time_s=None, step_latency_s=(step_s,))
        return load_of_target(target_of(small_signature(measurements=(measurement,))))

    spent_s = GEMM_S + RELU_S
    assert load(0.016).framework_s == pytest.approx(1 - spent_s / 0.016)
    assert load(0.75 * spent_s).framework_s == pytest.approx(0.0, abs=1e-9)


def test_a_gpus_idle_time_stays_where_kernels_overlap() -> None:
    """6 and 2 ms of kernels in 5 of 10 ms: they ran at once for 3 ms, and for 5 ms the GPU waited."""
    measurement = measured((GEMM_S, RELU_S), CLASSES, framework_time_s=0.0, idle_time_s=0.005)
    load = load_of_target(target_of(small_signature(measurements=(measurement,))))
    assert load.framework_s == pytest.approx(0.5)
    assert load.groups[0].time_s / load.groups[1].time_s == pytest.approx(GEMM_S / RELU_S)


def test_rows_are_linear_in_blocks_and_in_seconds(target: Target) -> None:
    rows = MatchedCharacteristics(target)
    load = load_of_target(target)
    twice = StepLoad(groups=load.groups * 2, framework_s=2 * load.framework_s)
    assert rows.vector(twice) == pytest.approx(2 * rows.target)
    assert rows.vector(load, 0.5) == pytest.approx(2 * rows.target)


def test_what_the_target_does_not_have_is_elsewhere(target: Target, value: Callable[..., float]) -> None:
    sort = work(category="sort", kernel_class="sort", shape_class="L2", time_s=0.3, bytes=9.0, calls=1.0)
    vector = MatchedCharacteristics(target).vector(StepLoad(groups=(sort,), framework_s=0.0))
    assert value(vector, "category", "elsewhere") == pytest.approx(0.3)
    assert value(vector, "kernel_class", "elsewhere") == pytest.approx(0.3)
    assert value(vector, "category", "gemm") == 0.0


def test_shapes_of_a_kernel_class_are_told_apart(target: Target, value: Callable[..., float]) -> None:
    other = replace(load_of_target(target).groups[0], shape_class="another", time_s=0.3)
    vector = MatchedCharacteristics(target).vector(StepLoad(groups=(other,), framework_s=0.0))
    assert value(vector, "kernel_class", "gemm|mkl") == pytest.approx(0.3)
    assert value(vector, "kernel_shape", "elsewhere") == pytest.approx(0.3)


def test_what_a_class_does_in_its_time(target: Target, value: Callable[..., float]) -> None:
    """In units of its share of time: with half the time for the same work, another device may treat a block
    as it treats all of the target's class."""
    rows, load = MatchedCharacteristics(target), load_of_target(target)
    assert value(rows.target, "class_flops", "gemm|mkl") == pytest.approx(0.6)
    assert value(rows.target, "class_bytes", "gemm|mkl") == pytest.approx(0.6)
    product = next(w for w in load.groups if w.kernel_class == "gemm|mkl")
    faster = StepLoad(groups=(replace(product, time_s=product.time_s / 2),), framework_s=0.0)
    vector = rows.vector(faster)
    assert value(vector, "kernel_class", "gemm|mkl") == pytest.approx(0.3)
    assert value(vector, "class_flops", "gemm|mkl") == pytest.approx(0.6)


def test_each_shape_is_to_do_its_work(target: Target, value: Callable[..., float]) -> None:
    """Another device may run the convolutions of one kernel class at a rate for each window."""
    rows, load = MatchedCharacteristics(target), load_of_target(target)
    product = next(w for w in load.groups if w.kernel_class == "gemm|mkl")
    assert value(rows.target, "shape_flops", product.kernel_shape) == pytest.approx(0.6)
    vector = rows.vector(StepLoad(groups=(replace(product, shape_class="another"),), framework_s=0.0))
    assert value(vector, "class_flops", "gemm|mkl") == pytest.approx(0.6)
    assert value(vector, "shape_flops", product.kernel_shape) == 0.0


def test_what_weights_take_is_a_share_of_the_time(target: Target) -> None:
    product = next(w for w in load_of_target(target).groups if w.kernel_class == "gemm|mkl")
    assert product.weights > 0
    rows = MatchedCharacteristics(target, {"gemm|mkl": Overhead(weight_byte_s=0.1 * product.time_s / product.weights)})
    row = rows.keys.index(("weights", "gemm"))
    assert rows.target[row] == pytest.approx(0.06)
    again = StepLoad(groups=(replace(product, weights=3 * product.weights),), framework_s=0.0)
    assert rows.vector(again)[row] == pytest.approx(0.18)
    assert ("weights", "gemm") not in MatchedCharacteristics(target).keys  # nothing is known of them


WEIGHTS = 4 * 256 * 512
TABLE = cluster("aten.embedding.default", "embedding", (tensor(1000, 64), tensor(5)), tensor(5, 64))
TIED = cluster("aten.embedding.default", "embedding", (tensor(512, 256), tensor(5)), tensor(5, 256))
CONVOLUTION = cluster(
    "aten.convolution.default", "convolution",
    (tensor(1, 8, 9, 9), tensor(16, 8, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), tensor(1, 16, 7, 7),
)  # fmt: skip


@pytest.mark.parametrize(
    ("others", "parameter_bytes", "distinct"),
    [
        ((), 4 * WEIGHTS, 1.0),
        ((), WEIGHTS, 0.25),  # four steps of one recurrent layer
        ((), 9 * WEIGHTS, 1.0),  # some that no product reads
        ((), 0, 1.0),  # weights that are no parameters
        ((TABLE,), WEIGHTS + 4 * 1000 * 64, 0.25),
        ((TABLE,), WEIGHTS, (WEIGHTS - 4 * 1000 * 64) / (4 * WEIGHTS)),
        ((TIED,), WEIGHTS, 0.25),  # the table is what the products read
        ((CONVOLUTION,), WEIGHTS + 4 * 4 * 16 * 8 * 9, 0.25),  # four layers of them
    ],
)
def test_weights_that_are_read_again_count_once(
    others: tuple[Cluster, ...], parameter_bytes: int, distinct: float
) -> None:
    few, untimed = small_signature(), (None,) * len(others)
    memory = replace(few.memory, parameter_bytes=parameter_bytes)
    measurement = measured((GEMM_S, RELU_S, *untimed), (*CLASSES, *untimed))
    clusters = (*few.clusters, *others)
    target = target_of(replace(few, clusters=clusters, memory=memory, measurements=(measurement,)))
    works = {w.category: w for w in load_of_target(target).groups}
    assert works["gemm"].distinct == pytest.approx(distinct)
    assert works["convolution"].distinct == 1.0 if CONVOLUTION in others else "convolution" not in works
    rows = MatchedCharacteristics(target, {"gemm|mkl": Overhead(weight_byte_s=0.1 * GEMM_S / (4 * WEIGHTS))})
    assert rows.target[rows.keys.index(("weights", "gemm"))] == pytest.approx(0.06 * distinct)


def test_calls_count_as_much_as_framework_time_does(target: Target, value: Callable[..., float]) -> None:
    rows, load = MatchedCharacteristics(target), load_of_target(target)
    assert value(rows.target, "launches", "") == pytest.approx(load.framework_s)
    thrice = StepLoad(groups=tuple(replace(w, calls=3 * w.calls) for w in load.groups), framework_s=0.0)
    assert value(rows.vector(thrice), "launches", "") == pytest.approx(3 * load.framework_s)


def test_bags_of_an_inference_target_are_asked_for_by_their_bytes() -> None:
    """Other runtimes run a loop over them, however little time they take in torch."""
    table, indices = tensor(1000, 16), {"shape": [64], "dtype": "int64"}
    args = (table, indices, indices, False, 0, False, None)
    bags = cluster("aten._embedding_bag.default", "embedding", args, tensor(64, 16), bytes_read=5120.0,
                   bytes_written=4096.0)  # fmt: skip
    named = "_embedding_bag|native|float32|contiguous"
    for mode, rows in (("inference", 1), ("training", 0)):
        times = measured((7e-3, 1e-5), (CLASSES[0], named))
        target = target_of(small_signature(mode=mode, clusters=(GEMM, bags), measurements=(times,)))
        matched = MatchedCharacteristics(target)
        assert matched.keys.count(("loops", named)) == rows
        if rows:
            load = load_of_target(target)
            half = replace(load, groups=tuple(replace(g, bytes=g.bytes / 2) for g in load.groups))
            place = matched.keys.index(("loops", named))
            assert matched.target[place] == pytest.approx(1.0)
            assert matched.vector(half)[place] == pytest.approx(0.5)


def test_how_much_of_a_load_is_foreign(target: Target) -> None:
    rows, load = MatchedCharacteristics(target), load_of_target(target)
    assert rows.foreign_share(load) == pytest.approx(0.0)
    strange = replace(load.groups[0], kernel_class="where|aten", time_s=0.2)
    assert rows.foreign_share(replace(load, groups=(*load.groups, strange))) == pytest.approx(0.2)
    assert rows.foreign_share(StepLoad(groups=(), framework_s=1.0)) == 0.0


def test_works_of_a_block_are_its_operators() -> None:
    operators = (row(time_s=0.002, calls=2, fused=1.0), row(time_s=0.006), row(phase="backward", fused=1.0))
    works = groups_of(BlockPart(operators=operators, framework_s=0.0005))
    assert [w.time_s for w in works] == pytest.approx([0.002, 0.006, 0.001])
    assert [w.calls for w in works] == [2, 1, 1]
    assert [w.fused for w in works] == pytest.approx([0.25] * 3)  # of the category's forward time
    step = BlockPart(operators=(row(category="optimizer"),), framework_s=0.0001)
    assert [w.category for w in groups_of(step)] == ["optimizer"]


def work(**changes: Any) -> OperatorGroup:
    fields = {
        "category": "gemm", "kernel_class": "k", "shape_class": "s", "time_s": 1.0, "flops": 0.0, "bytes": 0.0,
        "weights": 0.0, "calls": 0.0,
    }  # fmt: skip
    return OperatorGroup(**{**fields, **changes})


def time_s(device: ModelledDevice, **changes: Any) -> float:
    """What the device takes for `work`."""
    return float(device.time_s(OperatorTable([[work(**changes)]])).item())


@pytest.mark.parametrize(
    ("flops", "nbytes", "factor"),
    [(100.0, 1.0, 1 / 4), (1.0, 100.0, 1 / 2), (16.0, 1.0, 8 / 16), (0.0, 0.0, 1 / 2)],
)
def test_roofline_devices(flops: float, nbytes: float, factor: float) -> None:
    """Four times the compute and twice the bandwidth of a machine whose ridge is at 1 FLOP/byte."""
    device = ModelledDevice(compute=4.0, bandwidth=2.0, ridge=1.0)
    here = max(flops, nbytes)
    if here:
        factor = max(flops / 4, nbytes / 2) / here
    assert time_s(device, flops=flops, bytes=nbytes) == pytest.approx(factor)


def test_launches_cost_time() -> None:
    device = ModelledDevice(launch_s=1e-3)
    assert time_s(device, bytes=8.0, calls=5.0) == pytest.approx(1.005)


def test_random_devices_differ_by_class_alone() -> None:
    device, other = ModelledDevice(seed=1), ModelledDevice(seed=2)
    same = [time_s(device, flops=f) for f in (0.0, 1e9)]
    assert same[0] == same[1] == time_s(ModelledDevice(seed=1))
    assert time_s(device, kernel_class="another") != same[0] != time_s(other)
    factors = [time_s(ModelledDevice(seed=s)) for s in range(400)]
    assert np.mean(np.log(factors)) == pytest.approx(0.0, abs=0.15)
    assert np.std(np.log(factors)) == pytest.approx(0.7, rel=0.15)


def test_devices_of_a_target(target: Target) -> None:
    """None of them is the machine itself; each one's time of the target is what it sums up to."""
    load = load_of_target(target)
    devices = modelled_devices(load.groups)
    assert len({(d.compute, d.bandwidth, d.launch_s, d.seed) for d in devices}) == len(devices)
    for device in devices:
        assert (device.compute, device.bandwidth, device.launch_s, device.seed) != (1.0, 1.0, 0.0, None)
        assert device.target_s == pytest.approx(device.time_s(OperatorTable([load.groups])).sum() + 0.2)


def test_candidates_are_the_motif_and_its_operators(target: Target) -> None:
    blocks = candidates(target, budget_s=0.02)
    assert len({c.key for c in blocks}) == len(blocks)
    activations = {c.config.get("activation") for c in blocks if c.kind == "linear"}
    assert activations == {"relu", ""}
    assert any(c.kind == "pointwise" and c.config["functions"] == ("relu",) for c in blocks)
    for candidate in blocks:
        assert 0 < candidate.scale <= 16  # small calls may be joined into one
        assert candidate.time_s > 0
        KINDS[candidate.kind].build(candidate.config)


def test_smaller_budgets_take_smaller_blocks(target: Target) -> None:
    def largest(budget_s: float) -> int:
        chosen = candidates(target, budget_s=budget_s)
        return max(KINDS[c.kind].elements_read(c.config) for c in chosen)

    assert largest(1e-5) < largest(1.0)


@pytest.mark.parametrize(("budget_s", "fits"), [(0.02, True), (0.002, False)])
def test_a_motif_of_its_own_size_is_a_candidate_where_it_fits(target: Target, budget_s: float, fits: bool) -> None:
    """The product takes 1.5 ms a call; others that take about as long run other kernels, or at another intensity."""
    blocks = candidates(target, budget_s=budget_s)
    originals = [c for c in blocks if c.kind == "linear" and c.scale == 1.0]
    assert {c.config["rows"] for c in originals} == ({64} if fits else set())


def test_the_limit_is_kept(target: Target) -> None:
    assert len(candidates(target, budget_s=0.001, limit=3)) == 3


def test_candidates_carry_their_members_optimizer() -> None:
    training = target_of(small_signature(mode="training", optimizer="adamw"))
    assert {c.optimizer for c in candidates(training, budget_s=0.02)} == {"adamw"}


@pytest.mark.parametrize(("strides", "wanted"), [([1024, 1], True), ([0, 0], False), (None, False)])
def test_gradients_that_arrive_strided_make_joined_candidates(strides: list[int] | None, wanted: bool) -> None:
    """As from behind a concatenation; an expanded gradient is that of a sum."""
    gradient = tensor(64, 512, **({"strides": strides} if strides else {}))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(gradient, tensor(64, 512), 0)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|strided"))
    signature = small_signature(mode="training", clusters=(GEMM, RELU, backward), measurements=(measurement,))
    blocks = candidates(target_of(signature), budget_s=0.02)
    assert any(c.config.get("output_is_concatenated") for c in blocks) == wanted
    assert any(c.kind == "pointwise" and "output_is_concatenated" not in c.config for c in blocks)


def test_a_gradient_is_cut_along_the_axis_along_which_the_model_cuts_it() -> None:
    """Maps that were concatenated by channels. In every size several samples are left, else the slice is contiguous."""
    maps, cut = tensor(8, 16, 12, 12), tensor(8, 16, 12, 12, strides=[4608, 144, 12, 1])
    relu = replace(RELU, args=(maps,), outputs=(maps,))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(cut, maps, 0), outputs=(maps,)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|strided"))
    signature = small_signature(mode="training", clusters=(GEMM, relu, backward), measurements=(measurement,))
    cut_blocks = [c for c in candidates(target_of(signature), budget_s=0.02) if "output_is_concatenated" in c.config]
    assert {c.config["concatenated_axis"] for c in cut_blocks} == {-3}
    assert len(cut_blocks) > 1 and all(c.config["shape"][0] > 1 for c in cut_blocks)


@pytest.mark.parametrize(("strides", "axes"), [([3072, 1, 24], {1}), (None, set())])
def test_a_gradient_that_arrives_transposed_makes_candidates_with_such_a_gradient(
    strides: list[int] | None, axes: set[int]
) -> None:
    maps, transposed = tensor(8, 24, 128), tensor(8, 24, 128, **({"strides": strides} if strides else {}))
    relu = replace(RELU, args=(maps,), outputs=(maps,))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(transposed, maps, 0), outputs=(maps,)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|transposed"))
    signature = small_signature(mode="training", clusters=(GEMM, relu, backward), measurements=(measurement,))
    blocks = [c for c in candidates(target_of(signature), budget_s=0.02) if c.kind == "pointwise"]
    assert {c.config["output_last_axis"] for c in blocks if "output_last_axis" in c.config} == axes
    assert any("output_last_axis" not in c.config for c in blocks)


def test_nothing_can_stand_for_unknown_operators() -> None:
    opaque = replace(RELU, op="custom.opaque.default", category="other")
    signature = small_signature(clusters=(opaque, opaque), motifs=(Motif(clusters=(0,), count=1.0),))
    assert candidates(target_of(signature), budget_s=0.02) == []


def on_a_gpu(**counters: tuple[float | None, ...]) -> Signature:
    """The small signature with counters of its two clusters."""
    signature = small_signature()
    activity = GpuActivity(
        busy_time_s=0.008, streams=1, kernels=(), duration_log2_us=(), gap_log2_us=(),
        power=Power(energy_j_per_step=5.0, missing={}),
        counters=Counters(tool="ncu 2025.3", clusters=counters, missing={}),
    )  # fmt: skip
    (measurement,) = signature.measurements
    return replace(signature, measurements=(replace(measurement, gpu=activity),))


def test_counters_of_a_target_are_means_over_time_and_sums_per_second() -> None:
    target = target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9), dram_bytes=(1e6, 2e6), ipc=(None, 2.0)))
    assert target.counters == {
        "achieved_occupancy": pytest.approx(0.6),
        "dram_bytes": pytest.approx(3e6 / STEP_S),
    }  # of ipc only a quarter of the time is known
    assert target.power_w == pytest.approx(500.0)
    assert target.throttled == ()
    assert target.time_per_launch_s == pytest.approx(0.8 * STEP_S / 8)
    assert target_of(small_signature()).power_w is None


def test_bytes_of_a_partly_counted_target_are_scaled_to_all_of_its_time() -> None:
    """Two clusters take 0.6 and 0.2 of the step. A third, of a thirtieth of their time, is not counted."""
    clusters = target_of(on_a_gpu(dram_bytes=(1e6, 2e6))).clusters
    uncounted = replace(clusters[0], time_share=(clusters[0].time_share + clusters[1].time_share) / 30, counters={})
    assert counters_over([*clusters, uncounted])["dram_bytes"] == pytest.approx(3e6 / STEP_S * 31 / 30)


def test_a_counters_row_is_its_mean_times_the_operators_share() -> None:
    rows = MatchedCharacteristics(target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9), ipc=(2.0, 4.0))))

    def value(vector: np.ndarray, name: str) -> float:
        return float(vector[rows.keys.index(("counter", name))])

    assert value(rows.target, "achieved_occupancy") == pytest.approx(0.8 * 0.6)
    assert value(rows.target, "ipc") == pytest.approx(0.8)  # over what it should be
    busy = replace(rows.load.groups[0], counters=(("achieved_occupancy", 1.0),))
    vector = rows.vector(StepLoad(groups=(busy,), framework_s=0.0))
    assert value(vector, "achieved_occupancy") == pytest.approx(0.6 * 1.0)
    assert value(vector, "ipc") == pytest.approx(0.6)  # what is not known counts as the target's
    weights = [w for (group, _), w in zip(rows.keys, rows.weights, strict=True) if group == "counter"]
    assert sum(weights) == pytest.approx(1.0)


def test_a_fit_has_a_line_for_each_counter_and_for_power() -> None:
    wanted = target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9)))
    lines = {line.name: line for line in characteristics(wanted, target_of(small_signature()))}
    assert lines["achieved_occupancy"].target == pytest.approx(0.6)
    assert lines["achieved_occupancy"].achieved is None
    assert (lines["power"].target, lines["power"].unit) == (pytest.approx(500.0), "W")
    on_cpu = target_of(small_signature())
    assert not {"power", "achieved_occupancy"} & {line.name for line in characteristics(on_cpu, on_cpu)}


def test_a_member_whose_gpu_was_too_hot_is_named() -> None:
    signature = on_a_gpu()
    (measurement,) = signature.measurements
    assert measurement.gpu is not None
    hot = replace(measurement.gpu, power=Power(energy_j_per_step=5.0, throttled=("sw_thermal",), missing={}))
    target = target_of(replace(signature, measurements=(replace(measurement, gpu=hot),)), name="cv/hot")
    assert target.throttled == ("cv/hot",)
