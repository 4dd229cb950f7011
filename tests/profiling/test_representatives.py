"""Which inputs of many shapes are profiled, and how many steps each stands for."""

from __future__ import annotations

import pytest

from statsnet.profiling.representatives import Work, choose


def test_few_shapes_are_all_profiled() -> None:
    chosen, sample = choose([[0, 3], [1], [2]], lambda _: 1, lambda _: Work(flops=1.0, moved=1.0))
    assert [(c.steps, c.stands_for) for c in chosen] == [((0, 3), 2), ((1,), 1), ((2,), 1)]
    assert sample is not None
    assert sample.work_error == 0


def test_more_inputs_are_taken_where_a_few_would_be_wrong() -> None:
    work = [Work(flops=2.0**n, moved=1.0) for n in range(40)]
    chosen, sample = choose([[n] for n in range(40)], lambda n: n, lambda n: work[n])
    assert sample is not None
    assert sum(c.stands_for for c in chosen) == 40
    assert sample.work_error <= 0.01
    assert len(chosen) > 8


def test_a_thousand_shapes_are_counted_in_part() -> None:
    counted: list[int] = []

    def count(number: int) -> Work:
        counted.append(number)
        return Work(flops=float(number), moved=float(number))

    chosen, sample = choose([[n] for n in range(1, 1001)], lambda n: n, count)
    assert len(counted) <= 64
    mean = sum(c.steps[0] * c.stands_for for c in chosen) / 1000
    assert mean == pytest.approx(500.5, rel=0.02)
    assert sample is not None
    assert sample.distinct == 1000
