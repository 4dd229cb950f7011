"""Memory of a step, against what can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from profiling_helpers import tiny_signature
from torch import nn

from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.memory import StorageMeter, memory_record
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.workloads.stepping import Stepper

ROWS, IN, MIDDLE, OUT = 8, 16, 32, 4


def linear() -> nn.Sequential:
    return nn.Sequential(nn.Linear(IN, MIDDLE, bias=False), nn.Linear(MIDDLE, OUT, bias=False))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_inference_holds_a_layer_s_input_and_output(device: str) -> None:
    model, x = linear(), torch.randn(ROWS, IN)
    with torch.no_grad():
        memory = memory_record(model, [x], lambda: model(x), device=device)
    weights = IN * MIDDLE + MIDDLE * OUT
    assert memory["parameter_bytes"] == 4 * weights
    assert memory["input_bytes"] == 4 * ROWS * IN
    assert memory["optimizer_bytes"] is None
    assert memory["activation_bytes"] == 4 * ROWS * (MIDDLE + OUT)
    assert memory["peak_bytes"] == 4 * (weights + ROWS * (IN + MIDDLE + OUT))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_gradients_left_by_an_earlier_step_hide_nothing(device: str) -> None:
    model, x = linear(), torch.randn(ROWS, IN)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step()
    memory = memory_record(model, [x], step, device=device, optimizer=Stepper(optimizer, model.parameters()))
    weights = 4 * (IN * MIDDLE + MIDDLE * OUT)
    assert memory["optimizer_bytes"] == weights  # one momentum for each
    assert memory["activation_bytes"] is not None
    assert memory["activation_bytes"] >= weights  # all gradients are there at the end
    assert memory["activation_bytes"] == pytest.approx(weights + 4 * ROWS * (MIDDLE + OUT), rel=0.1)


def test_views_and_results_in_place_are_not_counted_again() -> None:
    with StorageMeter() as meter:
        x = torch.ones(100)
        x.view(10, 10).add_(1)
        assert meter.level == 400
        del x
    assert (meter.level, meter.peak) == (0, 400)


def test_a_storage_counts_as_large_as_it_is() -> None:
    """As parameters do that are gathered, freed and gathered again."""
    before = torch.ones(50)
    with StorageMeter() as meter:
        x = torch.ones(100)
        x.untyped_storage().resize_(0)
        assert (meter.level, meter.peak) == (0, 400)
        x.untyped_storage().resize_(800)
        before.untyped_storage().resize_(0)
        assert (meter.level, meter.peak) == (600, 800)
        del x
        assert meter.level == -200


def test_a_sparse_gradient_counts_with_its_parts() -> None:
    table = nn.Embedding(1000, 4, sparse=True)
    with StorageMeter() as meter:
        table(torch.tensor([1, 2])).sum().backward()
    assert table.weight.grad is not None
    assert 0 < meter.peak < 4 * table.weight.numel()
    assert meter.level >= 2 * 8 + 2 * 4 * 4  # two indices, two rows


def test_the_constants_of_a_frozen_script_are_its_weights() -> None:
    layer = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    frozen = torch.jit.freeze(torch.jit.script(layer))
    assert not list(frozen.parameters())
    record = memory_record(frozen, [], None, device="cpu")
    assert (record["parameter_count"], record["parameter_bytes"]) == (36, 144)


def test_of_known_work_only_times_are_measured_again() -> None:
    """The calls are the same; so are its memory, and what works in lower precision under autocast."""
    known = tiny_signature("cv/alexnet", "inference")
    clusters = tuple(replace(c, autocast_share=0.3) for c in known.clusters)
    known = replace(known, memory=replace(known.memory, peak_bytes=1), clusters=clusters)
    model = Model(target="cv/alexnet", preset="tiny", mode="inference")
    signature = ProfileWorkload(model=model, min_time_s=0.0, repeats=2, known=known).run(Context()).signature
    assert signature.memory == known.memory
    assert signature.clusters == known.clusters
    assert signature.measurements[0].unmatched_calls == 0
