"""Operator categories: which kind of work an ATen operator does, by its base name.

The tables hold operators without the marks that do not change the kind of work: the in-place underscore
(`relu_`), the list prefix (`_foreach_mul`) and, unless listed, the endings `_forward` and `_backward`.
"""

from __future__ import annotations

import re
from functools import lru_cache

COLLECTIVE = "collective"
CATEGORIES = (
    "convolution", "gemm", "attention", "recurrent", "embedding", "normalization", "softmax",
    "activation", "elementwise", "pooling", "reduction", "fft", "data_arrangement", "sort", "optimizer",
    COLLECTIVE, "other",
)  # fmt: skip

FUSABLE = frozenset({"normalization", "activation", "elementwise", "softmax"})
"""Categories whose operators a compiler attaches to the operator that feeds them."""

SPECIAL_FUNCTIONS = """
    special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
    special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_spherical_bessel_j0
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p igamma igammac
    special_i1e special_log_ndtr special_zeta
    """

_NAMES: dict[str, str] = {
    "convolution": """
        thnn_conv2d slow_conv3d deform_conv2d conv_tbc
        """,
    "gemm": """
        mm addmm bmm baddbmm addbmm mv addmv dot vdot inner linear matmul linalg_matmul matrix_power addr
        ger outer einsum tensordot chain_matmul linalg_multi_dot bilinear _trilinear _addmm_activation
        _int_mm _scaled_mm _scaled_mm_v2 _grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2
        _weight_int4pack_mm _weight_int8pack_mm mkldnn_linear _weight_int4pack_mm_for_cpu
        _mixed_dtypes_linear _sparse_addmm _sparse_mm _sparse_mm_reduce_impl _sparse_sparse_matmul
        sparse_sampled_addmm sspaddmm hspmm smm _sparse_semi_structured_linear
        _sparse_semi_structured_mm _sparse_semi_structured_addmm _cslt_sparse_mm linear_dynamic
        linear_relu_dynamic linear_relu qlinear_pointwise linalg_matrix_exp matrix_exp linear_unpack
        linear_leaky_relu linear_tanh linear_dynamic_fp16 linear_relu_dynamic_fp16
        linear_with_input_q_dq_qweight_dq_output_fp32 linear_with_input_q_dq_qweight_dq_relu_output_fp32
        _linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction
        _transformer_encoder_layer_fwd _dyn_quant_matmul_4bit fbgemm_linear_fp16_weight_fp32_activation kron
        """,
    "attention": """
        scaled_dot_product_attention _native_multi_head_attention _triton_scaled_dot_attention
        _triton_multi_head_attention
        """,
    "recurrent": """
        lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell lstm_mps quantized_lstm
        quantized_gru _cudnn_init_dropout_state
        """,
    "embedding": """
        embedding embedding_dense embedding_sparse embedding_renorm embedding_bag _embedding_bag
        _embedding_bag_forward_only _embedding_bag_dense _embedding_bag_sparse
        _embedding_bag_per_sample_weights index_select gather take take_along_dim index_add index_reduce
        scatter_add scatter_reduce segment_reduce _segment_reduce sparse_mask _sparse_mask_projection
        _coalesce embedding_bag_byte embedding_bag_4bit embedding_byte embedding_4bit
        """,
    "normalization": """
        batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index
        _batch_norm_with_update _batch_norm_with_update_functional _batch_norm_no_update batch_norm_stats
        batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_update_stats
        batch_norm_backward_reduce batch_norm_backward_elemt layer_norm native_layer_norm group_norm
        native_group_norm instance_norm rms_norm _fused_rms_norm renorm _weight_norm _weight_norm_interface
        local_response_norm norm_except_dim
        """,
    "softmax": """
        softmax log_softmax _softmax _log_softmax _safe_softmax _masked_softmax special_softmax
        special_log_softmax _softmax_backward_data _log_softmax_backward_data cross_entropy_loss
        _sparse_softmax _sparse_log_softmax
        """,
    "activation": """
        relu relu6 prelu _prelu_kernel rrelu rrelu_with_noise leaky_relu elu celu selu gelu silu mish
        sigmoid hardsigmoid hardswish hardtanh hardshrink softshrink softplus log_sigmoid tanh threshold glu
        infinitely_differentiable_gelu logit
        """,
    "elementwise": """
        add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow
        float_power neg negative abs absolute sign sgn signbit copysign square sqrt rsqrt reciprocal exp
        exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 xlogy sin cos tan asin acos atan atan2 sinh
        cosh asinh acosh atanh sinc erf erfc erfinv special_erfcx lgamma digamma polygamma mvlgamma i0
        special_i0e special_i1 special_xlog1py special_entr special_ndtri ceil deg2rad rad2deg _conj_physical frexp
        add_relu add_scalar add_scalar_relu mul_relu mul_scalar mul_scalar_relu
        floor round trunc fix frac clamp clip clamp_min clamp_max maximum minimum fmax fmin max_other
        min_other greater greater_equal less less_equal not_equal diff eq ne lt le gt ge isnan isinf
        isfinite isposinf isneginf isclose nan_to_num logical_and logical_or logical_xor logical_not
        bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __lshift__
        __rshift__ __and__ __or__ __xor__ __ilshift__ __irshift__ __iand__ __ior__ __ixor__ where
        masked_fill lerp addcmul addcdiv hypot ldexp heaviside gcd lcm nextafter polar angle conj_physical
        dropout native_dropout _fused_dropout feature_dropout alpha_dropout feature_alpha_dropout
        _masked_scale bernoulli normal uniform exponential geometric log_normal cauchy random poisson
        binomial rand randn rand_like randn_like randint randint_like randperm _standard_gamma
        _sample_dirichlet _standard_gamma_grad _dirichlet_grad rrelu_noise quantize_per_tensor
        quantize_per_tensor_dynamic quantize_per_channel
        dequantize fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask
        _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fused_moving_avg_obs_fq_helper
        fake_quantize_per_tensor_affine_cachemask_backward _amp_update_scale
        _amp_foreach_non_finite_check_and_unscale linalg_cross cross affine_grid_generator cosine_similarity
        mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward
        soft_margin_loss_backward l1_loss_backward kl_div_backward multi_margin_loss_backward
        """,
    "pooling": """
        avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        mkldnn_adaptive_avg_pool2d lp_pool1d lp_pool2d max_unpool2d max_unpool3d quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d
        roi_align _roi_align roi_pool _roi_pool ps_roi_align ps_roi_pool
        """,
    "reduction": """
        sum nansum mean nanmean prod max min amax amin aminmax argmax argmin any all norm linalg_vector_norm
        _is_all_true _is_any_true
        linalg_norm linalg_matrix_norm frobenius_norm nuclear_norm var std var_mean std_mean logsumexp
        special_logsumexp cumsum cumprod cummax cummin _cummax_helper _cummin_helper logcumsumexp
        count_nonzero histc bincount trace dist equal allclose is_nonzero cov corrcoef nll_loss nll_loss_nd
        nll_loss2d nll_loss_backward nll_loss2d_backward mse_loss l1_loss smooth_l1_loss huber_loss
        binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss multi_margin_loss
        multilabel_margin_loss kl_div poisson_nll_loss cosine_embedding_loss triplet_margin_loss
        margin_ranking_loss hinge_embedding_loss ctc_loss _ctc_loss _cudnn_ctc_loss _use_cudnn_ctc_loss
        hash_tensor pairwise_distance _cdist cdist _pdist pdist trapezoid cumulative_trapezoid histogram _euclidean_dist
        """,
    "fft": """
        _fft_r2c _fft_c2r _fft_c2c
        """,
    "data_arrangement": """
        type_as _local_scalar_dense item cat cat_relu concat concatenate stack hstack vstack dstack column_stack
        all_gather_copy_in chunk_cat
        _chunk_cat clone copy _to_copy to contiguous _pin_memory lift lift_fresh_copy detach_copy zeros ones
        full zeros_like ones_like full_like new_zeros new_ones new_full zero fill arange linspace logspace
        eye scalar_tensor tril_indices triu_indices hann_window hamming_window blackman_window
        bartlett_window kaiser_window vander reshape flatten ravel reshape_as unflatten_dense_tensors
        flatten_dense_tensors index _unsafe_index index_put _unsafe_index_put _index_put_impl
        _unsafe_masked_index _unsafe_masked_index_put_accumulate index_copy index_fill scatter slice_scatter
        select_scatter diagonal_scatter as_strided_scatter masked_select masked_scatter
        masked_scatter_backward put roll flip fliplr flipud rot90 repeat repeat_interleave tile tril triu
        diag diagflat diag_embed block_diag cartesian_prod combinations one_hot pad constant_pad_nd
        reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
        replication_pad3d _pad_circular _pad_enum im2col col2im pixel_shuffle pixel_unshuffle
        channel_shuffle native_channel_shuffle grid_sampler grid_sampler_2d grid_sampler_3d
        cudnn_grid_sampler complex _pack_padded_sequence _pad_packed_sequence _cudnn_rnn_flatten_weight
        _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list
        to_padded_tensor _to_sparse_csc _to_sparse_bsr _to_sparse_bsc _nested_from_padded
        nested_to_padded_tensor _jagged_to_padded_dense_forward
        _padded_dense_to_jagged_forward _to_dense to_dense _to_sparse to_sparse _to_sparse_csr to_mkldnn
        _transform_bias_rescale_qkv _reshape_copy view_copy unfold_copy as_strided_copy expand_copy
        diagonal_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy
        t_copy transpose_copy unbind_copy unsqueeze_copy alias_copy narrow_copy view_as_real_copy
        view_as_complex_copy _conj_copy _neg_view_copy _convert_weight_to_int4pack _fft_conj_copy
        """,
    "sort": """
        sort msort argsort topk kthvalue median nanmedian mode quantile nanquantile nonzero nonzero_static
        argwhere unique _unique _unique2 unique_dim unique_consecutive unique_dim_consecutive searchsorted
        bucketize isin multinomial lexsort nms _histogramdd_from_bin_cts
        """,
    "optimizer": """
        _fused_adam _fused_adamw _fused_sgd _fused_adagrad
        """,
}  # fmt: skip

