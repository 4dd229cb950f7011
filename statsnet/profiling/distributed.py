"""Several processes that run one step together, as torchrun or `profile --nproc` starts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar, cast
from unittest.mock import patch

import torch.distributed as dist

from statsnet.environment.launch import processes_together
from statsnet.errors import DeviceError, StatsNetError
from statsnet.measure.rank_errors import named
from statsnet.measure.ranks import own_gpu
from statsnet.signatures.collectives import Backend, backend_of

T = TypeVar("T")

_DEFAULT = "_get_default_timeout"
"""Torch's own function, which may be called otherwise in another version."""


def alone() -> bool:
    """True if this process runs the step alone."""
    return not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def first_steps() -> int:
    """How many steps of a workload or a loop are unlike all later ones: an optimizer makes its state in the first. Of
    several processes, DistributedDataParallel puts gradients into other buckets in the second; in the third, if its
    graph is static."""
    return 2 if alone() else 3


def number_of_processes() -> int:
    """How many run the step together."""
    return 1 if alone() else int(dist.get_world_size())


def agreed(go_on: bool) -> bool:
    """The first process's value, in every process: if they disagreed, one that runs an extra step would wait for the
    others forever. A process that is alone gets its own value back."""
    if alone():
        return go_on
    answer = [go_on]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]


def wait_for_others() -> None:
    """Until all processes are here. A step that one of them begins later would hold the others up."""
    if not alone():
        dist.barrier()


def from_all(value: T) -> list[T]:
    """Every process's value, by rank, in every process."""
    if alone():
        return [value]
    values: list[T | None] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return cast(list[T], values)


def is_first() -> bool:
    """Whether this process writes what all have measured."""
    return alone() or dist.get_rank() == 0


def backend(device: str) -> Backend:
    """What moves data between processes on this kind of device."""
    return backend_of(dist.get_backend_config(), device)


@contextmanager
def joined(device: str, timeout_s: float) -> Iterator[str]:
    """Within, this process and those that were started with it are a group: gloo on CPUs, also NCCL on GPUs. Yields the
    device to use: each process gets a GPU of its own. A factory that calls init_process_group keeps the group that is
    there. Errors name the process. Nobody waits longer than `timeout_s` in a collective. A process that was started
    alone stays alone.

    Raises DeviceError where there are fewer GPUs than processes.
    """
    number = processes_together()
    if number == 1 or device == "meta" or not dist.is_available():
        yield device
        return
    rank = int(os.environ["RANK"])
    try:
        here = _own_gpu() if device.startswith("cuda") else device
        own = not dist.is_initialized()
        if own:
            backends = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
            dist.init_process_group(backends, timeout=timedelta(seconds=timeout_s))
        with group_is_there(), groups_wait(timeout_s):
            yield here
    except StatsNetError as error:
        raise named(error, rank, number) from error
    if own:
        dist.destroy_process_group()


def _own_gpu() -> str:
    try:
        return own_gpu()
    except RuntimeError as error:
        raise DeviceError(
            "there is no GPU for this process",
            cause=str(error),
            hint="start as many processes as there are GPUs, or use --device cpu",
        ) from error


@contextmanager
def groups_wait(timeout_s: float) -> Iterator[None]:
    """Groups that are made within, as those of device meshes, wait as long as the group of all: torch would have them
    wait half an hour, whatever that one does."""
    limit, c10d = timedelta(seconds=timeout_s), dist.distributed_c10d
    with patch.object(c10d, _DEFAULT, lambda _backend: limit) if hasattr(c10d, _DEFAULT) else nullcontext():
        yield


def lacks() -> tuple[str, ...]:
    """Sentences on what cannot be done for a group of processes with this torch."""
    if alone() or hasattr(dist.distributed_c10d, _DEFAULT):
        return ()
    return ("--group-timeout holds for the group of all processes only: this torch does not tell others, as of meshes",)


@contextmanager
def group_is_there() -> Iterator[None]:
    """Scripts make their group themselves, and torch refuses a second one."""

    def keep(*_: Any, **__: Any) -> None:
        return None

    with (
        patch.object(dist, "init_process_group", keep),
        patch.object(dist.distributed_c10d, "init_process_group", keep),
    ):
        yield
