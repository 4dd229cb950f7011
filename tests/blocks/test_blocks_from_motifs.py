"""From the operators of real modules to blocks that run the same operators again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from clusters import cluster, tensor
from torch import Tensor, nn

from statsnet.blocks import KINDS, readings, recognise
from statsnet.blocks.conformance import block_input
from statsnet.blocks.pointwise import with_gelu_in_one
from statsnet.signatures.model import Cluster, Skew

Motifs = Callable[[Callable[[], Any]], list[list[Cluster]]]
r = torch.randn


class TransposedLinear(nn.Module):
    """GPT-2's linear layer, the weight of which is stored as inputs × outputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(r(inputs, outputs)), nn.Parameter(r(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)


class LinearAndBranch(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x) + x)


def conv_norm_relu() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())


def residual(x: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, weight, padding=1) + other)


EXACT: dict[str, tuple[Any, tuple[Tensor | None, ...], str, dict[str, Any]]] = {
    "convolution, batch norm, relu": (
        conv_norm_relu(), (r(2, 4, 9, 7),), "conv",
        {"size": (9, 7), "stride": (2, 2), "norm": True, "residual": False, "activation": "relu"},
    ),
    "convolution, addition, relu": (
        residual, (r(2, 4, 5, 5), r(2, 4, 5, 5), r(4, 4, 3, 3)), "conv",
        {"norm": False, "residual": True, "activation": "relu"},
    ),
    "grouped, dilated convolution": (
        nn.Conv2d(4, 8, 3, 1, 2, dilation=(2, 1), groups=2), (r(2, 4, 9, 9),), "conv",
        {"groups": 2, "dilation": (2, 1), "bias": True},
    ),
    "softmax of rows that may be masked": (
        lambda x: torch._safe_softmax(x, 2), (r(4, 6, 8),), "softmax", {"shape": (4, 6, 8), "safe": True},
    ),
    "batched product of a transposed operand": (
        lambda a, b: torch.bmm(a.mT, b), (r(3, 8, 5), r(3, 8, 7)), "batched_matmul",
        {"rows": 5, "depth": 8, "columns": 7, "first_transposed": True, "transposed": False},
    ),
    "arithmetic with a number": (
        lambda x: (x / 1.1) - 0.1, (r(4, 6),), "pointwise", {"functions": ("divide", "subtract")},
    ),
    "root of a number that is added to": (
        lambda x: torch.rsqrt(x + 256), (r(4, 6),), "pointwise", {"shape": (4, 6), "functions": ("rsqrt",)},
    ),
    "layer of one output": (nn.Linear(16, 1), (r(8, 16),), "linear", {"outputs": 1, "weight_first_axis_in": False}),
    "one axis": (nn.Conv1d(4, 6, 3), (r(2, 4, 9),), "conv", {"size": (9,), "kernel": (3,)}),
    "three axes": (nn.Conv3d(2, 3, 3), (r(1, 2, 5, 5, 5),), "conv", {"size": (5, 5, 5)}),
    "linear": (
        nn.Linear(6, 5), (r(2, 3, 6),), "linear", {"rows": 6, "bias": True, "weight_first_axis_in": False},
    ),
    "linear and gelu": (
        nn.Sequential(nn.Linear(6, 5), nn.GELU()), (r(3, 6),), "linear", {"activation": "gelu"},
    ),
    "linear and a branch": (
        LinearAndBranch(6, 6), (r(2, 3, 6),), "linear", {"rows": 6, "residual": True, "activation": "relu"},
    ),
    "linear without bias": (nn.Linear(6, 5, bias=False), (r(4, 6),), "linear", {"rows": 4, "bias": False}),
    "GPT-2's linear": (TransposedLinear(6, 5), (r(4, 6),), "linear", {"weight_first_axis_in": True}),
    "bmm": (torch.bmm, (r(2, 3, 4), r(2, 4, 5)), "batched_matmul", {"depth": 4, "transposed": False}),
    "bmm, transposed": (
        lambda a, b: a @ b.mT, (r(2, 3, 4), r(2, 5, 4)), "batched_matmul", {"transposed": True},
    ),
    "attention": (
        F.scaled_dot_product_attention, (r(2, 3, 8, 4),) * 3, "attention", {"heads": 3, "causal": False},
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (r(2, 3, 8, 4),) * 3,
        "attention", {"queries": 8, "causal": True, "contiguous": True},
    ),
    "attention with a mask": (
        F.scaled_dot_product_attention, (*(r(2, 3, 8, 4),) * 3, r(2, 1, 8, 8)), "attention",
        {"causal": False, "mask": (2, 1, 8, 8)},
    ),
    "attention with an expanded mask": (
        F.scaled_dot_product_attention, (*(r(2, 3, 8, 4),) * 3, r(2, 1, 1, 8).expand(2, 3, 8, 8)), "attention",
        {"mask": (2, 1, 1, 8), "expanded_mask": (2, 3, 8, 8)},
    ),
    "cross attention": (
        F.scaled_dot_product_attention, (r(2, 3, 8, 4), r(2, 3, 5, 4), r(2, 3, 5, 4)), "attention",
        {"queries": 8, "keys": 5},
    ),
    "attention with shared heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (r(2, 6, 1, 4), r(2, 3, 5, 4), r(2, 3, 5, 4)), "attention", {"heads": 6, "kv_heads": 3, "contiguous": True},
    ),
    "causal attention with shared heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        (r(2, 6, 8, 4), r(2, 3, 8, 4), r(2, 3, 8, 4)), "attention", {"kv_heads": 3, "causal": True},
    ),
    "LSTM": (nn.LSTM(4, 5), (r(6, 2, 4),), "recurrent", {"steps": 6, "batch": 2, "inputs": 4, "hidden": 5}),
    "embedding": (
        nn.Embedding(10, 4), (torch.randint(10, (15,)),), "embedding", {"rows": 10, "indices": 15},
    ),
    "embedding bag": (
        nn.EmbeddingBag(10, 4, mode="mean"), (torch.randint(10, (3, 5)),), "embedding_bag",
        {"indices": 15, "bags": 3, "mode": "mean"},
    ),
    "weighted bags": (
        nn.EmbeddingBag(10, 4, mode="sum"), (torch.randint(10, (3, 5)), None, r(3, 5)), "embedding_bag",
        {"weighted": True},
    ),
    "maxima of bags": (
        nn.EmbeddingBag(10, 4, mode="max"), (torch.randint(10, (3, 5)),), "embedding_bag", {"mode": "max"},
    ),
    "layer norm": (nn.LayerNorm(6), (r(5, 6),), "norm", {"kind": "layer", "shape": (5, 6)}),
    "layer norm of sequences": (nn.LayerNorm(6), (r(1, 10, 6),), "norm", {"kind": "layer", "shape": (1, 10, 6)}),
    "addition and layer norm": (
        lambda a, b: F.layer_norm(a + b, (6,)), (r(10, 6), r(10, 6)), "norm", {"shape": (10, 6), "residual": True},
    ),
    "batch norm": (nn.BatchNorm2d(3), (r(2, 3, 4, 4),), "norm", {"kind": "batch", "shape": (2, 3, 4, 4)}),
    "instance norm": (nn.InstanceNorm2d(3), (r(2, 3, 4, 4),), "norm", {"kind": "instance", "shape": (1, 6, 4, 4)}),
    "instance norm with weights": (nn.InstanceNorm1d(3, affine=True), (r(2, 3, 4),), "norm", {"affine": True}),
    "convolution, instance norm": (
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.InstanceNorm2d(8)), (r(2, 4, 5, 5),), "conv", {"norm": False},
    ),
    "group norm": (nn.GroupNorm(2, 4), (r(2, 4, 3, 3),), "norm", {"kind": "group", "groups": 2}),
    "softmax": (nn.Softmax(1), (r(2, 5, 3),), "softmax", {"axis": 1, "log": False}),
    "log softmax": (nn.LogSoftmax(1), (r(2, 5),), "softmax", {"axis": 1, "log": True}),
    "gelu": (nn.GELU(), (r(3, 4),), "pointwise", {"functions": ("gelu",)}),
    "addition": (torch.add, (r(3, 4), r(3, 4)), "pointwise", {"functions": ("add",), "operand": (3, 4)}),
    "broadcast addition": (torch.add, (r(3, 4), r(4)), "pointwise", {"operand": (4,)}),
    "expanded operand": (
        lambda a, b: a + b.expand(3, 4), (r(3, 4), r(3, 1)), "pointwise", {"operand": (3, 1)},
    ),
    "dropout": (nn.Dropout(0.1), (r(3, 4),), "pointwise", {"functions": ("dropout",)}),
    "max pooling": (
        nn.MaxPool2d(3, 2, 1), (r(1, 2, 9, 9),), "pool", {"kind": "max", "kernel": (3, 3), "padding": (1, 1)},
    ),
    "average pooling": (nn.AvgPool2d(2), (r(1, 2, 8, 8),), "pool", {"kind": "avg", "stride": (2, 2)}),
    "global pooling": (nn.AdaptiveAvgPool2d(1), (r(1, 2, 8, 8),), "pool", {"kind": "avg", "size": (8, 8)}),
    "concatenation": (
        lambda *t: torch.cat(t, 1), (r(2, 3), r(2, 3)), "concat", {"shape": (2, 6), "axis": 1, "pieces": 2},
    ),
    "deconvolution": (
        nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), (r(2, 4, 5, 5),), "deconv",
        {"channels": 4, "filters": 6, "kernel": (3, 3), "stride": (2, 2), "longer": (1, 1), "bias": True},
    ),
    "grouped deconvolution": (
        nn.ConvTranspose1d(4, 6, 2, groups=2), (r(2, 4, 5),), "deconv", {"filters": 6, "groups": 2},
    ),
    "bilinear": (
        lambda x: F.interpolate(x, (8, 8), mode="bilinear"), (r(1, 2, 4, 4),), "resize",
        {"size": (4, 4), "out": (8, 8), "mode": "bilinear", "corners": False},
    ),
    "nearest": (lambda x: F.interpolate(x, 9), (r(1, 2, 4),), "resize", {"out": (9,), "mode": "nearest"}),
    "points": (
        lambda x, y: F.grid_sample(x, y, align_corners=True), (r(1, 2, 4, 4), r(1, 3, 5, 2)), "sample",
        {"points": (3, 5), "corners": True},
    ),
    "zeros around": (lambda x: F.pad(x, (0, 1)), (r(1, 2, 4, 4),), "pad", {"pads": (0, 1), "mode": "constant"}),
    "reflection": (
        nn.ReflectionPad2d(1), (r(1, 2, 4, 4),), "pad", {"pads": (1, 1, 1, 1), "mode": "reflect"},
    ),
    "sums by index": (
        lambda x, i: x.new_zeros(4, 3).scatter_add_(0, i[:, None].expand_as(x), x),
        (r(6, 3), torch.randint(4, (6,))), "scatter_add", {"shape": (6, 3), "rows": 4, "expanded": True},
    ),
    "index_select": (
        lambda x, i: x.index_select(0, i), (r(6, 3), torch.randint(6, (4,))), "gather", {"axis": 0},
    ),
    "rows by subscript": (
        lambda x, i: x[i], (r(6, 3), torch.randint(6, (4,))), "gather", {"shape": (6, 3), "subscript": True},
    ),
    "sum": (lambda x: x.sum(1), (r(2, 3),), "reduce", {"function": "sum", "axes": (1,)}),
    "mean": (lambda x: x.mean((0, 1)), (r(2, 3),), "reduce", {"function": "mean", "axes": (0, 1)}),
    "topk": (lambda x: x.topk(2).values, (r(2, 5),), "topk", {"shape": (2, 5), "count": 2}),
    "cube": (lambda x: x.pow(3), (r(2, 5),), "pointwise", {"functions": ("cube",)}),
}  # fmt: skip


