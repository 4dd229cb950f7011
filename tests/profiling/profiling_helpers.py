"""Tiny steps, profiles of tiny workloads, and light stand-ins for the profiler's events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.jobs import profile_workload
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
    )


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


@cache
def tiny_signature(name: str, mode: str) -> Signature:
    """Profile of a reference workload's tiny preset; made once."""
    job = {"target": name, "preset": "tiny", "mode": mode, "device": "cpu", "min_time_s": 0.0}
    return Signature.from_dict(profile_workload(job, lambda _: None)["signature"])


@dataclass(slots=True)
class Span:
    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


@dataclass(slots=True)
class Kernel:
    name: str
    duration: float


@dataclass(slots=True, eq=False)
class Event:
    """What the timeline reads of a torch.autograd.profiler_util.FunctionEvent; times in microseconds."""

    name: str
    time_range: Span
    cpu_children: list[Event] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    cpu_parent: Event | None = None
    device_type: str = "DeviceType.CPU"
    is_user_annotation: bool = False
    input_shapes: list[Any] = field(default_factory=list)


def event(name: str, start: float, end: float, *children: Event, **more: Any) -> Event:
    made = Event(name, Span(start, end), list(children), **more)
    for child in children:
        child.cpu_parent = made
    return made


def flat(*events: Event) -> list[Event]:
    return [e for root in events for e in (root, *flat(*root.cpu_children))]


def call(op: str, phase: str = "forward", **more: Any) -> OpCall:
    return OpCall(op=op, phase=phase, args=more.pop("args", []), outputs=more.pop("outputs", []), **more)
