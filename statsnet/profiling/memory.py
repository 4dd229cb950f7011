"""Memory of a step: what stays (parameters, buffers, inputs, the optimizer's state) and what comes and goes
(activations, gradients, workspace)."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.workloads.losses import tensors_in
from statsnet.workloads.stepping import Stepper
from statsnet.workloads.trees import data_bytes, packed_tensors, parameters_of, parts_of, stored_bytes, stored_elements


def memory_record(
    model: torch.nn.Module | None,
    inputs: Iterable[Any],
    step: Callable[[], Any] | None,
    *,
    device: str,
    optimizer: Stepper | None = None,
) -> dict[str, int | None]:
    """Bytes of each part, of sharded tensors this process's own; peak and activation bytes are null without a step to
    run, optimizer bytes without an optimizer whose state can be found.

    On "meta" the step's tensors are counted as they are made and freed. Elsewhere the allocator is asked, so that
    operators' workspaces count too.
    """
    parameters = parameters_of(model) if model is not None else []
    buffers = list(model.buffers()) if model is not None else []
    weights = [*parameters, *(_hidden_weights(model) if model is not None else [])]
    input_bytes = data_bytes(list(inputs))
    transient = None
    if step is not None:
        # Otherwise this step would free an earlier step's gradients, which would hide as much of its own memory.
        for parameter in parameters:
            parameter.grad = None
        transient = _transient_peak(step, device)
    kept = None if optimizer is None else optimizer.state()
    state = None if kept is None else _bytes(kept)
    resident = _bytes(weights) + _bytes(buffers) + input_bytes + (state or 0)
    return {
        "parameter_count": sum(map(stored_elements, weights)),
        "parameter_bytes": _bytes(weights),
        "buffer_bytes": _bytes(buffers),
        "input_bytes": input_bytes,
        "optimizer_bytes": state,
        "activation_bytes": transient,
        "peak_bytes": None if transient is None else transient + resident,
    }


def _hidden_weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """Weights that torch shows neither as parameters nor as buffers: those in packed parameters of quantised layers,
    and the constants in a frozen script's code."""
    weights = packed_tensors(model)
    for script in model.modules():
        if isinstance(script, torch.jit.ScriptModule) and script._c._has_method("forward"):
            graph: Any = script.graph
            constants = graph.findAllNodes("prim::Constant")
            weights += [n.t("value") for n in constants if n.hasAttribute("value") and n.kindOf("value") == "t"]
    return weights


class StorageMeter(TorchDispatchMode):
    """Bytes of the tensors made inside the `with` block: now (`level`), and at their highest (`peak`). Storages that
    change their size count as large as they are: FSDP keeps those of gathered parameters, and empties them."""

    def __init__(self) -> None:
        super().__init__()
        self.level = self.peak = 0
        self._alive: dict[int, int] = {}

    def __enter__(self) -> StorageMeter:
        original = torch.UntypedStorage.resize_

        def resize(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
            before = storage.nbytes()
            original(storage, size)
            self._add(storage._cdata, storage.nbytes() - before)
            return storage

        self._patch = patch.object(torch.UntypedStorage, "resize_", resize)
        self._patch.start()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patch.stop()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {_identity(t) for t in _stored((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for tensor in _stored(result):
            identity, storage = _identity(tensor), tensor.untyped_storage()
            if identity not in given and identity not in self._alive:
                self._alive[identity] = 0
                self._add(identity, storage.nbytes())
                weakref.finalize(storage, self._free, identity)
        return result

    def _add(self, identity: int, amount: int) -> None:
        if identity in self._alive:
            self._alive[identity] += amount
        self.level += amount
        self.peak = max(self.peak, self.level)

    def _free(self, identity: int) -> None:
        self.level -= self._alive.pop(identity, 0)


def _transient_peak(step: Callable[[], Any], device: str) -> int:
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return max(0, torch.cuda.max_memory_allocated() - before)
    if device == "meta":
        with StorageMeter() as meter:
            step()
        return meter.peak
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        step()
    level = peak = 0
    for event in session.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            level += event.nbytes()
            peak = max(peak, level)
    return peak


def _stored(value: Any) -> list[torch.Tensor]:
    """The tensors that hold memory: those inside a sparse, nested or wrapping one stand for it."""
    return [part for tensor in tensors_in(value) for part in parts_of(tensor) if part.layout is torch.strided]


def _identity(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(stored_bytes(t) for t in tensors)
