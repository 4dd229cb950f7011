"""Data arrangement: bytes of copies, fills, indexing; nothing for views."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from statsnet.profiling.costs import cost_of

SIZE = 4 * 6 * 4
"""Bytes of a float32 tensor of 4 x 6."""


@pytest.mark.parametrize(
    ("function", "name", "read", "written"),
    [
        (lambda x: x.clone(), "clone", SIZE, SIZE),
        (lambda x: x.half(), "_to_copy", SIZE, SIZE // 2),
        (lambda x: torch.empty(4, 6).copy_(x), "copy_", SIZE, SIZE),
        (lambda x: torch.cat([x, x]), "cat", 2 * SIZE, 2 * SIZE),
        (lambda x: torch.stack([x, x, x]), "stack", 3 * SIZE, 3 * SIZE),
        (lambda x: x.roll(1, 0), "roll", SIZE, SIZE),
        (lambda x: x.repeat(3, 1), "repeat", SIZE, 3 * SIZE),
        (lambda x: F.pad(x, (1, 1)), "constant_pad_nd", SIZE, 4 * 8 * 4),
        (lambda x: x.tril(), "tril", SIZE, SIZE),
        (lambda x: torch.zeros(4, 6), "zeros", 0, SIZE),
        (lambda x: torch.ones_like(x), "ones_like", 0, SIZE),
        (lambda x: x.zero_(), "zero_", 0, SIZE),
        (lambda x: x.fill_(1.0), "fill_", 0, SIZE),
        (lambda x: torch.arange(6), "arange", 0, 48),
        (lambda x: x.normal_(), "normal_", 0, SIZE),
        (lambda x: x[torch.tensor([0, 2, 3])], "index", 3 * 24 + 24, 3 * 24),
        (lambda x: x.flip(0), "flip", SIZE, SIZE),
    ],
)
def test_bytes(cost, function, name, read, written):
    x = torch.randn(4, 6)
    got = cost(lambda: function(x), name)
    assert (got.flops, got.bytes_read, got.bytes_written) == (0, read, written)


def test_copy_of_an_expanded_tensor_reads_it_once(cost):
    got = cost(lambda: torch.randn(6).expand(4, 6).clone(), "clone")
    assert (got.bytes_read, got.bytes_written) == (24, SIZE)


def test_index_put_in_place_writes_the_named_rows(cost):
    rows = torch.tensor([0, 2])
    got = cost(lambda: torch.zeros(100, 8).index_put_((rows,), torch.ones(2, 8)), "index_put_")
    assert (got.flops, got.bytes_read, got.bytes_written) == (0, 16 + 64, 64)
    added = cost(lambda: torch.zeros(100, 8).index_put_((rows,), torch.ones(2, 8), accumulate=True), "index_put_")
    assert (added.flops, added.bytes_read, added.bytes_written) == (16, 64 + 16 + 64, 64)


def test_index_put_with_two_indices_names_their_pairs(cost):
    where = torch.tensor([[0], [2]]), torch.tensor([1, 3, 5])
    got = cost(lambda: torch.zeros(4, 6).index_put_(where, torch.tensor(1.0)), "index_put_")
    assert got.bytes_written == 2 * 3 * 4


def test_index_put_by_mask_assumes_everything(cost):
    mask = torch.zeros(4, 6, dtype=torch.bool)
    got = cost(lambda: torch.zeros(4, 6).index_put_((mask,), torch.tensor(1.0)), "index_put_")
    assert got.bytes_written == SIZE


def test_index_put_out_of_place_copies(cost):
    got = cost(lambda: torch.zeros(100, 8).index_put((torch.tensor([0]),), torch.ones(1, 8)), "index_put")
    assert got.bytes_written == 3200
    assert got.bytes_read == 3200 + 8 + 32


def test_scatter(cost):
    index = torch.zeros(2, 6, dtype=torch.int64)
    got = cost(lambda: torch.zeros(4, 6).scatter_(0, index, torch.ones(2, 6)), "scatter_")
    assert (got.bytes_read, got.bytes_written) == (12 * 8 + 12 * 4, 12 * 4)


def test_gradient_of_a_slice_writes_zeros_around_it(cost):
    x = torch.randn(4, 6, requires_grad=True)
    got = cost(lambda: x[:2].pow(2).sum().backward(), "slice_backward")
    assert (got.bytes_read, got.bytes_written) == (SIZE // 2, SIZE)


def test_overlapping_windows_are_added(cost):
    x = torch.randn(1, 2, 5, 5, requires_grad=True)
    got = cost(lambda: F.unfold(x, 3).pow(2).sum().backward(), "col2im")
    assert got.flops == 2 * 9 * 9


def test_views_cost_nothing(calls_of):
    x = torch.randn(4, 6)
    calls = calls_of(lambda: x.view(6, 4).t().unsqueeze(0).expand(3, 4, 6).select(0, 1)[:2].detach())
    assert len(calls) == 7
    assert {cost_of(*c) for c in calls} == {cost_of("aten.view.default", [], [])}
    assert cost_of("aten.view.default", [], []).bytes_read == 0


def test_reshape_is_a_copy_only_where_it_must_be(cost):
    with torch.inference_mode():
        x = torch.randn(4, 6)
        assert cost(lambda: x.reshape(6, 4), "reshape").bytes_written == 0
        assert cost(lambda: x.t().reshape(24), "reshape").bytes_written == SIZE
        assert cost(lambda: x.t().contiguous(), "contiguous").bytes_written == SIZE
        assert cost(lambda: x.to(torch.float32), "to").bytes_written == 0
        assert cost(lambda: x.to(torch.float64), "to").bytes_written == 2 * SIZE


def test_reading_a_value_back_is_one_element(cost):
    assert cost(lambda: torch.tensor(3.0).item(), "_local_scalar_dense").bytes_read == 4
