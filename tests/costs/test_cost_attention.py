"""Attention: pairs of tokens, causal or not, forward and backward, in every kernel's argument order."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from clusters import tensor

from statsnet.profiling.costs import attention as attention_costs
from statsnet.profiling.costs import cost_of


def call(name, query, key, value, *, causal, grad=None):
    """Encoded arguments in the schema's own order, by argument names."""
    overload = getattr(torch.ops.aten, name).default
    given = {"query": query, "key": key, "value": value, "is_causal": causal, "grad_out": grad,
             "grad_out_": grad, "custom_mask_type": int(causal)}  # fmt: skip
    args = [given.get(a.name) for a in overload._schema.arguments]
    return cost_of(f"aten.{name}.default", args, [query] if grad is None else [query, key, value])


@pytest.mark.parametrize(("queries", "keys", "pairs"), [(4, 4, 10), (2, 5, 3), (5, 2, 1 + 2 + 2 + 2 + 2), (1, 7, 1)])
def test_causal_pairs_are_those_of_tril(queries, keys, pairs):
    assert pairs == int(torch.ones(queries, keys).tril().sum())
    assert attention_costs.needed_pairs(queries, keys, causal=True) == pairs
    assert attention_costs.needed_pairs(queries, keys, causal=False) == queries * keys


HEADS_FIRST = [
    name
    for name, schema in attention_costs._SCHEMAS.items()
    if "." not in name and schema.heads_first and not schema.backward
]
BACKWARD = [name for name, schema in attention_costs._SCHEMAS.items() if schema.backward and schema.heads_first]


@pytest.mark.parametrize("name", HEADS_FIRST)
def test_forward(name):
    q, k, v = tensor(2, 3, 8, 16), tensor(2, 3, 12, 16), tensor(2, 3, 12, 20)
    full = call(name, q, k, v, causal=False)
    assert full.flops == 2 * 2 * 3 * 8 * 12 * (16 + 20)
    causal = call(name, q, k, v, causal=True)
    assert causal.flops == 2 * 2 * 3 * (8 * 9 // 2) * (16 + 20)
    assert causal.bytes_read == full.bytes_read == 4 * 6 * (8 * 16 + 12 * 36)


@pytest.mark.parametrize("name", BACKWARD)
def test_backward_is_two_and_a_half_times_forward(name):
    q = tensor(2, 3, 8, 16)
    for causal in (False, True):
        forward = call("_scaled_dot_product_flash_attention_for_cpu", q, q, q, causal=causal)
        backward = call(name, q, q, q, causal=causal, grad=q)
        assert backward.flops == 2.5 * forward.flops


@pytest.mark.parametrize("name", ["_flash_attention_forward", "_efficient_attention_forward"])
def test_kernels_that_keep_heads_behind_the_sequence(name):
    q, k = tensor(2, 8, 3, 16), tensor(2, 12, 3, 16)
    assert call(name, q, k, k, causal=False).flops == 2 * 6 * 8 * 12 * 32
    assert call(name, q, k, k, causal=True).flops == 2 * 6 * 36 * 32


@pytest.mark.parametrize("name", ["_flash_attention_backward", "_efficient_attention_backward"])
def test_their_backward(name):
    q = tensor(2, 8, 3, 16)
    assert call(name, q, q, q, causal=False, grad=q).flops == 2.5 * 4 * 6 * 64 * 16


def test_packed_sequences_are_taken_as_equally_long():
    q, offsets = tensor(40, 3, 16), tensor(5, dtype="int32")
    args = [q, q, q, offsets, offsets, 10, 10, 0.0, False, False, None, None, None, None, None]
    got = cost_of("aten._flash_attention_forward.default", args, [q])
    assert got.flops == 4 * (4 * 10 * 10) * 3 * 16


@pytest.mark.parametrize("name", ["_flash_attention_forward", "_efficient_attention_forward"])
def test_packed_sequences_may_have_an_axis_of_one_before_them(name):
    q, offsets = tensor(1, 40, 3, 16), tensor(5, dtype="int32")
    args = [None] * 16
    schema = attention_costs._SCHEMAS[name]
    args[:3], args[schema.offsets], args[schema.causal] = [q, q, q], offsets, False
    assert cost_of(f"aten.{name}.default", args, [q]).flops == 4 * (4 * 10 * 10) * 3 * 16


@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (2, 7), (7, 2)])
@pytest.mark.parametrize("window", [(2, 1), (0, 0), (3, None), (None, 0), (None, None), (9, 9)])
def test_a_window_s_pairs_are_those_near_the_diagonal(queries, keys, window):
    left, right = (9 if side is None else side for side in window)
    near = torch.ones(queries, keys).triu(keys - queries - left).tril(keys - queries + right)
    assert attention_costs.windowed_pairs(queries, keys, *window) == int(near.sum())


