"""Element-wise families, activations, poolings, reductions, sorting, transforms."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

N = 24


@pytest.mark.parametrize(
    ("function", "name", "flops"),
    [
        (lambda x: x + x, "add", N),
        (lambda x: torch.add(x, x, alpha=3), "add", 2 * N),
        (lambda x: x * 2, "mul", N),
        (lambda x: torch.div(x, x, rounding_mode="floor"), "div", 2 * N),
        (lambda x: x > 0, "gt", N),
        (lambda x: x.exp(), "exp", N),
        (lambda x: x**3, "pow", N),
        (lambda x: x.clamp(-1, 1), "clamp", 2 * N),
        (lambda x: x.clamp(max=1), "clamp", N),
        (lambda x: torch.lerp(x, x, 0.5), "lerp", 3 * N),
        (lambda x: torch.addcmul(x, x, x), "addcmul", 2 * N),
        (lambda x: torch.addcdiv(x, x, x, value=0.1), "addcdiv", 3 * N),
        (lambda x: torch.where(x > 0, x, x), "where", N),
        (lambda x: x.masked_fill(x > 0, 0.0), "masked_fill", N),
        (lambda x: torch.maximum(x, x), "maximum", N),
        (lambda x: x.relu(), "relu", N),
        (lambda x: F.silu(x), "silu", 2 * N),
        (lambda x: F.gelu(x), "gelu", 5 * N),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu", 9 * N),
        (lambda x: F.hardswish(x), "hardswish", 5 * N),
        (lambda x: F.glu(x), "glu", N),
        (lambda x: F.softplus(x), "softplus", 3 * N),
        (lambda x: x.sum(), "sum", N),
        (lambda x: x.sum(0), "sum", N),
        (lambda x: x.mean(1), "mean", N + 4),
        (lambda x: x.var(), "var", 4 * N),
        (lambda x: x.argmax(), "argmax", N),
        (lambda x: x.logsumexp(1), "logsumexp", 4 * N),
        (lambda x: torch.linalg.vector_norm(x), "linalg_vector_norm", 2 * N),
        (lambda x: x.cumsum(0), "cumsum", N),
        (lambda x: x[:, :4].trace(), "trace", 4),
        (lambda x: x.sort(1), "sort", N * math.log2(6)),
        (lambda x: x.sort(dim=0, stable=True), "sort", N * 2),
        (lambda x: x.topk(4), "topk", N * 2),
        (lambda x: torch.bucketize(x, torch.arange(8.0)), "bucketize", N * 3),
    ],
)
def test_flops_per_element(cost, function, name, flops):
    x = torch.randn(4, 6)
    assert cost(lambda: function(x), name).flops == pytest.approx(flops)


@pytest.mark.parametrize(
    ("function", "name", "per_element"),
    [
        (torch.relu, "threshold_backward", 1), (torch.sigmoid, "sigmoid_backward", 3),
        (torch.tanh, "tanh_backward", 3), (F.gelu, "gelu_backward", 11), (F.silu, "silu_backward", 6),
        (F.leaky_relu, "leaky_relu_backward", 2), (F.hardtanh, "hardtanh_backward", 2),
        (F.softplus, "softplus_backward", 5), (lambda x: F.gelu(x, approximate="tanh"), "gelu_backward", 18),
    ],
)  # fmt: skip
def test_activation_gradients(cost, function, name, per_element):
    x = torch.randn(4, 6, requires_grad=True)
    assert cost(lambda: function(x).pow(2).sum().backward(), name).flops == per_element * N


def test_in_place_reads_and_writes_its_own(cost):
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    got = cost(lambda: x.add_(y), "add_")
    assert (got.flops, got.bytes_read, got.bytes_written) == (N, 2 * 4 * N, 4 * N)


def test_destinations_are_not_read(cost):
    x, out = torch.randn(4, 6), torch.empty(4, 6)
    got = cost(lambda: torch.maximum(x, x, out=out), "maximum")
    assert (got.bytes_read, got.bytes_written) == (2 * 4 * N, 4 * N)


def test_broadcasting_reads_the_small_operand_once(cost):
    got = cost(lambda: torch.randn(4, 6) * torch.randn(6).expand(4, 6), "mul")
    assert got.bytes_read == 4 * (N + 6)


def test_complex_arithmetic(cost):
    x = torch.randn(4, 6, dtype=torch.complex64)
    assert cost(lambda: x * x, "mul").flops == 6 * N
    assert cost(lambda: x + x, "add").flops == 2 * N


def test_dropout_of_training_and_inference(cost, meta):
    with torch.inference_mode():
        assert cost(lambda: F.dropout(meta(4, 6), training=False), "dropout").bytes_read == 0
        assert cost(lambda: F.dropout(meta(4, 6), training=True), "dropout").flops == 3 * N


def test_poolings(cost, meta):
    x = meta(2, 3, 8, 8)
    got = cost(lambda: F.max_pool2d(x, 3, 2, return_indices=True), "max_pool2d_with_indices")
    assert (got.flops, got.bytes_written) == (2 * 3 * 9 * 9, 2 * 3 * 9 * (4 + 8))
    assert cost(lambda: F.avg_pool2d(x, (2, 4)), "avg_pool2d").flops == 2 * 3 * 4 * 2 * 8
    got = cost(lambda: F.adaptive_avg_pool2d(x, 2), "_adaptive_avg_pool2d")
    assert got.flops == 2 * 3 * 64 + 2 * 3 * 4


def test_pooling_gradients_do_not_read_the_input(cost):
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    got = cost(lambda: F.max_pool2d(x, 2).sum().backward(), "max_pool2d_with_indices_backward")
    assert got.bytes_read == 4 + 2 * 3 * 16 * 8  # a broadcast gradient of one element, and the indices
    got = cost(lambda: F.avg_pool2d(x, 2).pow(2).sum().backward(), "avg_pool2d_backward")
    assert (got.flops, got.bytes_read) == (96 * 5, 4 * 96)


@pytest.mark.parametrize(("mode", "taps"), [("nearest", 0), ("bilinear", 4), ("bicubic", 16)])
def test_upsampling(cost, meta, mode, taps):
    got = cost(lambda: F.interpolate(meta(1, 2, 4, 4), scale_factor=2, mode=mode), f"upsample_{mode}2d")
    assert got.flops == 2 * taps * 2 * 64


def test_grid_sample(cost, meta):
    got = cost(lambda: F.grid_sample(meta(1, 2, 8, 8), meta(1, 5, 5, 2), align_corners=False), "grid_sampler_2d")
    assert got.flops == 2 * 4 * 2 * 25


def test_fourier_transforms(cost):
    x = torch.randn(3, 16)
    assert cost(lambda: torch.fft.rfft(x), "_fft_r2c").flops == 2.5 * 48 * 4
    c = torch.randn(3, 16, dtype=torch.complex64)
    assert cost(lambda: torch.fft.fft(c), "_fft_c2c").flops == 5 * 48 * 4
    assert cost(lambda: torch.fft.fft2(c[:, :4].reshape(3, 4)), "_fft_c2c").flops == pytest.approx(
        5 * 12 * math.log2(12)
    )


def test_linear_algebra(cost):
    a = torch.eye(6) * 2
    assert cost(lambda: torch.linalg.cholesky(a), "linalg_cholesky_ex").flops == 6**3 / 3
    assert cost(lambda: torch.linalg.inv(a), "linalg_inv_ex").flops == 2 * 6**3


LONG = torch.eye(10, 6)
"""10 × 6: by figure 8.6.1 of Golub and Van Loan, both ways of computing singular values cost about the same."""


@pytest.mark.parametrize(("function", "op", "flops"), [
    (lambda a: torch.linalg.eigh(a), "_linalg_eigh", 9 * 6**3),
    (lambda a: torch.ops.aten._linalg_eigh(a, "L", False), "_linalg_eigh", 4 / 3 * 6**3),
    (lambda a: torch.linalg.eig(a), "linalg_eig", 25 * 6**3),
    (lambda a: torch.ops.aten._linalg_svd(LONG, False, False), "_linalg_svd", 2 * 10 * 6**2 + 2 * 6**3),
    (lambda a: torch.linalg.svd(LONG.mT, full_matrices=False), "_linalg_svd", 6 * 10 * 6**2 + 20 * 6**3),
    (lambda a: torch.linalg.svd(torch.eye(7, 6)), "_linalg_svd", 4 * 49 * 6 + 8 * 7 * 36 + 9 * 216),
    (lambda a: torch.linalg.matrix_exp(a.expand(3, 6, 6)), "linalg_matrix_exp", 3 * 5 * 2 * 6**3),
    (lambda a: torch.linalg.lu(LONG), "linalg_lu", 36 * (10 - 2)),
    (lambda a: torch.geqrf(LONG), "geqrf", 2 * 36 * (10 - 2)),
    (lambda a: torch.linalg.householder_product(LONG, torch.ones(6)), "linalg_householder_product",
     4 * 360 - 2 * 16 * 36 + 4 / 3 * 216),
    (lambda a: torch.ormqr(LONG, torch.ones(6), torch.ones(10, 2)), "ormqr", 4 * 10 * 2 * 6 - 2 * 2 * 36),
    (lambda a: torch.linalg.lstsq(LONG, torch.ones(10, 3)), "linalg_lstsq", 576 + 3 * (4 * 60 - 36)),
    (lambda a: torch.cholesky_inverse(a), "cholesky_inverse", 2 / 3 * 6**3),
    (lambda a: torch.linalg.cholesky(a.to(torch.complex64)), "linalg_cholesky_ex", 4 * 6**3 / 3),
    (lambda a: torch.linalg.pinv(LONG), "linalg_pinv", 6 * 360 + 20 * 216 + 2 * 360),
])  # fmt: skip
def test_decompositions_by_the_textbook(cost, function, op, flops):
    assert cost(lambda: function(torch.eye(6) * 2), op).flops == pytest.approx(flops)


def test_solves_and_determinants(cost):
    a, b = torch.eye(6) * 2, torch.ones(6, 4)
    assert cost(lambda: torch.cholesky_solve(b, a), "cholesky_solve").flops == 4 * 2 * 6**2
    assert cost(lambda: torch.linalg.slogdet(a), "_linalg_slogdet").flops == 2 * 6**3 / 3
    assert cost(lambda: torch.logdet(a), "_linalg_slogdet").flops == 2 * 6**3 / 3


def test_fake_quantisation_with_an_observer(cost):
    fake = torch.ao.quantization.FusedMovingAvgObsFakeQuantize()
    got = cost(lambda: fake(torch.ones(N)), "_fused_moving_avg_obs_fq_helper")
    assert got.flops == 9 * N


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "row_bytes"), [("float_qparams_weight_only_qconfig", 16 + 8),
                                                 ("float_qparams_weight_only_qconfig_4bit", 8 + 4)])  # fmt: skip
def test_packed_tables(cost, name, row_bytes):
    """Rows of 16 elements in a byte or half a byte, each with its scale and bias."""

    def packed(module):
        module.qconfig = getattr(torch.ao.quantization, name)
        return torch.ao.quantization.convert(torch.ao.quantization.prepare(torch.nn.Sequential(module)))

    bits = "4bit" if "4bit" in name else "byte"
    indices, bag = torch.tensor([[1, 2, 3], [4, 5, 6]]), packed(torch.nn.EmbeddingBag(50, 16, mode="sum"))
    if bits == "byte":
        table = packed(torch.nn.Embedding(50, 16))
        got = cost(lambda: table(indices), "embedding_byte")
        assert (got.flops, got.bytes_read) == (2 * 6 * 16, 6 * row_bytes + 6 * 8)
    got = cost(lambda: bag(indices), f"embedding_bag_{bits}")
    assert (got.flops, got.bytes_read, got.bytes_written) == (3 * 6 * 16, 6 * row_bytes + 6 * 8, 2 * 16 * 4)
