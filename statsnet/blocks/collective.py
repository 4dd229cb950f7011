"""Collectives: what the processes that run one step together send each other."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn

from statsnet.blocks.base import Config
from statsnet.measure.ranks import fits
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
    "gather": "c10d.gather_.default",
    "scatter": "c10d.scatter_.default",
}
WITHOUT_DATA = {"barrier": "c10d.barrier.default"}
OPERATORS = IN_PLACE | FROM_ONE_TO_ANOTHER | WITHOUT_DATA
"""torch's operator of each collective that a proxy can have."""

PHASES = ("forward", "backward")


def processes() -> int:
    """How many run this step together; 1 if torchrun did not start them."""
    group = torch.distributed
    return group.get_world_size() if group.is_available() and group.is_initialized() else 1


@cache
def groups_of(size: int, stride: int) -> Any:
    """The group of this process, once all processes have made all groups of this kind: of eight processes, groups of
    two with stride 2 are 0 and 2, 1 and 3, 4 and 6, 5 and 7. They wait as long as the group of all."""
    rank, own = torch.distributed.get_rank(), None
    everyone: Any = torch.distributed.group.WORLD
    device = torch.device("cuda" if torch.distributed.get_backend() == "nccl" else "cpu")
    limit = everyone._get_backend(device).options._timeout
    for first in (r for r in range(processes()) if r // stride % size == 0):
        ranks = [first + i * stride for i in range(size)]
        made = torch.distributed.new_group(ranks, timeout=limit)
        own = made if rank in ranks else own
    return own


class Collective(nn.Module):
    """One collective of each `group` of processes whose ranks are `stride` apart, of all if they do not fall into such
    groups. Its larger side, what a process sends or what it receives, has `elements`; a barrier has none.
    The first and second of a group, the third and fourth ... send to each other: in a `send` the first of two sends, in
    a `receive` the second. The first gathers and scatters.

    It belongs to a `phase` of the step. It begins once so many towers of the phase have run (`after`), and the step
    waits for it once so many in all have (`until`). In the backward pass, towers run from the last to the first. The
    numbers are zeros: sums of others would grow from step to step.
    """

    def __init__(
        self,
        operation: str,
        elements: int,
        dtype: str = "float32",
        phase: str = "forward",
        after: int = 0,
        until: int = 0,
        group: int = 0,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.operation, self.phase, self.after, self.until = operation, phase, after, until
        self.size, self.stride = (group, stride) if fits(group, stride, processes()) else (processes(), 1)
        part = -(-elements // self.size)
        whole, kind = part * self.size, getattr(torch, dtype)
        if operation in ("all_reduce", "broadcast", "reduce", "send", "receive", "barrier"):
            self.sent = self.received = torch.full((elements,), 0, dtype=kind)
        else:
            self.sent = torch.full((part if operation in ("all_gather", "gather") else whole,), 0, dtype=kind)
            self.received = torch.full((part if operation in ("reduce_scatter", "scatter") else whole,), 0, dtype=kind)

    def start(self) -> Any:
        """Begin it. It is over once the returned work was waited for."""
        is_whole = self.size == processes()
        group: Any = torch.distributed.group.WORLD if is_whole else groups_of(self.size, self.stride)
        if self.operation == "all_reduce":
            return group.allreduce([self.sent])
        if self.operation == "broadcast":
            return group.broadcast([self.sent])
        if self.operation == "reduce":
            return group.reduce([self.sent])
        if self.operation in ("send", "receive"):
            return self._exchange(group)
        if self.operation == "barrier":
            return group.barrier()
        if self.operation == "gather":
            parts = list(self.received.chunk(self.size)) if group.rank() == 0 else []
            return group.gather(parts, self.sent, 0)
        if self.operation == "scatter":
            parts = list(self.sent.chunk(self.size)) if group.rank() == 0 else []
            return group.scatter(self.received, parts, 0)
        if self.operation == "all_gather":
            return group._allgather_base(self.received, self.sent)
        if self.operation == "reduce_scatter":
            return group._reduce_scatter_base(self.received, self.sent)
        return group.alltoall_base(self.received, self.sent, [], [])

    def _exchange(self, group: Any) -> Any:
        """Of the last of an odd number of processes nothing, which is over at once."""
        rank = group.rank()
        other = rank ^ 1
        if other >= self.size:
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


SOURCES = (processes, fits, groups_of, Collective)
"""What a network with collectives needs of this file."""


def encoded_call(
    operation: str, elements: int, dtype: str, group: int | list[int]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Encoded arguments and results of the first process's call of an operator of OPERATORS, whose larger side has so
    many elements, rounded up to equal parts. `group` is encoded as `signatures.collectives.encoded_group` says."""
    size = group if isinstance(group, int) else group[0]
    part = -(-elements // size)

    def tensor(count: int) -> dict[str, Any]:
        return {"shape": [count], "dtype": dtype}

    whole = tensor(elements if operation in IN_PLACE else part * size)
    one, all_parts = {"tensors": [tensor(part)]}, {"tensors": [{**tensor(part), "times": size}]}
    calls: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
        "all_reduce": ([{"tensors": [whole]}, group, None, None, True, None], [whole]),
        "reduce": ([{"tensors": [whole]}, group, None, 0, 0, True, None], []),
        "send": ([{"tensors": [whole]}, group, 1, 0], []),
        "receive": ([{"tensors": [whole]}, group, 1, 0], []),
        "broadcast": ([{"tensors": [whole]}, group, 0, 0, True, None], [whole]),
        "all_gather": ([whole, tensor(part), group, True, None], [whole]),
        "reduce_scatter": ([tensor(part), whole, group, None, True, None], [tensor(part)]),
        "all_to_all": ([whole, whole, group, [], [], True, None], []),
        "gather": ([all_parts, one, group, 0, True, None], []),
        "scatter": ([one, all_parts, group, 0, True, None], [tensor(part)]),
        "barrier": ([tensor(1), group, [], True, None], []),
    }
    return calls[operation]


def check_collective(config: Config) -> None:
    """Raises ValueError for a configuration that is no collective."""
    known: dict[str, Any] = {"operation": OPERATORS, "dtype": ITEM_SIZE, "phase": PHASES}
    fewest = {"elements": 0 if config.get("operation") in WITHOUT_DATA else 1, "group": 2, "stride": 1}
    fewest |= {"after": 0, "until": config.get("after", 0)}
    for name, value in {"operation": None, "elements": None, **config}.items():
        if name in fewest:
            if type(value) is not int or value < fewest[name]:
                raise ValueError(f"a collective's {name} is {fewest[name]} at least, not {value!r}")
        elif value not in known.get(name, ()):
            raise ValueError(f"{value!r} is no {name} of a collective")
