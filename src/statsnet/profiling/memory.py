"""Memory of a step: what stays (parameters, buffers, inputs) and what comes and goes (activations, workspace)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def memory_record(
    model: torch.nn.Module | None,
    inputs: Iterable[Any],
    step: Callable[[], Any] | None,
    *,
    device: str,
) -> dict[str, int | None]:
    """Bytes of each part; peak and activation bytes are null where nothing ran (fake tensors)."""
    parameters = list(model.parameters()) if model is not None else []
    buffers = list(model.buffers()) if model is not None else []
    resident = _bytes(parameters) + _bytes(buffers)
    input_bytes = _bytes(_tensors(list(inputs)))
    transient = None if step is None else _transient_peak(step, device)
    return {
        "parameter_count": sum(p.numel() for p in parameters),
        "parameter_bytes": _bytes(parameters),
        "buffer_bytes": _bytes(buffers),
        "input_bytes": input_bytes,
        "activation_bytes": transient,
        "peak_bytes": None if transient is None else transient + resident + input_bytes,
    }


def _transient_peak(step: Callable[[], Any], device: str) -> int:
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return max(0, torch.cuda.max_memory_allocated() - before)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        step()
    level = peak = 0
    for event in session.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            level += event.nbytes()
            peak = max(peak, level)
    return peak


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return []
