"""Operators of one's own (`torch.library`): the operators that they call inside are seen, too.

torch hands such an operator to a dispatch mode as a whole. Its kernel, in Python or C++, may call torch's operators:
these do work that has a name and FLOPs. The operator itself keeps what they leave of its time, unless that is Python's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from statsnet.profiling.costs import cost_of
from statsnet.signatures.public_names import is_public_op

if TYPE_CHECKING:
    from statsnet.profiling.capture import OpCall

_PYTHON_KERNEL = re.compile(r"^(CPU|CompositeExplicitAutograd)\b.*: registered at .*\.py:\d+ ", re.MULTILINE)
"""In the dispatcher's own account of an operator. (`torch.library` keeps a list, too; it forgets an operator that was
registered twice, as by a file that is imported again, once the first registration is collected.)"""

_NEEDED = ("_dispatch_keys", "_dispatch_keyset_full_after", "_len_torch_dispatch_stack")


def is_own(func: Any) -> bool:
    """Whether it is an operator of no library that is known."""
    return not is_public_op(str(func))


def run_seen_inside(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: Sequence[torch.Tensor],
    *,
    within: AbstractContextManager[Any],
    call: Callable[..., Any] | None = None,
) -> Any:
    """Call an operator's kernel for its `tensors`' device while `within` is entered, to see what it calls. Where
    another mode, as for tensors without data, is to take it as a whole, `call` it (by default the operator itself)."""
    keys = _kernel_keys(tensors)
    if keys is None:
        return (call or func)(*args, **kwargs)
    with within:
        return func.redispatch(keys, *args, **kwargs)


def is_made_of(func: Any, tensors: Sequence[torch.Tensor], inside: Sequence[OpCall]) -> bool:
    """Whether an operator of one's own does no work beside these calls of others. One that is written in Python and
    computes with torch's operators: what these leave of its time is Python's. (On a GPU it may launch kernels too.)"""
    if not _PYTHON_KERNEL.search(torch._C._dispatch_dump(func.name())):
        return False
    costs = (cost_of(call.op, call.args, call.outputs) for call in inside)
    return all(tensor.device.type == "cpu" for tensor in tensors) and any(cost and cost.flops for cost in costs)


def _kernel_keys(tensors: Sequence[torch.Tensor]) -> Any:
    """The dispatch keys of the tensors that lie below those of modes; None if another mode is on, if there are no
    tensors, or if this torch does not tell."""
    if not tensors or not _is_possible() or torch._C._len_torch_dispatch_stack():
        return None
    keys = torch._C._dispatch_keys(tensors[0])
    for tensor in tensors[1:]:
        keys = keys | torch._C._dispatch_keys(tensor)
    return keys & torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)


@cache
def _is_possible() -> bool:
    return all(hasattr(torch._C, name) for name in _NEEDED)
