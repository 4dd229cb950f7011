"""What a tower stands for, by its measured operators and the mix's."""

from __future__ import annotations

from synthesis_builders import CLASSES, STEP_S, measured, mix_of, part, small_signature

from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.tower_purposes import tower_purposes

GEMM, RELU = CLASSES


def a_mix_of(*gemm_shares: float) -> Target:
    """Members m0, m1 ... that spend these shares of their step in products, and the rest of 0.8 in relus."""
    signatures = [
        small_signature(measurements=(measured((share * STEP_S, (0.8 - share) * STEP_S), CLASSES),))
        for share in gemm_shares
    ]
    return target_of_mix(mix_of(*signatures))


def network(*processes: tuple[tuple[BlockPart, ...], ...]) -> NetworkMeasurement:
    """Of a step of STEP_S; each process has its blocks by tower."""
    return NetworkMeasurement(signature=small_signature(), build_s=0.0, blocks=processes, drift=1.0)


def test_shares_are_medians_over_processes() -> None:
    towers = [((part(GEMM, s * STEP_S), part(GEMM, 0.15 * STEP_S)),) for s in (0.2, 0.3, 0.9)]
    (purpose,) = tower_purposes(a_mix_of(0.5), network(*towers))
    assert purpose.step_share == 0.45


def test_categories_are_those_that_take_a_tenth_of_the_tower() -> None:
    of_tower = (part(RELU, 1e-3, category="activation"), part(GEMM, 8e-3), part("copy", 0.5e-3, category="copy"))
    (purpose,) = tower_purposes(a_mix_of(0.5), network((of_tower,)))
    assert purpose.categories == ("gemm", "activation")


def test_members_are_those_whose_operators_are_like_the_tower_s() -> None:
    """Until they hold half of the time."""
    target = a_mix_of(0.7, 0.1, 0.3)
    gemm, relu = tower_purposes(target, network(((part(GEMM, 1e-3),), (part(RELU, 1e-3, category="activation"),))))
    assert gemm.members == ("m0",)
    assert relu.members == ("m1",)
    (both,) = tower_purposes(a_mix_of(0.4, 0.4, 0.4), network(((part(GEMM, 1e-3),),)))
    assert both.members == ("m0", "m1")


def test_operators_that_the_mix_lacks_stand_for_nobody() -> None:
    (purpose,) = tower_purposes(a_mix_of(0.5), network(((part("another", 1e-3),),)))
    assert purpose.members == ()
