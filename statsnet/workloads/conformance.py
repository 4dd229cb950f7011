"""Checks what every workload must do. Third parties call `check_workload` on their own workloads in a test."""

from __future__ import annotations

import inspect
from typing import Any

from statsnet.errors import WorkloadError
from statsnet.workloads.building import BuiltWorkload, build
from statsnet.workloads.loading import resolve
from statsnet.workloads.losses import tensors_in
from statsnet.workloads.registry import Workload, get
from statsnet.workloads.step import make_step


def check_workload(name: str, *, preset: str = "tiny") -> None:
    """Check a registered workload: its presets, its parameter count, and real steps at one preset.

    The count is taken on fake tensors at the preset "standard" (or "small"), so it costs no memory.
    Raises WorkloadError that says what is wrong.
    """
    entry = get(name)
    accepted = inspect.signature(resolve(entry.full_name).factory).parameters
    for label, sizes in entry.presets.items():
        unknown = sorted(set(sizes) - set(accepted))
        _require(not unknown, entry, f"its factory does not take {', '.join(unknown)} of preset {label}")
    _check_parameters(entry)
    first = build(entry.full_name, mode="inference", preset=preset)
    again = build(entry.full_name, mode="training", preset=preset)
    _require(_same_weights(first, again), entry, "the same seed does not give the same weights")
    _check_finite(entry, "an output", make_step(first)(0))
    step = make_step(again)
    for index in range(2):
        _check_finite(entry, "the loss", step(index))
    gradients = [_values(p.grad) for p in again.model.parameters() if p.grad is not None]
    _require(bool(gradients), entry, "no parameter gets a gradient")
    _check_finite(entry, "a gradient", gradients)
    _require(any(bool(g.any()) for g in gradients), entry, "every gradient is zero")


def _check_parameters(entry: Workload) -> None:
    if entry.parameters is None:
        return
    full = next((label for label in ("standard", "small") if label in entry.presets), None)
    built = build(entry.full_name, mode="inference", preset=full, device="meta")
    count = sum(parameter.numel() for parameter in built.model.parameters())
    _require(count == entry.parameters, entry, f"it has {count} parameters, its row says {entry.parameters}")


def _same_weights(first: BuiltWorkload, again: BuiltWorkload) -> bool:
    import torch

    pairs = zip(first.model.parameters(), again.model.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def _values(gradient: Any) -> Any:
    """A gradient, or the rows of a sparse one."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _check_finite(entry: Workload, what: str, values: Any) -> None:
    for tensor in tensors_in(values):
        _require(bool(tensor.isfinite().all()), entry, f"{what} is not finite")


def _require(holds: bool, entry: Workload, cause: str) -> None:
    if not holds:
        raise WorkloadError(f"'{entry.full_name}' is not a sound workload", cause=cause)
