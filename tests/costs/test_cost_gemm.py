"""Matrix products against closed forms."""

from __future__ import annotations

import pytest
import torch
from clusters import tensor

from statsnet.profiling.costs import cost_of


def test_mm(cost, meta):
    got = cost(lambda: meta(3, 5) @ meta(5, 7), "mm")
    assert got == type(got)(2 * 3 * 5 * 7, 4 * (15 + 35), 4 * 21)


def test_bias_of_addmm_is_free_and_read(cost, meta):
    got = cost(lambda: torch.addmm(meta(7), meta(3, 5), meta(5, 7)), "addmm")
    assert got.flops == 2 * 3 * 5 * 7
    assert got.bytes_read == 4 * (7 + 15 + 35)


def test_bias_times_zero_is_not_read(cost, meta):
    got = cost(lambda: torch.baddbmm(meta(2, 3, 7), meta(2, 3, 5), meta(2, 5, 7), beta=0), "baddbmm")
    assert got.flops == 2 * 2 * 3 * 5 * 7
    assert got.bytes_read == 4 * 2 * (15 + 35)


def test_broadcast_operand_is_read_once(cost, meta):
    got = cost(lambda: torch.bmm(meta(4, 3, 5), meta(5, 7).expand(4, 5, 7)), "bmm")
    assert got.flops == 2 * 4 * 3 * 5 * 7
    assert got.bytes_read == 4 * (60 + 35)


@pytest.mark.parametrize(
    ("make", "name", "flops"),
    [
        (lambda m: torch.addbmm(m(3, 7), m(2, 3, 5), m(2, 5, 7)), "addbmm", 2 * 2 * 3 * 5 * 7),
        (lambda m: torch.mv(m(3, 5), m(5)), "mv", 2 * 15),
        (lambda m: torch.addmv(m(3), m(3, 5), m(5)), "addmv", 2 * 15),
        (lambda m: torch.dot(m(5), m(5)), "dot", 10),
        (lambda m: torch.addr(m(3, 5), m(3), m(5)), "addr", 2 * 15),
    ],
)
def test_products(cost, meta, make, name, flops):
    assert cost(lambda: make(meta), name).flops == flops


def test_linear_and_matmul_stay_whole_in_inference_mode(cost, meta):
    with torch.inference_mode():
        x, w, b = meta(2, 4, 5), meta(7, 5), meta(7)
        assert cost(lambda: torch.nn.functional.linear(x, w, b), "linear").flops == 2 * 8 * 5 * 7
        assert cost(lambda: torch.matmul(x, meta(2, 5, 3)), "matmul").flops == 2 * 8 * 5 * 3


def test_tensordot(cost, meta):
    with torch.inference_mode():
        got = cost(lambda: torch.tensordot(meta(2, 3, 4), meta(4, 3, 5), ([2, 1], [0, 1])), "tensordot")
    assert got.flops == 2 * 2 * 5 * 12


def test_complex_products_cost_four_real_ones(cost, meta):
    c64 = torch.complex64
    got = cost(lambda: meta(3, 5, dtype=c64) @ meta(5, 7, dtype=c64), "mm")
    assert got.flops == 8 * 3 * 5 * 7
    assert got.bytes_read == 8 * 50


def test_integer_and_scaled_products():
    got = cost_of("aten._int_mm.default", [tensor(32, 64, dtype="int8"), tensor(64, 16, dtype="int8")],
                  [tensor(32, 16, dtype="int32")])  # fmt: skip
    assert (got.flops, got.bytes_read, got.bytes_written) == (2 * 32 * 64 * 16, 3072, 2048)
    fp8 = "float8_e4m3fn"
    args = [tensor(32, 64, dtype=fp8), tensor(64, 16, dtype=fp8), tensor(), tensor(), None, None, None, False]
    got = cost_of("aten._scaled_mm.default", args, [tensor(32, 16, dtype="bfloat16")])
    assert (got.flops, got.bytes_read) == (2 * 32 * 64 * 16, 3072 + 8)


def test_numbers_of_four_bits_lie_in_pairs():
    fp4, out = "float4_e2m1fn_x2", tensor(32, 16, dtype="bfloat16")
    scales = {"tensors": [tensor(128, 8, dtype="float8_e4m3fn")]}
    args = [tensor(32, 64, dtype=fp4), tensor(64, 16, dtype=fp4), scales, [1], [1], scales, [1], [1], None, None]
    got = cost_of("aten._scaled_mm_v2.default", args, [out])
    assert (got.flops, got.bytes_read) == (2 * 32 * 128 * 16, 32 * 64 + 64 * 16 + 2 * 1024)
    args[1], args[8] = tensor(4, 64, 16, dtype=fp4), tensor(4, dtype="int32")
    grouped = cost_of("aten._scaled_grouped_mm_v2.default", args, [out])
    assert (grouped.flops, grouped.bytes_read) == (got.flops, got.bytes_read + 3 * 64 * 16 + 16)


