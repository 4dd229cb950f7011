"""Which of torch's operators a recording's are.

Recordings name operators without their overloads. The overload is the one that the recording's schema states, else the
one whose schema fits the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from statsnet.recordings.arguments import Arguments, dtype_at, item
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.public_names import safe_op
from statsnet.signatures.vocabulary import OPAQUE_OP

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")
_NOT_OPERATORS = frozenset({"autograd", "profiler", "prim", "torch"})
_TENSOR_LISTS = ("TensorList", "GenericList", "Tensor[]", "")
_STATED = re.compile(r"\w+::\w+(?:\.(\w+))?\(")

_NCCL = re.compile(r"nccl:_?(\w+?)(?: \d+(?:->|<-)\d+)?")
_COLLECTIVES = {
    "all_reduce": "c10d.allreduce_.default", "all_gather": "c10d.allgather_.default",
    "broadcast": "c10d.broadcast_.default", "all_to_all": "c10d.alltoall_.default",
    "reduce_scatter": "c10d.reduce_scatter_.default", "reduce": "c10d.reduce_.default",
    "gather": "c10d.gather_.default", "scatter": "c10d.scatter_.default", "send": "c10d.send.default",
    "recv": "c10d.recv_.default", "all_gather_base": "c10d._allgather_base_.default",
    "reduce_scatter_base": "c10d._reduce_scatter_base_.default", "broadcast_oop": "c10d.broadcast_.default",
    "reduce_oop": "c10d.reduce_.default", "all_reduce_sparse": "c10d.allreduce_.default",
    "all_reduce_barrier": "c10d.barrier.default", "all_to_allv": "c10d.alltoall_base_.default",
    "allreduce_coalesced": "c10d.allreduce_coalesced_.default",
    "all_gather_into_tensor_coalesced": "c10d.allgather_into_tensor_coalesced_.default",
    "reduce_scatter_tensor_coalesced": "c10d.reduce_scatter_tensor_coalesced_.default",
}  # fmt: skip
"""Operators by the name of the range that ProcessGroupNCCL records around what it launches; `nccl:coalesced` may hold
any."""


def is_operator_name(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[1] not in _NOT_OPERATORS


@cache
def packet_of(name: str) -> Any:
    """torch's operator of that name, with all its overloads; None if this torch has none."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] in _NOT_OPERATORS:
        return None
    packet = getattr(getattr(torch.ops, match[1]), match[2], None)
    return packet if isinstance(packet, torch._ops.OpOverloadPacket) else None


@cache
def is_composite(name: str) -> bool | None:
    """Whether the operator only calls others: a dispatch mode, and so a live profile, sees those alone. None if this
    torch does not know it."""
    packet = packet_of(name)
    if packet is None:
        return None
    # Variants that write into a given tensor are made of the plain ones, whatever those are.
    plain = [o for o in packet.overloads() if "out" not in o]
    names = [name if o == "default" else f"{name}.{o}" for o in plain or packet.overloads()]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return all(has_kernel(n, "CompositeImplicitAutograd") for n in names if torch._C._dispatch_has_kernel(n))


_WITH_KERNELS = frozenset(
    {"aten::linear", "aten::max_pool2d", "aten::_fused_rms_norm", "aten::mish_backward", "aten::silu_backward",
     "aten::native_channel_shuffle"}
)  # fmt: skip
"""Composite operators for which some device has kernels (an Apple GPU for `linear`): there they call no others."""


def may_run_alone(name: str) -> bool:
    """Whether an operator that `is_composite` does the work itself on some devices."""
    return name in _WITH_KERNELS


@cache
def does_work(name: str) -> bool:
    """Whether a recorded operator does work of its own, wherever it runs."""
    return is_operator_name(name) and not is_composite(name) and not is_metadata(public_name(name))


def is_collective(name: str) -> bool:
    """Whether a range is what NCCL's process group records around a launch."""
    return _NCCL.fullmatch(name) is not None


@cache
def public_name(name: str) -> str:
    """An operator's name as a signature may hold it."""
    if match := _NCCL.fullmatch(name):
        return _COLLECTIVES.get(match[1].lower(), OPAQUE_OP)
    return safe_op(f"{name.replace('::', '.')}.default") if is_operator_name(name) else OPAQUE_OP


def overloads_of(name: str) -> list[Any]:
    """All overloads of an operator; empty if this torch has none."""
    packet = packet_of(name)
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]


def fitting_overload(overloads: Sequence[Any], arguments: Arguments, schema: str = "") -> Any:
    """The overload that the recording's `schema` states (`aten::add.Tensor(Tensor self, ...)`) or, without one, that
    takes these arguments; None if none does."""
    count = len(arguments.dims or ())
    if stated := _STATED.match(schema):
        name = stated[1] or "default"
        found = [o for o in overloads if o._overloadname == name and count <= len(o._schema.arguments)]
        if found:
            return found[0]
    fitting = [o for o in overloads if _fits(o._schema.arguments, arguments)]
    return usual_overload(fitting, count) if fitting else None


def usual_overload(overloads: Sequence[Any], count: int | None = None) -> Any:
    """The overload that takes as many arguments as were recorded; else the plain one, else the one on tensors."""

    def rank(function: Any) -> tuple[bool, bool, int]:
        name = function._overloadname
        order = ("default", "Tensor", "dim_IntList", "int", "Scalar")
        fewer = count is not None and len(function._schema.arguments) != count
        return (fewer, "out" in name, order.index(name) if name in order else len(order))

    return min(overloads, key=rank)


def _fits(schema: Sequence[Any], recorded: Arguments) -> bool:
    """Whether the recorded arguments can be those of the schema. One recorded by an older torch may be shorter."""
    count = len(recorded.dims or ())
    if count > len(schema) or any(not a.has_default_value() for a in schema[count:]):
        return False
    return all(_fits_one(str(a.type), item(recorded.types, i), recorded, i) for i, a in enumerate(schema[:count]))


def _fits_one(wanted: str, kind: Any, recorded: Arguments, index: int) -> bool:
    if isinstance(kind, tuple):  # the types of a list's tensors
        return "Tensor" in wanted and "List" in wanted
    kind = "" if kind is None else str(kind)
    is_tensor = dtype_at(recorded.types, index) is not None or _has_sizes(recorded.dims, index)
    if wanted.startswith("Tensor"):
        return is_tensor or recorded.types is None
    if wanted.startswith("Optional[Tensor"):
        return is_tensor or kind == ""
    if "Tensor" in wanted:
        return kind in _TENSOR_LISTS
    if "List" in wanted:
        return not is_tensor and kind not in ("TensorList", "Scalar")
    return not is_tensor and kind not in ("TensorList", "ScalarList")


def _has_sizes(dims: Any, index: int) -> bool:
    sizes = item(dims, index)
    return isinstance(sizes, list) and bool(sizes) and all(isinstance(n, int) for n in sizes)
