"""Matrix products: 2 FLOPs per multiply-add.

A bias (`addmm`, `linear`) starts the accumulation and is free, and so are alpha and beta. A bias scaled by
beta = 0 is not read. A complex product costs as much as four real ones.
"""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import (
    Cost,
    MisfitError,
    OperatorCall,
    SparseSpec,
    dimensions,
    is_complex,
    last_dimension,
    tokens_of,
)
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec


def multiply_add_flops(spec: TensorSpec) -> int:
    """FLOPs of one multiply-add on elements of this type."""
    return 8 if is_complex(spec) else 2


def _per_item(spec: TensorSpec) -> int:
    """Numbers in one element: torch keeps those of four bits in pairs, along the axis that is summed over."""
    return 2 if spec.dtype == "float4_e2m1fn_x2" else 1


@operator_cost(
    "mm", "bmm", "mv", "linalg_matmul", "dot", "vdot", "inner", "matmul", "linear", "mkldnn_linear",
    "_int_mm", "_scaled_mm", "_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
    "_scaled_mm_v2",
)  # fmt: skip
def _product(call: OperatorCall) -> Cost:
    """First operand [..., K]: every output element is a sum of K products."""
    out, left = call.output(), call.tensor(0)
    right = call.maybe_tensor(1)
    if right is not None and (isinstance(left, SparseSpec) or isinstance(right, SparseSpec)):
        return _sparse_product(call, left, right)
    return call.cost(multiply_add_flops(out) * _products(left, right, out))


def _products(left: TensorSpec, right: TensorSpec | None, out: TensorSpec) -> float:
    """Multiply-adds of [..., M, K] x [..., K, N]. Of nested operands K or N may be the longest row's: then the other
    way of counting is the exact one."""
    products = out.numel * last_dimension(left) * _per_item(left)
    if left.squares is None or right is None:
        return products
    return min(products, left.numel * max(1, last_dimension(out)))


@operator_cost("addmm", "baddbmm", "addmv", "_addmm_activation", "_sparse_addmm", "addbmm")
def _product_with_bias(call: OperatorCall) -> Cost:
    """bias, left, right, beta, alpha; `addbmm` also sums over the batch."""
    bias, left, out = call.tensor(0), call.tensor(1), call.output()
    read = call.bytes_in - (bias.nbytes if call.number(3, 1.0) == 0 else 0)
    if isinstance(left, SparseSpec):
        return call.cost(_sparse_product(call, left, call.tensor(2)).flops, read=read)
    summed = dimensions(left, 3)[0] if call.op.startswith("aten.addbmm") else 1
    flops: float = multiply_add_flops(out) * out.numel * last_dimension(left) * summed
    right = call.maybe_tensor(2)
    if isinstance(right, SparseSpec):
        flops = _sparse_product(call, left, right).flops
    if "_activation" in call.op:
        flops += out.numel
    return call.cost(flops, read=read)