def test_grouped_products_of_a_mixture_of_experts():
    weights, offsets = tensor(8, 64, 128), tensor(8, dtype="int32")
    many = cost_of("aten._grouped_mm.default", [tensor(100, 64), weights, offsets, None, None], [tensor(100, 128)])
    assert many.flops == 2 * 100 * 64 * 128
    assert many.bytes_read == 4 * (100 * 64 + 8 * 64 * 128 + 8)
    few = cost_of("aten._grouped_mm.default", [tensor(2, 64), weights, offsets, None, None], [tensor(2, 128)])
    assert few.bytes_read == 4 * (2 * 64 + 2 * 64 * 128 + 8)  # two rows use at most two experts


def test_grouped_products_of_the_weights_gradient():
    args = [tensor(64, 100), tensor(100, 128), tensor(8, dtype="int32"), None, None]
    got = cost_of("aten._grouped_mm.default", args, [tensor(8, 64, 128)])
    assert got.flops == 2 * 64 * 100 * 128


def test_linear_backward_honours_its_mask():
    x, grad, w = tensor(10, 6), tensor(10, 4), tensor(4, 6)
    outputs = [x, None, None]
    got = cost_of("aten.linear_backward.default", [x, grad, w, [True, False, False]], outputs)
    assert got.flops == 2 * 10 * 6 * 4
    assert got.bytes_read == 4 * (40 + 24)
    both = cost_of("aten.linear_backward.default", [x, grad, w, [True, True, True]], [x, w, tensor(4)])
    assert both.flops == 2 * got.flops + 40


def test_trilinear(cost):
    layer = torch.nn.Bilinear(4, 5, 6)
    got = cost(lambda: layer(torch.randn(3, 4), torch.randn(3, 5)), "_trilinear")
    assert got.flops == 3 * 3 * 6 * 4 * 5


def test_sparse_matrix_counts_its_entries():
    sparse = tensor(100, 100, sparse=250)
    got = cost_of("aten._sparse_addmm.default", [tensor(100, 8), sparse, tensor(100, 8), 0, 1], [tensor(100, 8)])
    assert got.flops == 2 * 250 * 8
    left = cost_of("aten._sparse_addmm.default", [tensor(100, 8), sparse, tensor(100, 8), 0, 1], [tensor(100, 8)])
    added = cost_of("aten._sparse_addmm.default", [tensor(100, 8), sparse, tensor(100, 8), 1, 1], [tensor(100, 8)])
    assert added.bytes_read - left.bytes_read == 100 * 8 * 4, "what is added times 0 is not read"


def test_transformer_encoder_layer(cost):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with torch.no_grad():
        got = cost(lambda: layer(torch.randn(3, 5, 16)), "_transformer_encoder_layer_fwd")
    tokens, products = 15, 4 * 16 * 16 + 2 * 16 * 32
    attention, norms, relu = 4 * 3 * 25 * 16, tokens * 16 * 18, tokens * 32
    assert got.flops == 2 * tokens * products + attention + norms + relu


def test_a_mask_of_its_width_is_no_weight_of_it():
    x, width = tensor(3, 16, 16), 16
    weights = [tensor(48, 16), tensor(48), tensor(16, 16), tensor(16)]
    norms = [tensor(16)] * 4
    ffn = [tensor(32, 16), tensor(32), tensor(16, 32), tensor(16)]
    args = [x, width, 2, *weights, False, False, 1e-5, *norms, *ffn]
    name = "aten._transformer_encoder_layer_fwd.default"
    plain, masked = (cost_of(name, [*args, mask], [x]) for mask in (None, tensor(16, 16, dtype="bool")))
    assert masked.flops == plain.flops


def test_where_results_go_is_not_read():
    x, values, indices = tensor(10, 10), tensor(10, 2), tensor(10, 2, dtype="int64")
    args = [x, 2, -1, True, True]
    plain = cost_of("aten.topk.default", args, [values, indices])
    assert cost_of("aten.topk.values", [*args, values, indices], [values, indices]) == plain
