"""A convolution's gradients as a block: in every size, the operands are those of a convolution."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from statsnet.blocks import convolution_gradients
from statsnet.blocks.base import Config
from statsnet.blocks.conv import ConvKind
from statsnet.blocks.convolution_library import Window, library
from statsnet.blocks.operator_call import operands_of
from tests.support.operator_calls import KIND, call_of, config_of

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "plain": (nn.Conv2d(64, 96, 3, padding=1), (2, 64, 24, 20)),
    "strided": (nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), (1, 32, 57, 57)),
    "dilated": (nn.Conv1d(48, 48, 5, dilation=2), (3, 48, 70)),
    "solid": (nn.Conv3d(32, 64, 3, stride=2, padding=1), (2, 32, 12, 24, 24)),
    "depthwise": (nn.Conv2d(64, 64, 7, padding=3, groups=64), (2, 64, 12, 12)),
    "grouped": (nn.Conv2d(64, 32, 3, groups=4), (2, 64, 20, 20)),
    "transposed": (nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), (2, 64, 10, 18)),
    "transposed, grouped": (nn.ConvTranspose2d(64, 64, 4, 2, 1, output_padding=1, groups=4), (2, 64, 14, 18)),
}


def of_layer(name: str) -> Config:
    layer, shape = LAYERS[name]
    step = lambda: layer(torch.randn(shape).requires_grad_()).square().sum().backward()  # noqa: E731
    return config_of(call_of(step, "aten.convolution_backward.default"))


def work(config: Config) -> int:
    """Multiplications of one gradient."""
    gradient, x, weight = operands_of(config)
    moved = x if bool(config["arguments"][7][1]) else gradient
    return moved.numel // moved.shape[1] * weight.numel


def runs(config: Config) -> list[torch.Tensor]:
    """Runs it; each gradient has the size of its tensor."""
    _, x, weight = operands_of(config)
    block: Any = KIND.build(config)
    results = torch.ops.aten.convolution_backward(*block_arguments(config, block.operands))
    assert [r.shape for r in results[:2]] == [x.shape, weight.shape]
    return [r for r in results if r is not None]


def block_arguments(config: Config, operands: Any) -> list[Any]:
    given = [e[1] if len(e) > 1 else None for e in config["arguments"]]
    return [operands[0], operands[1], operands[2], *(list(g) if isinstance(g, tuple) else g for g in given[3:])]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("factor", [1 / 16, 1 / 3, 1 / 2, 3.0])
def test_in_another_size_it_is_still_a_convolutions(name: str, factor: float) -> None:
    config = of_layer(name)
    assert convolution_gradients.fit(config)
    other = KIND.resized(config, factor)
    if other is None:
        assert factor < 1 / 2, "half of the images or of the rows always fit"
        return
    assert convolution_gradients.fit(other)
    assert factor / 1.6 < work(other) / work(config) < factor * 1.6
    assert operands_of(other)[2] == operands_of(config)[2], "the weight stays"
    assert all(r.isfinite().all() for r in runs(other))


@pytest.mark.parametrize("name", LAYERS)
def test_a_narrower_one_has_half_of_the_weights(name: str) -> None:
    config = of_layer(name)
    narrow = KIND.narrowed(config, 2)
    assert narrow is not None and convolution_gradients.fit(narrow)
    before, after = operands_of(config)[2], operands_of(narrow)[2]
    assert before.shape[2:] == after.shape[2:]
    assert after.numel / before.numel == pytest.approx(0.5, abs=0.2), "channels come in sixteens"
    assert KIND.on_meta(narrow) is not None
    runs(narrow)


def test_fewer_images_do_not_change_the_library() -> None:
    """A single small map is multiplied by torch itself, not by oneDNN."""
    config = of_layer("solid")
    batch, *_ = operands_of(config)[1].shape
    for factor in (1 / 2, 1 / 4):
        other = KIND.resized(config, factor)
        assert other is not None and operands_of(other)[1].shape[0] == batch
    layer = {"batch": 2, "channels": 32, "size": (12, 24, 24), "filters": 64, "kernel": (3, 3, 3),
             "stride": (2, 2, 2), "padding": (1, 1, 1), "groups": 1}  # fmt: skip
    assert ConvKind().scaled(layer, 2) is None and ConvKind().scaled(layer, 1 / 2) is not None


def test_a_transposed_one_is_run_by_its_own_inputs_size() -> None:
    """128 maps of 12 × 12 are few, though its output is larger."""
    layer = nn.ConvTranspose2d(128, 64, 2, stride=2)
    step = lambda: layer(torch.randn(2, 128, 12, 12).requires_grad_()).square().sum().backward()  # noqa: E731
    config = config_of(call_of(step, "aten.convolution_backward.default"))
    assert convolution_gradients.with_map(config, 0, 1) is None
    lower = KIND.resized(config, 1 / 2)
    assert lower is not None and operands_of(lower)[1].shape == (2, 128, 6, 12)


def test_a_convolution_by_itself_keeps_its_library() -> None:
    config = config_of(call_of(lambda: nn.Conv2d(64, 64, 3)(torch.randn(2, 64, 14, 14)), "aten.convolution.default"))
    other = KIND.scaled(config, 2)
    assert other is not None and operands_of(other)[0].shape[0] == 2


def test_groups_stay_groups() -> None:
    config = of_layer("grouped")
    halved = KIND.narrowed(config, 2)
    assert halved is not None and halved["arguments"][convolution_gradients.GROUPS] == ("number", 2)
    assert KIND.narrowed(config, 4) is None, "one group is another kernel"


def test_one_number_stands_for_all_axes() -> None:
    x, weight = torch.randn(2, 16, 24, 24), torch.randn(32, 16, 3, 3)
    gradient = torch.randn(2, 32, 12, 12)
    step = lambda: torch.ops.aten.convolution_backward(  # noqa: E731
        gradient, x, weight, None, [2], [1], [1], False, [0], 1, [True, True, False]
    )
    config = config_of(call_of(step, "aten.convolution_backward.default"))
    assert convolution_gradients.fit(config)
    lower = KIND.resized(config, 1 / 2)
    assert lower is not None and convolution_gradients.fit(lower)


def test_the_library_of_any_size_costs_no_memory() -> None:
    """Torch would copy the input of a convolution over one axis."""
    window = Window((1,), (0,), (1,), False, (0,))
    assert library((10**6, 512, 10**6), (512, 512, 3), window, 1) == library((16, 512, 100), (512, 512, 3), window, 1)


def test_a_small_map_is_narrowed_by_filters() -> None:
    """Half of its rows would be another library's work."""
    layer = {"batch": 1, "channels": 32, "size": (28, 28), "filters": 128, "kernel": (3, 3), "stride": (1, 1),
             "padding": (1, 1), "groups": 1}  # fmt: skip
    assert ConvKind().narrowed(layer, 2) == {**layer, "filters": 64}


def test_too_few_channels_are_not_halved() -> None:
    config = of_layer("depthwise")
    assert KIND.narrowed(config, 4) is not None and KIND.narrowed(config, 8) is None


def test_operands_of_no_convolution_do_not_fit() -> None:
    """Torch would read past their ends."""
    config = of_layer("plain")
    gradient, x, weight = config["operands"]
    for operands in ((x, x, weight), (gradient, x, gradient), (gradient, (x[0], x[1][:2], ()), weight)):
        assert not convolution_gradients.fit({**config, "operands": operands})


known = cache(of_layer)


@given(st.sampled_from(sorted(LAYERS)), st.floats(0.02, 20.0), st.sampled_from([1, 2, 4, 8]))
def test_sizes_on_sizes_fit(name: str, factor: float, divisor: int) -> None:
    config = known(name)
    narrow = KIND.narrowed(config, divisor) if divisor > 1 else config
    other = None if narrow is None else KIND.scaled(narrow, factor)
    if other is not None:
        assert convolution_gradients.fit(other)
        assert math.prod(operands_of(other)[0].shape) > 0
