"""Towers hold every block as often as asked, and no block reads more than was written before it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.blocks import KINDS
from statsnet.proxy.towers import (
    LONGEST_TOWER,
    MOST_UNSTEADY,
    SMALLEST_SLICE,
    Placed,
    Tower,
    build_towers,
    shapes,
    shuffled,
)

POOL: list[tuple[str, dict[str, Any]]] = [
    ("linear", {"rows": 4, "inputs": 8, "outputs": 8}),
    ("linear", {"rows": 4, "inputs": 8, "outputs": 32}),
    ("linear", {"rows": 4, "inputs": 32, "outputs": 2}),
    ("conv", {"batch": 1, "channels": 2, "size": (4, 4), "filters": 2, "kernel": (3, 3), "stride": (1, 1),
              "padding": (1, 1), "residual": True}),
    ("softmax", {"shape": (4, 8), "axis": 1}),
    ("norm", {"kind": "layer", "shape": (4, 8)}),
    ("pointwise", {"shape": (4, 8), "functions": ("relu",)}),
    ("pointwise", {"shape": (4, 8), "functions": ("neg",)}),
    ("pointwise", {"shape": (200,), "functions": ("tanh",)}),
    ("embedding", {"rows": 9, "width": 4, "indices": 8}),
    ("embedding_bag", {"rows": 9, "width": 4, "indices": 8, "bags": 2}),
    ("reduce", {"function": "sum", "shape": (4, 8), "axes": (0, 1)}),
]  # fmt: skip

multisets = st.lists(
    st.tuples(st.sampled_from(POOL), st.sampled_from([None, "sgd"]), st.integers(0, 30)), max_size=8
).map(lambda rows: [(Placed(kind=k, config=c, optimizer=o), n) for (k, c), o, n in rows])


@settings(max_examples=60)
@given(multisets)
def test_every_block_is_placed_as_often_as_asked(counted: list[tuple[Placed, int]]) -> None:
    towers = build_towers(counted)
    wanted: Counter[str] = Counter()
    for block, number in counted:
        wanted[block.key] += number
    assert Counter(b.key for t in towers for b in t.blocks) == +wanted
    for tower in towers:
        check_chain(tower)


def check_chain(tower: Tower) -> None:
    assert 1 <= len(tower.blocks) <= LONGEST_TOWER
    steady = [KINDS[b.kind].steady(b.config) for b in tower.blocks]
    assert steady.count(False) <= MOST_UNSTEADY
    for before, after in zip(tower.blocks, tower.blocks[1:], strict=False):
        written, read = math.prod(shapes(before)[1]), shapes(after)[0]
        assert read is not None, "a block that reads indices begins a tower"
        assert SMALLEST_SLICE * written <= math.prod(read) <= written
        a, b = (KINDS[x.kind].steady(x.config) for x in (before, after))
        assert a == b or KINDS[(before if a else after).kind].mixes


@settings(max_examples=20)
@given(multisets)
def test_the_order_of_the_blocks_does_not_matter(counted: list[tuple[Placed, int]]) -> None:
    assert build_towers(counted[::-1]) == build_towers(counted)


def test_what_fits_exactly_comes_next() -> None:
    """Both read as many elements as the table writes, one of them in its shape."""
    table = Placed(kind="embedding", config=POOL[9][1])
    exact = linear(8, 4, 4)
    for config in ({"shape": (4, 8), "functions": ("tanh",)}, {"shape": (2, 16), "functions": ("tanh",)}):
        other = Placed(kind="pointwise", config=config)
        (tower,) = build_towers([(other, 1), (table, 1), (exact, 1)])
        assert tower.blocks == (table, exact, other)


def linear(rows: int, inputs: int, outputs: int) -> Placed:
    return Placed(kind="linear", config={"rows": rows, "inputs": inputs, "outputs": outputs})


def test_a_block_that_reads_indices_begins_a_chain() -> None:
    table = Placed(kind="embedding", config=POOL[9][1])
    (tower,) = build_towers([(table, 1), (linear(8, 4, 4), 1)])
    assert tower.blocks == (table, linear(8, 4, 4))


@pytest.mark.parametrize(("training", "towers"), [(False, 1), (True, 2)])
def test_in_training_nothing_is_sliced(training: bool, towers: int) -> None:
    """The gradient of a slice is a pass over the whole, which no model of the mix makes."""
    first = linear(16, 8, 4)
    assert len(build_towers([(first, 1), (linear(12, 4, 4), 1)], training=training)) == towers
    assert len(build_towers([(first, 1), (linear(16, 4, 4), 1)], training=training)) == 1


@pytest.mark.parametrize(("training", "towers"), [(False, 1), (True, 2)])
def test_in_training_a_view_is_handed_back_to_no_block(training: bool, towers: int) -> None:
    """The gradient of a permuted copy is a view, which the block before would have to copy."""
    before = Placed(kind="pointwise", config={"shape": (8, 6, 4), "functions": ("gelu",)})
    copied = Placed(kind="transpose", config={"shape": (8, 6, 4), "order": (0, 2, 1)})
    assert len(build_towers([(before, 1), (copied, 1)], training=training)) == towers


def test_shapes() -> None:
    assert shapes(Placed(kind="embedding", config=POOL[9][1])) == (None, (8, 4))
    assert shapes(Placed(kind="linear", config=POOL[1][1])) == ((4, 8), (4, 32))
    assert shapes(Placed(kind="reduce", config=POOL[-1][1])) == ((4, 8), ())


def test_no_blocks_no_towers() -> None:
    assert build_towers([]) == []
    assert build_towers([(Placed(kind="linear", config=POOL[0][1]), 0)]) == []


def test_what_is_joined_ends_a_chain() -> None:
    """Its gradient is to arrive as a part of a wider one: only a chain's end is handed such a gradient."""
    table = Placed(kind="embedding", config={**POOL[9][1], "output_is_concatenated": True})
    towers = build_towers([(table, 1), (linear(8, 4, 4), 1)])
    assert [t.blocks for t in towers] == [(table,), (linear(8, 4, 4),)]


def test_towers_may_be_shuffled() -> None:
    towers = build_towers([(linear(8, n, n), 1) for n in (3, 30, 300, 3000)])
    orders = [shuffled(towers, seed) for seed in range(6)]
    assert orders[0] == towers
    assert len({tuple(t.blocks[0].key for t in order) for order in orders}) > 1
    assert all(sorted(order, key=towers.index) == towers for order in orders)
