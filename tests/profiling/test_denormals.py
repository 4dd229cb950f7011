"""Numbers next to zero are noticed where a processor computes with them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.denormals import SAMPLES
from statsnet.profiling.step_notes import denormals_note
from statsnet.profiling.step_trace import StepTrace

WIDTH = 64


def calls(scale: float, layout: torch.memory_format = torch.contiguous_format) -> list[OpCall]:
    """A convolution of inputs of this size, and what makes its results large again."""
    model = nn.Conv2d(WIDTH, WIDTH, 1, bias=False).to(memory_format=layout)  # type: ignore[call-overload]
    x = (torch.randn(2, WIDTH, 8, 8) * scale).to(memory_format=layout)
    with torch.no_grad():
        return capture_step(lambda: model(x) / scale, device="cpu")


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_results_next_to_zero_are_noticed(layout: torch.memory_format) -> None:
    small, large = calls(1e-39, layout)
    assert small.denormal_share > 0.9
    assert large.denormal_share == 0.0
    assert [call.denormal_share for call in calls(1.0, layout)] == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_zeros_half_numbers_and_other_tensors_are_not_denormal() -> None:
    few = torch.zeros(3 * SAMPLES)

    def step() -> None:
        few.mul(0)
        (torch.full((8,), 1e-3, dtype=torch.float16)).mul(1e-4)  # denormal there, and computed with as float32
        torch.arange(3).mul(2)
        torch.empty(0).mul(1)
        few.to_sparse().mul(1)
        torch.nested.nested_tensor([few, few]).mul(1)
        torch._efficientzerotensor(8).mul(torch._efficientzerotensor(8))  # as derivatives in forward mode are

    assert {call.denormal_share for call in capture_step(step, device="cpu")} == {0.0}


@pytest.mark.parametrize(("slow_s", "said"), [(0.3, True), (0.001, False)])
def test_a_note_names_their_part_of_the_step(slow_s: float, said: bool) -> None:
    trace = StepTrace.counted(calls(1e-39))
    trace.calls[0].time_s, trace.calls[1].time_s, trace.step_latency_s = slow_s, 0.1, [0.5]
    notes = list(denormals_note([StepTrace(device="cpu", calls=[], implementations=[], step_latency_s=[1.0]), trace]))
    assert bool(notes) == said
    assert all("60% of a step" in note and "set_flush_denormal" in note for note in notes)
