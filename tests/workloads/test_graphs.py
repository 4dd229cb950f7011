"""Steps recorded as CUDA graphs, with streams and graphs that are played."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from statsnet.errors import DeviceError
from statsnet.workloads.settings import GRAPHS, WARM_UPS, graphed, parse_setting, wrap_step


class PlayedGraph:
    """What ran while it was recorded is told again when it is launched."""

    def __init__(self) -> None:
        self.recorded: list[int] = []
        self.log: list[int] = []

    def pool(self) -> object:
        return self

    def replay(self) -> None:
        self.log += self.recorded


class PlayedStream:
    def wait_stream(self, other: PlayedStream) -> None:
        assert isinstance(other, PlayedStream)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inputs that were run outside of a recording, or launched."""
    log: list[int] = []
    pools: list[Any] = []

    @contextlib.contextmanager
    def record(graph: PlayedGraph, pool: object) -> Iterator[None]:
        assert pool is (pools[0] if pools else None)
        pools.append(graph)
        before = len(log)
        yield
        graph.recorded, graph.log = log[before:], log
        del log[before:]

    monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", PlayedStream)
    monkeypatch.setattr(torch.cuda, "current_stream", PlayedStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", PlayedGraph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    return log


def test_each_input_has_a_recording(ran: list[int]) -> None:
    inputs = iter(range(100))
    step = wrap_step(parse_setting("graphs=cuda"), lambda: ran.append(next(inputs)), "cuda:0")
    assert ran == [*range(WARM_UPS)]
    ran.clear()
    for _ in range(GRAPHS + 2):
        step()
    first = WARM_UPS
    assert ran == [*range(first, first + GRAPHS), first, first + 1]


def test_without_a_gpu_there_are_none() -> None:
    with pytest.raises(DeviceError, match="need a GPU"):
        graphed(lambda: None, "cpu", 1)
