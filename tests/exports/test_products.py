"""Operators as matrix products: closed forms, and the multiply-adds of the cost formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
from clusters import addmm, attention, cluster, convolution, mm, tensor
from hypothesis import given
from hypothesis import strategies as st

from statsnet.exports.lowering import products_of
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.model import Cluster
from statsnet.signatures.products import Product


def products(of: Cluster) -> tuple[Product, ...]:
    return products_of(of.op, of.args, of.outputs)


def macs(of: Cluster) -> float:
    return math.fsum(p.macs for p in products(of))


def sizes(product: Product) -> tuple[int, int, int, int]:
    return product.batch, product.rows, product.columns, product.depth


def test_products_of_matrices() -> None:
    (plain,) = products(mm(7, 11, 5))
    (with_bias,) = products(addmm(7, 11, 5))
    assert sizes(plain) == sizes(with_bias) == (1, 7, 5, 11)
    batched = cluster("aten.bmm.default", [tensor(3, 7, 11), tensor(3, 11, 5)], tensor(3, 7, 5))
    assert [sizes(p) for p in products(batched)] == [(3, 7, 5, 11)]
    vector = cluster("aten.mv.default", [tensor(7, 11), tensor(11)], tensor(7))
    assert [sizes(p) for p in products(vector)] == [(1, 7, 1, 11)]
    linear = cluster("aten.linear.default", [tensor(2, 7, 11), tensor(5, 11), None], tensor(2, 7, 5))
    assert [sizes(p) for p in products(linear)] == [(1, 14, 5, 11)]


def test_a_convolution_is_lowered_and_keeps_its_window() -> None:
    (p,) = products(convolution(tensor(2, 6, 10, 9), tensor(8, 3, 3, 3), stride=2, padding=1, groups=2))
    assert sizes(p) == (2, 2 * 5 * 5, 4, 3 * 9)
    assert p.window is not None
    assert (p.window.images, p.window.groups, p.window.out_size, p.window.padding) == (2, 2, (5, 5), (1, 1))


def test_a_transposed_convolution_visits_its_inputs() -> None:
    (p,) = products(convolution(tensor(2, 6, 5, 5), tensor(6, 4, 2, 2), stride=2, transposed=True))
    assert sizes(p) == (1, 2 * 25, 4 * 4, 6)


def test_attention_is_two_products_for_each_head() -> None:
    dense, causal = attention(2, 3, 10, 8), attention(2, 3, 10, 8, causal=True)
    assert [sizes(p) for p in products(dense)] == [(6, 10, 10, 8), (6, 10, 8, 10)]
    assert [p.density for p in products(causal)] == [pytest.approx(55 / 100)] * 2
    assert macs(causal) == pytest.approx(0.55 * macs(dense))


def test_a_recurrent_layer_is_a_product_for_all_inputs_and_one_for_each_step() -> None:
    steps, batch, width, hidden = 5, 2, 7, 3
    weights = [tensor(4 * hidden, width), tensor(4 * hidden, hidden), tensor(4 * hidden), tensor(4 * hidden)]
    settings = [False, [], 2, hidden, 1, True, False, False, False]
    args = [tensor(steps, batch, width), *weights, *[tensor(1, batch, hidden)] * 2, *settings]
    layer = cluster("aten.mkldnn_rnn_layer.default", args, tensor(steps, batch, hidden))
    inputs, state = products(layer)
    assert sizes(inputs) == (1, steps * batch, 4 * hidden, width) and inputs.times == 1
    assert sizes(state) == (1, batch, 4 * hidden, hidden) and state.times == steps


def test_projections_of_a_recurrent_layer_run_step_by_step() -> None:
    """Two directions of an LSTM with projections: input, state and projection of each."""
    steps, batch, width, hidden, size = 5, 2, 7, 6, 4
    weights = [tensor(4 * hidden, width), tensor(4 * hidden, size), tensor(4 * hidden), tensor(size, hidden)] * 2
    args = [tensor(steps, batch, width), {"tensors": [tensor(2, batch, size)] * 2}, {"tensors": weights}, True, 1,
            0.0, False, True, False]  # fmt: skip
    layer = cluster("aten.lstm.input", args, tensor(steps, batch, 2 * size))
    assert [(p.rows, p.times) for p in products(layer)] == [(10, 1), (2, 5), (2, 5)] * 2


def fused_attention(x: dict[str, Any], key: dict[str, Any], heads: int) -> Cluster:
    width = x["shape"][-1]
    args = [x, key, key, width, heads, tensor(3 * width, width), tensor(3 * width), tensor(width, width), tensor(width)]
    return cluster("aten._native_multi_head_attention.default", args, x, tensor(1))


def fused_layer(x: dict[str, Any], heads: int, hidden: int) -> Cluster:
    width = x["shape"][-1]
    norm = [tensor(width)] * 2
    args = [
        x,
        width,
        heads,
        tensor(3 * width, width),
        tensor(3 * width),
        tensor(width, width),
        tensor(width),
        False,
        False,
        1e-5,
        *norm,
        *norm,
        tensor(hidden, width),
        tensor(hidden),
        tensor(width, hidden),
        tensor(width),
    ]
    return cluster("aten._transformer_encoder_layer_fwd.default", args, x)  # fmt: skip


def test_fused_layers_of_a_transformer() -> None:
    x = tensor(2, 10, 12)
    projections, heads = [(1, 20, 36, 12), (1, 20, 12, 12)], [(6, 10, 10, 4), (6, 10, 4, 10)]
    own, other = fused_attention(x, x, 3), fused_attention(x, tensor(2, 5, 12), 3)
    assert [sizes(p) for p in products(own)] == [projections[0], *heads, projections[1]]
    assert [2 * macs(c) for c in (own, other)] == [own.flops, other.flops]
    found = [sizes(p) for p in products(fused_layer(x, 3, 48))]
    assert found == [projections[0], *heads, projections[1], (1, 20, 48, 12), (1, 20, 12, 48)]


def experts(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]) -> Cluster:
    ends = tensor(4, dtype="int32")
    return cluster("aten._grouped_mm.default", [tensor(*left), tensor(*right), ends, None, None], tensor(*out))


def packed(op: str, x: dict[str, Any], weight: dict[str, Any], out: dict[str, Any]) -> Cluster:
    return cluster(op, [x, {"tensors": [weight, tensor(weight["shape"][0])]}, 0.1, 0], out)


CSR = tensor(64, 48, sparse=300, elements=300, index_bytes=2920)
NESTED = tensor(3, 5, 8, elements=80, squares=38)
OTHER_PRODUCTS = {
    "experts": (experts((25, 16), (4, 16, 32), (25, 32)), [(4, 7, 32, 16)]),
    "fewer rows than experts": (experts((2, 16), (4, 16, 32), (2, 32)), [(2, 1, 32, 16)]),
    "gradient of experts": (experts((16, 24), (24, 32), (4, 16, 32)), [(4, 16, 32, 6)]),
    "experts of a batch": (experts((4, 5, 16), (4, 16, 32), (4, 5, 32)), [(4, 5, 32, 16)]),
    "experts of columns": (experts((4, 5, 16), (16, 32), (5, 32)), [(4, 5, 8, 16)]),
    "sparse on the right": (cluster("aten.mm.default", [tensor(7, 64), CSR], tensor(7, 48)), [(1, 7, 48, 64)]),
    "sparse, reduced": (
        cluster("aten._sparse_mm_reduce_impl.default", [CSR, tensor(48, 20), "sum"], tensor(64, 20)), [(1, 64, 20, 48)]
    ),
    "sparse, sampled": (
        cluster("aten.sparse_sampled_addmm.default", [CSR, tensor(64, 16), tensor(16, 48)], CSR), [(1, 64, 48, 16)]
    ),
    "nested": (
        cluster("aten.linear.default", [NESTED, tensor(16, 8), None], tensor(3, 5, 16, elements=160, squares=38)),
        [(1, 10, 16, 8)],
    ),
    "quantised": (
        packed("quantized.linear_dynamic.default", tensor(2, 3, 8), tensor(16, 8, dtype="qint8"), tensor(2, 3, 16)),
        [(1, 6, 16, 8)],
    ),
    "quantised, of maps": (
        packed("quantized.conv2d_relu.new", tensor(2, 6, 8, 8, dtype="quint8"), tensor(8, 3, 3, 3, dtype="qint8"),
               tensor(2, 8, 4, 4, dtype="quint8")),
        [(2, 32, 4, 27)],
    ),
    "weights of 4 bits": (
        cluster("aten._weight_int4pack_mm.default",
                [tensor(9, 128, dtype="bfloat16"), tensor(8, 1, 32, 4, dtype="int32"), 32,
                 tensor(4, 64, 2, dtype="bfloat16")], tensor(9, 64, dtype="bfloat16")),
        [(1, 9, 64, 128)],
    ),
    "with its loss": (
        cluster("torch_nn._linear_cross_entropy_batch_chunked.default",
                [tensor(6, 8), tensor(10, 8), tensor(6, dtype="int64"), *[None] * 9, True, True], tensor()),
        [(1, 6, 10, 8), (1, 6, 8, 10), (1, 8, 10, 6)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "expected"), OTHER_PRODUCTS.values(), ids=list(OTHER_PRODUCTS))
def test_other_products_have_the_multiply_adds_of_their_formula(
    layer: Cluster, expected: list[tuple[int, int, int, int]]
) -> None:
    assert [sizes(p) for p in products(layer)] == expected
    beside = 4 * 6 * 10 if "loss" in layer.op or "cross_entropy" in layer.op else 0  # a logarithm of softmax
    assert layer.flops is not None and 2 * macs(layer) == pytest.approx(layer.flops - beside)


def test_a_quantised_recurrent_layer_is_that_of_its_packed_weights() -> None:
    weights = [tensor(24, 6, dtype="qint8", times=2), tensor(24, times=2)]  # equal ones, as a signature holds them
    settings = [True, 1, 0.0, False, False, False]
    args = [tensor(5, 3, 6), {"tensors": [tensor(1, 3, 6, times=2)]}, [{"tensors": weights}], *settings]
    layer = cluster("aten.quantized_lstm.input", args, tensor(5, 3, 6))
    assert [(p.rows, p.columns, p.depth, p.times) for p in products(layer)] == [(15, 24, 6, 1), (3, 24, 6, 5)]
    assert layer.flops == 2 * macs(layer) + 9 * 15 * 6


def test_a_product_of_complex_numbers_is_four_of_real_ones() -> None:
    left, right, out = (tensor(*shape, dtype="complex64") for shape in ((7, 11), (11, 5), (7, 5)))
    layer = cluster("aten.mm.default", [left, right], out)
    assert 2 * macs(layer) == layer.flops == 8 * 7 * 11 * 5


def test_the_gradients_of_a_convolution_are_two_products() -> None:
    forward = convolution(tensor(2, 6, 10, 10), tensor(8, 6, 3, 3), padding=1)
    grad, x, weight = forward.outputs[0], forward.args[0], forward.args[1]
    args = [grad, x, weight, [0], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]]
    backward = cluster("aten.convolution_backward.default", args, x, weight)
    assert macs(backward) == 2 * macs(forward)


@pytest.mark.parametrize("op", ["aten.relu.default", "custom.opaque.default", "aten.mm.default"])
def test_what_is_no_product_or_not_known_has_none(op: str) -> None:
    assert products_of(op, [None, None], []) == ()


RANGES = {
    "images": (1, 3), "channels": (1, 4), "filters": (1, 4), "groups": (1, 3), "size": (4, 9), "kernel": (1, 3),
    "axes": (1, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (1, 2), "transposed": (0, 1),
}  # fmt: skip
sizes_of_convolutions = st.fixed_dictionaries({name: st.integers(*ends) for name, ends in RANGES.items()})


@given(sizes_of_convolutions)
def test_a_convolution_has_the_multiply_adds_of_its_formula(s: dict[str, Any]) -> None:
    if s["dilation"] * (s["kernel"] - 1) + 1 > s["size"]:
        return
    kernel, g = [s["kernel"]] * s["axes"], s["groups"]
    first, second = (s["channels"] * g, s["filters"]) if s["transposed"] else (s["filters"] * g, s["channels"])
    layer = convolution(
        tensor(s["images"], s["channels"] * g, *[s["size"]] * s["axes"]), tensor(first, second, *kernel),
        stride=s["stride"], padding=min(s["padding"], s["kernel"] - 1), dilation=s["dilation"], groups=g,
        transposed=bool(s["transposed"]),
    )  # fmt: skip
    assert 2 * macs(layer) == layer.flops


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_products_of_profiled_models_have_the_multiply_adds_of_the_formulas(mode: str) -> None:
    """A convolution's gradient also sums up a bias's, and a recurrent layer has pointwise work."""
    entries = [e for e in ProfilesDB().entries if e.mode == mode and e.domain in ("speech", "nlp", "cv")]
    assert len(entries) > 5
    checked = 0
    for entry in entries[::4]:
        for c in entry.load().clusters:
            if c.category not in ("convolution", "gemm", "attention", "recurrent") or not c.flops:
                continue
            checked += 1
            extra = 0.25 if c.category == "recurrent" else 0.07 if "convolution_backward" in c.op else 1e-8
            assert (1 - extra) * c.flops <= 2 * macs(c) <= (1 + 1e-8) * c.flops, (entry.name, c.op)
    assert checked > 50
