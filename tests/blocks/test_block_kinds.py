"""Every kind of block conforms on small configurations, and the conformance check finds what is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.blocks import KINDS
from statsnet.blocks.base import SIDE_INPUTS, Block, BlockKind
from statsnet.blocks.conformance import block_input, check_block_kind
from statsnet.blocks.pointwise import BINARY, FUNCTIONS, SQUASHING, UNSTEADY
from statsnet.errors import StatsNetError

CONV = {
    "batch": 8,
    "channels": 4,
    "size": (6, 6),
    "filters": 8,
    "kernel": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
}
LINE = {**CONV, "size": (9,), "kernel": (3,), "stride": (2,), "padding": (0,)}
CUBE = {**CONV, "size": (4, 4, 4), "kernel": (2, 2, 2), "stride": (1, 1, 1), "padding": (0, 0, 0)}
DECONV = {**CONV, "kernel": (4, 4), "stride": (2, 2)}
MAPS = {"batch": 8, "channels": 3, "size": (6, 6)}
POOL = {
    "kind": "max",
    "batch": 8,
    "channels": 3,
    "size": (9, 9),
    "kernel": (3, 3),
    "stride": (2, 2),
    "padding": (1, 1),
}
ATTENTION = {"batch": 8, "heads": 2, "queries": 6, "keys": 6, "head_size": 4}
BAG = {"rows": 40, "width": 4, "indices": 32, "bags": 8}

CONFIGS: dict[str, list[dict[str, Any]]] = {
    "parameters": [{"shape": (16, 8)}, {"shape": (64,)}, {"shape": (40, 8), "rows_read": 12}],
    "conv": [
        {**CONV, "bias": True, "activation": "gelu"},
        {**CONV, "norm": True, "residual": True, "activation": "relu"},
        {**CONV, "groups": 4, "dilation": (2, 1)},
        {**LINE, "residual": True},
        {**CUBE, "norm": True},
        {**CONV, "channels_last": True, "residual": True, "activation": "relu"},
        {**LINE, "channels_last": True, "output_last_axis": 1},
    ],
    "deconv": [
        {**DECONV, "bias": True, "activation": "relu"},
        {**DECONV, "longer": (1, 0), "norm": True},
        {**DECONV, "groups": 2},
        {**DECONV, "size": (9,), "kernel": (3,), "stride": (2,), "padding": (0,)},
        {**DECONV, "size": (3, 3, 3), "kernel": (2, 2, 2), "stride": (2, 2, 2), "padding": (0, 0, 0)},
    ],
    "linear": [
        {"rows": 16, "inputs": 8, "outputs": 12, "activation": "silu"},
        {"rows": 16, "inputs": 8, "outputs": 12, "bias": False},
        {"rows": 16, "inputs": 8, "outputs": 12, "weight_first_axis_in": True},
        {"rows": 16, "inputs": 8, "outputs": 12, "bias": False, "weight_first_axis_in": True},
        {"rows": 4, "inputs": 8, "outputs": 12, "activation": "silu", "uses": 4},
    ],
    "batched_matmul": [
        {"batch": 8, "rows": 3, "depth": 16, "columns": 5},
        {"batch": 8, "rows": 3, "depth": 16, "columns": 5, "transposed": True},
    ],
    "attention": [
        ATTENTION, {**ATTENTION, "causal": True}, {**ATTENTION, "keys": 9}, {**ATTENTION, "contiguous": True},
    ],
    "recurrent": [
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 5},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 6, "cell": "GRU"},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 6, "cell": "RNN"},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 5, "cell": "GRU", "layers": 2, "both": True},
    ],
    "embedding": [
        {"rows": 40, "width": 4, "indices": 16},
        {"rows": 40, "width": 4, "indices": 16, "skew": 1.1, "sparse": True},
    ],
    "embedding_bag": [BAG, {**BAG, "mode": "mean", "sparse": True}],
    "norm": [
        {"kind": "layer", "shape": (8, 12)},
        {"kind": "batch", "shape": (8, 3, 4, 4), "activation": "relu"},
        {"kind": "batch", "shape": (8, 3)},
        {"kind": "batch", "shape": (8, 3, 5)},
        {"kind": "group", "shape": (8, 4, 3, 3), "groups": 2},
    ],
    "softmax": [{"shape": (8, 6), "axis": 1}, {"shape": (8, 5, 6), "axis": 1, "log": True}],
    "pool": [
        POOL,
        {**POOL, "kind": "avg", "ceil_mode": True},
        {"kind": "avg", "batch": 8, "channels": 8, "size": (4, 4)},
    ],
    "resize": [
        {**MAPS, "out": (12, 12), "mode": "nearest"},
        {**MAPS, "out": (9, 12), "mode": "bilinear"},
        {**MAPS, "out": (3, 3), "mode": "bicubic", "corners": True},
        {**MAPS, "size": (6, 6, 6), "out": (12, 12, 12), "mode": "trilinear"},
        {**MAPS, "size": (6,), "out": (12,), "mode": "linear"},
    ],
    "sample": [
        {**MAPS, "points": (40, 2)},
        {**MAPS, "size": (4, 4, 4), "points": (5, 5, 5), "corners": True},
    ],
    "pad": [
        {**MAPS, "pads": (0, 1, 0, 1)},
        {**MAPS, "pads": (1, 1, 2, 2), "mode": "reflect"},
        {**MAPS, "size": (6,), "pads": (2, 2), "mode": "replicate"},
    ],
    "scatter_add": [
        {"shape": (64, 7), "rows": 16},
        {"shape": (64, 7), "rows": 16, "expanded": False},
        {"shape": (64,), "rows": 16, "expanded": False},
    ],
    "transpose": [{"shape": (8, 3, 4), "order": (0, 2, 1)}, {"shape": (8, 6), "order": (1, 0)}],
    "concat": [{"shape": (8, 6), "axis": 1, "pieces": 4}, {"shape": (8, 6, 2), "axis": 2, "pieces": 2}],
    "gather": [
        {"shape": (8, 9), "axis": 1, "count": 4},
        {"shape": (8, 9, 4), "axis": 1, "count": 12, "subscript": True},
    ],
    "reduce": [{"function": name, "shape": (8, 4, 3), "axes": (2,)} for name in ("sum", "mean", "amax", "amin")],
    "topk": [{"shape": (8, 12), "count": 3}],
    "pointwise": [
        {"shape": (8, 5), "functions": (name,), **({"operand": (5,)} if name in BINARY else {})} for name in FUNCTIONS
    ]
    + [{"shape": (8, 4, 5), "functions": ("mul", "tanh", "add"), "operand": (8, 1, 5)}],
    "operator": [
        {
            "operator": ("tanh", "default"), "spelling": "torch", "operands": (("own", (8, 4), (8, 1)),),
            "arguments": (("operand", 0),), "output": -1,
        },
        {
            "operator": ("max", "dim"), "spelling": "torch", "operands": (("own", (8, 4, 5), ()),),
            "arguments": (("operand", 0), ("number", 2), ("usual",)), "output": 0,
        },
    ],
}  # fmt: skip


def test_every_kind_is_checked() -> None:
    assert set(CONFIGS) == set(KINDS)
    assert FUNCTIONS.keys() >= SQUASHING | UNSTEADY | BINARY


@pytest.mark.parametrize("name", KINDS)
def test_kind_conforms(name: str) -> None:
    check_block_kind(KINDS[name], CONFIGS[name])


def test_attention_is_scaled_by_sequences_then_to_no_less_than_two_heads() -> None:
    kind, config = KINDS["attention"], {**ATTENTION, "batch": 2, "heads": 8}
    assert kind.scaled(config, 2) == {**config, "batch": 1}
    assert kind.scaled(config, 4) == {**config, "batch": 1, "heads": 4}
    assert kind.scaled(config, 16) == {**config, "batch": 1, "heads": 2}
    assert kind.scaled({**config, "batch": 1, "heads": 2}, 2) is None


@pytest.mark.parametrize("name", KINDS)
def test_scaled_blocks_read_about_as_much_less(name: str) -> None:
    """By 8 at least one configuration of each kind divides; not at all below one unit."""
    kind = KINDS[name]
    scaled = [kind.scaled(c, 8) for c in CONFIGS[name]]
    assert any(scaled)
    assert not any(kind.scaled(c, 10**9) for c in CONFIGS[name])


@pytest.mark.parametrize(
    ("name", "config", "divisor", "axis", "left"),
    [
        ("conv", {**CONV, "filters": 192}, 2, "filters", 96),
        ("conv", {**CONV, "filters": 192}, 4, None, None),
        ("conv", {**CONV, "batch": 1, "size": (56, 56)}, 4, "size", (14, 56)),
        ("conv", {**CONV, "filters": 192, "size": (56, 56)}, 8, "filters", 96),
        ("conv", {**CONV, "size": (56, 56)}, 8, None, None),
        ("conv", {**CONV, "channels": 64, "filters": 64, "groups": 64}, 4, "groups", 16),
        ("conv", {**CONV, "channels": 144, "filters": 144, "groups": 144}, 4, "groups", 32),
        ("linear", {"rows": 4, "inputs": 64, "outputs": 512}, 4, "outputs", 128),
        ("linear", {"rows": 4, "inputs": 64, "outputs": 64}, 4, None, None),
        ("norm", {"kind": "layer", "shape": (8, 12)}, 2, None, None),
    ],
)
def test_narrowed(name: str, config: dict[str, Any], divisor: int, axis: str | None, left: Any) -> None:
    narrow = KINDS[name].narrowed(config, divisor)
    if axis is None:
        assert narrow is None
        return
    assert narrow[axis] == left
    module = KINDS[name].build(narrow)
    assert module(block_input(KINDS[name], narrow, module)).isfinite().all()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_are_equally_long(mode: str) -> None:
    module = KINDS["embedding_bag"].build({**BAG, "mode": mode})
    assert module(torch.zeros(32, dtype=torch.long)).shape == (8, 4)


class Operators(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_behind_a_bag_aten_and_a_library_run_on_a_cpu_alone() -> None:
    """The look-up's vector state must not reach whatever block comes next."""
    behind = {}
    for device in ("cpu", "meta"):
        module = KINDS["embedding_bag"].build(BAG).to(device)
        with torch.no_grad(), Operators() as operators:
            module(torch.zeros(32, dtype=torch.long, device=device))
        names = operators.names
        look_up = next(n for n in names if n.startswith("_embedding_bag"))
        behind[device] = [n for n in names[names.index(look_up) + 1 :] if n in ("sigmoid", "mm")]
    assert behind == {"cpu": ["sigmoid", "mm"], "meta": []}


