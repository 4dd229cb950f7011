"""Encoding of arguments: metadata and plain scalars, nothing else."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from statsnet.profiling.encode import encode_arguments, encode_outputs, encode_tensor, encode_value


def test_strides_only_where_a_tensor_is_not_contiguous() -> None:
    assert encode_tensor(torch.ones(2, 3)) == {"shape": [2, 3], "dtype": "float32"}
    assert encode_tensor(torch.ones(2, 3).t())["strides"] == [1, 3]
    assert encode_tensor(torch.ones(1).expand(4))["strides"] == [0]
    last = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert encode_tensor(last)["strides"] == [48, 1, 12, 3]


def test_sparse_tensors_say_how_many_elements_are_stored() -> None:
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 4]]), torch.ones(2, 3), (5, 3), check_invariants=True)
    assert encode_tensor(sparse) == {"shape": [5, 3], "dtype": "float32", "sparse": 2}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (3, 3), (True, True), (None, None), (0.5, 0.5), ([1, 2], [1, 2]), ((1, 2), [1, 2]),
        ("mean", "mean"), ("my secret", None), (math.inf, None), (-math.inf, None), (math.nan, None),
        (torch.float32, None), (torch.device("cpu"), None), (torch.strided, None),
    ],
)  # fmt: skip
def test_scalars(value: Any, encoded: Any) -> None:
    assert encode_value(value) == encoded


def test_lists_of_tensors_keep_their_gaps() -> None:
    tensor = torch.ones(2, dtype=torch.int64)
    spec = {"shape": [2], "dtype": "int64"}
    assert encode_value([None, tensor]) == {"tensors": [None, spec]}


def test_arguments_stand_in_the_order_of_the_schema_with_defaults() -> None:
    spec = {"shape": [2], "dtype": "float32"}
    x = torch.ones(2)
    assert encode_arguments(torch.ops.aten.add.Tensor, (x, x), {"alpha": 2}) == [spec, spec, 2]
    assert encode_arguments(torch.ops.aten.add.Tensor, (x, x), {}) == [spec, spec, 1]


def test_outputs_are_flat_and_a_number_is_null() -> None:
    spec = {"shape": [2], "dtype": "float32"}
    assert encode_outputs((torch.ones(2), [torch.ones(2)], 0.123)) == [spec, spec, None]
