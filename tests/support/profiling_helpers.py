"""Tiny steps, profiles of tiny workloads, and light stand-ins for the profiler's events."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn
from torch._C._autograd import DeviceType

from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature


def convnet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


def training_step(model: nn.Module, *inputs: torch.Tensor) -> Callable[[], Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()

    return step


def captured(step: Callable[[], Any], device: str = "cpu") -> list[OpCall]:
    """Calls of a step that move data."""
    calls = capture_step(step, device=device)
    for call in calls:
        call.metadata = is_metadata(call.op)
    return [call for call in calls if not call.metadata]


class Calls(nn.Module):
    """A model of two layers and a weight, whose forward is a function of it."""

    def __init__(self, function: Callable[..., Any], width: int = 32, **held: Any) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.weight = nn.Parameter(torch.randn(width, width) / width)
        self.function = function
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def profiled(factory: Callable[..., Any], mode: str = "inference") -> Profile:
    """A short profile, in this process, of what a function of a test's file makes."""
    model = Model(target=f"{inspect.getfile(factory)}:{factory.__name__}", mode=mode)
    return ProfileWorkload(model=model, min_time_s=0.0, repeats=2).run(Context())


@cache
def tiny_signature(name: str, mode: str) -> Signature:
    """Profile of a reference workload's tiny preset; made once."""
    model = Model(target=name, preset="tiny", mode=mode)
    return ProfileWorkload(model=model, min_time_s=0.0, repeats=2).run(Context()).signature


@dataclass(slots=True, eq=False)
class Record:
    """What is read of a Kineto event; times in microseconds. `inside` are the records made within it."""

    label: str
    start: float
    end: float
    inside: tuple[Record, ...] = ()
    thread: int = 1
    device: DeviceType = DeviceType.CPU
    annotation: bool = False
    asynchronous: bool = False
    input_shapes: list[Any] = field(default_factory=list)
    correlation: int = 0
    linked: int = 0
    stream: int = 7
    metadata: str = ""

    def name(self) -> str:
        return self.label

    def start_ns(self) -> int:
        return round(1000 * self.start)

    def end_ns(self) -> int:
        return round(1000 * self.end)

    def start_thread_id(self) -> int:
        return self.thread

    def end_thread_id(self) -> int:
        return self.thread

    def device_type(self) -> DeviceType:
        return self.device

    def is_user_annotation(self) -> bool:
        return self.annotation

    def is_async(self) -> bool:
        return self.asynchronous

    def shapes(self) -> list[Any]:
        return self.input_shapes

    def correlation_id(self) -> int:
        return self.correlation

    def device_resource_id(self) -> int:
        return self.stream

    def metadata_json(self) -> str:
        return self.metadata

    def linked_correlation_id(self) -> int:
        return self.linked


def event(name: str, start: float, end: float, *inside: Record, **more: Any) -> Record:
    return Record(name, start, end, inside, **more)


def flat(*records: Record) -> list[Record]:
    return [r for root in records for r in (root, *flat(*root.inside))]


def call(op: str, phase: str = "forward", **more: Any) -> OpCall:
    return OpCall(op=op, phase=phase, args=more.pop("args", []), outputs=more.pop("outputs", []), **more)
