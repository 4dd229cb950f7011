"""Which towers keep their dtype under autocast."""

from __future__ import annotations

from dataclasses import replace

from synthesis_builders import CLASSES, GEMM, RELU, mix_of, part, small_signature

from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.network_measurement import NetworkMeasurement
from statsnet.synthesis.tower_purposes import keep_dtypes

GEMM_CLASS, RELU_CLASS = CLASSES


def a_mix(gemm: float | None, relu: float | None) -> Target:
    """In which these shares of the calls work in lower precision."""
    clusters = (replace(GEMM, autocast_share=gemm), replace(RELU, autocast_share=relu))
    return target_of_mix(mix_of(small_signature(clusters=clusters)))


def kept(target: Target, *towers: tuple[str, float]) -> list[bool]:
    """Of towers of one operator each: its kernel class, and its time."""
    blocks = tuple((part(name, time_s),) for name, time_s in towers)
    return keep_dtypes(
        target, NetworkMeasurement(signature=small_signature(), build_s=0.0, blocks=(blocks,), drift=1.0)
    )


def test_towers_do_as_the_mix_s_operators_of_their_kernel_class() -> None:
    target = a_mix(gemm=1.0, relu=0.0)
    assert kept(target, (GEMM_CLASS, 1e-3), (RELU_CLASS, 1e-3), (GEMM_CLASS, 1e-3)) == [False, True, False]


def test_of_equal_towers_so_many_keep_it_as_the_share_says() -> None:
    assert sum(kept(a_mix(gemm=1.0, relu=0.3), *[(RELU_CLASS, 1e-3)] * 10)) == 7


def test_what_nobody_told_is_handed_on_in_lower_precision() -> None:
    assert kept(a_mix(None, None), (RELU_CLASS, 1e-3), ("another", 1e-3)) == [False, False]
