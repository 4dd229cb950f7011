"""Rows of small synthetic targets, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from synthesis_builders import (
    CLASSES,
    GEMM,
    GEMM_S,
    RELU,
    RELU_S,
    cluster,
    measured,
    row,
    small_signature,
    tensor,
)

from statsnet.signatures.model import Cluster, Motif
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.costs.loads import StepLoad, groups_of, load_of_target
from statsnet.synthesis.costs.overhead import Overhead
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics


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
    times_s, classes = (GEMM_S, RELU_S, 0.001), (*CLASSES, "normalization|aten")
    measurement = measured(times_s, classes, framework_time_s=0.002)
    motifs = (Motif(clusters=(0, 1), count=2.0), Motif(clusters=(0, 2, 1), count=4.0))
    rows = MatchedCharacteristics(
        target_of(small_signature(clusters=(GEMM, RELU, norm), motifs=motifs, measurements=(measurement,)))
    )
    share = 0.2 / 1.1  # the norm makes the times longer than the step
    assert rows.target[rows.keys.index(("fused", "activation"))] == pytest.approx(share * 4 / 6)
    assert rows.target[rows.keys.index(("fused", "normalization"))] == 0.0
    assert rows.target[rows.keys.index(("joined", "activation"))] == pytest.approx(share)
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
    sort = replace(load_of_target(target).groups[0], category="sort", kernel_class="sort", shape_class="L2", time_s=0.3)
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
