"""What a generated network computes: everything counts, nothing twice, and no number runs away."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.experimental.proxy_tensor import make_fx

from statsnet.blocks import Config
from statsnet.blocks.pointwise import BINARY, FUNCTIONS
from statsnet.profiling.capture import CaptureMode
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import LONGEST_TOWER, Placed, Tower, build_towers
from statsnet.signatures.categories import base_name
from statsnet.signatures.kernel_class import layout_of

MODES = ["inference", "training"]
TINY = torch.finfo(torch.float32).tiny
MAIN_OPERATOR = {
    "conv": "convolution", "linear": "addmm", "batched_matmul": "bmm", "recurrent": "mkldnn_rnn_layer",
    "attention": "_scaled_dot_product_flash_attention_for_cpu", "embedding": "embedding",
    "embedding_bag": "_embedding_bag", "norm": "native_layer_norm", "softmax": "_softmax",
    "pool": "max_pool2d_with_indices", "transpose": "clone", "concat": "cat", "gather": "index_select",
    "reduce": "sum", "topk": "topk", "pointwise": "tanh", "deconv": "convolution", "GRU": "sub",
    "resize": "upsample_bilinear2d", "sample": "grid_sampler_2d", "pad": "constant_pad_nd",
    "scatter_add": "scatter_add_", "conv_chain": "convolution",
}  # fmt: skip


def run(network: Any, proxy: nn.Module) -> Tensor:
    """All that the network gives back, one tower after the other."""
    with torch.no_grad():
        return torch.cat([y.reshape(-1) for y in proxy(inputs(network, proxy))])


def inputs(network: Any, proxy: nn.Module) -> list[Tensor]:
    dtype = next((p.dtype for p in proxy.parameters()), torch.float32)
    return [x.to(dtype) if x.is_floating_point() else x for x in network.batches(proxy, "cpu")[0]]


def blocks_of(proxy: nn.Module) -> list[nn.Module]:
    return [block for tower in proxy.towers for block in tower]


@contextmanager
def changed(block: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """What the block gives goes through `change`. Blocks are run by their forward: they know no hooks."""
    forward = block.forward
    block.forward = lambda x: change(forward(x))
    yield
    del block.forward


def noted(block: nn.Module, note: Callable[[Tensor], object]) -> AbstractContextManager[None]:
    def and_on(y: Tensor) -> Tensor:
        note(y)
        return y

    return changed(block, and_on)


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
    assert [network.places(torch.empty(n, device="meta"), 8) for n in (0, 2**20, 2**24, 2**28)] == [8, 8, 4, 2]
    network.places = lambda x, count: 2
    first, second, *others = network.batches(network.build(), "cpu")
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


@pytest.mark.parametrize(("concatenated", "strides"), [(False, (4, 1)), (True, (8, 1))])
def test_the_gradient_of_a_concatenated_output_is_a_slice_of_a_wider_one(
    concatenated: bool, strides: tuple[int, ...], write_source: Callable[..., str], load: Any
) -> None:
    config = {"rows": 50, "width": 4, "indices": 16, "output_is_concatenated": concatenated}
    towers = build_towers([(Placed(kind="embedding", config=config, optimizer="adam"), 1)])
    assert gradient_strides(load(write_source("training", towers))) == [strides]


def test_it_is_cut_along_the_axis_that_the_block_names(write_source: Callable[..., str], load: Any) -> None:
    config = {"shape": (4, 3, 5, 6), "functions": ("mish",), "output_is_concatenated": True, "concatenated_axis": -3}
    network = load(write_source("training", build_towers([(Placed(kind="pointwise", config=config), 1)])))
    assert gradient_strides(network) == [(180, 30, 6, 1)]


@pytest.mark.parametrize(
    ("config", "layouts"),
    [
        ({}, ("contiguous", "contiguous")),
        ({"channels_last": True}, ("transposed", "contiguous")),  # told by the gradient
        ({"output_last_axis": 1}, ("contiguous", "transposed")),
        ({"channels_last": True, "output_last_axis": 1}, ("transposed", "transposed")),
    ],
)
def test_a_convolution_between_transposed_layers_runs_on_their_layout(
    config: Config, layouts: tuple[str, str], write_source: Callable[..., str], load: Any
) -> None:
    conv = {"batch": 2, "channels": 16, "size": (20,), "filters": 8, "kernel": (3,), "stride": (1,), "padding": (1,)}
    placed = Placed(kind="conv", config={**conv, "activation": "mish", **config}, optimizer="sgd")
    network = load(write_source("training", build_towers([(placed, 1)])))
    step = network.make_step(network.build())
    with CaptureMode() as capture:
        step()
    of = {base_name(c.op): layout_of("", c.args) for c in capture.calls}
    assert (of["convolution"], of["convolution_backward"]) == layouts
    assert of["mish_backward"] == ("transposed" if "output_last_axis" in config else "contiguous")


def gradient_strides(network: Any) -> list[tuple[int, ...]]:
    """Of what its first block's output gets in a step."""
    proxy = network.build()
    seen: list[tuple[int, ...]] = []

    def watch(y: Tensor) -> None:
        y.register_hook(lambda gradient: seen.append(gradient.stride()))

    step = network.make_step(proxy)
    with noted(blocks_of(proxy)[0], watch):
        step()
    return seen


