"""A proxy as a graph for other runtimes: what stands for the rest of a model comes in, and nothing is left out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from statsnet.measure.graph_inputs import Layout, convolves, operands_read, reading
from statsnet.workloads.calling import Inputs

Blocks = list[nn.Module]

COLOURS = 3
"""Channels of an image."""

LANES = 16
"""Runtimes have a layout of their own for maps of which the channels are a multiple of this."""


def graph_of(network: ModuleType, proxy: nn.Module, device: str) -> tuple[nn.Module, Inputs]:
    """The graph, and its inputs for several steps.

    The tensors that blocks keep in place of other branches become inputs too, and so do the operands of operators by
    themselves. As constants, a runtime could change their layout once and for all. So do the tensors of blocks that
    read a part of what is before them, or a map in another shape: torch reads it where it lies, a graph would copy it
    first, which no model of the mix does. Nor does a model take in or hand out maps of many channels: a runtime that
    keeps them in a layout of its own would convert them. So a convolution makes them of as many images, those that are
    added to maps too, and a pool hands on one position of what would go out.
    """
    state = {**dict(proxy.named_parameters()), **dict(proxy.named_buffers())}
    kept = {name: t for name, t in state.items() if name.rpartition(".")[2].startswith(network.SIDE_INPUTS)}
    batches = network.batches(proxy, device)
    parts, operands = _parts_read(proxy, batches[0]), operands_read(proxy)
    graph = _Graph(proxy, batches[0], kept, parts, operands)
    branches, read = ({name: graph.handed(name, x) for name, x in given.items()} for given in (kept, parts))
    beside = {name: [Layout.of(x).handed(x) for x in others] for name, others in operands.items()}
    return graph, [
        (([graph.handed(_head(i), x) for i, x in enumerate(b)], branches, read, beside), {}) for b in batches
    ]


class _Graph(nn.Module):
    """A proxy with the branches, the `parts` of activations that it reads, and the `operands` of operators as inputs.
    The outputs that parts replace are outputs of the whole, so that nothing of them can be left out. Each is a result
    of the blocks between two such places of a tower."""

    def __init__(
        self,
        proxy: nn.Module,
        batch: list[Tensor],
        branches: Mapping[str, Tensor],
        parts: Mapping[str, Tensor],
        operands: Mapping[str, Sequence[Tensor]],
    ) -> None:
        super().__init__()
        self.proxy = proxy
        before, last = _between(proxy, parts)
        self.map_before = {name: _writes_maps(run) for name, run in before.items()}
        self.map_last = [_writes_maps(run) for run in last]
        given = {**{_head(i): x for i, x in enumerate(batch)}, **parts}
        self.layouts = {name: Layout.of(x) for name, x in given.items()}
        self.of_operands = {name: [Layout.of(x) for x in others] for name, others in operands.items()}
        generator = torch.Generator().manual_seed(0)
        for name, x in [*given.items(), *branches.items()]:
            if _writes_maps([proxy.get_submodule(_block(name))]) and x.dim() == 4 and x.shape[1] % LANES == 0:
                weight = torch.randn(x.shape[1], COLOURS, 1, 1, generator=generator)
                self.register_buffer(_weight(name), weight)

    def forward(
        self,
        batch: list[Tensor],
        branches: dict[str, Tensor],
        parts: dict[str, Tensor],
        operands: dict[str, list[Tensor]],
    ) -> Any:
        cut: list[Tensor] = []

        def enter(x: Tensor, name: str) -> Tensor:
            cut.append(_end_of(x, is_map=self.map_before[name]))
            return self._taken(name, parts[name])

        beside = {
            name: [layout.taken(x) for layout, x in zip(self.of_operands[name], others, strict=True)]
            for name, others in operands.items()
        }
        with _entering(self.proxy, {name: partial(enter, name=name) for name in parts}), reading(self.proxy, beside):
            given = [self._taken(_head(i), x) for i, x in enumerate(batch)]
            beside_maps = {name: self._taken(name, x) for name, x in branches.items()}
            ends = functional_call(self.proxy, beside_maps, (given,))
        return [_end_of(x, is_map=is_map) for is_map, x in zip(self.map_last, ends, strict=True)], cut

    def handed(self, name: str, x: Tensor) -> Tensor:
        """What comes in for the tensor that this block reads, or for a branch, by its name."""
        if hasattr(self, _weight(name)):
            return x[:, :COLOURS].contiguous()
        return self.layouts[name].handed(x) if name in self.layouts else x

    def _taken(self, name: str, x: Tensor) -> Tensor:
        if hasattr(self, _weight(name)):
            return F.conv2d(x, self.get_buffer(_weight(name)))
        return self.layouts[name].taken(x) if name in self.layouts else x


def _weight(name: str) -> str:
    return "of_images_" + name.replace(".", "_")


def _block(name: str) -> str:
    """The block that has this name, or that what has this name belongs to."""
    return ".".join(name.split(".")[:3])


def _head(tower: int) -> str:
    """The name of a tower's first block."""
    return f"towers.{tower}.0"


def _between(proxy: nn.Module, parts: Collection[str]) -> tuple[dict[str, Blocks], list[Blocks]]:
    """The blocks before each that reads a part, back to the part before; and those at each tower's end."""
    before: dict[str, Blocks] = {}
    last: list[Blocks] = []
    for number, tower in enumerate(proxy.get_submodule("towers").children()):
        run: Blocks = []
        for place, block in enumerate(tower.children()):
            if (name := f"towers.{number}.{place}") in parts:
                before[name], run = run, []
            run.append(block)
        last.append(run)
    return before, last


def _end_of(x: Tensor, *, is_map: bool) -> Tensor:
    """A result; of maps that a convolution or a pool wrote, what a pool reads at one position. OpenVINO and onnxruntime
    still compute all of them."""
    return F.max_pool2d(x, 1, stride=x.shape[-2:]) if is_map and x.dim() == 4 else x


def _writes_maps(blocks: Blocks) -> bool:
    """Whether there is a convolution or a pool among them."""
    modules = (m for block in blocks for m in block.modules())
    return any(isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) or hasattr(m, "pool") or convolves(m) for m in modules)


def _is_map(x: Tensor) -> bool:
    return x.dim() > 3


def _parts_read(proxy: nn.Module, batch: list[Tensor]) -> dict[str, Tensor]:
    """By the blocks' names: what is read by those that read a part of the output before them, or a map in another
    shape."""
    parts: dict[str, Tensor] = {}

    def enter(x: Tensor, name: str, usual: Callable[[Tensor], Tensor]) -> Tensor:
        entered = usual(x)
        reshaped = entered.shape != x.shape and (_is_map(x) or _is_map(entered))
        if reshaped or entered.numel() < x.numel():
            parts[name] = entered.clone(memory_format=torch.contiguous_format)
        return entered

    blocks = {name: block for name, block in proxy.named_modules() if hasattr(block, "enter")}
    watched = {name: partial(enter, name=name, usual=block.enter) for name, block in blocks.items()}
    with torch.no_grad(), _entering(proxy, watched):
        proxy(batch)
    return parts


@contextlib.contextmanager
def _entering(proxy: nn.Module, instead: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Blocks, by name, read their input through these functions."""
    blocks: list[Any] = [proxy.get_submodule(name) for name in instead]
    for block, function in zip(blocks, instead.values(), strict=True):
        block.enter = function
    try:
        yield
    finally:
        for block in blocks:
            del block.enter
