"""What of steps that are not alike is explained by their operators."""

from __future__ import annotations

from statistics import fmean

import pytest
from profiling_helpers import call

from statsnet.profiling.joined_traces import mean_samples, traces_of
from statsnet.profiling.joining import JoinedSteps, Variant


@pytest.mark.parametrize("steps_s", [[1.0, 1.0, 1.0, 5.0] * 2, [1.0] * 7 + [10.0], [2.0] * 8])
def test_a_long_step_now_and_then_is_explained(steps_s: list[float]) -> None:
    """Operators have their means over all steps: the bare step that they are held against must be one, too."""
    variant = Variant.of([call("aten.relu.default", time_s=fmean(steps_s))])
    joined = JoinedSteps(
        implementations=[["native"]], step_s=steps_s, framework_s=0.0, idle_s=0.0, kernels_launched=0,
        recording_s=0.0, estimated_share=0.0,
    )  # fmt: skip
    given = {"bare_s": mean_samples(steps_s), "average_s": fmean(steps_s), "warmup_s": []}
    (trace,) = traces_of(joined, [variant], [1.0], device="cpu", **given)
    assert trace.unexplained_share == pytest.approx(0.0)