def recognised(run: Callable[[], Any], motifs: Motifs, kind: str) -> tuple[Cluster, dict[str, Any]]:
    """The first operator of the motif that a kind takes, and the configuration."""
    for motif in motifs(run):
        reading = recognise(motif)
        if reading is not None and reading[0] == kind:
            return motif[0], reading[1]
    raise AssertionError(f"no {kind} among {[[c.op for c in m] for m in motifs(run)]}")


def shapes(cluster: Cluster) -> list[Any]:
    """Arguments with the strides of tensors and the bounds of indices left out."""
    return [
        {"shape": a["shape"], "dtype": a["dtype"]} if isinstance(a, dict) and "shape" in a else a for a in cluster.args
    ]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", EXACT)
def test_the_block_runs_the_same_operator(case: str, grad: bool, motifs: Motifs) -> None:
    module, inputs, kind, expected = EXACT[case]
    if case == "dropout" and not grad:
        pytest.skip("there is no dropout in inference")
    if isinstance(module, nn.Module):
        module.train(grad)

    def original() -> None:
        with torch.set_grad_enabled(grad):
            module(*inputs)

    first, config = recognised(original, motifs, kind)
    assert expected.items() <= config.items()
    block = KINDS[kind].build(config).train(grad)
    x = block_input(KINDS[kind], config, block)

    def rebuilt() -> None:
        with torch.set_grad_enabled(grad):
            block(x)

    again, config_again = recognised(rebuilt, motifs, kind)
    config.pop("skew", None), config_again.pop("skew", None)
    assert config_again == config
    assert again.op == first.op
    if case != "expanded operand":
        assert shapes(again) == shapes(first)