def _sparse_product(call: OperatorCall, left: TensorSpec, right: TensorSpec) -> Cost:
    """One multiply-add for each stored element and each row or column of the dense operand. Of two sparse operands the
    pattern is not known: as many as if the elements were spread evenly."""
    per_product = multiply_add_flops(call.output())
    inner = max(1, last_dimension(left))
    if isinstance(left, SparseSpec) and isinstance(right, SparseSpec):
        return call.cost(per_product * _stored(left) * _stored(right) / inner)
    if isinstance(left, SparseSpec):
        return call.cost(per_product * _stored(left) * (1 if len(right.shape) == 1 else last_dimension(right)))
    assert isinstance(right, SparseSpec)
    return call.cost(per_product * _stored(right) * left.numel // inner)


def _stored(spec: SparseSpec) -> int:
    # Row-sparse gradients, as tables of embeddings have, store no scalars of a matrix.
    return spec.entries if spec.elements is None else spec.elements


@operator_cost("_sparse_mm", "_sparse_mm_reduce_impl", "_sparse_sparse_matmul", "smm", "hspmm")
def _sparse_times_dense(call: OperatorCall) -> Cost:
    left, right = call.tensor(0), call.tensor(1)
    if not isinstance(left, SparseSpec) and not isinstance(right, SparseSpec):
        raise MisfitError(f"{call.op}: neither operand is sparse")
    return _sparse_product(call, left, right)


@operator_cost("_sparse_mm_reduce_impl_backward")
def _sparse_times_dense_backward(call: OperatorCall) -> Cost:
    """Sparse operand, gradient, dense operand, ..., mask of wanted gradients at 5: a product for each of these."""
    left, grad = call.tensor(0), call.tensor(1)
    if not isinstance(left, SparseSpec):
        raise MisfitError(f"{call.op}: the operand is not sparse")
    return call.cost(multiply_add_flops(grad) * _stored(left) * last_dimension(grad) * sum(call.mask(5, 2)))


@operator_cost(
    "torch_nn._linear_cross_entropy_batch_chunked", "torch_nn._linear_cross_entropy_batch_chunked_no_reduction",
)  # fmt: skip
def _linear_cross_entropy(call: OperatorCall) -> Cost:
    """x [N, K], weight [V, K], target, ...: a product, and the 4 FLOPs of a logarithm of softmax for each of the N · V
    scores. With reduction, the wanted gradients (12: of x, 13: of the weight) are made too, a product each."""
    x, weight = call.tensor(0), call.tensor(1)
    scores = tokens_of(x) * dimensions(weight, 2)[0]
    gradients = 0 if "no_reduction" in call.op else call.flag(12) + call.flag(13)
    return call.cost((2 * last_dimension(x) * (1 + gradients) + 4) * scores)


@operator_cost("sparse_sampled_addmm")
def _sampled_product(call: OperatorCall) -> Cost:
    """pattern, left, right: a product's elements where the pattern stores some."""
    pattern, left = call.tensor(0), call.tensor(1)
    if not isinstance(pattern, SparseSpec):
        raise MisfitError(f"{call.op}: the pattern is not sparse")
    return call.cost(multiply_add_flops(left) * _stored(pattern) * last_dimension(left))


@operator_cost("addr")
def _rank_one_update(call: OperatorCall) -> Cost:
    return call.cost(multiply_add_flops(call.output()) * call.output().numel)


@operator_cost("ger", "outer", "kron")
def _outer(call: OperatorCall) -> Cost:
    return call.cost(call.output().numel)


@operator_cost("tensordot")
def _tensordot(call: OperatorCall) -> Cost:
    """left, right, contracted dimensions of each."""
    left, out = call.tensor(0), call.output()
    rank = len(left.shape)
    if any(not -rank <= d < rank for d in call.integers(2)):
        raise MisfitError(f"{call.op}: a contracted dimension does not exist")
    return call.cost(multiply_add_flops(out) * out.numel * math.prod(left.shape[d] for d in call.integers(2)))


@operator_cost("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2")
def _grouped(call: OperatorCall) -> Cost:
    """Rows sorted by group, one weight matrix per group (mixture of experts).

    [M, K] x [G, K, N] -> [M, N]; [G, M, K] x [G, K, N] -> [G, M, N]; [G, M, K] x [K, N] -> [M, N];
    [M, K] x [K, N] -> [G, M, N], where the K of all groups add up to the operands'.
    """
    left, right, out = call.tensor(0), call.tensor(1), call.output()
    if len(left.shape) == len(right.shape) == 2:
        return call.cost(2 * left.numel * right.shape[1] * _per_item(left))
    read = float(call.bytes_in)
    if len(right.shape) == 3 and len(left.shape) == 2 and right.shape[0] > 0:
        # No more groups than rows can be used, and the weights of unused ones are not read.
        groups = right.shape[0]
        read -= right.nbytes * (1 - min(groups, left.shape[0]) / groups)
    return call.cost(2 * out.numel * last_dimension(left) * _per_item(left), read=read)


@operator_cost("linear_backward")
def _linear_backward(call: OperatorCall) -> Cost:
    """self, grad_output, weight, output_mask of (input, weight, bias)."""
    x, grad, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    wants_input, wants_weight, wants_bias = call.mask(3, 3)
    products = 2 * grad.numel * last_dimension(x)
    flops = products * (wants_input + wants_weight) + (grad.numel if wants_bias else 0)
    return call.cost(flops, read=grad.nbytes + wants_input * weight.nbytes + wants_weight * x.nbytes)


@operator_cost("matmul_backward")
def _matmul_backward(call: OperatorCall) -> Cost:
    grad, left = call.tensor(0), call.tensor(1)
    return call.cost(2 * grad.numel * last_dimension(left) * sum(call.mask(3, 2)))


@operator_cost("_trilinear")
def _trilinear(call: OperatorCall) -> Cost:
    """Sum over `sumdim` of the product of three tensors broadcast by `expand1..3`: 3 FLOPs per term."""
    rank = len(call.tensor(0).shape) + len(call.integers(3))
    terms = 1
    shapes = [_expanded(call.tensor(i), call.integers(3 + i), rank) for i in range(3)]
    for sizes in zip(*shapes, strict=True):
        terms *= max(sizes)
    return call.cost(3 * terms)


def _expanded(spec: TensorSpec, added: tuple[int, ...], rank: int) -> list[int]:
    shape = list(spec.shape)
    if len(shape) + len(added) != rank:
        raise MisfitError("operands of _trilinear do not match")
    for position in sorted(added):
        shape.insert(position, 1)
    return shape


@operator_cost("_transformer_encoder_layer_fwd")
def _encoder_layer(call: OperatorCall) -> Cost:
    """torch.nn's fused layer: its four weight matrices on every token, attention, two norms, activation."""
    x = call.tensor(0)
    batch, length, width = dimensions(x, 3)
    weights = [t for t in call.inputs[1:] if len(t.shape) == 2 and width in t.shape][:4]  # behind them come masks
    matrices = sum(t.numel for t in weights)
    tokens = tokens_of(x)
    attention = 4 * (batch * length * length if x.squares is None else x.squares) * width
    hidden = max((math.prod(t.shape) // width for t in weights[2:3]), default=0)
    activation = (5 if call.flag(7) else 1) * tokens * hidden
    norms_and_residuals = tokens * width * (2 * 8 + 2)
    return call.cost(2 * tokens * matrices + attention + activation + norms_and_residuals)
