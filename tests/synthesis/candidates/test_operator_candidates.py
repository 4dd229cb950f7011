"""Operators by themselves for what no other block has, and the nearest block for what no block has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthesis_builders import GEMM, RELU, cluster, measured, small_signature, tensor

from statsnet.blocks import KINDS
from statsnet.measure.process import run
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.model import Cluster, Motif
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.bench.tasks import MeasureBlocks
from statsnet.synthesis.candidates.candidates import StepRoom, nearest_sizes
from statsnet.synthesis.candidates.operator_candidates import not_served, operator_candidates, short_of, too_coarse
from statsnet.synthesis.candidates.sources import Source
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.costs.loads import OperatorGroup, StepLoad
from statsnet.synthesis.program.integer_program import Program, relax
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.program.nearest_blocks import nearest_classes

HALF = cluster(
    "aten.tanh.default", "activation", (tensor(64, 512, strides=[1024, 1]),), tensor(64, 512),
    flops=64.0 * 512, bytes_read=4.0 * 64 * 512, bytes_written=4.0 * 64 * 512,
)  # fmt: skip
BACKWARD = cluster(
    "aten.tanh_backward.default", "activation", (tensor(64, 512, strides=[0, 1]), tensor(64, 512)), tensor(64, 512),
    phase="backward", flops=64.0 * 512, bytes_read=8.0 * 64 * 512, bytes_written=4.0 * 64 * 512,
)  # fmt: skip
OPAQUE = cluster("aten.multinomial.default", "activation", (tensor(64, 512),), tensor(64, 512))
CLASSES = {
    "mm": "gemm|mkl:sgemm|float32|nt", "relu": "relu|aten|float32|contiguous", "tanh": "tanh|aten|float32|strided",
    "tanh_backward": "tanh_backward|aten|float32|expanded", "multinomial": "multinomial|aten|float32|contiguous",
    "embedding": "embedding|aten|float32|contiguous",
}  # fmt: skip


def target(*clusters: Cluster, mode: str = "inference", optimizer: str | None = None) -> Target:
    """Each of the clusters takes an equal share."""
    names = [CLASSES[c.op.split(".")[1]] for c in clusters]
    times = [0.008 / len(clusters)] * len(clusters)
    fields = {"clusters": clusters, "motifs": (), "mode": mode, "measurements": (measured(times, names),)}
    return target_of(small_signature(**fields, optimizer=optimizer))


def load(**times_s: float) -> StepLoad:
    groups = tuple(
        OperatorGroup(
            category="gemm" if name == "mm" else "activation", kernel_class=CLASSES[name], shape_class="L2",
            time_s=time_s, flops=1e5, bytes=1e6, weights=0.0, calls=1.0,
        )
        for name, time_s in times_s.items()
    )  # fmt: skip
    return StepLoad(groups=groups, framework_s=0.0)


@pytest.mark.parametrize(
    ("loads", "missing"),
    [
        ([load(mm=1.0, relu=1.0)], {"tanh"}),
        ([load(mm=1.0, relu=1.0), load(tanh=1.0)], set()),
        ([load(mm=1.0, relu=0.3, tanh=0.01)], {"relu", "tanh"}),  # too little of the block
        ([], {"mm", "relu", "tanh"}),
    ],
)
def test_what_a_block_can_stand_for(loads: list[StepLoad], missing: set[str]) -> None:
    shares = target(GEMM, RELU, HALF).kernel_class_shares
    assert not_served(shares, loads).keys() == {CLASSES[name] for name in missing}


@pytest.mark.parametrize(
    ("shares", "seconds", "coarse"),
    [
        ({"tanh": 0.04}, [0.07], True),  # one is too much, none is too little
        ({"tanh": 0.04}, [0.07, 0.019], False),
        ({"tanh": 0.04}, [0.021], True),
        ({"tanh": 0.002}, [0.0039], False),  # what one brings is little in the step
        ({"tanh": 0.002}, [0.0041], True),
        ({"tanh": 0.0009}, [0.07], False),  # and so is what is asked for
        ({"tanh": 0.04}, [], True),
        ({"embedding": 0.04}, [0.07], False),  # each would hold a table of its own
    ],
)
def test_a_class_of_which_the_smallest_block_brings_too_much(
    shares: dict[str, float], seconds: list[float], coarse: bool
) -> None:
    (name,) = shares
    of_class = {CLASSES[name]: share for name, share in shares.items()}
    found = too_coarse(of_class, [load(**{name: time_s}) for time_s in seconds], budget_s=1.0)
    assert found == (of_class if coarse else {})


def lacking(*names: str) -> dict[str, float]:
    return {CLASSES[name]: 0.3 for name in names}


def left(program: Program) -> np.ndarray:
    """What the best network in parts is short of."""
    return program.target - program.matrix @ relax(program).counts


def test_a_class_that_blocks_only_have_beside_much_else_is_lacking() -> None:
    """The only block with a tanh brings as much time in a product as is asked for in all: half of one is best, and
    half of the tanh is missing."""
    keys = [("kernel_class", CLASSES["tanh"]), ("kernel_class", CLASSES["mm"])]
    matrix = np.array([[0.1, 0.0], [0.2, 0.05]])
    program = Program(matrix=matrix, target=np.array([0.1, 0.1]), weight=np.array([1.0, 3.0]), upper=np.array([5, 5]))
    assert short_of(left(program), keys) == pytest.approx({CLASSES["tanh"]: 0.05})
    enough = replace(program, matrix=np.hstack([matrix, [[0.1], [0.0]]]), upper=np.array([5, 5, 5]))
    assert short_of(left(enough), keys) == {}
    looked_up = [("kernel_class", CLASSES["embedding"]), keys[1]]
    assert short_of(left(program), looked_up) == {}, "each would hold a table of its own"


def test_many_small_classes_are_lacking_together() -> None:
    """Forty classes of 0.1 % are 4 % of a step: only a quarter of them may be missing."""
    keys = [("kernel_class", f"c{i}|aten|float32|contiguous") for i in range(40)]
    short = np.linspace(1.0e-3, 1.1e-3, 40)
    found = short_of(short, keys)
    assert sum(short) - sum(found.values()) <= 0.01 < sum(short) - sum(found.values()) + min(found.values())
    assert short_of(short[:9], keys[:9]) == {}
    gradient = [("kernel_class", "embedding_dense_backward|aten|float32|contiguous")]
    assert short_of(np.array([0.1]), gradient) == {}, "it would hold a table of its own"


def test_a_class_without_a_block_gets_its_own_operator_in_its_layout() -> None:
    chosen = operator_candidates(
        target(GEMM, RELU, HALF), lacking("tanh"), budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    assert chosen
    assert {c.kind for c in chosen} == {"operator"}
    for each in chosen:
        function, operand = KINDS["operator"].arguments(each.config) or ()
        assert function == "torch.tanh"
        assert operand.endswith(", 1024).narrow(1, 0, 512)") or ".narrow(1, 0, " in operand


def test_what_cannot_be_rebuilt_is_passed_over() -> None:
    chosen = operator_candidates(
        target(GEMM, OPAQUE), lacking("multinomial"), budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    assert chosen == []


@pytest.mark.parametrize(("optimizer", "are_blocks"), [("adam", False), ("custom", True)])
def test_operators_of_an_optimizer_are_blocks_if_no_block_can_be_stepped_by_it(
    optimizer: str, are_blocks: bool
) -> None:
    wanted = target(GEMM, replace(HALF, phase="optimizer"), mode="training", optimizer=optimizer)
    chosen = operator_candidates(wanted, lacking("tanh"), budget_s=0.02, own_dtype="float32", own_sizes=False)
    assert bool(chosen) == are_blocks


@pytest.mark.parametrize(("behind_per_s", "mode", "is_block"), [
    (80.0, "inference", False), (40.0, "inference", True), (80.0, "training", True),
])  # fmt: skip
def test_a_batch_norm_that_runtimes_put_into_weights_is_no_block(
    behind_per_s: float, mode: str, is_block: bool
) -> None:
    """Of its 100 calls a second these are behind a product. Alone, other runtimes would run it, and Inductor in the
    layout in which it was read, with nothing behind it in the same pass."""
    norm = cluster(
        "aten.native_batch_norm.default", "normalization", (tensor(64, 512), *[tensor(512)] * 4, False, 0.1, 1e-5),
        tensor(64, 512), calls=1.0,
    )  # fmt: skip
    kernel_class = "native_batch_norm|aten|float32|contiguous"
    times = measured((0.004, 0.004), (CLASSES["mm"], kernel_class))
    motifs = (Motif(clusters=(0, 1), count=behind_per_s / 100),)
    signature = small_signature(clusters=(GEMM, norm), motifs=motifs, mode=mode, measurements=(times,))
    chosen = operator_candidates(
        target_of(signature), {kernel_class: 0.1}, budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    assert bool(chosen) == is_block


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_candidates_run_what_was_asked_for(mode: str) -> None:
    """Forward and backward operators alike, measured as all blocks are."""
    wanted = target(GEMM, HALF, BACKWARD, mode=mode)
    chosen = operator_candidates(
        wanted, lacking("tanh", "tanh_backward"), budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    broken = {
        **chosen[0].config, "operator": ("mm", "default"), "spelling": "aten",
        "operands": (("own", (2, 3), ()), ("own", (2, 3), ())), "arguments": (("operand", 0), ("operand", 1)),
    }  # fmt: skip
    blocks = tuple(Placed(kind="operator", config=config) for config in (*(c.config for c in chosen), broken))
    *measured_blocks, nothing = run(MeasureBlocks(blocks=blocks, mode=mode, dtype="float32"))
    classes = [row.kernel_class for m in measured_blocks for row in m.block.operators]
    assert {*classes} == {CLASSES["tanh"], CLASSES["tanh_backward"]}
    assert len(classes) == len(chosen)
    assert nothing.block.operators == ()  # it refuses its operands: nothing is made of it, and the others are measured


def test_operators_are_towers_by_themselves() -> None:
    (first, *_) = operator_candidates(
        target(HALF), lacking("tanh"), budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    linear = Placed(kind="linear", config={"rows": 64, "inputs": 512, "outputs": 512})
    towers = build_towers([(Placed(kind=first.kind, config=first.config), 2), (linear, 3)])
    assert sorted(len(t.blocks) for t in towers) == [1, 1, 3]


def test_an_opaque_class_is_asked_for_as_the_nearest() -> None:
    wanted = target(GEMM, RELU, OPAQUE)
    near = load(relu=1.0)
    rows = MatchedCharacteristics(wanted, candidates=[load(mm=1.0), near])
    names = {
        name: value for (group, name), value in zip(rows.keys, rows.target, strict=True) if group == "kernel_class"
    }
    share = 1 / 3 * 0.8  # of a step, of which a fifth is not spent in operators
    assert names[CLASSES["relu"]] == pytest.approx(2 * share)
    assert CLASSES["multinomial"] not in names
    assert rows.vector(rows.load)[rows.index("total")] == pytest.approx(1.0)


def test_without_candidates_nothing_is_near() -> None:
    assert BlockCosts.of([]).loads() == []
    assert nearest_classes(load(mm=1.0), []) == {}


@pytest.mark.parametrize("share", [1e-3, 5e-4])
def test_an_operator_of_a_small_share_comes_as_small(share: float) -> None:
    """A larger one would bring more of its class than is wanted at once."""
    found = operator_candidates(
        target(HALF, GEMM), {CLASSES["tanh"]: 0.5}, budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    source = Source("operator", next(c.config for c in found if c.scale == 1.0), None, 4e-5, share=share)
    first = nearest_sizes(source, StepRoom(budget_s=0.02, mode="inference"), own_sizes=False)
    assert min(c.time_s for c in first) == pytest.approx(share * 0.02, rel=0.5)


@pytest.mark.parametrize("time_s", [2e-5, 1e-3])
def test_an_operator_far_slower_than_its_bytes_comes_in_sizes_near_its_share(time_s: float) -> None:
    """Such as a function on transposed operands: the second takes fifty times as long as the first."""
    config = {"shape": (64, 512), "functions": ("tanh",)}
    source = Source("pointwise", config, None, time_s, share=time_s / 0.02)
    first = nearest_sizes(source, StepRoom(budget_s=0.02, mode="inference"), own_sizes=False)
    assert all(0.2 < candidate.time_s / (time_s * candidate.scale) < 5 for candidate in first)
    assert any(0.5 < candidate.scale < 2 for candidate in first) or time_s < 1e-4
