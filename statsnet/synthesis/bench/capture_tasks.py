"""Tasks that capture the calls of blocks and networks, without times: for devices that are not at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import torch

from statsnet import environment
from statsnet.measure.network_file import load_network
from statsnet.measure.task import Context, Progress, Task
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.memory import memory_record
from statsnet.profiling.motifs import mark_fused
from statsnet.proxy.towers import Placed
from statsnet.signatures.categories import is_metadata
from statsnet.synthesis.bench.single_block import SingleBlock
from statsnet.synthesis.bench.tasks import marked_blocks
from statsnet.workloads.fakes import fake_tensors


@dataclass(frozen=True, kw_only=True)
class CaptureBlockOperators(Task[list[list[OpCall]]]):
    """The calls of each block that move data, on a device that is here; or on fake tensors, so that large blocks take
    no time. With `lists`, optimizers step all their parameters at once, as they do on a GPU."""

    blocks: tuple[Placed, ...]
    mode: str
    dtype: str
    device: str = "cpu"
    fake: bool = False
    lists: bool = False

    @property
    def measured_device(self) -> str:
        return "meta" if self.fake else self.device

    def run(self, context: Context) -> list[list[OpCall]]:
        torch.manual_seed(0)
        device, total = environment.select(self.device), len(self.blocks)
        captured: list[list[OpCall]] = []
        refused: Exception | None = None
        for number, placed in enumerate(self.blocks):
            stage = f"capturing block {number + 1} of {total}"
            context.report(Progress(stage=stage, done=number / total))
            try:
                with _tensors(self.fake), _optimizers(self.lists):
                    block = SingleBlock(placed, mode=self.mode, dtype=getattr(torch, self.dtype), device=device)
                    calls = _marked(capture_step(block.run, device=device))
            except Exception as error:  # nothing can be made of it
                calls, refused = [], error
            captured.append([replace(c, producers=()) for c in calls if not c.metadata])
        if refused is not None and not any(captured):
            raise refused
        return captured


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedNetwork:
    """The calls of one step, in segments named by a block's tower and place; the blocks in each tower; and the
    network's memory."""

    calls: list[OpCall]
    towers: list[int]
    memory: dict[str, int | None]


@dataclass(frozen=True, kw_only=True)
class CaptureNetworkOperators(Task[CapturedNetwork]):
    """The calls of the network in a folder, as those of blocks."""

    folder: str
    device: str = "cpu"
    fake: bool = False
    lists: bool = False

    @property
    def measured_device(self) -> str:
        return "meta" if self.fake else self.device

    def run(self, context: Context) -> CapturedNetwork:
        device = environment.select(self.device)
        network = load_network(self.folder)
        with _tensors(self.fake), _optimizers(self.lists):
            proxy = network.build(device)
            step = network.make_step(proxy, device)
            step()  # makes the optimizers' state
            with marked_blocks(proxy):
                calls = capture_step(step, device=device)
            memory = memory_record(proxy, [], step, device="meta" if self.fake else device)
        return CapturedNetwork(calls=_marked(calls), towers=[len(tower) for tower in proxy.towers], memory=memory)


def _tensors(fake: bool) -> AbstractContextManager[Any]:
    return fake_tensors() if fake else nullcontext()


@contextmanager
def _optimizers(lists: bool) -> Iterator[None]:
    """Those of torch that are made inside step lists, where they can. On a CPU they do not of themselves."""
    made = torch.optim.Optimizer.__init__

    def with_lists(self: torch.optim.Optimizer, params: Any, defaults: dict[str, Any]) -> None:
        made(self, params, defaults | ({"foreach": True} if lists and "foreach" in defaults else {}))

    with patch.object(torch.optim.Optimizer, "__init__", with_lists):
        yield


def _marked(calls: list[OpCall]) -> list[OpCall]:
    """The calls without names that may be private, and each marked as one that moves no data or is fused."""
    marked = [replace(c, metadata=is_metadata(c.op), event="", kernels=(), skew=None) for c in calls]
    mark_fused(marked)
    return marked
