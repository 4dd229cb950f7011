"""Gathers: rows that are touched, never the table; sparse gradients."""

from __future__ import annotations

import pytest
import torch
from clusters import tensor

from statsnet.profiling.costs import cost_of

ROWS, WIDTH, COUNT, BAGS = 1000, 16, 32, 8
ROW = 4 * WIDTH


def bag_step(**options):
    bag = torch.nn.EmbeddingBag(ROWS, WIDTH, **options)
    indices, offsets = torch.randint(0, ROWS, (COUNT,)), torch.arange(0, COUNT, COUNT // BAGS)
    return lambda: bag(indices, offsets).sum().backward()


def test_embedding_reads_rows_not_the_table(cost, meta):
    got = cost(lambda: torch.nn.functional.embedding(meta(2, 16, dtype=torch.int64), meta(ROWS, WIDTH)), "embedding")
    assert (got.flops, got.bytes_read, got.bytes_written) == (0, 32 * ROW + 32 * 8, 32 * ROW)


def test_a_small_table_is_read_at_most_once(cost, meta):
    got = cost(lambda: torch.nn.functional.embedding(meta(512, dtype=torch.int64), meta(2, WIDTH)), "embedding")
    assert got.bytes_read == 2 * ROW + 512 * 8


def test_dense_gradient_writes_the_whole_table(cost):
    table = torch.nn.Embedding(ROWS, WIDTH)
    got = cost(lambda: table(torch.randint(0, ROWS, (COUNT,))).pow(2).sum().backward(), "embedding_dense_backward")
    assert got.flops == COUNT * WIDTH
    assert got.bytes_read == COUNT * ROW + COUNT * 8
    assert got.bytes_written == ROWS * ROW


@pytest.mark.parametrize(
    ("mode", "flops"),
    [("sum", COUNT * WIDTH), ("mean", COUNT * WIDTH + BAGS * WIDTH), ("max", COUNT * WIDTH)],
)
def test_bags(cost, mode, flops):
    got = cost(bag_step(mode=mode), "_embedding_bag")
    assert got.flops == flops
    assert got.bytes_read == COUNT * ROW + COUNT * 8 + BAGS * 8


def test_weighted_bag_and_its_gradients(cost):
    bag = torch.nn.EmbeddingBag(ROWS, WIDTH, mode="sum")
    indices, offsets = torch.randint(0, ROWS, (COUNT,)), torch.arange(0, COUNT, COUNT // BAGS)
    weights = torch.rand(COUNT, requires_grad=True)

    def step():
        bag(indices, offsets, weights).sum().backward()

    assert cost(step, "_embedding_bag").flops == 2 * COUNT * WIDTH
    assert cost(step, "_embedding_bag_backward").flops == 2 * COUNT * WIDTH
    by_weight = cost(step, "_embedding_bag_per_sample_weights_backward")
    assert by_weight.flops == 2 * COUNT * WIDTH
    assert by_weight.bytes_written == 4 * COUNT


def test_sparse_gradient_writes_rows(cost):
    got = cost(bag_step(mode="sum", sparse=True), "_embedding_bag_backward")
    assert got.flops == 0
    assert got.bytes_written == COUNT * (ROW + 8)


def test_sgd_on_a_sparse_gradient_touches_rows(cost):
    table = torch.nn.Embedding(ROWS, WIDTH, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    table(torch.randint(0, ROWS, (COUNT,))).sum().backward()
    got = cost(optimizer.step, "add_")
    assert got.flops == 2 * COUNT * WIDTH  # alpha is the step size
    assert got.bytes_read == COUNT * ROW + COUNT * (ROW + 8)
    assert got.bytes_written == COUNT * ROW


def test_coalesce_and_mask():
    sparse = tensor(ROWS, WIDTH, sparse=COUNT)
    got = cost_of("aten._coalesce.default", [sparse], [sparse])
    assert got.flops == COUNT * WIDTH + COUNT * 5
    got = cost_of("aten.sparse_mask.default", [tensor(ROWS, WIDTH), sparse], [sparse])
    assert got.bytes_read == COUNT * ROW + COUNT * (ROW + 8)


def test_index_select_and_gather(cost, meta):
    got = cost(lambda: meta(100, 8).index_select(0, meta(5, dtype=torch.int64)), "index_select")
    assert (got.bytes_read, got.bytes_written) == (5 * 32 + 40, 5 * 32)
    got = cost(lambda: meta(100, 8).gather(0, meta(3, 8, dtype=torch.int64)), "gather")
    assert (got.bytes_read, got.bytes_written) == (24 * 4 + 24 * 8, 24 * 4)


def test_scatter_add_in_place_touches_what_the_index_names(cost, meta):
    index, source = meta(3, 8, dtype=torch.int64), meta(3, 8)
    got = cost(lambda: meta(100, 8).scatter_add_(0, index, source), "scatter_add_")
    assert (got.flops, got.bytes_written) == (24, 96)
    assert got.bytes_read == 96 + 192 + 96
    whole = cost(lambda: meta(100, 8).scatter_add(0, index, source), "scatter_add")
    assert whole.bytes_written == 3200


def test_index_add(cost, meta):
    index, source = meta(5, dtype=torch.int64), meta(5, 8)
    got = cost(lambda: meta(100, 8).index_add_(0, index, source, alpha=2), "index_add_")
    assert (got.flops, got.bytes_written) == (2 * 40, 160)
