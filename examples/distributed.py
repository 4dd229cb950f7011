"""Steps that several processes run together: data parallel, sharded, tensor parallel.

    statsnet profile examples/distributed.py:data_parallel --nproc 2 --mode training -o ddp.json
    torchrun --nproc-per-node 2 -m statsnet profile examples/distributed.py:sharded --mode training -o fsdp.json

The processes are a group when a function is called. On GPUs add `--device cuda --set device=cuda`: a model goes to its
process's GPU before it is wrapped.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def network(width: int, device: str) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)).to(device)


def data_parallel(batch: int = 16, width: int = 256, device: str = "cpu") -> tuple[nn.Module, torch.Tensor]:
    """All-reduces of all gradients, in buckets of at most 1 MiB, while the backward pass goes on."""
    model = DistributedDataParallel(network(width, device), bucket_cap_mb=1)
    return model, torch.randn(batch, width, device=device)


def sharded(batch: int = 16, width: int = 256, device: str = "cpu") -> tuple[nn.Module, torch.Tensor]:
    """FSDP2: each layer's parameters are gathered before they are used, and their gradients summed and scattered."""
    model = network(width, device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), torch.randn(batch, width, device=device)


def tensor_parallel(batch: int = 16, width: int = 256, device: str = "cpu") -> tuple[nn.Module, torch.Tensor]:
    """Columns of the first layer's weights and rows of the second's: the output is a sum over all processes."""
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = parallelize_module(network(width, device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return model, torch.randn(batch, width, device=device)
