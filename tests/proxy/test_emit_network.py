"""What a generated network computes: everything counts, nothing twice, and no number runs away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.experimental.proxy_tensor import make_fx
from watched_blocks import blocks_of, changed, inputs

from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, build_towers

MODES = ["inference", "training"]
MAIN_OPERATOR = {
    "conv": "convolution", "linear": "addmm", "batched_matmul": "bmm", "recurrent": "mkldnn_rnn_layer",
    "attention": "_scaled_dot_product_flash_attention_for_cpu", "embedding": "embedding",
    "embedding_bag": "_embedding_bag", "norm": "native_layer_norm", "softmax": "_softmax",
    "pool": "max_pool2d_with_indices", "transpose": "clone", "concat": "cat", "gather": "index_select",
    "reduce": "sum", "topk": "topk", "pointwise": "tanh", "deconv": "convolution", "GRU": "sub",
    "resize": "upsample_bilinear2d", "sample": "grid_sampler_2d", "pad": "constant_pad_nd",
    "scatter_add": "scatter_add_", "conv_chain": "convolution", "comparison": "cat",
}  # fmt: skip


def run(network: Any, proxy: nn.Module) -> Tensor:
    """All that the network gives back, one tower after the other."""
    with torch.no_grad():
        return torch.cat([y.reshape(-1) for y in proxy(inputs(network, proxy))])


@pytest.mark.parametrize("mode", MODES)
def test_the_output_depends_on_every_block(mode: str, write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source(mode))
    proxy = network.build().double()
    before = run(network, proxy)
    for block in blocks_of(proxy):
        with changed(block, torch.zeros_like):
            assert not torch.equal(run(network, proxy), before), block
        if type(block).__name__ == "Parameters":
            continue  # only an optimizer reads them
        for parameter in block.parameters():
            kept = parameter.detach().clone()
            with torch.no_grad():
                parameter.add_(0.01 * torch.randn_like(parameter))
            after = run(network, proxy)
            with torch.no_grad():
                parameter.copy_(kept)
            assert not torch.equal(after, before), (block, parameter.shape)


def test_no_compiler_leaves_a_block_out(write_source: Callable[..., str], load: Any, small_blocks: list[Any]) -> None:
    """Traced to a graph, cleared of dead code and of equal subexpressions, it holds every main operator."""
    network = load(write_source("inference"))
    proxy = network.build()
    with torch.no_grad():
        graph = make_fx(lambda *batch: proxy(list(batch)))(*network.batches(proxy, "cpu")[0]).graph
    before = Counter(operator(n) for n in graph.nodes)
    graph.eliminate_dead_code()
    after = Counter(operator(n) for n in fx_graph_cse(graph).nodes)
    wanted: Counter[str] = Counter()
    for kind, config, n in small_blocks:
        if kind == "parameters":
            continue  # what they are there for is the optimizer's step
        main = config["operator"][0] if kind == "operator" else MAIN_OPERATOR[config.get("cell", kind)]
        wanted[main] += n
    assert {name: after[name] for name in wanted} == {name: before[name] for name in wanted}
    assert all(after[name] >= n for name, n in wanted.items())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_compiler_keeps_what_a_relu_at_a_towers_end_wrote(load: Any) -> None:
    """As the layer behind it would have it in a model; else it packs the signs, and keeps those."""
    relu = Placed(kind="pointwise", config={"shape": (8, 32), "functions": ("relu",), "operand": ()})
    source = network_source(
        build_towers([(relu, 1)], training=True),
        title="t",
        spec_id="",
        mode="training",
        dtype="float32",
        seed=0,
    )
    kept: list[torch.dtype] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        kept.extend(x.dtype for x in inputs)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        bw_compiler=keep,
        partition_fn=min_cut_rematerialization_partition,
    )
    network = load(source)
    proxy = network.build()
    proxy.compile(backend=backend)
    (y,) = network.make_step(proxy)()
    assert y.isfinite().all()
    assert kept
    assert torch.bool not in kept


@pytest.mark.parametrize("recurrent", [0, 1])
def test_around_a_recurrent_layer_a_compiler_makes_few_programs(recurrent: int, load: Any) -> None:
    """It leaves the layer to the library: one program before it, and one behind."""
    lone = [
        Placed(kind="pointwise", config={"shape": (8, n), "functions": ("tanh",), "operand": ()})
        for n in (32, 64, 96, 128, 160)
    ]
    layer = {"cell": "LSTM", "steps": 3, "batch": 2, "inputs": 8, "hidden": 8}
    blocks = [*lone, *([Placed(kind="recurrent", config=layer)] * recurrent)]
    towers = [Tower(blocks=(block,)) for block in blocks]
    network = load(network_source(towers, title="t", spec_id="", mode="inference", dtype="float32", seed=0))
    made: list[int] = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        made.append(len(graph.graph.nodes))
        return graph.forward

    proxy = network.build()
    proxy.compile(backend=count)
    network.make_step(proxy)()
    assert 1 <= len(made) <= 1 + recurrent


def operator(node: torch.fx.Node) -> str:
    return node.target.__name__.partition(".")[0] if node.op == "call_function" else node.op


def test_equal_blocks_have_weights_of_their_own(write_source: Callable[..., str], load: Any) -> None:
    proxy = load(write_source("training")).build()
    tensors = [p for p in proxy.parameters() if p.numel() > 1 and p.detach().unique().numel() > 1]
    assert len(tensors) > 10
    for i, a in enumerate(tensors):
        assert not any(a.shape == b.shape and torch.equal(a, b) for b in tensors[i + 1 :])


@pytest.mark.parametrize("mode", MODES)
def test_two_builds_give_the_same_result(mode: str, write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source(mode))
    first, second = (network.make_step(network.build())() for _ in range(2))
    assert all(torch.equal(a.detach(), b.detach()) for a, b in zip(first, second, strict=True))


def test_steps_take_new_indices_in_turn(write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source("inference"))
    batches = network.batches(network.build(), "cpu", count=4)
    indices = [[x for x in batch if not x.is_floating_point()] for batch in batches]
    assert [len(b) for b in indices] == [3] * 4
    assert not torch.equal(indices[0][0], indices[1][0])
    assert not torch.equal(indices[0][1], indices[0][2])


def test_large_inputs_have_fewer_places_in_memory(write_source: Callable[..., str], load: Any) -> None:
    """Two are more than a cache holds; eight would fill the memory."""
    network = load(write_source("inference"))
    sizes = (2**20, 2**24, 2**28)
    assert [network.places_in_memory([network.Block(n)] * 2, 8) for n in sizes] == [8, 4, 2]
    network.places_in_memory = lambda heads, count: 2
    proxy = network.build()
    given = network.batches(proxy, "cpu")
    for batches in (given, network.handed_on(proxy, given, torch.bfloat16)):
        first, second, *others = batches
        assert len(others) == 6
        for place, x in enumerate(first):
            if x.is_floating_point():
                assert [b[place] is x for b in others] == [True, False] * 3
                assert second[place] is not x


def test_optimizers_step_what_they_own(write_source: Callable[..., str], load: Any) -> None:
    """Blocks that have an optimizer change; operands for another branch, and other blocks, do not."""
    network = load(write_source("training"))
    proxy = network.build()
    before = {name: p.detach().clone() for name, p in proxy.named_parameters()}
    step = network.make_step(proxy)
    for _ in range(3):
        step()
    owned = {
        f"{path}.{name}"
        for path, block in proxy.named_modules()
        if hasattr(block, "optimizer")
        for name, _ in block.named_parameters()
        if name not in network.SIDE_INPUTS
    }
    changed = {name for name, p in proxy.named_parameters() if not torch.equal(p.detach(), before[name])}
    assert changed <= owned
    assert any(".conv.weight" in name for name in changed)
    assert all(p.grad is not None for p in proxy.parameters())


@pytest.mark.parametrize("mode", MODES)
def test_tables_that_no_step_writes_share_their_memory(mode: str, write_source: Callable[..., str], load: Any) -> None:
    """But each block reads other rows of them most often, and every network of one seed has the same weights."""
    table = {"rows": 50, "width": 4, "indices": 200, "skew": 1.5}
    bags = {**table, "bags": 100}
    blocks = [("embedding", table, 3), ("embedding", {**table, "rows": 40}, 1), ("embedding_bag", bags, 2)]
    towers = build_towers([(Placed(kind=kind, config=config), count) for kind, config, count in blocks])
    network = load(write_source(mode, towers))
    first, second = network.build(), network.build()
    tables = {block.table.weight.data_ptr() for block in blocks_of(first)}
    assert len(tables) == (6 if mode == "training" else 2)
    assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))
    assert not tables & {block.table.weight.data_ptr() for block in blocks_of(second)}
    for turn in network.batches(first, "cpu", 2):
        read = [indices for indices in turn if len(indices) == table["indices"]]
        assert all(int(indices.min()) >= 0 and int(indices.max()) < 50 for indices in read)
        assert len({int(indices.mode().values) for indices in read}) > 1
    halves = network.build().to(torch.bfloat16)
    assert len({block.table.weight.data_ptr() for block in blocks_of(halves)}) == len(tables)
