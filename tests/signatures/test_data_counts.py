"""Counts that data decide are told as powers of two, wherever they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import addmm, cluster, tensor
from hypothesis import given
from hypothesis import strategies as st

from statsnet.analysis.audit import problems_of_signature
from statsnet.profiling.costs import cost_of
from statsnet.signatures.data_counts import has_exact_count, with_told_counts
from statsnet.signatures.levels import coarsen
from statsnet.signatures.model import Cluster, Memory, Signature
from statsnet.signatures.rounding import in_steps, rounded

N = 777
TOLD = 780


def told(*clusters: Cluster) -> tuple[Cluster, ...]:
    return with_told_counts(clusters, cost_of)


MASK = {"tensors": [{"shape": [4000], "dtype": "bool"}]}
INTS = {"dtype": "int64"}


@pytest.mark.parametrize(
    ("op", "args", "outputs"),
    [
        ("aten.nonzero.default", [tensor(4000)], [tensor(N, 1, **INTS)]),
        ("aten.argwhere.default", [tensor(40, 100)], [tensor(N, 2, **INTS)]),
        ("aten.masked_select.default", [tensor(4000), tensor(4000, dtype="bool")], [tensor(N)]),
        ("aten._unique2.default", [tensor(4000), True, True, True],
         [tensor(N), tensor(4000, **INTS), tensor(N, **INTS)]),
        ("aten.unique_dim.default", [tensor(4000, 64), 0, True, True, True],
         [tensor(N, 64), tensor(4000, **INTS), tensor(N, **INTS)]),
        ("aten.unique_consecutive.default", [tensor(4000)], [tensor(N), tensor(0), tensor(0)]),
        ("aten.index.Tensor", [tensor(4000, 64), MASK], [tensor(N, 64)]),
        ("aten.repeat_interleave.Tensor", [tensor(100, **INTS)], [tensor(N, **INTS)]),
        ("aten.where.default", [tensor(4000, dtype="bool")], [tensor(N, **INTS)]),
        ("torchvision.nms.default", [tensor(4000, 4), tensor(4000), 0.5], [tensor(N, **INTS)]),
        ("aten._pack_padded_sequence.default", [tensor(8, 400, 64), tensor(8, **INTS), True],
         [tensor(N, 64), tensor(399, **INTS)]),
    ],
)  # fmt: skip
def test_what_is_found_is_told_roughly(op: str, args: list[Any], outputs: list[Any]) -> None:
    exact = cluster(op, args, *outputs)
    (rough,) = told(exact)
    assert has_exact_count(exact) and not has_exact_count(rough)
    sizes = [n for out in rough.outputs for n in out["shape"]]
    assert N not in sizes and 1024 in sizes
    assert rough.args == exact.args, "what was searched is as large as it was"
    cost = cost_of(op, rough.args, rough.outputs)
    assert (rough.flops, rough.bytes_written) == ((cost.flops, cost.bytes_written) if cost else (None, None))
    assert told(rough) == (rough,)


LAYER = addmm(4, 64, 64)
FOUND = cluster("aten.masked_select.default", [tensor(4000), tensor(4000, dtype="bool")], tensor(N))


def test_it_is_told_roughly_in_later_operators_too() -> None:
    grow = cluster("aten.mm.default", [tensor(N, 64), tensor(64, 32)], tensor(N, 32))
    back = cluster("aten.mm.default", [tensor(64, N, strides=[1, 64]), tensor(N, 32)], tensor(64, 32),
                   phase="backward")  # fmt: skip
    made = cluster("aten.new_zeros.default", [tensor(8), [N, 64]], tensor(N, 64))
    rough = told(FOUND, grow, back, made)
    assert [t["shape"] for c in rough for t in (*c.args[:1], *c.outputs)] == [
        [4000], [1024], [1024, 64], [1024, 32], [64, 1024], [64, 32], [8], [1024, 64],
    ]  # fmt: skip
    assert rough[2].args[0]["strides"] == [1, 64]
    assert rough[3].args[1] == [1024, 64]
    assert str(N) not in str(rough)


def test_a_width_stays_even_if_as_many_were_found() -> None:
    layer = cluster("aten.addmm.default", [tensor(N), tensor(4, N), tensor(N, N), 1, 1], tensor(4, N))
    product = cluster("aten.mm.default", [tensor(4, N), tensor(N, 64)], tensor(4, 64))
    rough = told(FOUND, layer, product)
    assert rough[1:] == (layer, product)
    assert rough[0].outputs[0]["shape"] == [1024], "but not where it was found"


@pytest.mark.parametrize(
    "layer",
    [
        cluster("aten.convolution.default", [tensor(2, 3, 20, 20), tensor(N, 3, 3, 3), None, [1, 1], [0, 0], [1, 1],
                                             False, [0, 0], 1], tensor(2, N, 18, 18)),
        cluster("aten.native_layer_norm.default", [tensor(4, N), [N], tensor(N), tensor(N), 0.0], tensor(4, N)),
        cluster("aten.embedding.default", [tensor(N, 64), tensor(8, high=N, **INTS)], tensor(8, 64)),
        cluster("aten.lstm.input", [tensor(9, 4, N), {"tensors": [tensor(1, 4, 32), tensor(1, 4, 32)]},
                                    {"tensors": [tensor(128, N), tensor(128, 32)]}], tensor(9, 4, 32)),
        cluster("aten._foreach_add_.List", [{"tensors": [tensor(64, N)]}, {"tensors": [tensor(64, N)]}],
                phase="optimizer"),
    ],
    ids=lambda layer: layer.op,
)  # fmt: skip
def test_a_parameters_size_is_a_width(layer: Cluster) -> None:
    assert told(FOUND, layer)[1] == layer


@pytest.mark.parametrize(
    "later",
    [
        cluster("aten.mm.default", [tensor(N, 64), tensor(64, N, strides=[1, 64])], tensor(N, N)),
        cluster("aten.mm.default", [tensor(4, 64), tensor(64, N, strides=[1, 64])], tensor(4, N)),
        cluster("aten._softmax.default", [tensor(4, N), -1, False], tensor(4, N)),
        cluster("aten.lstm.input", [tensor(9, N, 64), {"tensors": [tensor(1, N, 32), tensor(1, N, 32)]},
                                    {"tensors": [tensor(128, 64), tensor(128, 32)]}], tensor(9, N, 32)),
        cluster("aten.index.Tensor", [tensor(N, 64), {"tensors": [tensor(4000, high=N, **INTS)]}], tensor(4000, 64)),
    ],
    ids=lambda later: str(later.args[0]["shape"]),
)  # fmt: skip
def test_what_is_found_is_told_roughly_behind_a_first_axis_too(later: Cluster) -> None:
    rough = told(FOUND, later)
    assert str(N) not in str(rough) and "1024" in str(rough[1])
    assert told(*rough) == rough


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten.index.Tensor", [tensor(4000, 64), {"tensors": [tensor(N, **INTS)]}]),
        ("aten.index_select.default", [tensor(4000, 64), 0, tensor(N, **INTS)]),
        ("aten.repeat_interleave.self_int", [tensor(4000, 64), N]),
    ],
)
def test_a_size_that_was_asked_for_stays(op: str, args: list[Any]) -> None:
    exact = cluster(op, args, tensor(N, 64))
    assert told(exact) == (exact,)


def test_what_sparse_and_nested_tensors_store() -> None:
    rows = tensor(50_000, 64, sparse=N)
    coordinates = tensor(500, 400, sparse=N, elements=N, index_bytes=16 * N)
    compressed = tensor(500, 400, sparse=N, elements=N, index_bytes=8 * (501 + N))
    blocks = tensor(512, 512, sparse=100, elements=6400, index_bytes=8 * (65 + 100))
    odd = tensor(500, 400, sparse=N, elements=N, index_bytes=12_345)
    nested = tensor(32, 100, 8, elements=8 * N, squares=25_137)
    (rough,) = told(cluster("aten.clone.default", [{"tensors": [rows, coordinates, compressed, blocks, odd, nested]}]))
    assert rough.args[0]["tensors"] == [
        {**rows, "sparse": 1024},
        {**coordinates, "sparse": TOLD, "elements": TOLD, "index_bytes": 16 * TOLD},
        {**compressed, "sparse": TOLD, "elements": TOLD, "index_bytes": 8 * (501 + TOLD)},
        {**blocks, "sparse": 100, "elements": 6400, "index_bytes": 8 * (65 + 100)},
        {**odd, "sparse": TOLD, "elements": TOLD, "index_bytes": 8192 * 2},
        {**nested, "elements": 8 * TOLD, "squares": 25_000},
    ]
    assert told(rough) == (rough,)


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.sampled_from([1, 16, 64]))
def test_no_digit_of_a_count_is_left(entries: int, rows: int, size: int) -> None:
    for index_bytes in (16 * entries, 8 * (rows + 1 + entries), 4 * (rows + 1 + entries)):
        exact = tensor(rows, 64, sparse=entries, elements=size * entries, index_bytes=index_bytes)
        other = {**exact, "sparse": int(rounded(entries)) if entries >= 100 else in_steps(entries, 2)}
        (rough,) = told(cluster("aten.clone.default", [exact]))
        assert rough.args[0]["sparse"] == other["sparse"]
        assert rough.args[0]["elements"] == size * other["sparse"]
        assert not has_exact_count(rough)


@pytest.mark.parametrize("level", ["statistical", "coarse"])
def test_what_a_level_tells_of_stored_counts_is_rough(level: str) -> None:
    tensors = [tensor(512, 384, sparse=n, elements=n, index_bytes=16 * n) for n in (37, N, 31_337)]
    tensors += [tensor(32, 96, 8, elements=8 * n, squares=squares) for n, squares in ((87, 99), (N, 25_137))]
    memory = Memory(parameter_count=1, parameter_bytes=4, buffer_bytes=0, input_bytes=0)
    exact = cluster("aten.clone.default", [{"tensors": tensors}])
    assert has_exact_count(exact)
    signature = Signature(mode="inference", dtype="float32", clusters=(exact,), memory=memory)
    rough = coarsen(signature, level, cost_of)  # type: ignore[arg-type]
    assert rough.clusters and problems_of_signature(rough) == []


def test_each_level_is_audited() -> None:
    gradient = cluster("aten.clone.default", [tensor(50_000, 64, sparse=N)], tensor(50_000, 64, sparse=N))
    memory = Memory(parameter_count=1, parameter_bytes=4, buffer_bytes=0, input_bytes=16_000, activation_bytes=123_456,
                    peak_bytes=139_460)  # fmt: skip
    signature = Signature(mode="inference", dtype="float32", clusters=(FOUND, gradient), memory=memory)
    assert str(N) in str(signature.to_dict()), "at level full, counts are exact"
    for level in ("statistical", "coarse"):
        rough = coarsen(signature, level, cost_of)  # type: ignore[arg-type]
        assert str(N) not in str(rough.to_dict())
        assert problems_of_signature(rough) == []
        assert {t["sparse"] for c in rough.clusters for t in c.args if "sparse" in t} == {1024}
    assert rough.memory.activation_bytes not in (123_456, 120_000), "coarse sizes are in larger steps"
    rough = coarsen(signature, "statistical", cost_of)
    assert (rough.memory.activation_bytes, rough.memory.peak_bytes) == (120_000, 140_000), "exact ones tell the counts"
    assert coarsen(replace(signature, clusters=(LAYER,)), "statistical", cost_of).memory == memory
