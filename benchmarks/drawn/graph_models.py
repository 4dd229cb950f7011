"""Layers and models of torch-geometric on random graphs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import torch
from torch import nn

from benchmarks.drawn.by_name import arguments
from benchmarks.drawn.refitting import guessed_arguments
from benchmarks.drawn.trying import Made, first_that_runs


def names() -> list[str]:
    """Every layer that passes messages, pools or normalises, and every model that the library lists."""
    from torch_geometric.nn import aggr, conv, models, norm

    return sorted(
        {
            f"{module.__name__.rpartition('.')[2]}.{name}"
            for module in (conv, models, norm, aggr)
            for name in module.__all__
            if inspect.isclass(getattr(module, name)) and issubclass(getattr(module, name), nn.Module)
        }
    )


class Layers(nn.Module):
    """Layers of one class between dense ones, as a network on graphs would use them."""

    def __init__(self, layers: list[nn.Module], width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.between = nn.ModuleList(nn.LazyLinear(width) for _ in layers)
        self.first, self.last = nn.LazyLinear(width), nn.LazyLinear(classes)

    def forward(self, x: torch.Tensor, **graph: Any) -> torch.Tensor:
        x = torch.relu(self.first(x))
        for layer, dense in zip(self.layers, self.between, strict=True):
            given = arguments(layer.forward, {**graph, "x": x, "x_0": x})
            out = layer(**given)
            out = out[0] if isinstance(out, tuple) else out
            if out.shape[0] != x.shape[0]:  # one row for each graph
                out = out[graph["batch"]]
            x = x + torch.relu(dense(out))
        return self.last(x)  # type: ignore[no-any-return]


def build(name: str, seed: str, batch: int, tiny: bool = False) -> Made:
    """The class on `batch` random graphs; a layer several times, one behind the other."""
    import torch_geometric.nn

    part, _, class_name = name.rpartition(".")
    found = getattr(getattr(torch_geometric.nn, part), class_name)
    random = Random(f"{seed} sizes")
    width, classes = random.choice((8, 16) if tiny else (16, 32, 64, 96, 128)), random.choice((2, 7, 40))
    known = _known(random, width, classes, tiny)
    count = random.choice((1, 2) if tiny else (1, 2, 3, 4))
    graph = _graph(Random(f"{seed} inputs"), batch, width, known, tiny)

    def make(more: dict[str, Any]) -> nn.Module:
        if part == "models":
            return found(**arguments(found, {**more, **known}))  # type: ignore[no-any-return]
        layers = [found(**arguments(found, {**more, **known, "out_channels": width})) for _ in range(count)]
        model = Layers(layers, width, classes)
        if not any(p.device.type == "meta" for p in model.layers.parameters()):
            with torch.no_grad():
                model(**graph)  # gives the dense layers their widths
        return model

    def inputs(model: nn.Module) -> Iterator[dict[str, Any]]:
        forward = inspect.signature(model.forward).parameters
        yield {k: v for k, v in graph.items() if k in forward} if part == "models" else graph

    makes = [partial(make, more) for more in ([{}, guessed_arguments(found, batch)] if tiny else [{}])]
    return first_that_runs(name, makes, inputs, refit=batch if tiny and part == "models" else None)


def _known(random: Random, width: int, classes: int, tiny: bool) -> dict[str, Any]:
    """Arguments by their names. `out_channels` is that of models."""
    depth = random.choice((2,) if tiny else (2, 3, 4))
    inner = random.choice((8, 16) if tiny else (32, 64, 128))
    return {
        "in_channels": width,
        "hidden_channels": inner,
        "out_channels": classes,
        "channels": width,
        "num_layers": depth,
        "depth": depth,
        "K": random.choice((2, 3)),
        "heads": random.choice((1, 2, 4)),
        "concat": False,
        "num_relations": 3,
        "edge_dim": 4,
        "dim": 4,
        "kernel_size": 3,
        "alpha": 0.1,
        "theta": 0.5,
        "layer": 1,
        "nn": nn.Sequential(nn.LazyLinear(inner), nn.ReLU(), nn.LazyLinear(width)),
        "aggregators": ["mean", "max", "std"],
        "scalers": ["identity", "amplification"],
        "deg": torch.tensor([0, 2, 4, 8, 4, 2]),
        "eps": random.choice((0.0, 1e-3)) or 1e-5,
        "num_timesteps": 2,
        "num_nodes": 64,
        "num_edge_types": 3,
        "edge_attr_emb_dim": 8,
        "edge_type_emb_dim": 8,
        "num_node_types": 3,
        "pool_ratios": 0.5,
        "num_steps": 2,
        "processing_steps": 2,
        "k": 4,
        "num_heads": 2,
    }


def _graph(random: Random, batch: int, width: int, known: dict[str, Any], tiny: bool) -> dict[str, Any]:
    nodes = batch * random.choice((8, 12) if tiny else (50, 200, 500))
    edges = nodes * random.choice((2, 4) if tiny else (4, 8, 16))
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    kinds = {"generator": generator}
    whole = torch.arange(nodes) * batch // nodes
    return {
        "x": torch.randn(nodes, width, **kinds),
        "edge_index": torch.randint(nodes, (2, edges), **kinds),
        "edge_weight": torch.rand(edges, **kinds),
        "edge_attr": torch.randn(edges, known["edge_dim"], **kinds),
        "edge_type": torch.randint(3, (edges,), **kinds),
        "node_type": torch.randint(3, (nodes,), **kinds),
        "batch": whole,
        "index": whole,
        "pos": torch.randn(nodes, 3, **kinds),
        "z": torch.randint(1, 9, (nodes,), **kinds),
        "pseudo": torch.rand(edges, known["dim"], **kinds),
        "hyperedge_index": torch.randint(nodes, (2, edges), **kinds),
    }
