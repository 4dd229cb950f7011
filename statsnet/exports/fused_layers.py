"""Operators that hold several matrix products: attention, experts, layers of torch.nn, recurrent layers, gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from statsnet.profiling.costs.attention import attended
from statsnet.profiling.costs.call import MisfitError, OperatorCall, dimensions, last_dimension, tokens_of
from statsnet.profiling.costs.quantized import packed_weights
from statsnet.signatures.operators import TensorSpec
from statsnet.signatures.products import Product


def gradients(rows: int, columns: int, depth: int, wants_left: bool, wants_right: bool, **more: Any) -> list[Product]:
    """The gradients of [rows, depth] x [depth, columns] with respect to its left and its right side."""
    made = []
    if wants_left:
        made.append(Product(rows=rows, columns=depth, depth=columns, **more))
    if wants_right:
        made.append(Product(rows=depth, columns=columns, depth=rows, **more))
    return made


def grouped(call: OperatorCall) -> list[Product]:
    """A product for each group (expert). Which of them takes how many rows is not recorded, so each has as many; what
    does not divide evenly is in `times`. Shapes are those of the cost formula (costs/gemm.py)."""
    left, right, out = call.tensor(0), call.tensor(1), call.output()
    depth, columns = last_dimension(left), last_dimension(right)
    if len(left.shape) == len(right.shape) == 2:
        groups = out.shape[0] if len(out.shape) == 3 else 1
        size, times = _evenly(depth, groups)
        return [Product(rows=left.shape[0], columns=columns, depth=size, batch=groups, times=times)]
    if len(right.shape) == 2:
        size, times = _evenly(columns, left.shape[0])
        return [Product(rows=left.shape[1], columns=size, depth=depth, batch=left.shape[0], times=times)]
    groups, rows = right.shape[0], left.numel // depth
    used = min(groups, rows)  # no more groups than rows can be used
    size, times = _evenly(rows, used)
    return [Product(rows=size, columns=columns, depth=depth, batch=used, times=times)]


def _evenly(size: int, groups: int) -> tuple[int, float]:
    """The size of each group, and what makes up for rounding it up."""
    each = -(-size // groups)
    return each, size / (each * groups)


def linear_backward(call: OperatorCall) -> list[Product]:
    x, grad = call.tensor(0), call.tensor(1)
    wants_input, wants_weight, _ = call.mask(3, 3)
    inputs, outputs = last_dimension(x), last_dimension(grad)
    return gradients(x.numel // inputs, outputs, inputs, wants_input, wants_weight)


def matmul_backward(call: OperatorCall) -> list[Product]:
    """grad, left, right, mask; of nested rows times a matrix."""
    grad, left, right = call.tensor(0), call.tensor(1), call.tensor(2)
    if right.squares is not None or len(right.shape) != 2:
        raise MisfitError("products of their own sizes")
    return gradients(tokens_of(grad), last_dimension(grad), last_dimension(left), *call.mask(3, 2))


def with_loss(call: OperatorCall) -> list[Product]:
    """x [N, K] and weight [V, K] with their cross entropy. With reduction, the wanted gradients (12: of x, 13: of the
    weight) are made too."""
    x, (classes, width) = call.tensor(0), dimensions(call.tensor(1), 2)
    tokens, reduces = tokens_of(x), "no_reduction" not in call.op
    wanted = (reduces and call.flag(12), reduces and call.flag(13))
    return [Product(rows=tokens, columns=classes, depth=width), *gradients(tokens, classes, width, *wanted)]


def attention(call: OperatorCall) -> list[Product]:
    """Queries times keys, then weights times values; backward also the three gradients, with the scores again."""
    a = attended(call)
    density = a.pairs / (a.batch * a.queries * a.keys)
    scores = Product(rows=a.queries, columns=a.keys, depth=a.width, batch=a.batch, density=density)
    mixed = Product(rows=a.queries, columns=a.value_width, depth=a.keys, batch=a.batch, density=density)
    if not a.backward:
        return [scores, mixed]
    more = {"batch": a.batch, "density": density}
    return [scores, *gradients(a.queries, a.value_width, a.keys, True, True, **more),
            *gradients(a.queries, a.keys, a.width, True, True, **more)]  # fmt: skip


def multi_head_attention(call: OperatorCall) -> list[Product]:
    """torch.nn's fused path: queries, keys and values of one product where they have one input, attention, output."""
    query, key = call.tensor(0), call.tensor(1)
    width, tokens, others = last_dimension(query), tokens_of(query), tokens_of(key)
    output = Product(rows=tokens, columns=width, depth=width)
    if query == key:
        inputs = [Product(rows=tokens, columns=3 * width, depth=width)]
    else:
        inputs = [output, Product(rows=others, columns=2 * width, depth=width)]
    return [*inputs, *_heads(query, dimensions(key, 3)[1], int(call.number(4, 1))), output]