def test_parameters_alone_hand_on_what_comes_in_and_get_the_gradient_kept_for_them() -> None:
    """Again and again the same, and none for a table's rows that no step reads."""
    module = KINDS["parameters"].build({"shape": (40, 8), "rows_read": 12})
    x = torch.randn(1, requires_grad=True)
    for _ in range(2):
        gradients = torch.autograd.grad(module(x), [x, *module.parameters()], torch.full((1,), 3.0))
        assert torch.equal(gradients[0], torch.full((1,), 3.0))
        assert gradients[1][:12].all()
        assert not gradients[1][12:].any()


def test_blocks_that_change_sizes_are_not_steady() -> None:
    steady = {n: {kind.steady(c) for c in CONFIGS[n]} for n, kind in KINDS.items()}
    assert steady["softmax"] == steady["reduce"] == steady["topk"] == steady["recurrent"] == {False}
    assert steady["conv"] == steady["linear"] == steady["concat"] == {True}
    pointwise = KINDS["pointwise"].steady
    assert not pointwise({"functions": ("cube",)})
    assert pointwise({"functions": ("cube", "add", "tanh")})
    assert not pointwise({"functions": ("neg", "tanh")})


class Leaky(Block):
    """Wrong in the way that its configuration says."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__(size)
        self.fault = fault
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "size":
            return x.reshape(-1)[-self.shape[0] :] * self.weight
        x = self.enter(x)
        if self.fault == "gradient":
            return x * self.weight.detach()
        if self.fault == "infinite":
            return x / 0 * self.weight
        if self.fault == "huge":
            return x * self.weight * 1e9
        return math.pi * x * self.weight * outside(x) if self.fault == "name" else x * self.weight


def outside(x: Tensor) -> Tensor:
    return x


class LeakyKind(BlockKind):
    name = "leaky"
    module = Leaky

    def from_motif(self, motif: list[Any]) -> None:
        return None

    def scaled(self, config: dict[str, Any], divisor: int) -> dict[str, Any]:
        return config if config["fault"] == "scale" else {**config, "size": config["size"] // divisor}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("size", "first elements of a larger input"),
        ("gradient", "weight gets no gradient"),
        ("infinite", "not finite"),
        ("huge", "of size"),
        ("name", "'outside' is not defined"),
        ("scale", "scaled by 2 it reads 1.00"),
        ("not a name", "fault is not made of numbers, names"),
    ],
)
def test_an_unsound_kind_is_told_what_is_wrong(fault: str, cause: str) -> None:
    with pytest.raises(StatsNetError, match="leaky") as caught:
        check_block_kind(LeakyKind(), [{"size": 16, "fault": fault}])
    assert cause in caught.value.cause


def test_a_sound_kind_passes() -> None:
    check_block_kind(LeakyKind(), [{"size": 16, "fault": ""}])


@pytest.mark.parametrize("factor", [0.6, 1.3])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_resized_block_runs_and_reads_about_as_much(name: str, factor: float) -> None:
    kind = KINDS[name]
    for config in CONFIGS[name]:
        resized = kind.resized(config, factor)
        if resized is None:
            continue
        module = kind.build(resized)
        x = block_input(kind, resized, module)
        before = block_input(kind, config, kind.build(config)).numel()
        assert 0.5 * before <= x.numel() <= 2 * before
        assert torch.isfinite(module(x)).all()


def test_a_short_batch_is_resized_by_the_height_of_its_maps() -> None:
    large = {**CONV, "batch": 2, "size": (56, 56)}
    assert KINDS["conv"].resized(large, 1.5) == {**large, "batch": 3}
    assert KINDS["conv"].resized(large, 1.25) == {**large, "size": (70, 56)}
    assert KINDS["conv"].resized({**large, "size": (13, 13)}, 0.75) is None


def test_a_pointwise_convolution_keeps_as_many_images_as_decide_its_kernel() -> None:
    pointwise = {**CONV, "batch": 32, "size": (56, 56), "kernel": (1, 1), "padding": (0, 0)}
    kind = KINDS["conv"]
    assert kind.scaled(pointwise, 2) == {**pointwise, "batch": 16}
    assert kind.scaled(pointwise, 8) == {**pointwise, "batch": 16, "size": (14, 56)}
    assert kind.scaled(pointwise, 1024) is None
    assert kind.resized({**pointwise, "batch": 16}, 0.5) == {**pointwise, "batch": 16, "size": (28, 56)}
    assert kind.scaled({**pointwise, "batch": 8}, 2) == {**pointwise, "batch": 4}
    assert kind.scaled({**pointwise, "kernel": (3, 3)}, 8) == {**pointwise, "kernel": (3, 3), "batch": 4}


def test_few_filters_of_a_large_kernel_are_not_left_to_a_reference_implementation() -> None:
    """On one thread oneDNN runs 16 filters of 41 x 11 over a map of 86 x 40 by `ref:any`; over two such maps, one of
    40 x 40, or with 32 filters, by `x64:gemm:jit`."""
    kind = KINDS["conv"]
    small = {
        **CONV, "batch": 1, "channels": 1, "size": (40, 40), "filters": 16, "kernel": (41, 11), "stride": (2, 2),
        "padding": (20, 5),
    }  # fmt: skip
    large = {**small, "size": (86, 40)}
    assert kind.scaled({**small, "batch": 2}, 2) == small
    assert kind.scaled({**large, "batch": 2}, 2) is None
    assert kind.resized(small, 1.5) == {**small, "size": (60, 40)}
    assert kind.resized(small, 2.15) is None
    assert kind.narrowed(large, 1) == large  # the model's own


def test_no_map_gets_lower_than_a_window() -> None:
    """Backward over 20 rows of a window of 41, oneDNN 3.12 writes where it must not."""
    kind = KINDS["conv"]
    config = {
        **CONV, "batch": 2, "channels": 1, "size": (80, 160), "filters": 128, "kernel": (41, 11), "stride": (2, 2),
        "padding": (20, 5),
    }  # fmt: skip
    assert kind.narrowed(config, 2) == {**config, "filters": 64}
    assert kind.resized({**config, "batch": 1}, 0.65) == {**config, "batch": 1, "size": (52, 160)}
    assert kind.resized({**config, "batch": 1, "size": (52, 160)}, 0.75) is None
    dilated = {**config, "kernel": (11, 11), "dilation": (4, 1)}
    assert kind.narrowed(dilated, 2) == {**dilated, "filters": 64}
    of_a_model = {**config, "size": (20, 160)}
    assert kind.scaled(of_a_model, 2) == {**of_a_model, "batch": 1}


def test_maps_are_left_for_all_threads() -> None:
    """ATen hands whole maps to its threads, so that with one all but one have nothing to do."""
    kind = KINDS["pool"]
    response_norm = {**POOL, "kind": "avg", "batch": 32, "channels": 1, "kernel": (5, 1), "padding": (2, 0)}
    assert kind.scaled(response_norm, 4) == {**response_norm, "batch": 8}
    assert kind.scaled(response_norm, 8) is None
    assert kind.scaled({**response_norm, "channels": 64}, 256) == {**response_norm, "batch": 1, "channels": 8}
    few = {**response_norm, "batch": 2}
    assert kind.scaled(few, 1) == few
    assert kind.scaled(few, 2) is None


@pytest.mark.parametrize("before", ["conv", "linear"])
def test_maps_are_read_channels_last_without_a_copy(before: str) -> None:
    """Where convolutions write them so: a slice of such a map, and what else comes in, is one too."""
    last = {"memory_format": torch.channels_last}
    y = torch.randn(8, 64)
    if before == "conv":
        conv = KINDS["conv"].build(CONV).to(**last)
        y = conv(torch.randn(8, 4, 6, 6).to(**last))
    pool = KINDS["pool"].build({**POOL, "batch": 1, "channels": 8, "size": (6, 6)})
    pool.read_channels_last()
    y = y.detach()
    entered = pool.enter(y)
    assert entered.shape == (1, 8, 6, 6)
    assert entered.is_contiguous(**last)
    linear = KINDS["linear"].build({"rows": 8, "inputs": 16, "outputs": 4})
    linear.read_channels_last()  # reads no maps: nothing changes
    for part in (entered, linear.enter(y)):
        assert part.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        assert torch.equal(part.flatten().sort().values, in_memory(y)[: part.numel()].sort().values)
    assert before != "conv" or torch.equal(entered, y[:1])
    assert pool(y).is_contiguous(**last)
    graded = pool.enter(y.clone().requires_grad_())
    assert torch.equal(graded, entered)
    assert graded.is_contiguous(**last)


def in_memory(x: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie there."""
    return x.as_strided((x.numel(),), (1,))


