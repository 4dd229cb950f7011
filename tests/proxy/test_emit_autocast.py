"""What a generated network hands on under torch's autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, has_side_input

MODES = ["inference", "training"]


@pytest.mark.parametrize("mode", MODES)
def test_under_autocast_activations_come_in_its_dtype(mode: str, write_source: Callable[..., str], load: Any) -> None:
    """And go back to float32 afterwards: no tower begins with a conversion that no model makes."""
    network = load(write_source(mode))
    proxy = network.build()
    step = network.make_step(proxy)
    seen: list[torch.dtype] = []
    forward = proxy.forward

    def watched(batch: list[Tensor]) -> list[Tensor]:
        seen.extend(x.dtype for x in batch)
        return forward(batch)

    proxy.forward = watched
    for dtype in (torch.bfloat16, torch.float32):
        seen.clear()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            outputs = step()
        assert {d for d in seen if d.is_floating_point} == {dtype}
        parameters = proxy.named_parameters()
        side_inputs = [p for n, p in parameters if n.rpartition(".")[2] in network.SIDE_INPUTS]
        assert side_inputs
        assert {p.dtype for p in side_inputs} == {dtype}
        assert all(torch.isfinite(y.float()).all() for y in outputs)


@pytest.mark.parametrize("mode", MODES)
def test_towers_that_keep_their_dtype_are_handed_it_under_autocast(mode: str, load: Any) -> None:
    """Their side inputs, too: a sum of both is then one of float32, and so is what is concatenated of several."""
    add = Placed(kind="pointwise", config={"functions": ("add",), "operand": (4, 8), "shape": (4, 8)})
    joined = Placed(kind="concat", config={"shape": (4, 12), "axis": 1, "pieces": 3})
    assert has_side_input(add) and has_side_input(joined)
    towers = [Tower(blocks=(each,), keeps_dtype=keeps) for each, keeps in ((add, False), (add, True), (joined, False))]
    network = load(network_source(towers, title="t", spec_id="", mode=mode, dtype="float32", seed=0))
    step = network.make_step(network.build())
    assert [y.dtype for y in step()] == [torch.float32] * 3
    with torch.autocast("cpu"):
        assert [y.dtype for y in step()] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert [y.dtype for y in step()] == [torch.float32] * 3


@pytest.mark.parametrize("mode", MODES)
def test_what_does_not_run_inside_of_autocast_runs_outside(mode: str, load: Any) -> None:
    """A fused layer on sequences of different lengths, whether or not it is handed float32; and a quantised one."""
    square, one = ("own", (8, 8), ()), ("own", (8,), ())
    x = ("own", (2, 5, 8), (), ("nested", (5, 3)))
    weights = (("own", (24, 8), ()), ("own", (24,), ()), square, one, *(one,) * 4, square, one, square, one)
    placed = iter(range(1, 13))
    arguments = (
        ("operand", 0), ("number", 8), ("number", 2), *(("operand", next(placed)) for _ in range(4)), ("number", True),
        ("number", False), ("number", 1e-5), *(("operand", i) for i in placed), ("usual",), ("usual",),
    )  # fmt: skip
    encoder = {
        "operator": ("_transformer_encoder_layer_fwd", "default"), "spelling": "aten", "operands": (x, *weights),
        "arguments": arguments, "output": -1,
    }  # fmt: skip
    layer = {
        "operator": ("quantized", "linear_dynamic", "default"), "spelling": "aten",
        "operands": (("own", (4, 8), ()), ("qint8", (6, 8), (), ("packed", True, (), (), 1))),
        "arguments": (("operand", 0), ("operand", 1), ("usual",)), "output": -1,
    }  # fmt: skip
    blocks = [(encoder, False), (encoder, True), (layer, False), (layer, True)]
    towers = [Tower(blocks=(Placed(kind="operator", config=c),), keeps_dtype=keeps) for c, keeps in blocks]
    network = load(network_source(towers, title="t", spec_id="", mode=mode, dtype="float32", seed=0))
    step = network.make_step(network.build())
    assert [y.dtype for y in step()] == [torch.float32] * 4
    with torch.autocast("cpu"):
        assert [y.dtype for y in step()] == [torch.bfloat16, *[torch.float32] * 3]
    assert [y.dtype for y in step()] == [torch.float32] * 4


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_that_wants_float32_keeps_it_under_autocast(mode: str, load: Any) -> None:
    """The backward pass of attention, whose sums are of float32 in any dtype; beside one that takes all."""
    heads, sums = ("own", (2, 1, 8, 4), ()), ("own", (2, 1, 8), ())
    arguments = (*(("operand", i) for i in range(6)), ("number", 0), ("number", True), ("usual",), ("usual",))
    attention = {
        "operator": ("_scaled_dot_product_flash_attention_for_cpu_backward", "default"), "spelling": "aten",
        "operands": (*[heads] * 5, sums), "arguments": arguments, "output": 0,
    }  # fmt: skip
    tanh = {
        "operator": ("tanh", "default"), "spelling": "torch", "operands": (("own", (4, 4), ()),),
        "arguments": (("operand", 0),), "output": -1,
    }  # fmt: skip
    towers = [Tower(blocks=(Placed(kind="operator", config=config),)) for config in (attention, tanh)]
    network = load(network_source(towers, title="t", spec_id="", mode=mode, dtype="float32", seed=0))
    step = network.make_step(network.build())
    with torch.autocast("cpu"):
        assert [y.dtype for y in step()] == [torch.float32, torch.bfloat16]
