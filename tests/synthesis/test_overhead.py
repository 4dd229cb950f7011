"""What a call takes whatever its work, told from calls of many sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_rows import small_signature

from statsnet.signatures.target import target_of
from statsnet.synthesis.overhead import FEWEST, call_overhead_s
from statsnet.synthesis.rows import Load, Rows, Work, load_of_target

SIZES = ((1e6, 4e5), (3e6, 3e5), (2e7, 6e6), (9e7, 2e6), (4e8, 8e7))
"""FLOPs and bytes of one call."""


def work(flops: float, moved: float, time_s: float, *, calls: float = 1.0, kernel_class: str = "k") -> Work:
    return Work(
        category="convolution",
        kernel_class=kernel_class,
        shape_class="s",
        time_s=time_s * calls,
        flops=flops * calls,
        bytes=moved * calls,
        weights=0.0,
        calls=calls,
    )


@given(
    overhead_s=st.floats(0.0, 1e-3),
    flop_s=st.floats(1e-12, 1e-9),
    byte_s=st.floats(1e-11, 1e-9),
    calls=st.integers(1, 5),
)
def test_the_fixed_part_of_a_linear_cost_is_found(
    overhead_s: float, flop_s: float, byte_s: float, calls: int
) -> None:
    works = [work(f, b, overhead_s + flop_s * f + byte_s * b, calls=calls) for f, b in SIZES]
    assert call_overhead_s(works)["k"] == pytest.approx(overhead_s, rel=1e-3, abs=1e-8)


def test_classes_are_apart_and_those_of_few_blocks_unknown() -> None:
    works = [work(f, b, 1e-4 + 1e-11 * f) for f, b in SIZES]
    others = [work(f, b, 3e-4 + 1e-11 * f, kernel_class="other") for f, b in SIZES]
    few = [work(f, b, 1e-4, kernel_class="few") for f, b in SIZES[: FEWEST - 1]]
    found = call_overhead_s([*works, *others, *few])
    assert found == pytest.approx({"k": 1e-4, "other": 3e-4})


def test_work_without_flops_or_bytes_is_all_overhead() -> None:
    assert call_overhead_s([work(0.0, 0.0, 2e-5)] * FEWEST)["k"] == pytest.approx(2e-5)


def test_small_calls_have_more_of_it_than_the_target() -> None:
    target = target_of(small_signature())
    load = load_of_target(target)
    product = next(w for w in load.works if w.category == "gemm")
    each_s = product.time_s / product.calls
    rows = Rows(target, {product.kernel_class: each_s / 10})
    row = rows.index("overhead")
    assert rows.target[row] == pytest.approx(product.time_s / 10)
    smaller = replace(product, calls=4 * product.calls)  # the same time in four times as many calls
    assert rows.vector(Load(works=(smaller,), framework_s=0.0))[row] == pytest.approx(0.4 * product.time_s)
    tiny = replace(product, calls=40 * product.calls)
    assert rows.vector(Load(works=(tiny,), framework_s=0.0))[row] == pytest.approx(product.time_s)  # not more
