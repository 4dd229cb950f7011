"""What running a stranger's operators may take: memory that is there, and a time that ends.

Sizes in a signature are claims. What an operator's arguments and results need is worked out before it runs, on torch's
meta device, which allocates nothing.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from statsnet.deadline import Deadline
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import MeasurementError
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import ITEM_SIZE, TensorSpec, tensors_of
from statsnet.signatures.strides import span
from statsnet.units import format_bytes
from statsnet.workloads.trees import all_tensors

OPERATOR_LIMIT_S = 300.0
"""Longest time that all runs of one operator, with those of its group, may take. Operators of the largest models take
seconds."""

STACK_BYTES = 64 * 1024**2
"""Address space set apart for each thread that a library may start."""

TOO_LONG_EXIT = 3

REPLAY_LIMIT_S = 3600.0
"""Longest time that the replay of a signature may take: thousands of operators may each stay below their limit."""


def stored_bytes(tensor: TensorSpec) -> int:
    """Bytes of memory that hold a tensor: with strides, all from its first element to its last."""
    elements = tensor.numel if tensor.strides is None else span(tensor.shape, tensor.strides)
    return elements * ITEM_SIZE.get(tensor.dtype, 16) + tensor.index_bytes


def needed_bytes(cluster: Cluster, results: Callable[[], Any]) -> int:
    """Bytes of an operator's arguments and results. `results` runs the operator on the meta device; where that is not
    possible, the results are as large as the signature says."""
    declared = sum(map(stored_bytes, tensors_of(cluster.outputs)))
    given = sum(map(stored_bytes, tensors_of(cluster.args)))
    try:
        tensors = [tensor for tensor in all_tensors(results()) if tensor.layout == torch.strided]
        worked_out = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    except Exception:  # it has no kernel on the meta device, or its results depend on values
        worked_out = 0
    return given + max(declared, worked_out)


def free_bytes(device: str) -> int:
    """Bytes that can still be taken on a device."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return memory_at_hand_bytes()


def require_memory(clusters: Sequence[Cluster], needed: Sequence[int], device: str) -> None:
    """Raises MeasurementError if one call needs more memory than there is on the device."""
    at_hand = free_bytes(device)
    largest = max(range(len(clusters)), key=lambda i: needed[i], default=None)
    if largest is not None and needed[largest] > at_hand:
        raise MeasurementError(
            f"the signature cannot be replayed: one call of {clusters[largest].op} needs "
            f"{format_bytes(needed[largest])} of memory",
            cause=f"{format_bytes(at_hand)} are at hand here",
            hint="use a machine with more memory, or a signature of a smaller size",
        )


@contextlib.contextmanager
def memory_limit(device: str) -> Iterator[None]:
    """Lets this process take no more memory than is at hand: an operator that needs more in between fails, and the
    machine is not driven into its swap. On a GPU there is no such limit, as CUDA sets apart more addresses than
    memory; there, allocations fail by themselves."""
    if device.startswith("cuda"):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_bytes() + memory_at_hand_bytes() + STACK_BYTES * (os.cpu_count() or 1)
    smallest = min([limit, *(value for value in before if value != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (smallest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


class TimeLimit:
    """Ends this process if one operator takes longer than `limit_s`: nothing else can stop it. `begin` names the
    operator whose time begins; it raises MeasurementError if all together have taken longer than `all_s`."""

    def __init__(
        self, limit_s: float = OPERATOR_LIMIT_S, end: Callable[[int], object] = os._exit, all_s: float = REPLAY_LIMIT_S
    ) -> None:
        self._limit_s, self._end = limit_s, end
        self._deadline = Deadline.after(all_s)
        self._timer: threading.Timer | None = None

    def begin(self, op: str) -> None:
        self.stop()
        if self._deadline.passed:
            raise MeasurementError(
                "the signature cannot be replayed: its operators take too long",
                cause=f"{op} had not begun when the time for all of them was over",
                hint="use a faster machine, or a signature of a smaller size",
            )
        self._timer = threading.Timer(self._limit_s, self._ended, [op])
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ended(self, op: str) -> None:
        os.write(2, f"{op} ran longer than {self._limit_s:g} s, the limit for one operator\n".encode())
        self._end(TOO_LONG_EXIT)


def _data_bytes() -> int:
    """What RLIMIT_DATA counts of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * resource.getpagesize()
