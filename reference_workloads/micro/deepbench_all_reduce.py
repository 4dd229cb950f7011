"""DeepBench's all-reduces (baidu-research/DeepBench): sums over all processes of up to 64,500,000 numbers.

Gloo on a CPU, NCCL on CUDA. Under torchrun the processes form a group (give each a device of its own), else
there is a group of one. An all-reduce has no parameters and is not differentiated: both modes run it alike,
and one number of each sum is multiplied by the only parameter, so that a training step has a gradient.
"""

from __future__ import annotations

import atexit
import os
import warnings

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from reference_workloads.micro.table import rows, size

if dist.is_available():
    import torch.distributed._functional_collectives  # what collectives do on fake tensors

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class AllReduces(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, numbers: Tensor) -> list[Tensor]:
        """numbers: (as many as the largest sum has,). Returns one number of each sum."""
        if not dist.is_available():
            raise RuntimeError("this torch was built without torch.distributed")
        group = "" if isinstance(numbers, FakeTensor) and not dist.is_initialized() else group_name()
        return [all_reduce(numbers[:count], group)[:1] * self.scale for count in self.sizes]


def all_reduce(x: Tensor, group: str) -> Tensor:
    """The sum of every process's x; x itself stays, or it would grow from step to step."""
    collectives = torch.ops._c10d_functional
    return collectives.wait_tensor(collectives.all_reduce(x, "sum", group))


def group_name() -> str:
    """That of the default group: whoever made it, else of torchrun's processes, else of this one alone."""
    if not dist.is_initialized():
        cuda = torch.cuda.is_available() and dist.is_nccl_available()
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        if all(name in os.environ for name in TORCHRUN):
            dist.init_process_group(backend)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # alone, a host without an address does no harm
                dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        atexit.register(leave_group)
    return dist.group.WORLD.group_name


def leave_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def build(every: int = 1, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row, `shrink` divides every size."""
    sizes = [size(row["elements"], shrink) for row in rows("deepbench_all_reduce", every)]
    return AllReduces(sizes), torch.randn(max(sizes))
