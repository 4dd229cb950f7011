"""A step recorded as CUDA graphs and launched again as a whole: no interpreter is left between its kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from statsnet.errors import DeviceError

WARM_UPS = 3
"""Runs on a side stream before recording, as torch requires: in them libraries choose their kernels."""


def graphed(step: Callable[[], Any], device: str, count: int) -> Callable[[], None]:
    """A step that launches `count` recordings of `step` in turn; each has the inputs of its own turn.

    Source: the notes on CUDA graphs in torch's documentation. A step that waits for the device, or an optimizer that
    keeps its counters on the host, cannot be recorded; torch raises an error. Raises DeviceError without a GPU.
    """
    if not device.startswith("cuda"):
        raise DeviceError("CUDA graphs need a GPU", hint="give --device cuda, or leave out graphs=cuda")
    import torch

    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graphs: list[Any] = []
        for _ in range(count):
            graph = torch.cuda.CUDAGraph()
            # They are launched one after the other, so that they can share their memory.
            with torch.cuda.graph(graph, pool=graphs[0].pool() if graphs else None):
                step()
            graphs.append(graph)
    turn = itertools.cycle(graphs)
    return lambda: next(turn).replay()