SHAPE = (16, 32)
LONG: dict[str, tuple[str, dict[str, Any]]] = {
    "conv": ("conv", {"batch": 1, "channels": 8, "size": (8, 8), "filters": 8, "kernel": (3, 3),
                      "stride": (1, 1), "padding": (1, 1)}),
    "linear": ("linear", {"rows": 16, "inputs": 32, "outputs": 32}),
    "linear sigmoid": ("linear", {"rows": 16, "inputs": 32, "outputs": 32, "activation": "sigmoid"}),
    "linear relu": ("linear", {"rows": 16, "inputs": 32, "outputs": 32, "activation": "relu"}),
    "matmul": ("batched_matmul", {"batch": 2, "rows": 4, "depth": 64, "columns": 64}),
    "attention": ("attention", {"batch": 1, "heads": 2, "queries": 8, "keys": 32, "head_size": 32}),
    "recurrent": ("recurrent", {"steps": 4, "batch": 4, "inputs": 32, "hidden": 32}),
    "batch norm": ("norm", {"kind": "batch", "shape": SHAPE, "activation": "relu"}),
    "softmax": ("softmax", {"shape": (1, 512), "axis": 1}),
    "log softmax": ("softmax", {"shape": SHAPE, "axis": 1, "log": True}),
    "transpose": ("transpose", {"shape": SHAPE, "order": (1, 0)}),
    "average": ("pool", {"kind": "avg", "batch": 1, "channels": 8, "size": (8, 8), "kernel": (3, 3),
                         "stride": (1, 1), "padding": (1, 1)}),
    "max": ("reduce", {"function": "amax", "shape": SHAPE, "axes": (1,)}),
    "divided": ("pointwise", {"shape": SHAPE, "functions": ("div", "mul", "mul"), "operand": SHAPE}),
    **{n: ("pointwise", {"shape": SHAPE, "functions": (n,), **({"operand": SHAPE} if n in BINARY else {})})
       for n in FUNCTIONS},
}  # fmt: skip


def check_sizes(network: Any) -> None:
    """Run forward and backward: activations and gradients are finite, of sane size and not denormal."""
    proxy = network.build()
    seen: list[Tensor] = []
    batch = [x.requires_grad_(x.is_floating_point()) for x in inputs(network, proxy)]
    with ExitStack() as stack:
        for block in blocks_of(proxy):
            stack.enter_context(noted(block, lambda y: seen.append(y.detach())))
        outputs = proxy(batch)
    torch.autograd.backward(outputs, network.gradients_like(outputs))
    seen += [x.grad for x in (*proxy.parameters(), *batch) if x.requires_grad]
    for tensor in seen:
        size = float(tensor.double().square().mean().sqrt())
        assert math.isfinite(size)
        assert 1e-17 < size < 1e13, size
        magnitude = tensor.abs()
        denormal = (magnitude > 0) & (magnitude < TINY)
        assert not denormal.any()


