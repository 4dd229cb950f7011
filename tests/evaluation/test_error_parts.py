"""What a proxy's error is made of: closed forms, and sums that hold whatever the times are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthesis_builders import GEMM, RELU, cluster, measured, tensor

from statsnet.evaluation.causes import Cause, Known, advice_on
from statsnet.evaluation.error_parts import (
    ADDED,
    BETWEEN,
    ClassError,
    Spent,
    Step,
    Times,
    class_errors,
    expected_factors,
    factor_of,
    merged,
    times_of,
)


def spent(**times: tuple[float, float]) -> dict[str, Spent]:
    return {name: Spent(here=here, there=there) for name, (here, there) in times.items()}


def test_shares_and_factors_add_up_to_the_error() -> None:
    """The suite's factor is 1.6, the proxy's 2.0: for its shares alone it would be 1.5."""
    suite = merged([spent(a=(1.0, 2.0)), spent(b=(1.0, 1.0))], [0.6, 0.4])
    rows = class_errors(suite, spent(a=(0.5, 1.5), c=(0.5, 0.5)))
    assert factor_of(suite) == pytest.approx(1.6)
    assert [row.name for row in rows] == ["c", "b", "a"]
    assert sum(row.by_share for row in rows) == pytest.approx(-0.1 / 1.6)
    assert sum(row.by_factor for row in rows) == pytest.approx(0.5 / 1.6)


sides = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(Spent, here=st.just(0.0) | st.floats(1e-6, 1), there=st.floats(0, 10)),
    min_size=1,
).filter(lambda times: sum(each.there for each in times.values()) > 1e-3)


@given(sides, sides)
def test_the_parts_are_the_whole_error_whatever_the_times(suite: Times, proxy: Times) -> None:
    rows = class_errors(suite, proxy)
    error = factor_of(proxy) / factor_of(suite) - 1
    assert sum(row.error for row in rows) == pytest.approx(error, rel=1e-6, abs=1e-6)
    assert {row.name for row in rows} == {*suite, *proxy}


def test_a_class_that_the_suite_hardly_has_says_nothing_of_the_proxys_factor() -> None:
    suite, proxy = spent(a=(0.9999, 2.0), b=(1e-4, 9e-4)), spent(b=(1.0, 2.0))
    assert expected_factors(suite, proxy)["b"] == 2.0
    assert next(row for row in class_errors(suite, proxy) if row.name == "b").by_factor == 0.0


def test_an_operator_keeps_the_class_of_the_baseline() -> None:
    """Under the setting the product runs in bfloat16 by another library, after a cast that the baseline lacks."""
    half = {"dtype": "bfloat16"}
    narrow = replace(
        GEMM, args=tuple({**arg, **half} for arg in GEMM.args), outputs=tuple({**out, **half} for out in GEMM.outputs)
    )
    cast = cluster("aten._to_copy.default", "data_arrangement", (tensor(64, 256),), {**tensor(64, 256), **half})
    before = Step(clusters=(GEMM, RELU), measurement=measured((0.006, 0.002), ("gemm|mkl", "relu|aten")))
    there = measured((0.001, 0.002, 0.001), ("relu|aten", "gemm|onednn", "_to_copy|aten|bfloat16"))
    after = Step(clusters=(RELU, narrow, cast), measurement=replace(there, step_latency_s=(0.005,)))
    times = times_of(before, after)
    assert (times["gemm|mkl"].here, times["gemm|mkl"].there) == pytest.approx((0.6, 0.2))
    assert times["gemm|mkl"].call_s == pytest.approx(0.006 / GEMM.calls)
    assert times["relu|aten"].factor == pytest.approx(0.5)
    added = times[f"{ADDED}: _to_copy"]
    assert (added.here, added.factor) == (0.0, None)
    assert added.there == pytest.approx(0.1)
    assert (times[BETWEEN].here, times[BETWEEN].there) == pytest.approx((0.2, 0.1))
    assert factor_of(times) == pytest.approx(0.5)


def test_operators_that_were_not_timed_are_in_the_time_between() -> None:
    step = Step(clusters=(GEMM, RELU), measurement=measured((0.006, None), ("gemm|mkl", None)))
    assert times_of(step, step)[BETWEEN].here == pytest.approx(0.4)


def row(name: str, suite: tuple[float, float, float], proxy: tuple[float, float, float]) -> ClassError:
    """Each side: share, factor and calls a second. The whole suite's factor is 1."""
    q, p = (Spent(here=s, there=s * f, calls_per_s=c) for s, f, c in (suite, proxy))
    as_suite = p.here * (q.factor or p.factor or 0.0)
    return ClassError(name=name, suite=q, proxy=p, by_share=as_suite - q.there, by_factor=p.there - as_suite)


@pytest.mark.parametrize(
    ("found", "noise", "known", "cause"),
    [
        (row("k", (0.2, 1.0, 1), (0.3, 1.0, 1)), 0.2, Known(), "noise"),
        (row(BETWEEN, (0.02, 1.0, 0), (0.1, 1.0, 0)), 0.01, Known(), "between operators"),
        (row(f"{ADDED}: _to_copy", (0.0, 0.0, 0), (0.0, 0.0, 0)), None, Known(), "added by the setting"),
        (row("k", (0.2, 1.0, 9), (0.0, 0.0, 0)), 0.01, Known(lacking={"k": False}), "no candidate"),
        (row("k", (0.2, 1.0, 9), (0.0, 0.0, 0)), 0.01, Known(lacking={"k": True}), "left out"),
        (row("k", (0.0, 0.0, 0), (0.2, 1.0, 9)), None, Known(), "not in the suite"),
        (row("k", (0.2, 1.0, 1), (0.3, 1.0, 1)), None, Known(), "share"),
        (row("k", (0.2, 1.0, 1), (0.3, 1.0, 1)), None, Known(as_made={"k": 0.3}, moved="cv/x"), "another pace"),
        (row("k", (0.2, 1.0, 1), (0.3, 1.0, 1)), None, Known(as_made={"k": 0.3}), "share"),
        (row("k", (0.2, 1.0, 1), (0.2, 0.5, 100)), None, Known(), "block size"),
        (row("k", (0.2, 1.0, 1), (0.2, 0.5, 1)), None, Known(), "other shapes"),
    ],
)
def test_the_likeliest_cause(found: ClassError, noise: float | None, known: Known, cause: Cause) -> None:
    advice = advice_on(found, noise, known)
    assert advice.cause == cause
    assert advice.says and advice.do