def test_a_number_or_an_expanded_tensor_is_no_branch(motifs: Motifs) -> None:
    x, layer, position = r(2, 3, 6), nn.Linear(6, 6), r(6)
    for added in (1, position, position.expand(2, 3, 6)):
        _, config = recognised(lambda added=added: layer(x) + added, motifs, "linear")  # type: ignore[misc]
        assert "residual" not in config


def test_unequal_pieces_keep_their_number(motifs: Motifs) -> None:
    """Five columns in four pieces: torch.chunk would make three of them."""
    a, b, c, d = r(2, 1), r(2, 2), r(2, 1), r(2, 1)
    _, config = recognised(lambda: torch.cat([a, b, c, d], 1), motifs, "concat")
    assert config == {"shape": (2, 5), "axis": 1, "pieces": 4}
    block = KINDS["concat"].build(config)
    x = torch.arange(4.0)
    again, _ = recognised(lambda: block(x), motifs, "concat")
    assert sum(t.get("times", 1) for t in again.args[0]["tensors"]) == 4
    assert block(x).shape == (2, 5)
    assert block(x)[:, :2].flatten().tolist() == x.tolist()


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_to_what_one_projection_wrote_has_its_layout(heads: int, motifs: Motifs) -> None:
    """A single head's queries would otherwise be contiguous, and of another kernel class."""
    packed = r(2, 8, 3, heads, 4)
    parts = [part.transpose(1, 2) for part in packed.unbind(2)]
    first, config = recognised(lambda: F.scaled_dot_product_attention(*parts), motifs, "attention")
    assert config["packed"]
    block = KINDS["attention"].build(config)
    x = block_input(KINDS["attention"], config, block)
    again, _ = recognised(lambda: block(x), motifs, "attention")
    assert first.args == again.args


