"""Collectives: what the processes that run one step together send each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from statsnet.blocks.base import Config
from statsnet.signatures.operators import ITEM_SIZE

IN_PLACE = {
    "all_reduce": "c10d.allreduce_.default",
    "broadcast": "c10d.broadcast_.default",
    "reduce": "c10d.reduce_.default",
    "send": "c10d.send.default",
    "receive": "c10d.recv_.default",
}
FROM_ONE_TO_ANOTHER = {
    "all_gather": "c10d._allgather_base_.default",
    "reduce_scatter": "c10d._reduce_scatter_base_.default",
    "all_to_all": "c10d.alltoall_base_.default",
}
OPERATORS = IN_PLACE | FROM_ONE_TO_ANOTHER
"""torch's operator of each collective that a proxy can have."""

PHASES = ("forward", "backward")


def processes() -> int:
    """How many run this step together; 1 if torchrun did not start them."""
    group = torch.distributed
    return group.get_world_size() if group.is_available() and group.is_initialized() else 1


class Collective(nn.Module):
    """One collective of all processes. Its larger side, what a process sends or what it receives, has `elements`.
    Processes 0 and 1, 2 and 3 ... send to each other: in a `send` the first of two sends, in a `receive` the second.

    It belongs to a `phase` of the step. If `overlapped`, the phase's computation runs meanwhile, and the step waits at
    the phase's end; else nothing runs meanwhile. The numbers are zeros: sums of others would grow from step to step.
    """

    def __init__(
        self, operation: str, elements: int, dtype: str = "float32", phase: str = "forward", overlapped: bool = False
    ) -> None:
        super().__init__()
        self.operation, self.phase, self.overlapped = operation, phase, overlapped
        part = -(-elements // processes())
        whole, kind = part * processes(), getattr(torch, dtype)
        if operation in ("all_reduce", "broadcast", "reduce", "send", "receive"):
            self.sent = self.received = torch.full((elements,), 0, dtype=kind)
        else:
            self.sent = torch.full((part if operation == "all_gather" else whole,), 0, dtype=kind)
            self.received = torch.full((part if operation == "reduce_scatter" else whole,), 0, dtype=kind)

    def start(self) -> Any:
        """Begin it. It is over once the returned work was waited for."""
        group: Any = torch.distributed.group.WORLD
        if self.operation == "all_reduce":
            return group.allreduce([self.sent])
        if self.operation == "broadcast":
            return group.broadcast([self.sent])
        if self.operation == "reduce":
            return group.reduce([self.sent])
        if self.operation in ("send", "receive"):
            return self._exchange(group)
        if self.operation == "all_gather":
            return group._allgather_base(self.received, self.sent)
        if self.operation == "reduce_scatter":
            return group._reduce_scatter_base(self.received, self.sent)
        return group.alltoall_base(self.received, self.sent, [], [])

    def _exchange(self, group: Any) -> Any:
        """Of the last of an odd number of processes nothing, which is over at once."""
        rank = torch.distributed.get_rank()
        other = rank ^ 1
        if other >= processes():
            nothing: Any = torch.futures.Future()
            nothing.set_result(None)
            return nothing
        sends = (self.operation == "send") == (rank % 2 == 0)
        return group.send([self.sent], other, 0) if sends else group.recv([self.received], other, 0)

    def _apply(self, fn: Any, recurse: bool = True) -> nn.Module:
        """Moves the tensors. They keep their dtype: gradients may be reduced in another one than the network's."""
        is_in_place, device = self.received is self.sent, fn(self.sent[:1]).device
        self.sent = self.sent.to(device)
        self.received = self.sent if is_in_place else self.received.to(device)
        return self


SOURCES = (processes, Collective)
"""What a network with collectives needs of this file."""


def check_collective(config: Config) -> None:
    """Raises ValueError for a configuration that is no collective."""
    known: dict[str, Any] = {"operation": OPERATORS, "dtype": ITEM_SIZE, "phase": PHASES, "overlapped": (False, True)}
    for name, value in {"operation": None, "elements": None, **config}.items():
        if name == "elements":
            if type(value) is not int or value < 1:
                raise ValueError(f"a collective has one element at least, not {value!r}")
        elif value not in known.get(name, ()):
            raise ValueError(f"{value!r} is no {name} of a collective")
