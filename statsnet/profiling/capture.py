"""Every ATen call of one step, in order: arguments, phase, data flow, implementation, index skew.

Works on real tensors and, for models that do not fit the machine, on fake ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from statsnet.profiling.denormals import denormal_share
from statsnet.profiling.encode import encode_arguments, encode_outputs
from statsnet.profiling.higher_order import derivatives_seen, run_in_parts
from statsnet.profiling.kernel_log import KernelLog
from statsnet.profiling.loop_phases import OPTIMIZER_RANGES, AfterBackward, scales_gradients
from statsnet.profiling.own_operators import is_made_of, is_own, run_seen_inside
from statsnet.profiling.skew import index_skew
from statsnet.signatures.model import Skew
from statsnet.signatures.public_names import safe_op


@dataclass(slots=True, kw_only=True)
class OpCall:
    """One operator call. `producers` are the indices of the calls whose results it reads. `event` is the
    profiler's name of the operator; only the join uses it, and it is never written, as it may be private. `cluster` is
    the call's index in the signature, once that is built; `motifs.mark_fused` sets `fused` and `joined`. If too little
    is known of the arguments and outputs to count the call's work, as in some recordings, it is not `is_counted`;
    `is_lost` if the recording lost its time, so that it is not added to those that have one. `denormal_share` is the
    share of denormal numbers among its results, on a CPU."""

    op: str
    phase: str
    args: list[Any]
    outputs: list[Any]
    producers: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()
    segment: str | None = None
    skew: Skew | None = None
    time_s: float | None = None
    cluster: int | None = None
    metadata: bool = False
    fused: bool = False
    joined: bool = False
    event: str = ""
    is_counted: bool = True
    is_lost: bool = False
    denormal_share: float = 0.0


class _Range(NamedTuple):
    """A `record_function` range that is open: autograd's next node and backward pass (-1: none) at its begin, and of an
    optimizer's range the phase that it interrupts."""

    segment: str
    node: int
    backward: int
    is_optimizer: bool
    interrupted: str | None


class CaptureMode(TorchDispatchMode):
    """Records the calls made inside the `with` block.

    Segments: a `torch.profiler.record_function("segment:NAME")` range names the calls inside it, and the backward
    calls of the operators inside it (autograd numbers its nodes in the order of the forward calls).
    """

    supports_higher_order_operators = True

    def __init__(self, kernel_log: KernelLog | None = None) -> None:
        super().__init__()
        self.calls: list[OpCall] = []
        self.phase: str | None = None
        self._producer: dict[int, int] = {}
        self._ranges: list[_Range] = []
        self._nodes: list[tuple[int, int, str]] = []
        self._after_backward = AfterBackward()
        self._log = kernel_log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return run_in_parts(func, args, kwargs, self)
        return self._record(func, args, kwargs, func)

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[..., Any]) -> Any:
        """Record the call of an operator, and call it: `run` does so unseen."""
        name = str(func)
        if name.startswith("profiler."):
            self._mark(name, args)
            return run(*args, **kwargs)
        if name.startswith("prim."):  # `prim.device` and the like query a fake tensor: no work
            return run(*args, **kwargs)
        if _is_caused_by_capture(name, args):
            result = run(*args, **kwargs)
            if (source := _storage_key(args[0])) in self._producer:
                self._producer[_storage_key(result)] = self._producer[source]
            return result
        tensors = operand_tensors(args, kwargs)
        if any(wraps_others(tensor) for tensor in tensors):
            return NotImplemented  # the operators on the tensors inside follow, and are the ones that run
        if _is_composite(func, tensors):
            with self:
                return func.decompose(*args, **kwargs)
        with self._aside():  # what is looked at may take operators to see
            encoded = encode_arguments(func, args, kwargs)
            producers = self._producers(tensors)
            skew = index_skew(func, args)
        before = len(self.calls)
        if is_own(func):
            result = run_seen_inside(func, args, kwargs, tensors, within=self, call=run)
            if is_made_of(func, tensors, self.calls[before:]):
                return result
        else:
            result = run(*args, **kwargs)
        with self._aside():
            denormal = denormal_share(operand_tensors((result,), {})) if self._log else 0.0
        index, phase = len(self.calls), self._current_phase(name)
        self._after_backward.see(index, name, phase)
        self.calls.append(
            OpCall(
                op=safe_op(name),
                event="::".join(name.split(".")[:2]),
                phase=phase,
                args=encoded,
                outputs=encode_outputs(result),
                producers=producers,
                kernels=self._log.take() if self._log else (),
                segment=self._current_segment(),
                skew=skew,
                denormal_share=denormal,
            )
        )
        self._remember(func, tensors, (result, *_written(func, args, kwargs)), index)
        return result

    def _aside(self) -> AbstractContextManager[Any]:
        """While it is entered, operators are not recorded: a mode is off while it handles one."""
        return nullcontext()

    def set_phase(self, name: str) -> None:
        """The following calls belong to this phase, except those that the autograd engine makes."""
        self.phase = name

    def _mark(self, name: str, args: tuple[Any, ...]) -> None:
        """A range begins or ends; also where what is inside raises, as the model may catch it."""
        node = torch._C._autograd._get_sequence_nr()
        if "_enter" in name:
            label = str(args[0]) if args else ""
            segment = label.removeprefix("segment:") if label.startswith("segment:") else self._outer()
            is_optimizer = label.startswith(OPTIMIZER_RANGES)
            backward = torch._C._current_graph_task_id()
            self._ranges.append(_Range(segment, node, backward, is_optimizer, self.phase))
            if is_optimizer:
                self._begin_optimizer(label)
        elif self._ranges:
            ended = self._ranges.pop()
            self._nodes.append((ended.node, node, ended.segment))
            if ended.is_optimizer:
                self.phase = ended.interrupted

    def _begin_optimizer(self, label: str) -> None:
        places = self._after_backward.take(label)
        if self.phase is None:  # nobody names the phases
            for place in places:
                self.calls[place].phase = "optimizer"
        self.phase = "optimizer"

    def _current_segment(self) -> str | None:
        if self._ranges:
            return self._ranges[-1].segment
        node = torch._C._current_autograd_node()
        if node is None:
            return None
        number = node._sequence_nr()
        return next((name for first, end, name in self._nodes if first <= number < end), None)

    def _outer(self) -> str:
        return self._ranges[-1].segment if self._ranges else ""

    def _current_phase(self, op: str) -> str:
        """An operator of autograd's own is a backward one whoever calls it: in a proxy, some are by themselves."""
        # After the last node, a reducer copies gradients: no node is current then, but the engine still runs.
        backward = torch._C._current_graph_task_id()
        if backward != -1 and any(each.is_optimizer and each.backward == backward for each in self._ranges):
            return "optimizer"  # it steps in a hook, as soon as a gradient is there
        if backward != -1 or "_backward." in op:
            return "backward"
        return self.phase or ("optimizer" if scales_gradients(op) else "forward")

    def _producers(self, tensors: list[torch.Tensor]) -> tuple[int, ...]:
        producers = {self._producer[key] for t in tensors if (key := _storage_key(t)) in self._producer}
        return tuple(sorted(producers))

    def _remember(self, func: Any, tensors: list[torch.Tensor], results: tuple[Any, ...], index: int) -> None:
        # A view shares its input's storage, and so its producer. An in-place call becomes the producer.
        before = {_storage_key(t) for t in tensors}
        writes = func._schema.is_mutable or func.namespace in _WRITE_UNTOLD
        for tensor in operand_tensors(results, {}):
            key = _storage_key(tensor)
            if writes or key not in before:
                self._producer[key] = index