def encoder_layer(call: OperatorCall) -> list[Product]:
    """torch.nn's fused layer: its four weights on every token, and attention."""
    x = call.tensor(0)
    width = last_dimension(x)
    weights = [w for w in call.inputs[1:] if len(w.shape) == 2 and width in w.shape][:4]
    made = [Product(rows=tokens_of(x), columns=math.prod(w.shape) // width, depth=width) for w in weights[:3]]
    made += [Product(rows=tokens_of(x), columns=width, depth=math.prod(w.shape) // width) for w in weights[3:]]
    return [*made[:1], *_heads(x, dimensions(x, 3)[1], int(call.number(2, 1))), *made[1:]]


def _heads(query: TensorSpec, keys: int, heads: int) -> list[Product]:
    """Scores and their product with the values, for each head of [batch, queries, width]."""
    batch, queries, width = dimensions(query, 3)
    pairs = batch * queries * keys if query.squares is None else query.squares
    size, density = max(1, width // max(1, heads)), pairs / (batch * queries * keys)
    more: dict[str, Any] = {"batch": batch * width // size, "density": density}
    return [Product(rows=queries, columns=keys, depth=size, **more),
            Product(rows=queries, columns=size, depth=keys, **more)]  # fmt: skip


def _recurrent(x: TensorSpec, weights: Sequence[TensorSpec], steps: int, *, backward: bool = False) -> list[Product]:
    """Weights in pairs, in threes with projections: of the input, for all tokens at once; the others step by step."""
    tokens = tokens_of(x)
    rows = max(1, tokens // max(1, steps))
    shapes = [dimensions(weight, 2) for weight in weights]
    projected = len(shapes) % 3 == 0 and all(
        (gates, depth) == (4 * hidden, size)
        for (gates, depth), (size, hidden) in zip(shapes[1::3], shapes[2::3], strict=True)
    )
    made: list[Product] = []
    for number, (gates, depth) in enumerate(shapes):
        is_state = number % (3 if projected else 2) > 0
        size, times = (rows, tokens / rows) if is_state else (tokens, 1.0)
        if backward:
            made += gradients(size, gates, depth, True, True, times=times)
        else:
            made.append(Product(rows=size, columns=gates, depth=depth, times=times))
    return made


def _matrices(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return [w for w in specs if len(w.shape) == 2]


def onednn_rnn(call: OperatorCall) -> list[Product]:
    x = call.tensor(0)
    return _recurrent(x, _matrices(call.inputs[1:3]), x.shape[0], backward="backward" in call.op)


def composite_rnn(call: OperatorCall) -> list[Product]:
    packed = call.op.endswith(".data")
    x, weights = call.tensor(0), _matrices(call.tensors(3 if packed else 2))
    if packed:
        return _recurrent(x, weights, call.tensor(1).numel)
    return _recurrent(x, weights, x.shape[1 if call.flag(8) else 0] if len(x.shape) == 3 else x.shape[0])


def cudnn_rnn(call: OperatorCall) -> list[Product]:
    x = call.tensor(0)
    batch = call.tensor(4).shape[-2]
    steps = tokens_of(x) // max(1, batch)
    return _recurrent(x, _matrices(call.tensors(1)), steps, backward="backward" in call.op)


def quantised_rnn(call: OperatorCall) -> list[Product]:
    """Those of packed weights, whose list stays encoded."""
    packed = call.op.endswith(".data")
    x, weights = call.tensor(0), _matrices(list(packed_weights(call.arg(3 if packed else 2))))
    return _recurrent(x, weights, call.tensor(1).numel if packed else x.shape[1 if call.flag(8) else 0])


def recurrent_cell(call: OperatorCall) -> list[Product]:
    return _recurrent(call.tensor(0), [call.tensor(2), call.tensor(3)], 1)
