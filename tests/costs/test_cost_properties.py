"""Properties that hold for every shape."""

from __future__ import annotations

import math

from clusters import tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.profiling.costs import cost_of

size = st.integers(1, 64)
small = st.integers(1, 7)
few = settings(max_examples=60)


def nbytes(*specs):
    return sum(4 * math.prod(s["shape"]) for s in specs)


def convolution(batch, groups, inputs, outputs, kernel, stride, edge):
    out_edge = (edge - kernel) // stride + 1
    x, w = tensor(batch, groups * inputs, edge, edge), tensor(groups * outputs, inputs, kernel, kernel)
    out = tensor(batch, groups * outputs, out_edge, out_edge)
    args = [x, w, None, [stride] * 2, [0, 0], [1, 1], False, [0, 0], groups]
    return cost_of("aten.convolution.default", args, [out]), (x, w, out)


@few
@given(small, small, small, small, small, small, st.integers(7, 20))
def test_convolution(batch, groups, inputs, outputs, kernel, stride, edge):
    one, (x, w, out) = convolution(batch, groups, inputs, outputs, kernel, stride, edge)
    two, _ = convolution(2 * batch, groups, inputs, outputs, kernel, stride, edge)
    assert two.flops == 2 * one.flops
    assert one.flops == 2 * math.prod(out["shape"]) * inputs * kernel * kernel
    assert (one.bytes_read, one.bytes_written) == (nbytes(x, w), nbytes(out))


@few
@given(size, size, size, size)
def test_batched_product_scales_with_every_dimension(batch, m, k, n):
    def flops(b, rows, inner, columns):
        args = [tensor(b, rows, inner), tensor(b, inner, columns)]
        return cost_of("aten.bmm.default", args, [tensor(b, rows, columns)]).flops

    base = flops(batch, m, k, n)
    doubled = (flops(2 * batch, m, k, n), flops(batch, 2 * m, k, n), flops(batch, m, 2 * k, n),
               flops(batch, m, k, 2 * n))  # fmt: skip
    assert set(doubled) == {2 * base}


@few
@given(small, small, size, size, size, st.booleans())
def test_attention_is_linear_in_batch_and_causal_is_between_half_and_all(batch, heads, q, k, width, backward):
    def flops(b, causal):
        query, key = tensor(b, heads, q, width), tensor(b, heads, k, width)
        args = [query, key, key, 0.0, causal, None, None]
        return cost_of("aten._scaled_dot_product_flash_attention_for_cpu.default", args, [query]).flops

    assert flops(2 * batch, False) == 2 * flops(batch, False)
    assert flops(2 * batch, True) == 2 * flops(batch, True)
    assert flops(batch, True) <= flops(batch, False)
    if q >= k:
        assert flops(batch, True) >= flops(batch, False) / 2


@few
@given(size, size, st.sampled_from(["add", "mul", "exp", "relu", "gelu", "sigmoid", "clone", "neg"]))
def test_pointwise_reads_and_writes_everything_once(rows, columns, name):
    x = tensor(rows, columns)
    args = [x, x] if name in ("add", "mul") else [x]
    got = cost_of(f"aten.{name}.default", args, [x])
    twice = cost_of(f"aten.{name}.default", [tensor(2 * rows, columns)] * len(args), [tensor(2 * rows, columns)])
    assert (got.bytes_read, got.bytes_written) == (nbytes(*args), nbytes(x))
    assert twice.flops == 2 * got.flops


@few
@given(st.integers(1, 10_000), size, st.integers(1, 10_000))
def test_embedding_never_reads_more_than_table_or_rows(rows, width, count):
    args = [tensor(rows, width), tensor(count, dtype="int64")]
    got = cost_of("aten.embedding.default", args, [tensor(count, width)])
    assert got.bytes_read == 8 * count + 4 * width * min(rows, count)


@few
@given(small, size, size, size)
def test_recurrent_work_is_linear_in_tokens(steps, batch, inputs, hidden):
    def flops(t, b):
        x, state = tensor(t, b, inputs), tensor(b, hidden)
        weights = [tensor(4 * hidden, inputs), tensor(4 * hidden, hidden), tensor(4 * hidden), tensor(4 * hidden)]
        args = [x, *weights, state, state, False, [], 2, hidden, 1, True, False, False, True]
        return cost_of("aten.mkldnn_rnn_layer.default", args, [tensor(t, b, hidden), state, state, None]).flops

    assert flops(2 * steps, batch) == flops(steps, 2 * batch) == 2 * flops(steps, batch)


@few
@given(st.lists(st.tuples(size, size), min_size=1, max_size=6))
def test_lists_cost_the_sum_of_their_members(shapes):
    members = [tensor(*s) for s in shapes]
    group = {"tensors": members}
    whole = cost_of("aten._foreach_add_.List", [group, group, 1], [None])
    parts = [cost_of("aten.add_.Tensor", [m, m, 1], [m]) for m in members]
    assert whole.flops == sum(p.flops for p in parts)
    assert whole.bytes_read == sum(p.bytes_read for p in parts)
    assert whole.bytes_written == sum(p.bytes_written for p in parts)


@few
@given(size, size, st.sampled_from(["float64", "float32", "bfloat16", "int8"]))
def test_bytes_follow_the_item_size(rows, columns, dtype):
    size_of = {"float64": 8, "float32": 4, "bfloat16": 2, "int8": 1}[dtype]
    x = tensor(rows, columns, dtype=dtype)
    assert cost_of("aten.clone.default", [x, None], [x]).bytes_read == rows * columns * size_of
