"""Which operators by themselves run in the backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from synthesis_builders import CLASSES, GEMM, RELU, measured, mix_of, row, small_signature

from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.costs.loads import OperatorGroup, groups_of
from statsnet.synthesis.phases import with_phases

GEMM_CLASS, RELU_CLASS = CLASSES
OPERATOR = Placed(kind="operator", config={"n": 1})
OTHER = Placed(kind="operator", config={"n": 2})
LINEAR = Placed(kind="linear", config={})


def a_mix(gemm: str = "forward", relu: str = "forward", mode: str = "training") -> Target:
    """6 ms of products and 2 ms of relu in these phases."""
    clusters = (replace(GEMM, phase=gemm), replace(RELU, phase=relu))
    return target_of_mix(replace(mix_of(small_signature(mode=mode, clusters=clusters)), mode=mode))


def halves() -> Target:
    """3 ms of products in the backward pass, 3 ms in the forward pass, and as many in optimizers."""
    clusters = [replace(GEMM, phase=phase) for phase in ("forward", "backward", "optimizer")]
    times = measured((3e-3,) * 3, (GEMM_CLASS,) * 3)
    whole = small_signature(mode="training", clusters=tuple(clusters), motifs=(), measurements=(times,))
    return target_of_mix(replace(mix_of(whole), mode="training"))


def groups(*rows: Any) -> tuple[OperatorGroup, ...]:
    return groups_of(BlockPart(operators=rows, framework_s=0.0))


def backward(towers: list[Placed], target: Target, **of: tuple[OperatorGroup, ...]) -> list[bool]:
    """Which of towers of one block each run there; `of` are the operators of each."""
    known = {"operator": OPERATOR, "other": OTHER, "linear": LINEAR}
    placed = with_phases(
        [Tower(blocks=(block,)) for block in towers], {known[n].identity: g for n, g in of.items()}, target
    )
    assert [t.blocks[0] for t in placed] == towers
    return [t.in_backward for t in placed]


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_an_operator_runs_where_the_mix_runs_its_kernel_class(phase: str) -> None:
    target = a_mix(relu=phase)
    found = backward([OPERATOR, OTHER], target, operator=groups(row(GEMM_CLASS)), other=groups(row(RELU_CLASS)))
    assert found == [False, phase == "backward"]


def test_of_equal_ones_so_many_as_the_mix_s_share_says_and_optimizers_do_not_count() -> None:
    assert sum(backward([OPERATOR] * 10, halves(), operator=groups(row(GEMM_CLASS)))) == 5


@pytest.mark.parametrize(("phase", "count"), [("forward", 4), ("backward", 0)])
def test_what_other_blocks_spend_there_is_owed_no_more(phase: str, count: int) -> None:
    """Four of eight, if these are all in one of the passes, are owed to the other."""
    linear = groups(row(GEMM_CLASS, 4e-3, phase=phase))
    found = backward([LINEAR, *[OPERATOR] * 4], halves(), operator=groups(row(GEMM_CLASS)), linear=linear)
    assert sum(found) == count
    assert not found[0]


def test_an_inference_step_has_no_backward_pass_whatever_its_mix_runs() -> None:
    target = a_mix(gemm="backward", mode="inference")
    assert backward([OPERATOR], target, operator=groups(row(GEMM_CLASS))) == [False]


def test_what_the_mix_does_not_have_runs_forward() -> None:
    assert backward([OPERATOR, OTHER], a_mix("backward"), operator=groups(row("another")), other=()) == [False, False]
