"""Llama 3 70B by its published configuration, sharded over the processes of a training, to count one process's step:

    statsnet profile examples/llama_70b_sharded.py:llama_70b_sharded --device meta --nproc 64 --mode training

Each process holds its part of every parameter (FSDP2), and gathers a layer's when it needs them, in bfloat16. With
`tensor_parallel=8`, groups of eight also share the work of each layer. Needs transformers, but no weights and no
network.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from llama_70b import llama_70b
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WITHIN_A_LAYER = {
    "self_attn.q_proj": ColwiseParallel(),
    "self_attn.k_proj": ColwiseParallel(),
    "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}


def llama_70b_sharded(
    batch: int = 1, sequence: int = 4096, layers: int = 80, tensor_parallel: int = 1
) -> tuple[nn.Module, tuple[()], dict[str, torch.Tensor]]:
    """`batch` is of one process: groups of `tensor_parallel` processes work on the same samples."""
    if tensor_parallel < 1 or dist.get_world_size() % tensor_parallel:
        raise ValueError(
            f"{dist.get_world_size()} processes are no groups of {tensor_parallel}: choose another --nproc"
        )
    model, args, kwargs = llama_70b(batch, sequence, layers)
    sizes = (dist.get_world_size() // tensor_parallel, tensor_parallel)
    mesh = init_device_mesh("cuda", sizes, mesh_dim_names=("data", "tensor"))
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        if tensor_parallel > 1:
            parallelize_module(layer, mesh["tensor"], WITHIN_A_LAYER)
        fully_shard(layer, mesh=mesh["data"], mp_policy=precision)
    fully_shard(model, mesh=mesh["data"], mp_policy=precision)
    return model, args, kwargs