_WRITE_UNTOLD = ("c10d", "fsdp")
"""Namespaces whose operators give back what they write into, and do not say so in their schemas."""


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operator writes into; some give no result."""
    if not func._schema.is_mutable:
        return []
    written = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    return [given[name] for name in written if name in given]


def _is_caused_by_capture(name: str, args: tuple[Any, ...]) -> bool:
    """Autograd copies a sparse gradient into `.grad` only if Python holds it too, as the capture does."""
    if name != "aten.clone.default" or args[0].layout == torch.strided:
        return False
    node = torch._C._current_autograd_node()
    return node is not None and node.name() == "torch::autograd::AccumulateGrad"


def wraps_others(tensor: torch.Tensor) -> bool:
    """Whether the tensor hands its operators on to tensors inside, as a jagged, a quantised or a distributed one does.
    (The last one's run on the part that this process holds, and its collectives are operators too.)"""
    return is_traceable_wrapper_subclass(tensor)


def _is_composite(func: Any, tensors: list[torch.Tensor]) -> bool:
    """Whether an operator is made of others and autograd was not there to take it apart: under `inference_mode`, in
    higher-order operators, on the tensors inside of others. The parts are then captured, as they are elsewhere. Nested
    tensors have implementations of their own, and so have all of a device for operators such as `silu_backward`."""
    if any(tensor.is_nested for tensor in tensors):
        return False
    has_kernel, name = torch._C._dispatch_has_kernel_for_dispatch_key, func.name()
    if not has_kernel(name, "CompositeImplicitAutograd"):
        return False
    return not any(
        tensor.device.type in _KERNELS and has_kernel(name, _KERNELS[tensor.device.type]) for tensor in tensors
    )


_KERNELS = {"cpu": "CPU", "cuda": "CUDA"}
"""The dispatch keys of devices' own implementations."""


def operand_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors among an operator's arguments, those in lists too."""
    tensors: list[torch.Tensor] = []
    stack: list[Any] = [*args, *kwargs.values()]
    while stack:
        item = stack.pop()
        if isinstance(item, torch.Tensor):
            tensors.append(item)
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return tensors


def _storage_key(tensor: torch.Tensor) -> int:
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def capture_step(
    step: Callable[[], Any],
    *,
    device: str,
    phases: Callable[[Callable[[str], None] | None], None] | None = None,
    by: type[CaptureMode] = CaptureMode,
) -> list[OpCall]:
    """Run one step and return its calls, as a capture of the type `by` records them. `phases(callback)` installs the
    callback that the step calls at the start of each phase (None removes it); without it, phases come from the autograd
    engine and from the ranges that torch opens around optimizers' steps.
    """
    with capturing(device, by) as mode:
        try:
            if phases is not None:
                phases(mode.set_phase)
            step()
        finally:
            if phases is not None:
                phases(None)
    return mode.calls


@contextmanager
def capturing(device: str, by: type[CaptureMode] = CaptureMode) -> Iterator[CaptureMode]:
    """Capture the calls made inside the `with` block, with their implementations on a CPU."""
    log = KernelLog() if device == "cpu" else None
    mode = by(log)
    # A compiled part refuses to be compiled while a mode is on; run as it was written, it can be seen.
    with log or nullcontext(), torch.compiler.set_stance("force_eager"), derivatives_seen(mode), mode:
        yield mode