_METADATA_NAMES = """
    view _unsafe_view _reshape_alias view_as t numpy_T mT mH adjoint transpose permute movedim moveaxis
    swapaxes swapdims detach expand expand_as broadcast_to broadcast_tensors slice narrow select split
    split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk tensor_split hsplit vsplit
    dsplit unbind unsqueeze squeeze unflatten as_strided diagonal unfold alias real imag view_as_real
    view_as_complex _conj conj _neg_view resolve_conj resolve_neg positive meshgrid atleast_1d atleast_2d
    atleast_3d empty empty_like empty_strided empty_permuted new_empty new_empty_strided
    _efficientzerotensor resize resize_as set lift_fresh requires_grad retain_grad result_type can_cast
    is_same_size size stride numel dim sym_size sym_stride sym_numel sym_storage_offset sym_constrain_range
    sym_constrain_range_for_size is_contiguous is_coalesced is_pinned is_floating_point is_complex
    _is_zerotensor is_conj is_neg storage_offset _version _has_compatible_shallow_copy_type _nnz sparse_dim
    dense_dim _dimI _dimV _indices indices _values values _coalesced crow_indices col_indices
    _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_coo_tensor_unsafe
    sparse_coo_tensor record_stream _assert_async _assert_scalar _assert_tensor_metadata
    _functional_assert_async _functional_assert_scalar _linalg_check_errors _nested_tensor_size
    _nested_view_from_buffer _nested_view_from_jagged _nested_get_values _nested_get_offsets _nested_get_lengths
    _nested_get_ragged_idx _nested_get_min_seqlen _nested_get_max_seqlen _nested_get_jagged_dummy wait_tensor
    _wrap_tensor_autograd
    _fused_sdp_choice _unpack_dual _make_dual _fw_primal device
    """

