"""Blocks that run as they would inside a network, several in turn, and a training step with nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.profiler import record_function

from statsnet.blocks import KINDS
from statsnet.blocks.base import is_side_input, laid_out, numbers, with_tuples
from statsnet.blocks.operator import Operator, spread
from statsnet.blocks.zipf import zipf_indices
from statsnet.proxy.towers import Placed, follows_itself
from statsnet.workloads.optimizers import make_optimizer

SEGMENTS = ("block", "optimizer")
INDICES = 6
"""So many different indices take turns."""


ROW = 4
"""A memory-bound block that hands on what it reads is measured as one of so many in a tower: there it reads what the
block before has just written, and writes where that one has just freed memory. With more of them, the first one, which
does not, would count even less, but blocks take longer to measure."""


def in_a_row(placed: Placed, device: str) -> int:
    """How many of a block to measure in one tower. On a GPU, one: its launches are measured by `uses`."""
    chained = device == "cpu" and KINDS[placed.kind].memory_bound and follows_itself(placed)
    return ROW if chained else 1


class SingleBlock:
    """A block that runs as it would inside a network: as a tower of `in_a_row` of its kind and sizes."""

    def __init__(self, placed: Placed, *, mode: str, dtype: torch.dtype, device: str, in_a_row: int = 1) -> None:
        kind = KINDS[placed.kind]
        config = with_tuples(placed.config)
        with torch.device(device):
            one, *others = [kind.build(config).to(dtype=dtype) for _ in range(in_a_row)]
        self.in_a_row = in_a_row
        self.module: nn.Module = nn.Sequential(one, *others) if others else one
        self.module.train(mode == "training")
        self.training = mode == "training" and not kind.ends_tower(config)
        self.optimizer = None
        self.follows_itself = follows_itself(placed)
        self.indices: list[torch.Tensor] = []
        index_range = kind.index_range(config)
        if isinstance(one, Operator):
            self.source, self.x = one.samples(2)
        elif index_range is None:
            with torch.device(device):
                self.source = numbers(*one.shape).to(dtype)  # type: ignore[misc, union-attr]
            self.x = self.source.clone().requires_grad_(self.training)
        else:
            (count, rows), skew = index_range, float(placed.config["skew"])
            generator = torch.Generator().manual_seed(0)
            self.indices = [zipf_indices(count, rows, skew, generator).to(device) for _ in range(INDICES)]
        self.turn = 0
        self.y: torch.Tensor | None = None
        self.gradients: tuple[torch.Tensor, ...] = ()
        self._framework_warmer = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device=device, dtype=dtype)
        self._warm_input = torch.ones(8, 8, device=device, dtype=dtype)
        with torch.no_grad():
            y = self.module(self._input())
        if not self.training:
            return
        gradient = torch.empty_like(y)  # in the layout of the output, as autograd lays it out
        with torch.device(device):
            gradient.copy_(numbers(*y.shape))
        self.grad = laid_out(gradient / y.numel() ** 0.5, one)
        stepped = [p for name, p in self.module.named_parameters() if not is_side_input(name)]
        if stepped and placed.optimizer:
            self.optimizer = make_optimizer(placed.optimizer, stepped, sparse=bool(config.get("sparse")))

    def _input(self) -> torch.Tensor:
        if self.indices:
            return self._next_indices()
        with torch.no_grad():
            spread(self.x).copy_(spread(self.source))
        return self.x

    def _next_indices(self) -> torch.Tensor:
        self.turn += 1
        return self.indices[self.turn % len(self.indices)]

    def run(self) -> None:
        """One step of this block alone."""
        run_in_turn([self])

    def forget(self) -> None:
        """What a run leaves behind."""
        self.y, self.gradients = None, ()
        self.module.zero_grad(set_to_none=True)

    def prepare(self) -> None:
        """What a network does before its step."""
        self.forget()
        self.given = self._input()

    def write_operand(self, run: Callable[[SingleBlock], object]) -> None:
        """What the block before has just written or, in the backward pass, the one after; of a block whose uses form
        a tower. Others mostly begin one and find their operands in memory."""
        if not self.follows_itself:
            return
        with torch.no_grad():
            if run is SingleBlock.forward:
                spread(self.x).copy_(spread(self.source))
            elif run is SingleBlock.backward:
                self.grad.neg_()

    def forward(self) -> None:
        with torch.set_grad_enabled(self.training):
            self.y = self.module.forward(self.given)  # as the network runs it

    def backward(self) -> None:
        """As in the middle of a network: the input gets a gradient, but it is not kept."""
        assert self.y is not None, "forward comes first"
        weights = list(self.module.parameters())
        wanted = [*([] if self.indices else [self.given]), *weights]
        self.gradients = torch.autograd.grad(self.y, wanted, self.grad)
        for weight, gradient in zip(weights, self.gradients[len(wanted) - len(weights) :], strict=True):
            weight.grad = gradient

    def update(self) -> None:
        if self.optimizer is not None:
            self.optimizer.step()

    def uses(self) -> dict[str, Callable[[], object]]:
        """What runs in each segment, after the first `run`, to be run any number of times."""
        block: dict[str, Callable[[], object]] = {"block": self._use}
        return block if self.optimizer is None else {**block, "optimizer": self.optimizer.step}

    def _use(self) -> None:
        if self.indices:
            self.given = self._next_indices()
        self.forward()
        if self.training:
            self.backward()

    def warm_framework(self) -> None:
        """Flushing the caches also removes the interpreter's and dispatcher's code, which a network keeps there."""
        with torch.set_grad_enabled(self.training):
            y = self._framework_warmer(self._warm_input)
        if self.training:
            y.sum().backward()

    @property
    def nbytes(self) -> int:
        """Of what it holds after a run, without what autograd has saved."""
        tensors = [self.y, *self.gradients, *self.module.parameters(), *self.indices]
        if not self.indices:
            tensors += [self.x, self.source]
        if self.optimizer is not None:
            tensors += [v for state in self.optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
        values = [t._values() if t.is_sparse else t for t in tensors if t is not None]
        return sum(t.numel() * t.element_size() for t in values)


def run_in_turn(
    blocks: Sequence[SingleBlock],
    flush: Callable[[], object] = lambda: None,
    begin: Callable[[int], object] = lambda _: None,
) -> None:
    """One step of all these blocks, as in a network: the forward passes of all come first, then the backward passes in
    reverse order, then the optimizers. So each finds its operands where others have left them in the meantime; `flush`
    runs before each pass, for few blocks leave them in the caches. `begin` is told each block's place before it runs.
    Their segments: see `segment_name`."""
    for block in blocks:
        block.prepare()
    placed = list(enumerate(blocks))
    trained = [(i, block) for i, block in placed if block.training]
    stepped = [(i, block) for i, block in placed if block.optimizer is not None]
    for some, segment, run in (
        (placed, SEGMENTS[0], SingleBlock.forward),
        (trained[::-1], SEGMENTS[0], SingleBlock.backward),
        (stepped, SEGMENTS[1], SingleBlock.update),
    ):
        if some:
            flush()
            some[0][1].warm_framework()
        for i, block in some:
            begin(i)
            block.write_operand(run)
            with record_function(f"segment:{segment_name(segment, i)}"):
                run(block)


def segment_name(segment: str, place: int) -> str:
    """Of the block in this place of several."""
    return f"{segment}.{place}" if place else segment


class IdleStep(SingleBlock):
    """A block without operators, and an optimizer whose parameter has no gradient."""

    def __init__(self, optimizer: str, *, dtype: torch.dtype, device: str) -> None:
        placed = Placed(kind="parameters", config={"shape": (1,)}, optimizer=optimizer)
        super().__init__(placed, mode="training", dtype=dtype, device=device)

    def backward(self) -> None:
        super().backward()
        self.module.zero_grad(set_to_none=True)
