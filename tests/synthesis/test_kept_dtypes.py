"""Which towers keep their dtype under autocast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from synthesis_builders import CLASSES, GEMM, RELU, mix_of, part, small_signature

from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.tower_purposes import keep_dtypes

GEMM_CLASS, RELU_CLASS = CLASSES


def a_mix(gemm: float | None, relu: float | None) -> Target:
    """In which these shares of the calls work in lower precision."""
    clusters = (replace(GEMM, autocast_share=gemm), replace(RELU, autocast_share=relu))
    return target_of_mix(mix_of(small_signature(clusters=clusters)))


OPERATOR = Placed(kind="operator", config={})
LINEAR = {"rows": 4, "inputs": 8, "outputs": 8, "bias": True, "activation": "", "weight_first_axis_in": False}
PLAIN = Placed(kind="linear", config=LINEAR)
WITH_BRANCH = Placed(kind="linear", config={**LINEAR, "residual": True})
RELU_BLOCK = Placed(kind="pointwise", config={"shape": (4, 8), "functions": ("relu",)})


def operators(*towers: tuple[str, float]) -> list[tuple[Tower, tuple[BlockPart, ...]]]:
    """Towers of one operator each: its kernel class, and its time."""
    return [(Tower(blocks=(OPERATOR,)), (of_class(name, time_s),)) for name, time_s in towers]


def of_class(kernel_class: str, time_s: float) -> BlockPart:
    return part(kernel_class, time_s, category=kernel_class.partition("|")[0])


def layers(*blocks: tuple[Placed, BlockPart]) -> tuple[Tower, tuple[BlockPart, ...]]:
    return Tower(blocks=tuple(block for block, _ in blocks)), tuple(part for _, part in blocks)


def kept(target: Target, towers: Sequence[tuple[Tower, tuple[BlockPart, ...]]]) -> list[bool]:
    run = tuple(parts for _, parts in towers)
    measurement = NetworkMeasurement(signature=small_signature(), build_s=0.0, blocks=(run,), drift=1.0)
    return keep_dtypes(target, measurement, [tower for tower, _ in towers])


def test_towers_do_as_the_mix_s_operators_of_their_kernel_class() -> None:
    target = a_mix(gemm=1.0, relu=0.0)
    assert kept(target, operators((GEMM_CLASS, 1e-3), (RELU_CLASS, 1e-3), (GEMM_CLASS, 1e-3))) == [False, True, False]


def test_of_equal_towers_so_many_keep_it_as_the_share_says() -> None:
    assert sum(kept(a_mix(gemm=1.0, relu=0.3), operators(*[(RELU_CLASS, 1e-3)] * 10))) == 7


def test_what_nobody_told_is_handed_on_in_lower_precision() -> None:
    assert kept(a_mix(None, None), operators((RELU_CLASS, 1e-3), ("another", 1e-3))) == [False, False]


PRODUCT, RELU_PART = of_class(GEMM_CLASS, 1e-3), of_class(RELU_CLASS, 1e-4)
BOTH = BlockPart(operators=(*PRODUCT.operators, *RELU_PART.operators), framework_s=0.0)


@pytest.mark.parametrize(
    ("blocks", "keeps"),
    [
        ([(PLAIN, PRODUCT)], False),
        ([(WITH_BRANCH, BOTH)], True),
        ([(PLAIN, BOTH)], False),
        ([(PLAIN, PRODUCT), (RELU_BLOCK, RELU_PART)], False),
        ([(RELU_BLOCK, RELU_PART), (PLAIN, PRODUCT)], True),
        ([(PLAIN, PRODUCT), (WITH_BRANCH, BOTH)], True),
    ],
    ids=["a layer", "a branch behind it", "its own activation", "what reads it", "what it reads", "a branch later on"],
)
def test_only_what_depends_on_the_handed_dtype_has_a_say(blocks: list[tuple[Placed, BlockPart]], keeps: bool) -> None:
    """The mix's other operators stay in float32. Here they take a tenth of a layer's time."""
    assert kept(a_mix(gemm=1.0, relu=0.0), [layers(*blocks)]) == [keeps]
    assert kept(a_mix(gemm=1.0, relu=1.0), [layers(*blocks)]) == [False]


def test_a_tower_that_the_dtype_does_not_reach_takes_nothing_from_others() -> None:
    fixed = layers((PLAIN, PRODUCT), (RELU_BLOCK, RELU_PART))
    assert kept(a_mix(gemm=1.0, relu=0.4), [fixed, layers((RELU_BLOCK, RELU_PART))]) == [False, True]
