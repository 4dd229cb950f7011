"""What steps that others disturb tell of a step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from profiling_helpers import call

from statsnet.profiling import trace
from statsnet.profiling.capture import OpCall
from statsnet.profiling.step_trace import joined_trace
from statsnet.profiling.timeline import Timeline


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


def test_an_operator_that_steps_do_not_show_has_no_time() -> None:
    assert times_s([line(0.02, None), line(0.02, None)]) == [pytest.approx(0.02), None]


def test_profiled_steps_must_agree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bare ones do at once; of the profiled ones, a third and a fourth are alike."""
    profiled_s = iter([0.01, 0.013, 0.011, 0.0111, 0.01])

    def profile_step(_: object, calls: list[OpCall], **__: object) -> Timeline:
        return line(next(profiled_s), *[0.0] * (len(calls) - 1))

    monkeypatch.setattr(trace, "timed", lambda *_: lambda: 0.01)
    monkeypatch.setattr(trace, "profile_step", profile_step)
    measured = trace.trace_step(lambda _: torch.ones(4).exp(), repeats=9)
    assert measured.profiled_latency_s == [0.013, 0.011, 0.0111], "the first one warms up"
    assert measured.step_latency_s == [0.01] * 3