_PREFIXES = {
    "attention": (
        "_scaled_dot_product_", "_flash_attention_", "_efficient_attention_", "_cudnn_attention_",
        "flex_attention",
    ),
    "recurrent": (
        "_thnn_fused_", "_thnn_differentiable_", "mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn", "_lstm_",
    ),
    "convolution": (
        "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_depthwise",
        "_conv_depthwise", "slow_conv", "_slow_conv", "cudnn_convolution", "miopen_convolution",
        "miopen_depthwise", "mkldnn_convolution", "qconv",
    ),
    "data_arrangement": ("upsample_", "_upsample_"),
    "pooling": ("max_pool", "mkldnn_max_pool", "fractional_max_pool"),
}  # fmt: skip

_COLLECTIVE_NAMESPACES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor"})
_WITHOUT_DATA = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
"""What comes with collectives and moves nothing itself."""
_BOOKKEEPING_NAMESPACES = frozenset({"profiler", "prim"})

_METADATA = frozenset(_METADATA_NAMES.split())
_CATEGORY_OF = dict.fromkeys(_METADATA, "data_arrangement") | {
    name: category
    for category, names in (*_NAMES.items(), ("elementwise", SPECIAL_FUNCTIONS))
    for name in names.split()
}


def base_name(op: str) -> str:
    """`"aten.add_.Tensor"` -> `"add_"`: the operator without its library and overload."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def namespace(op: str) -> str:
    """`"aten.add_.Tensor"` -> `"aten"`; empty if the name has no library."""
    return op.split(".")[0] if "." in op else ""


@lru_cache(maxsize=4096)
def categorize(op: str, phase: str) -> str:
    """The category of an operator call, one of CATEGORIES; `other` where the operator is not known.

    Whatever runs in phase `optimizer` is the optimizer's work, by whatever operators it is done.
    """
    if namespace(op) in _COLLECTIVE_NAMESPACES:
        return COLLECTIVE
    if phase == "optimizer":
        return "optimizer"
    stem = _stem(op)
    return (
        _lookup(stem)
        or _lookup(re.sub(r"_backward.*$", "", stem))
        or _lookup(re.sub(r"_forward$", "", stem))
        or "other"
    )


@lru_cache(maxsize=4096)
def is_metadata(op: str) -> bool:
    """Whether the operator moves no data: views, empty allocations, questions about a tensor.

    Operators that sometimes copy (`reshape`, `contiguous`, `to`) are not metadata; their cost may be zero.
    """
    if namespace(op) in _BOOKKEEPING_NAMESPACES:
        return True
    if namespace(op) in _COLLECTIVE_NAMESPACES and base_name(op) not in _WITHOUT_DATA:
        return False
    return _stem(op) in _METADATA


def _stem(op: str) -> str:
    name = base_name(op)
    if name in ("max", "min") and op.endswith(".other"):
        return f"{name}_other"  # the binary maximum shares its name with the reduction
    name = name.removeprefix("_foreach_")
    return name if name.endswith("__") else name.removesuffix("_")


def _lookup(stem: str) -> str | None:
    if stem in _CATEGORY_OF:
        return _CATEGORY_OF[stem]
    return next((category for category, prefixes in _PREFIXES.items() if stem.startswith(prefixes)), None)
