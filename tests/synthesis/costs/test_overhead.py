"""What a call takes whatever its work, told from calls of many sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_builders import small_signature

from statsnet.signatures.target import target_of
from statsnet.synthesis.costs.loads import OperatorGroup, StepLoad, load_of_target
from statsnet.synthesis.costs.overhead import FEWEST, FEWEST_WITH_WEIGHTS, Overhead, overheads
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

SIZES = ((1e6, 4e5), (3e6, 3e5), (2e7, 6e6), (9e7, 2e6), (4e8, 8e7))
"""FLOPs and bytes of one call."""


WEIGHTS = (0.0, 1e5, 3e6, 1.5e6, 2e4, 6e7, 0.0, 4e5)
"""Bytes of the weights that a call of each size reads, the sizes in turn."""


def work(
    flops: float,
    moved: float,
    time_s: float,
    *,
    calls: float = 1.0,
    kernel_class: str = "k",
    weights: float = 0.0,
) -> OperatorGroup:
    return OperatorGroup(
        category="convolution",
        kernel_class=kernel_class,
        shape_class="s",
        time_s=time_s * calls,
        flops=flops * calls,
        bytes=moved * calls,
        weights=weights * calls,
        calls=calls,
    )


@given(
    overhead_s=st.floats(0.0, 1e-3),
    flop_s=st.floats(1e-12, 1e-9),
    byte_s=st.floats(1e-11, 1e-9),
    calls=st.integers(1, 5),
)
def test_the_fixed_part_of_a_linear_cost_is_found(overhead_s: float, flop_s: float, byte_s: float, calls: int) -> None:
    works = [work(f, b, overhead_s + flop_s * f + byte_s * b, calls=calls) for f, b in SIZES]
    assert overheads(works)["k"].call_s == pytest.approx(overhead_s, rel=1e-3, abs=1e-8)


@given(
    overhead_s=st.floats(0.0, 1e-3),
    flop_s=st.floats(1e-12, 1e-9),
    byte_s=st.floats(1e-11, 1e-9),
    weight_byte_s=st.floats(1e-11, 1e-8),
    calls=st.integers(1, 5),
)
def test_what_weights_take_is_found(
    overhead_s: float, flop_s: float, byte_s: float, weight_byte_s: float, calls: int
) -> None:
    works = [
        work(f, b + w, overhead_s + flop_s * f + byte_s * b + weight_byte_s * w, calls=calls, weights=w)
        for (f, b), w in zip(SIZES * 2, WEIGHTS, strict=False)
    ]
    overhead = overheads(works)["k"]
    assert overhead.weight_byte_s == pytest.approx(weight_byte_s, rel=1e-3)
    assert overhead.call_s == pytest.approx(overhead_s, rel=1e-3, abs=1e-8)


def test_of_few_blocks_weights_are_not_told_apart() -> None:
    sizes = [(f, b) for f, b in SIZES * 2][: FEWEST_WITH_WEIGHTS - 1]
    works = [work(f, b + w, 1e-4 + 1e-9 * w, weights=w) for (f, b), w in zip(sizes, WEIGHTS, strict=False)]
    assert overheads(works)["k"].weight_byte_s == 0.0


def test_no_part_is_more_than_all_of_the_time() -> None:
    known = Overhead(call_s=1e-4, weight_byte_s=1e-9)
    usual, short = work(0.0, 2e5, 1e-3, weights=2e5), work(0.0, 2e5, 1.5e-4, weights=2e5)
    assert known.of_weights_s(usual) == pytest.approx(2e-4)
    assert known.fixed_s(usual) == pytest.approx(3e-4)
    assert known.of_weights_s(short) == pytest.approx(5e-5)
    assert known.fixed_s(short) == pytest.approx(1.5e-4)


def test_classes_are_apart_and_those_of_few_blocks_unknown() -> None:
    works = [work(f, b, 1e-4 + 1e-11 * f) for f, b in SIZES]
    others = [work(f, b, 3e-4 + 1e-11 * f, kernel_class="other") for f, b in SIZES]
    few = [work(f, b, 1e-4, kernel_class="few") for f, b in SIZES[: FEWEST - 1]]
    by_class = overheads([*works, *others, *few])
    assert {name: o.call_s for name, o in by_class.items()} == pytest.approx({"k": 1e-4, "other": 3e-4})


def test_work_without_flops_or_bytes_is_all_overhead() -> None:
    assert overheads([work(0.0, 0.0, 2e-5)] * FEWEST)["k"].call_s == pytest.approx(2e-5)


def test_small_calls_have_more_of_it_than_the_target() -> None:
    target = target_of(small_signature())
    load = load_of_target(target)
    product = next(w for w in load.groups if w.category == "gemm")
    each_s = product.time_s / product.calls
    rows = MatchedCharacteristics(target, {product.kernel_class: Overhead(call_s=each_s / 10)})
    row = rows.index("overhead")
    assert rows.target[row] == pytest.approx(product.time_s / 10)
    smaller = replace(product, calls=4 * product.calls)  # the same time in four times as many calls
    assert rows.vector(StepLoad(groups=(smaller,), framework_s=0.0))[row] == pytest.approx(0.4 * product.time_s)
    tiny = replace(product, calls=40 * product.calls)  # not more than all of the time
    assert rows.vector(StepLoad(groups=(tiny,), framework_s=0.0))[row] == pytest.approx(product.time_s)