def test_transposed_copies(motifs: Motifs) -> None:
    x = r(2, 3, 4)
    first, config = recognised(lambda: x.transpose(1, 2).contiguous(), motifs, "transpose")
    block = KINDS["transpose"].build(config)
    again, _ = recognised(lambda: block(x), motifs, "transpose")
    assert first.args == again.args
    assert config == {"shape": (2, 3, 4), "order": (0, 2, 1)}


def test_a_copy_that_moves_nothing_is_no_transposition(motifs: Motifs) -> None:
    """A slice's copy keeps the order of the axes: permuting it would be no operator at all."""
    x = r(4, 6)
    ((motif,),) = motifs(lambda: x[:, :3].contiguous())
    assert recognise([motif]) == ("pointwise", {"shape": (4, 3), "functions": ("copy",)})
    kind = KINDS["transpose"]
    assert kind.scaled({"shape": (8, 16), "order": (1, 0)}, 8) is None
    assert kind.scaled({"shape": (8, 16), "order": (1, 0)}, 4) == {"shape": (2, 16), "order": (1, 0)}


def test_gelu_that_a_model_writes_out_is_one_function(motifs: Motifs) -> None:
    x = r(3, 4)
    _, config = recognised(lambda: torch.tanh(0.8 * (x + 0.04 * x.pow(3.0))) + 1.0, motifs, "pointwise")
    assert config["functions"] == ("cube", "scale", "add", "scale", "tanh", "shift")
    config = with_gelu_in_one(config)
    assert config == {"shape": (3, 4), "functions": ("gelu_by_parts",)}
    assert with_gelu_in_one({"shape": (3, 4), "functions": ("tanh",)})["functions"] == ("tanh",)
    torch.testing.assert_close(KINDS["pointwise"].build(config)(x), F.gelu(x, approximate="tanh"))


