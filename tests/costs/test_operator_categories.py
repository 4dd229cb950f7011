"""Names of operators, their categories, and which of them move no data."""

from __future__ import annotations

import pytest

from statsnet.profiling.costs import registered_operators
from statsnet.signatures.categories import (
    base_name,
    categorize,
    is_metadata,
)


@pytest.mark.parametrize(
    ("op", "name"),
    [("aten.add_.Tensor", "add_"), ("torchvision.nms.default", "nms"), ("aten.mm", "mm"), ("mm", "mm")],
)
def test_base_name(op, name):
    assert base_name(op) == name


@pytest.mark.parametrize(
    ("category", "names"),
    [
        ("convolution", "convolution convolution_backward cudnn_convolution conv2d conv_transpose1d"),
        ("gemm", "mm addmm bmm linear _int_mm _grouped_mm addmv dot linear_backward"),
        ("attention", "_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention "
                      "_scaled_dot_product_efficient_attention_backward _flash_attention_forward"),
        ("recurrent", "mkldnn_rnn_layer mkldnn_rnn_layer_backward _cudnn_rnn lstm gru _thnn_fused_lstm_cell "
                      "_thnn_fused_gru_cell_backward"),
        ("embedding", "embedding embedding_dense_backward _embedding_bag index_select gather scatter_add_ "
                      "_embedding_bag_sparse_backward index_add_"),
        ("normalization", "native_batch_norm native_layer_norm_backward cudnn_batch_norm _fused_rms_norm "
                          "native_group_norm_backward"),
        ("softmax", "_softmax _log_softmax_backward_data _safe_softmax"),
        ("activation", "relu relu_ threshold_backward gelu_backward silu hardtanh_ sigmoid tanh_backward"),
        ("elementwise", "add add_ mul where exp masked_fill_ _foreach_mul_ native_dropout bernoulli_"),
        ("pooling", "max_pool2d_with_indices avg_pool2d_backward _adaptive_avg_pool2d"),
        ("reduction", "sum mean amax argmax var cumsum nll_loss_forward mse_loss _ctc_loss"),
        ("fft", "_fft_r2c _fft_c2r _fft_c2c"),
        ("data_arrangement", "cat clone copy_ _to_copy index index_put_ scatter constant_pad_nd roll fill_ "
                             "zeros transpose view slice_backward upsample_bilinear2d_backward im2col tril"),
        ("sort", "sort topk argsort _unique2 nonzero"),
        ("optimizer", "_fused_adam_ _fused_adamw_ _fused_sgd_"),
        ("other", "not_an_operator"),
    ],
)  # fmt: skip
def test_categories(category, names):
    assert {categorize(f"aten.{name}.default", "forward") for name in names.split()} == {category}


def test_maximum_of_two_tensors_is_not_a_reduction():
    assert categorize("aten.max.other", "forward") == "elementwise"
    assert categorize("aten.max.dim", "forward") == "reduction"


def test_phase_and_library_decide_first():
    assert categorize("aten.add_.Tensor", "optimizer") == "optimizer"
    assert categorize("_c10d_functional.all_reduce.default", "backward") == "collective"
    assert categorize("c10d.allreduce_.default", "optimizer") == "collective"
    assert categorize("torchvision.nms.default", "forward") == "sort"
    assert categorize("quantized.linear_dynamic.default", "forward") == "gemm"
    assert categorize("custom.opaque.default", "forward") == "other"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("view _unsafe_view t transpose permute detach expand slice select split unbind unsqueeze squeeze "
         "as_strided empty empty_like new_empty_strided alias lift_fresh set_ resize_ unsqueeze_ detach_ "
         "_values _sparse_coo_tensor_with_dims_and_tensors is_coalesced", True),
        ("clone copy_ reshape contiguous zeros slice_backward select_backward _to_copy add index "
         "_local_scalar_dense view_copy zero_", False),
    ],
)  # fmt: skip
def test_metadata(names, expected):
    assert {is_metadata(f"aten.{name}.default") for name in names.split()} == {expected}


def test_operators_with_a_formula_have_a_category():
    """Linear algebra has no category of its own."""
    other = {n for n in registered_operators() if categorize(n, "forward") == "other"}
    assert {
        n
        for n in other
        if not any(part in n for part in ("linalg_", "cholesky", "geqrf", "ormqr", "lu_", "triangular"))
    } == set()