@pytest.mark.parametrize("name", LONG)
def test_a_long_tower_keeps_numbers_sane(name: str, write_source: Callable[..., str], load: Any) -> None:
    kind, config = LONG[name]
    towers = build_towers([(Placed(kind=kind, config=config), LONGEST_TOWER)])
    check_sizes(load(write_source("training", towers)))


@pytest.mark.parametrize("seed", range(6))
def test_mixed_towers_keep_numbers_sane(seed: int, write_source: Callable[..., str], load: Any) -> None:
    generator = torch.Generator().manual_seed(seed)
    names = [list(LONG)[i] for i in torch.randperm(len(LONG), generator=generator)[:12].tolist()]
    counts = torch.randint(1, 5, (12,), generator=generator).tolist()
    rows = [(Placed(kind=LONG[n][0], config=LONG[n][1]), c) for n, c in zip(names, counts, strict=True)]
    check_sizes(load(write_source("training", build_towers(rows))))


def channels_last(x: torch.Tensor) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # Dynamo looks at all that it meets
@pytest.mark.parametrize("how", ["weights", "compiled", "wrapped"])
@pytest.mark.parametrize("mode", MODES)
def test_where_convolutions_are_channels_last_so_is_what_is_handed_to_them(
    mode: str, how: str, write_source: Callable[..., str], load: Any
) -> None:
    """Their weights say so, or a compiler does so; the weights themselves stay as a model's would."""
    network = load(write_source(mode))
    proxy = network.build()
    if how == "weights":
        proxy = proxy.to(memory_format=torch.channels_last)
    elif how == "compiled":
        proxy.compile(backend="eager")
    else:
        proxy = torch.compile(proxy, backend="eager")
    (batch,) = network.batches(proxy, "cpu", count=1)
    mapped = [b for b in proxy.modules() if getattr(b, "maps", False)]
    heads = [tower[0] for tower in proxy.towers]
    given = [x for x, head in zip(batch, heads, strict=True) if head in mapped and x.dim() == 4]
    branches = [getattr(b, "side_input", None) for b in mapped]
    side_inputs = [x for x in branches if x is not None and x.dim() == 4]
    assert given
    assert side_inputs
    assert all(channels_last(x) for x in (*given, *side_inputs))
    convolutions = [m for m in proxy.modules() if isinstance(m, torch.nn.Conv2d)]
    assert all(m.weight.is_contiguous() for m in convolutions) == (how != "weights")
    if how == "weights" or (mode, how) == ("training", "compiled"):  # to trace blocks of all kinds takes seconds
        assert all(y.isfinite().all() for y in network.make_step(proxy)())


def test_a_convolution_that_reads_channels_last_leaves_others_as_they_are(
    write_source: Callable[..., str], load: Any
) -> None:
    """Also if it adds a map of that layout, which is a parameter of the network."""
    config = {"batch": 2, "channels": 4, "filters": 4, "size": (6, 6), "kernel": (3, 3), "stride": (1, 1),
              "padding": (1, 1), "groups": 1}  # fmt: skip
    both = ({**config, "residual": True, "channels_last": True}, config)
    network = load(write_source("inference", build_towers([(Placed(kind="conv", config=c), 1) for c in both])))
    proxy = network.build()
    network.batches(proxy, "cpu", count=1)
    layouts = {b.channels_last: b.last for b in proxy.modules() if isinstance(b, network.Conv)}
    assert layouts == {True: False, False: False}


def test_elsewhere_maps_are_contiguous(write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source("inference"))
    proxy = network.build()
    (batch,) = network.batches(proxy, "cpu", count=1)
    given = [x for x, tower in zip(batch, proxy.towers, strict=True) if isinstance(tower[0], network.Block)]
    assert all(x.is_contiguous() for x in (*given, *proxy.parameters()))


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