def test_subscripts_of_neighbouring_axes_stay_apart(motifs: Motifs) -> None:
    """DLRM takes the lower triangle of a product: x[:, i, j]."""
    x, i = r(2, 3, 3), torch.randint(3, (4,))
    first, config = recognised(lambda: x[:, i, i], motifs, "gather")
    assert config == {"shape": (2, 3, 3), "axis": 1, "count": 4, "subscript": True, "indexed_axes": 2}
    block = KINDS["gather"].build(config)
    again, _ = recognised(lambda: block(x), motifs, "gather")
    assert (again.op, again.outputs) == (first.op, first.outputs)
    mask = torch.tensor([True, False, True])
    ((*_, by_mask),) = motifs(lambda: x[:, mask])
    assert recognise([by_mask]) is None, "it is searched first, which another block does"


def test_a_cache_that_begins_empty_is_no_piece(motifs: Motifs) -> None:
    empty, keys = torch.ones(0), r(2, 4, 3, 5)
    _, config = recognised(lambda: torch.cat([empty, keys, keys], -2), motifs, "concat")
    assert config == {"shape": (2, 4, 6, 5), "axis": 2, "pieces": 2}


def test_a_norm_of_an_empty_batch_has_no_block() -> None:
    """Its weights and its statistics are not empty."""
    few, none = tensor(8), tensor(0, 8, 4, 4)
    args = [none, few, few, few, few, True, 0.1, 1e-5]
    assert readings([cluster("aten.native_batch_norm.default", args, none, few, few)]) == []


def test_layer_norm_over_two_axes(motifs: Motifs) -> None:
    x, norm = r(2, 3, 6), nn.LayerNorm((3, 6))
    _, config = recognised(lambda: norm(x), motifs, "norm")
    assert config["shape"] == (2, 18)


def test_dropout_is_one_function(motifs: Motifs) -> None:
    """A mask, its division and the product stand for one dropout; what follows is kept."""
    x = r(3, 4)
    _, config = recognised(lambda: torch.relu(F.dropout(x, 0.2)), motifs, "pointwise")
    assert config["functions"] == ("dropout", "relu")


def test_the_skew_of_the_indices_is_kept() -> None:
    cluster = Cluster(
        op="aten.embedding.default",
        phase="forward",
        category="embedding",
        calls=1.0,
        args=(
            {"shape": [10**9, 64], "dtype": "float32"},
            {"shape": [8, 4], "dtype": "int64"},
            -1,
            False,
            True,
        ),
        outputs=({"shape": [8, 4, 64], "dtype": "float32"},),
        skew=Skew(distinct_share=0.5, top1pct_share=0.3, zipf=1.0499),
    )
    assert recognise([cluster]) == (
        "embedding",
        {"rows": 2**20, "width": 64, "indices": 32, "skew": 1.05, "sparse": True},
    )


