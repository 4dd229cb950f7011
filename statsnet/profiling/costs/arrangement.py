"""Data arrangement: no FLOPs, only bytes. Copies read and write, fills write, also with random numbers."""

from __future__ import annotations

from statsnet.profiling.costs.call import ZERO, Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost, operator_costs


@operator_cost(
    "clone", "_to_copy", "cat", "concat", "concatenate", "hstack", "vstack", "dstack", "stack",
    "_chunk_cat", "lift_fresh_copy", "_pin_memory", "flip", "roll", "rot90", "repeat", "repeat_interleave",
    "tile", "tril", "triu", "diag", "diag_embed", "block_diag", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle", "native_channel_shuffle", "pad", "constant_pad_nd", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "_pad_circular", "_pad_enum", "complex", "masked_select", "im2col", "_pack_padded_sequence",
    "_cudnn_rnn_flatten_weight", "_reshape_copy", "view_copy", "unfold_copy", "as_strided_copy",
    "expand_copy", "diagonal_copy", "permute_copy", "select_copy", "slice_copy", "split_copy",
    "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy", "unsqueeze_copy",
    "alias_copy", "view_as_real_copy", "view_as_complex_copy", "_conj_copy", "to_mkldnn", "_to_dense",
    "to_dense", "_to_sparse", "_to_sparse_csr", "one_hot", "masked_scatter_backward", "slice_backward",
    "select_backward", "diagonal_backward", "_transform_bias_rescale_qkv", "cartesian_prod",
    "_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned", "to_padded_tensor", "nested_to_padded_tensor",
    "_nested_from_padded", "_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward",
    "_nested_tensor_from_tensor_list", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc",
)  # fmt: skip
def _copy(call: OperatorCall) -> Cost:
    """Inputs and outputs count once. Gradients of views also write the zeros around them."""
    return call.cost()


@operator_cost("copy_", "copy")
def _copy_in_place(call: OperatorCall) -> Cost:
    """self, source: the destination is overwritten, not read."""
    destination = call.tensor(0)
    return call.cost(read=call.tensor(1).nbytes, written=destination.nbytes)


@operator_cost(
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full",
    "zero_", "arange", "linspace", "logspace", "eye", "scalar_tensor", "tril_indices", "triu_indices",
    "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window",
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal_", "uniform_",
    "exponential_", "geometric_", "log_normal_", "cauchy_", "random_", "aten.bernoulli_.float",
)  # fmt: skip
def _fill(call: OperatorCall) -> Cost:
    """A tensor that is only overwritten, or only gives its shape, is not read. Drawing a number counts no FLOPs."""
    return call.cost(read=0)


operator_costs(
    {
        # Parameters are read: one draw per element
        "bernoulli normal poisson binomial": lambda call: call.cost(call.output().numel),
        "_standard_gamma _sample_dirichlet": lambda call: call.cost(call.output().numel),
        "aten.bernoulli_.Tensor": lambda call: call.cost(call.output().numel, read=call.tensor(1).nbytes),
    }
)


@operator_cost("fill_", "fill")
def _fill_in_place(call: OperatorCall) -> Cost:
    """self, value: the value may be a tensor. What self holds is not read."""
    return call.cost(read=call.bytes_in - call.tensor(0).nbytes)


@operator_cost("reshape", "flatten", "contiguous", "ravel", "reshape_as")
def _maybe_copy(call: OperatorCall) -> Cost:
    """A copy if a strided input becomes contiguous, else a view."""
    x, out = call.tensor(0), call.output()
    copied = x.strides is not None and out.strides is None
    return call.cost(read=x.nbytes) if copied else ZERO


@operator_cost("to", "type_as")
def _convert(call: OperatorCall) -> Cost:
    """A copy unless nothing about the tensor changes (a transfer between devices is not recognised)."""
    x = call.tensor(0)
    return ZERO if x == call.output() else call.cost(read=x.nbytes)


@operator_cost("narrow_copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
def _part_copied(call: OperatorCall) -> Cost:
    """A part of self, or a copy of self with a part from another source: each element of the result is read once."""
    return call.cost(read=call.output().nbytes)


@operator_cost("unfold_backward", "col2im")
def _overlap_add(call: OperatorCall) -> Cost:
    """Windows that overlap are added up."""
    return call.cost(call.tensor(0).numel)


@operator_cost("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
               "replication_pad1d_backward", "replication_pad2d_backward",
               "replication_pad3d_backward")  # fmt: skip
def _pad_backward(call: OperatorCall) -> Cost:
    """grad, self (for its shape): one addition per element of the gradient."""
    grad = call.tensor(0)
    return call.cost(grad.numel, read=grad.nbytes)