def flash(q, k, inplace=False, **given):
    name = "_flash_attention_forward" + ("_no_dropout_inplace" if inplace else "")
    schema = getattr(torch.ops.aten, name).default._schema.arguments
    given = {"out": q, "query": q, "key": k, "value": k, "is_causal": False, **given}
    return cost_of(f"aten.{name}.default", [given.get(a.name) for a in schema], [tensor(3, 8)] if inplace else [q])


def test_a_window_takes_the_keys_near_a_query():
    q = tensor(2, 8, 3, 16)
    near = flash(q, q, is_causal=True, window_size_left=2, window_size_right=0)
    assert near.flops == 2 * 2 * 3 * (1 + 2 + 6 * 3) * 32
    assert flash(q, q, window_size_left=-1, window_size_right=-1) == flash(q, q)
    one, cache = tensor(2, 1, 3, 16), tensor(2, 100, 3, 16)
    decoded = flash(one, cache, window_size_left=9, window_size_right=0)
    assert (decoded.flops, decoded.bytes_read) == (2 * 2 * 3 * 10 * 32, 4 * 2 * 3 * 16 * (1 + 2 * 10))


def test_packed_sequences_lose_no_token_to_rounding():
    """Five queries and seven keys in three sequences: 2 and 3, 2 and 2, 1 and 2."""
    q, k, offsets = tensor(5, 3, 16), tensor(7, 3, 16), tensor(4, dtype="int32")
    got = flash(q, k, cum_seq_q=offsets, cum_seq_k=offsets, is_causal=True, window_size_left=-1, window_size_right=0)
    assert got.flops == 2 * (5 + 3 + 2) * 3 * 32
    assert got.bytes_read == 4 * 3 * 16 * (5 + 2 * 7) + offsets_bytes(offsets, offsets)


def test_of_a_cache_in_pages_the_sequences_tokens_are_read():
    """Two sequences, of at most 40 tokens in pages of 16, and a pool of 50 pages."""
    q, pool = tensor(2, 3, 16), tensor(50, 16, 3, 16)
    offsets, table = tensor(3, dtype="int32"), tensor(2, 3, dtype="int32")
    got = flash(q, pool, cum_seq_q=offsets, max_q=1, max_k=40, is_causal=True, block_table=table)
    assert got.flops == 2 * 2 * 3 * 40 * 32
    assert got.bytes_read == 4 * 3 * 16 * (2 + 2 * 2 * 40) + offsets_bytes(offsets, table)


def offsets_bytes(*specs):
    return sum(4 * torch.Size(spec["shape"]).numel() for spec in specs)


def test_a_result_that_is_an_argument_is_written_not_read():
    q = tensor(2, 8, 3, 16)
    got, plain = flash(q, q, inplace=True), flash(q, q)
    assert (got.flops, got.bytes_read) == (plain.flops, plain.bytes_read)
    assert got.bytes_written == plain.bytes_written + 4 * 3 * 8


def test_grouped_queries_work_as_many_heads_but_read_few(cost, meta):
    q, kv = tensor(1, 8, 16, 32), tensor(1, 2, 16, 32)
    got = call("_scaled_dot_product_flash_attention", q, kv, kv, causal=False)
    assert got.flops == 4 * 8 * 16 * 16 * 32
    assert got.bytes_read == 4 * (8 + 2 + 2) * 16 * 32


def test_every_table_entry_agrees_with_the_schema():
    for name, schema in attention_costs._SCHEMAS.items():
        packet, _, overload = name.partition(".")
        arguments = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema.arguments
        assert arguments[schema.query].name == "query"
        assert arguments[schema.causal].name in ("is_causal", "custom_mask_type")
        if schema.offsets is not None:
            assert arguments[schema.offsets].name in ("cum_seq_q", "cu_seqlens_q")


def test_cpu_kernel_as_torch_calls_it(cost):
    q = torch.randn(1, 2, 16, 8, requires_grad=True)

    def step():
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    name = "_scaled_dot_product_flash_attention_for_cpu"
    assert cost(step, name).flops == 4 * 2 * 136 * 8
    assert cost(step, f"{name}_backward").flops == 10 * 2 * 136 * 8


def test_multi_head_attention_of_inference(cost):
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(3, 5, 16)
    with torch.no_grad():
        got = cost(lambda: layer(x, x, x, need_weights=False), "_native_multi_head_attention")
    assert got.flops == 2 * 15 * 16 * 16 * 4 + 4 * 3 * 25 * 16