@pytest.mark.parametrize(
    "run",
    [
        lambda: F.conv_transpose2d(r(1, 2, 4, 4), r(2, 3, 2, 2), dilation=2),
        lambda: F.pad(r(1, 2, 4, 4), (-1, 0)),
        lambda: F.grid_sample(r(1, 2, 4, 4), r(1, 3, 3, 2), mode="nearest", align_corners=False),
        lambda: r(6, 3).scatter_add_(1, torch.zeros(6, 2, dtype=torch.long), r(6, 2)),
        lambda: torch.zeros(3),
        lambda: torch.arange(4) + 1,
        lambda: torch.tensor(1.0) * 2,
        lambda: r(2, 3).max(1),
        lambda: F.adaptive_avg_pool2d(r(1, 2, 8, 8), 4),
        lambda: nn.BatchNorm2d(3, track_running_stats=False)(r(2, 3, 4, 4)),
        lambda: r(5, 2).topk(3, 0),
        lambda: r(5, 2).sort(0),
        lambda: r(5, 2).sort(dim=0, stable=True),
        lambda: torch.tensor(1.0).softmax(0),
        lambda: r(3, 4, 0).softmax(1),
        lambda: r(0, 4) @ r(4, 3),
    ],
)
def test_unknown_operators_are_left_to_others(run: Callable[[], Any], motifs: Motifs) -> None:
    blocks = [recognise(m) for m in motifs(run)]
    assert all(b is None for b in blocks)


def test_what_is_spread_over_a_larger_operand_is_another_blocks_work() -> None:
    small, large = ({"shape": s, "dtype": "float32"} for s in ([8], [4, 8]))
    relu = Cluster(
        op="aten.relu.default",
        phase="forward",
        category="activation",
        calls=1.0,
        args=(small,),
        outputs=(small,),
    )
    add = Cluster(
        op="aten.add.Tensor", phase="forward", category="elementwise", calls=1.0, args=(small, large),
        outputs=(large,),
    )  # fmt: skip
    config = KINDS["pointwise"].from_motif([relu, add])
    assert config == {"shape": (8,), "functions": ("relu",)}
    assert KINDS["pointwise"].scaled(config, 2) == {"shape": (4,), "functions": ("relu",)}


def attended(vectors: Tensor) -> Tensor:
    """DIN's pairs of a candidate and each item of a history."""
    query, keys = vectors[:, 0], vectors[:, 1:]
    queries = query[:, None, :].expand_as(keys)
    return torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)


def test_a_concatenation_beside_a_vector_may_be_a_comparison(motifs: Motifs) -> None:
    """Its block runs the same operators again, on tensors of the same strides."""
    vectors = r(3, 6, 8)
    found = [read for motif in motifs(lambda: attended(vectors)) for read in readings(motif) if read[0] == "comparison"]
    assert found == [("comparison", {"batch": 3, "items": 5, "width": 8, "functions": ("sub", "mul")})]
    block = KINDS["comparison"].build(found[0][1])
    torch.testing.assert_close(block(vectors), attended(vectors))
    again, once = (sorted((c.op, str(c.args)) for m in motifs(run) for c in m)
                   for run in (lambda: block(vectors), lambda: attended(vectors)))  # fmt: skip
    assert again == once


@pytest.mark.parametrize(
    "pieces",
    [
        lambda v: [v[:, 0, None].expand_as(v[:, 1:]), v[:, 1:]],
        lambda v: [v[:, 1:], v[:, 0, None].expand_as(v[:, 1:]), r(3, 5, 8), r(3, 5, 8)],
        lambda v: [v[:, :5], v[:, 1:], r(3, 5, 8), r(3, 5, 8)],
    ],
)
def test_other_concatenations_are_none(pieces: Callable[[Tensor], list[Tensor]], motifs: Motifs) -> None:
    given = pieces(r(3, 6, 8))
    kinds = [kind for motif in motifs(lambda: torch.cat(given, -1)) for kind, _ in readings(motif)]
    assert "concat" in kinds
    assert "comparison" not in kinds
