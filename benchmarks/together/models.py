"""Models whose step several processes share, each with the collectives of another kind of parallelism.

    statsnet profile benchmarks/together/models.py:resnet50_ddp --nproc 2 --mode training -o resnet50.json

The processes are a group when a function is called. Sizes are those that two cores and a slow network bear.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.distributed.tensor.parallel.style import ParallelStyle
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

from reference_workloads.cv import resnets
from reference_workloads.nlp import bert
from reference_workloads.recsys.dlrm import DENSE, DLRM, ROWS, WIDTH
from reference_workloads.synthetic import zipf_ids


def resnet50_ddp(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """Data parallel: gradients are all-reduced in buckets while the backward pass goes on."""
    model, images = resnets.resnet50(batch, image, shrink)
    return DistributedDataParallel(model), images


def bert_fsdp2(
    batch: int = 2,
    sequence: int = 128,
    layers: int = 4,
    hidden: int = 1024,
    vocabulary: int = 30522,
    gathered: str = "float32",
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    """FSDP2 of BERT large, by default 4 of its 24 layers: parameters are gathered in the dtype in which they compute,
    gradients reduced and scattered in float32."""
    model, args, kwargs = bert.large(batch, sequence, layers, hidden, vocabulary)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    precision = MixedPrecisionPolicy(param_dtype=getattr(torch, gathered), reduce_dtype=torch.float32)
    for layer in model.bert.encoder.layer:  # type: ignore[union-attr]
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    return fully_shard(model, mesh=mesh, mp_policy=precision), args, kwargs


def bert_fsdp2_bfloat16(
    batch: int = 2, sequence: int = 128, layers: int = 4, hidden: int = 1024, vocabulary: int = 30522
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    return bert_fsdp2(batch, sequence, layers, hidden, vocabulary, gathered="bfloat16")


class TransformerLayer(nn.Module):
    """A pre-norm layer. With a part of its heads and of its hidden units, it computes a part of its sums."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        heads = (
            part.unflatten(-1, (-1, self.head)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        x = x + self.o(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


WITHIN_A_LAYER: dict[str, ParallelStyle] = {
    **{name: ColwiseParallel() for name in ("qkv", "up")},
    **{name: RowwiseParallel() for name in ("o", "down")},
}

BETWEEN_LAYERS: dict[str, ParallelStyle] = {
    **{name: SequenceParallel() for name in ("norms.0", "norms.1")},
    **{name: ColwiseParallel(input_layouts=Shard(1)) for name in ("qkv", "up")},
    **{name: RowwiseParallel(output_layouts=Shard(1)) for name in ("o", "down")},
}


def tensor_parallel_stack(
    batch: int = 4, length: int = 128, layers: int = 4, width: int = 1024, head: int = 64
) -> tuple[nn.Module, Tensor]:
    """Tensor parallel: each layer's two outputs are all-reduced forward, its two inputs' gradients backward."""
    return _parallel_stack(layers, width, head, WITHIN_A_LAYER), torch.randn(batch, length, width)


def sequence_parallel_stack(
    batch: int = 4, length: int = 128, layers: int = 4, width: int = 1024, head: int = 64
) -> tuple[nn.Module, Tensor]:
    """Tensor parallel, each process with a part of the sequence between: a layer's two inputs are gathered, its two
    outputs reduced and scattered, and backward the other way round."""
    part = length // dist.get_world_size()
    return _parallel_stack(layers, width, head, BETWEEN_LAYERS), torch.randn(batch, part, width)


def _parallel_stack(layers: int, width: int, head: int, plan: dict[str, ParallelStyle]) -> nn.Module:
    model = nn.Sequential(*(TransformerLayer(width, head) for _ in range(layers)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        parallelize_module(layer, mesh, plan)
    return model


def exchanged(sent: Tensor, sizes: list[int], sizes_sent: list[int]) -> Tensor:
    """What the others have sent to this process: parts of these sizes, in the order of their ranks."""
    everyone: Any = dist.group.WORLD
    received: Tensor = all_to_all_single_autograd(sent, sizes, sizes_sent, everyone)
    return received


class Experts(nn.Module):
    """Small networks for a token each, spread over the processes: tokens travel to theirs and back. `routes` has the
    expert of each token by process, fixed as where it follows from the token's id (hash layers)."""

    def __init__(self, width: int, routes: list[list[int]], experts: int) -> None:
        super().__init__()
        count, rank = dist.get_world_size(), dist.get_rank()
        own = range(rank * experts // count, (rank + 1) * experts // count)
        self.order = sorted(range(len(routes[rank])), key=routes[rank].__getitem__)
        self.sent = [sum(expert * count // experts == r for expert in routes[rank]) for r in range(count)]
        arriving = [sorted(expert for expert in each if expert in own) for each in routes]
        self.received = [len(each) for each in arriving]
        tokens = list(enumerate(expert for each in arriving for expert in each))
        self.places = [[place for place, expert in tokens if expert == one] for one in own]
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in own
        )

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, width) to the same."""
        order = torch.tensor(self.order)
        here = exchanged(x[order], self.received, self.sent)
        done = torch.zeros_like(here)
        for places, network in zip(self.places, self.networks, strict=True):
            place = torch.tensor(places, dtype=torch.int64)
            done = done.index_copy(0, place, network(here[place]))
        back = exchanged(done, self.sent, self.received)
        return x.index_add(0, order, back)


class MixtureOfExperts(nn.Module):
    """Transformer layers, data parallel, with experts behind each."""

    def __init__(self, layers: int, width: int, head: int, routes: list[list[int]], experts: int) -> None:
        super().__init__()
        self.dense = nn.ModuleList(DistributedDataParallel(TransformerLayer(width, head)) for _ in range(layers))
        self.experts = nn.ModuleList(Experts(width, routes, experts) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        for dense, experts in zip(self.dense, self.experts, strict=True):
            x = dense(x)
            x = experts(x.flatten(0, 1)).view_as(x)
        return x


def moe_all_to_all(
    batch: int = 4, length: int = 128, layers: int = 2, width: int = 512, head: int = 64, experts: int = 8
) -> tuple[nn.Module, Tensor]:
    """Experts spread over the processes: all-to-alls of unequal parts, two for each layer in either direction, and
    all-reduces of the other layers' gradients. `batch` is of one process."""
    shares = [1 / (1 + expert) for expert in range(experts)]  # Zipf's law
    ranks = range(dist.get_world_size())
    routes = [random.Random(rank).choices(range(experts), shares, k=batch * length) for rank in ranks]
    return MixtureOfExperts(layers, width, head, routes, experts), torch.randn(batch, length, width)


class ExchangingDLRM(DLRM):
    """DLRM whose tables are spread over the processes. Each looks its own ones up for the samples of all, and they
    exchange the rows; the dense layers are data parallel."""

    def __init__(self, rows: tuple[int, ...]) -> None:
        super().__init__(rows)
        count, rank = dist.get_world_size(), dist.get_rank()
        self.shares = [len(rows[i::count]) for i in range(count)]
        self.tables = self.tables[rank::count]
        self.bottom, self.top = (DistributedDataParallel(part) for part in (self.bottom, self.top))

    def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        """dense: (batch, 13); indices: (tables here, batch of all), one value a feature; offsets: (batch of all,)."""
        batch, x = len(dense), self.bottom(dense)
        bags = [table(index, offsets) for table, index in zip(self.tables, indices, strict=True)]
        sent = torch.stack(bags, dim=1)  # (batch of all, tables here, width)
        sizes = [batch * share * WIDTH for share in self.shares]
        parts_sent = [sent.numel() // len(sizes)] * len(sizes)
        received = exchanged(sent.flatten(), sizes, parts_sent)
        parts = [part.view(batch, -1, WIDTH) for part in received.split(sizes)]
        vectors = torch.cat([x.unsqueeze(1), *parts], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], dim=1))


def dlrm_all_to_all(batch: int = 1024, max_rows: int = 200_000, batches: int = 4) -> dict[str, object]:
    """Tables spread over the processes: all-to-alls of their rows forward and of the gradients backward, and
    all-reduces of the dense layers' gradients. `batch` is of one process."""
    rows = tuple(min(n, max_rows) for n in ROWS)
    count, rank = dist.get_world_size(), dist.get_rank()
    offsets = torch.arange(count * batch)
    inputs: list[object] = []
    for _ in range(batches):
        dense = torch.log1p(torch.empty(batch, DENSE).exponential_(0.05))
        indices = torch.stack([zipf_ids(n, (count * batch,)) for n in rows[rank::count]])
        inputs.append(((dense, indices, offsets), {}))
    return {"model": ExchangingDLRM(rows), "inputs": inputs}
