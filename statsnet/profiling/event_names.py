"""What the profiler's events are called, and which of them are work."""

from __future__ import annotations

from functools import cache

import torch

from statsnet.measure.profiler_events import PACKAGED, STOPPED, Event
from statsnet.profiling.capture import OpCall
from statsnet.signatures.categories import is_metadata

COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", PACKAGED)
"""How the names of compiled regions begin."""

_NO_OPERATORS = frozenset(("autograd", "cuda", "profiler", "prim", "c10d", "record_param_comms", "statsnet", "segment"))
_SAME_WORK = {"aten::_index_put_impl_": "aten::index_put", "aten::new_zeros": "aten::zeros"}
"""Operators whose place another takes while a mode captures them, in the derivatives of `topk`, `gather` and `max`."""
_HANDED_ON = "PythonSubclass"


def event_name(call: OpCall) -> str:
    """The profiler's name of a call's operator, as `joined_name` gives it."""
    return _out_of_place(call.event or "::".join(call.op.split(".")[:2]))


def joined_name(event: Event) -> str:
    """An event's name, without its in-place mark; nothing for an operator whose tensor hands it on to those inside.
    Autograd adds, indexes and fills gradients in place, except while a mode that captures them is on: so the join must
    not tell `add` from `add_`, nor `index_add` from `index_add_`."""
    if event.children and event.children[0].name == _HANDED_ON:
        return ""
    return _out_of_place(event.name)


def is_stopped(event: Event) -> bool:
    """Whether the operator was broken off: before its work, if it was not captured, or when that was done."""
    return any(child.name == STOPPED for child in event.children)


@cache
def _out_of_place(name: str) -> str:
    """The name of the operator that does the same and writes another tensor; the name itself if there is none."""
    if name in _SAME_WORK:
        return _SAME_WORK[name]
    if not name.startswith("aten::") or not name.endswith("_") or name.endswith("__"):
        return name
    return name[:-1] if hasattr(torch.ops.aten, name[len("aten::") : -1]) else name


@cache
def computes(name: str) -> bool:
    """Whether an event of this name is work by itself: an operator that is not made of others, or a compiled region."""
    if name.startswith(COMPILED):
        return True
    namespace, separator, operator = name.partition("::")
    if not separator or namespace in _NO_OPERATORS or ":" in operator or is_metadata(name.replace("::", ".")):
        return False
    try:
        overloads = torch._C._jit_get_operation(name)[1]
    except RuntimeError:  # not registered: a range that somebody has named
        return False
    return overloads is not None and not any(
        _is_composite(f"{name}.{overload}" if overload else name) for overload in overloads
    )


def _is_composite(overload: str) -> bool:
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload, "CompositeImplicitAutograd"))
    except RuntimeError:  # an operator of TorchScript's own
        return False