@pytest.mark.parametrize(("elements", "sliced"), [(32, False), (48, True)])
def test_what_is_read_whole_is_not_sliced(elements: int, sliced: bool) -> None:
    """The gradient of a slice, even of one of all elements, is one more pass over them."""
    block = KINDS["pointwise"].build({"shape": (8, 4), "functions": ("tanh",), "operand": ()})
    x = torch.randn(elements, requires_grad=True)
    node = block.enter(x).grad_fn
    names = []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert ("SliceBackward0" in names) == sliced
    (gradient,) = torch.autograd.grad(block.enter(x), x, torch.ones(8, 4))
    assert gradient.sum() == 32


@pytest.mark.parametrize("kind", ["conv", "concat", "pointwise"])
def test_other_branches_of_maps_are_kept_channels_last(kind: str) -> None:
    shape = (2, 8, 6, 6)
    config = {
        "conv": {**CONV, "residual": True},
        "concat": {"shape": shape, "axis": 1, "pieces": 2},
        "pointwise": {"shape": shape, "functions": ("add",), "operand": shape},
    }[kind]
    block = KINDS[kind].build(config)
    block.read_channels_last()
    named = (*block.named_parameters(), *block.named_buffers())
    side_inputs = [t for name, t in named if name.startswith(SIDE_INPUTS)]
    assert side_inputs
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in side_inputs)
    x = torch.randn(block.shape).to(memory_format=torch.channels_last)
    assert block(x).is_contiguous(memory_format=torch.channels_last)
