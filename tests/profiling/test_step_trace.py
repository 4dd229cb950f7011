"""What steps that others disturb tell of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, repeat

import pytest
import torch
from profiling_helpers import call

from statsnet.profiling import trace
from statsnet.profiling.capture import OpCall
from statsnet.profiling.operator_times import operator_times_s
from statsnet.profiling.step_trace import joined_trace
from statsnet.profiling.timeline import Timeline

FEW_TO_BE_PRECISE = 6
"""Fewer times of a step have no interval of their median."""


def line(*op_time_s: float | None, rest_s: float = 0.0) -> Timeline:
    """A profiled step of these operators."""
    return Timeline(
        step_s=sum(t or 0.0 for t in op_time_s) + rest_s,
        op_time_s=list(op_time_s),
        op_kernels=[[] for _ in op_time_s],
        on_device=[],
        framework_s=rest_s,
        idle_s=0.0,
        events=len(op_time_s),
        unmatched=op_time_s.count(None),
    )


def times_s(lines: Sequence[Timeline]) -> list[float | None]:
    calls = [call("aten.relu.default") for _ in lines[0].op_time_s]
    return [c.time_s for c in joined_trace("cpu", calls, [], [0.06] * 3, list(lines), 0.0).calls]


def test_each_step_may_disturb_another_operator() -> None:
    """None of the steps is undisturbed, and yet the operators are known to take as long as one another."""
    slow = [[0.01 + 0.04 * (i == number) for i in range(3)] for number in range(3)]
    known = times_s([line(*ops, rest_s=0.001 * number) for number, ops in enumerate(slow)])
    assert known == pytest.approx([known[0]] * 3)
    assert sum(filter(None, known)) == pytest.approx(0.07), "as long as in the faster steps"


def test_an_operator_that_few_steps_show_leaves_the_others_their_times() -> None:
    assert times_s([line(0.02, None), line(0.02, None)]) == [pytest.approx(0.02), None]
    assert times_s([line(0.01, None), line(0.01, None), line(0.01, 0.01)]) == pytest.approx([0.01, 0.01])


def test_what_collectives_wait_is_no_time_of_what_is_computed() -> None:
    """Each step waits 30 ms at another one."""
    lines = [line(0.03, *(0.03 * (i == number) for i in range(3))) for number in range(3)]
    assert operator_times_s(lines, {1, 2, 3}) == pytest.approx([0.03, 0.0, 0.0, 0.0])


def test_what_empties_the_caches_has_no_part_in_how_much_longer_blocks_take() -> None:
    """It takes as long in each step, and most of its time."""
    lines = [line(1.0, 0.01, 0.03), line(1.0, 0.03, 0.01), line(1.0, 0.02, 0.02)]
    assert operator_times_s(lines, beside={0}) == pytest.approx([1.0, 0.02, 0.02])


def profiled(
    monkeypatch: pytest.MonkeyPatch,
    profiled_s: Iterable[float],
    *,
    repeats: int,
    min_time_s: float = 0.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[float]:
    """Seconds of the profiled steps beside bare ones of 10 ms, on a clock that steps alone move on."""
    taken_s = iter(profiled_s)
    clock_s = 0.0

    def bare_s() -> float:
        nonlocal clock_s
        clock_s += 0.01
        return 0.01

    def profile_step(_: object, calls: list[OpCall], **__: object) -> Timeline:
        return line(next(taken_s), *[0.0] * (len(calls) - 1))

    monkeypatch.setattr(trace, "event_overhead_s", lambda **_: 0.0)
    monkeypatch.setattr(trace, "timed", lambda *_: bare_s)
    monkeypatch.setattr(trace, "profile_step", profile_step)
    monkeypatch.setattr(trace.time, "perf_counter", lambda: clock_s)
    monkeypatch.setenv("STATSNET_PATIENCE_S", "0")
    measured = trace.trace_step(
        lambda _: torch.ones(4).exp(), repeats=repeats, min_time_s=min_time_s, on_progress=on_progress
    )
    assert measured.step_latency_s == [0.01] * len(measured.step_latency_s)
    return measured.profiled_latency_s


def test_profiled_steps_must_agree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bare ones do at once. The first profiled one warms up."""
    steps_s = [0.02, 0.0103, 0.0101, 0.01, 0.01]
    assert profiled(monkeypatch, steps_s, repeats=9) == steps_s[1:4]
    steps_s = [0.02, 0.0107, 0.0104, 0.0101, 0.0102, 0.01]
    assert profiled(monkeypatch, steps_s, repeats=9) == steps_s[1:5]


def test_steps_that_agree_are_repeated_for_the_least_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless their times are known precisely."""
    few = profiled(monkeypatch, repeat(0.01), repeats=3, min_time_s=1.0)
    many = profiled(monkeypatch, cycle([0.01, 0.0101, 0.0109]), repeats=3, min_time_s=1.0)
    assert len(few) == FEW_TO_BE_PRECISE and len(many) > 2 * len(few)


def test_disturbed_steps_are_repeated_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiled ones take twice as long as bare ones, though all are alike."""
    alike = profiled(monkeypatch, repeat(0.011), repeats=3, min_time_s=0.5)
    assert len(profiled(monkeypatch, repeat(0.02), repeats=3, min_time_s=0.5)) > 3 * len(alike)
    assert len(profiled(monkeypatch, repeat(0.02), repeats=3)) == 3


@pytest.mark.parametrize("min_time_s", [0.0, 0.3])
def test_progress_ends_when_all_is_done(min_time_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    profiled(
        monkeypatch,
        cycle([0.02, 0.04]),
        repeats=2,
        min_time_s=min_time_s,
        on_progress=lambda _, done: told.append(done),
    )
    assert told == sorted(told) and told[-1] == pytest.approx(1.0)
