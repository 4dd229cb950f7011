"""How the tensors of a generated network lie in memory: maps, weights, and the gradients of outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from watched_blocks import blocks_of, noted

from statsnet.blocks import Config
from statsnet.profiling.capture import CaptureMode
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.categories import base_name
from statsnet.signatures.kernel_class import layout_of

MODES = ["inference", "training"]


@pytest.mark.parametrize(("concatenated", "strides"), [(False, (4, 1)), (True, (8, 1))])
def test_the_gradient_of_a_concatenated_output_is_a_slice_of_a_wider_one(
    concatenated: bool, strides: tuple[int, ...], write_source: Callable[..., str], load: Any
) -> None:
    config = {"rows": 50, "width": 4, "indices": 16, "output_is_concatenated": concatenated}
    towers = build_towers([(Placed(kind="embedding", config=config, optimizer="adam"), 1)])
    assert gradient_strides(load(write_source("training", towers))) == [strides]


def test_it_is_cut_along_the_axis_that_the_block_names(write_source: Callable[..., str], load: Any) -> None:
    config = {"shape": (4, 3, 5, 6), "functions": ("mish",), "output_is_concatenated": True, "concatenated_axis": -3}
    network = load(write_source("training", build_towers([(Placed(kind="pointwise", config=config), 1)])))
    assert gradient_strides(network) == [(180, 30, 6, 1)]


@pytest.mark.parametrize(
    ("config", "layouts"),
    [
        ({}, ("contiguous", "contiguous")),
        ({"channels_last": True}, ("transposed", "contiguous")),  # told by the gradient
        ({"output_last_axis": 1}, ("contiguous", "transposed")),
        ({"channels_last": True, "output_last_axis": 1}, ("transposed", "transposed")),
    ],
)
def test_a_convolution_between_transposed_layers_runs_on_their_layout(
    config: Config, layouts: tuple[str, str], write_source: Callable[..., str], load: Any
) -> None:
    conv = {"batch": 2, "channels": 16, "size": (20,), "filters": 8, "kernel": (3,), "stride": (1,), "padding": (1,)}
    placed = Placed(kind="conv", config={**conv, "activation": "mish", **config}, optimizer="sgd")
    network = load(write_source("training", build_towers([(placed, 1)])))
    step = network.make_step(network.build())
    with CaptureMode() as capture:
        step()
    of = {base_name(c.op): layout_of("", c.args) for c in capture.calls}
    assert (of["convolution"], of["convolution_backward"]) == layouts
    assert of["mish_backward"] == ("transposed" if "output_last_axis" in config else "contiguous")


def gradient_strides(network: Any) -> list[tuple[int, ...]]:
    """Of what its first block's output gets in a step."""
    proxy = network.build()
    seen: list[tuple[int, ...]] = []

    def watch(y: Tensor) -> None:
        y.register_hook(lambda gradient: seen.append(gradient.stride()))

    step = network.make_step(proxy)
    with noted(blocks_of(proxy)[0], watch):
        step()
    return seen


def channels_last(x: torch.Tensor) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # Dynamo looks at all that it meets
@pytest.mark.parametrize("how", ["weights", "compiled", "wrapped"])
@pytest.mark.parametrize("mode", MODES)
def test_where_convolutions_are_channels_last_so_is_what_is_handed_to_them(
    mode: str, how: str, write_source: Callable[..., str], load: Any
) -> None:
    """Their weights say so, or a compiler does so; the weights themselves stay as a model's would."""
    network = load(write_source(mode))
    proxy = network.build()
    if how == "weights":
        proxy = proxy.to(memory_format=torch.channels_last)
    elif how == "compiled":
        proxy.compile(backend="eager")
    else:
        proxy = torch.compile(proxy, backend="eager")
    (batch,) = network.batches(proxy, "cpu", count=1)
    mapped = [b for b in proxy.modules() if getattr(b, "maps", False)]
    heads = [tower[0] for tower in proxy.towers]
    given = [x for x, head in zip(batch, heads, strict=True) if head in mapped and x.dim() == 4]
    branches = [getattr(b, "side_input", None) for b in mapped]
    side_inputs = [x for x in branches if x is not None and x.dim() == 4]
    assert given
    assert side_inputs
    assert all(channels_last(x) for x in (*given, *side_inputs))
    convolutions = [m for m in proxy.modules() if isinstance(m, torch.nn.Conv2d)]
    assert all(m.weight.is_contiguous() for m in convolutions) == (how != "weights")
    if how == "weights" or (mode, how) == ("training", "compiled"):  # to trace blocks of all kinds takes seconds
        assert all(y.isfinite().all() for y in network.make_step(proxy)())


def test_a_convolution_that_reads_channels_last_leaves_others_as_they_are(
    write_source: Callable[..., str], load: Any
) -> None:
    """Also if it adds a map of that layout, which is a parameter of the network."""
    config = {"batch": 2, "channels": 4, "filters": 4, "size": (6, 6), "kernel": (3, 3), "stride": (1, 1),
              "padding": (1, 1), "groups": 1}  # fmt: skip
    both = ({**config, "residual": True, "channels_last": True}, config)
    network = load(write_source("inference", build_towers([(Placed(kind="conv", config=c), 1) for c in both])))
    proxy = network.build()
    network.batches(proxy, "cpu", count=1)
    layouts = {b.channels_last: b.last for b in proxy.modules() if isinstance(b, network.Conv)}
    assert layouts == {True: False, False: False}


def test_elsewhere_maps_are_contiguous(write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source("inference"))
    proxy = network.build()
    (batch,) = network.batches(proxy, "cpu", count=1)
    given = [x for x, tower in zip(batch, proxy.towers, strict=True) if isinstance(tower[0], network.Block)]
    assert all(x.is_contiguous() for x in (*given, *proxy.parameters()))
