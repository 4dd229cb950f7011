"""Models whose step many processes share, in every way that torch has, as the source of their factories."""

from __future__ import annotations

BATCH, WIDTH, INNER, LAYERS, CLASSES, PROCESSES = 8, 64, 256, 3, 10, 8
MICRO_BATCHES = 4
LAYER = 2 * WIDTH * INNER + INNER + WIDTH
HEAD = WIDTH * CLASSES + CLASSES

FACTORIES = f"""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PLAN = {{"up": ColwiseParallel(), "down": RowwiseParallel()}}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear({WIDTH}, {INNER}), nn.Linear({INNER}, {WIDTH})

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range({LAYERS}))
        self.head = nn.Linear({WIDTH}, {CLASSES})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def made(net, batch):
    return net, (torch.randn(batch, {WIDTH}),)


def sharded(net, mesh, **how):
    for layer in net.layers:
        fully_shard(layer, mesh=mesh, **how)
    return fully_shard(net, mesh=mesh, **how)


def alone(batch: int = {BATCH}):
    return made(Net(), batch)


def fsdp(batch: int = {BATCH}):
    return made(sharded(Net(), init_device_mesh("cuda", (dist.get_world_size(),))), batch)


def fsdp_bfloat16(batch: int = {BATCH}):
    how = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return made(sharded(Net(), None, mp_policy=how), batch)


def tensor_parallel(batch: int = {BATCH}):
    net = Net()
    for layer in net.layers:
        parallelize_module(layer, DeviceMesh("cuda", torch.arange(dist.get_world_size())), PLAN)
    return made(net, batch)


def both(batch: int = {BATCH}):
    mesh = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    net = Net()
    for layer in net.layers:
        parallelize_module(layer, mesh["tensor"], PLAN)
    return made(sharded(net, mesh["data"]), batch)


def shift(x, by):
    count, rank = dist.get_world_size(), dist.get_rank()
    out = torch.empty_like(x)
    sent = dist.P2POp(dist.isend, x.contiguous(), (rank + by) % count)
    for work in dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, out, (rank - by) % count)]):
        work.wait()
    return out


class Passed(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return shift(x, 1)

    @staticmethod
    def backward(context, gradient):
        return shift(gradient, -1)


class Ring(nn.Module):
    # Each process has a part of the sequence, and hands keys and values on until all have seen them.
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear({WIDTH}, 3 * {WIDTH})

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        out = torch.softmax(q @ k.T, -1) @ v
        for _ in range(dist.get_world_size() - 1):
            k, v = Passed.apply(k), Passed.apply(v)
            out = out + torch.softmax(q @ k.T, -1) @ v
        return out


def ring(batch: int = {BATCH}):
    return made(Ring(), batch)


class ToNextStage(torch.autograd.Function):
    @staticmethod
    def forward(context, x, stage):
        context.stage, context.shape = stage, x.shape
        dist.send(x, stage)
        return x.new_zeros(())

    @staticmethod
    def backward(context, gradient):
        received = gradient.new_empty(context.shape)
        dist.recv(received, context.stage)
        return received, None


class FirstStage(nn.Module):
    def __init__(self, net, stage):
        super().__init__()
        self.net, self.stage = net, stage

    def forward(self, x):
        return torch.stack([ToNextStage.apply(self.net(part), self.stage) for part in x.chunk({MICRO_BATCHES})])


def pipeline(batch: int = {BATCH}):
    half = dist.get_world_size() // 2
    mesh = init_device_mesh("cuda", (2, half), mesh_dim_names=("stage", "data"))
    copies = nn.parallel.DistributedDataParallel(Layer(), process_group=mesh["data"].get_group())
    return made(FirstStage(copies, half), batch)


class Scheduled(nn.Module):
    def __init__(self, net, schedule):
        super().__init__()
        self.net, self.schedule = net, schedule

    def forward(self, x):
        self.schedule.step(x)


def scheduled(batch: int = {BATCH}, **sizes):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("stage", "data"))
    net = nn.parallel.DistributedDataParallel(Layer(), process_group=mesh["data"].get_group())
    part = (torch.randn(batch // {MICRO_BATCHES}, {WIDTH}),)
    given = dict(input_args=part, output_args=part, output_grads=part) if not sizes else sizes
    stage = PipelineStage(net, 0, 2, torch.device("cpu"), group=mesh["stage"].get_group(), **given)
    schedule = ScheduleGPipe(stage, {MICRO_BATCHES}, loss_fn=lambda out, _: out.sum())
    inputs = (torch.randn(batch, {WIDTH}),)
    return {{"model": Scheduled(net, schedule), "args": inputs, "loss": lambda _: torch.zeros((), requires_grad=True)}}


def of_unknown_sizes():
    return scheduled(input_args=None)


def for_gpus_alone():
    return made(Net().cuda(), 1)


def data_parallel(batch: int = {BATCH}):
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return made(nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=0.1), batch)


def power_sgd(batch: int = {BATCH}, begins: int = 2):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hooks

    net, inputs = data_parallel(batch)
    net.register_comm_hook(hooks.PowerSGDState(None, start_powerSGD_iter=begins), hooks.powerSGD_hook)
    return net, inputs


def accumulated(batch: int = {BATCH}):
    net, inputs = data_parallel(batch)
    return {{"model": net, "inputs": [inputs] * 3, "accumulation": 3}}
"""
