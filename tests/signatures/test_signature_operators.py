"""Tensor lists: short in files, complete in use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.operators import TensorSpec, tensors_of
from statsnet.signatures.tensor_lists import compact_arguments, flatten_arguments, flatten_tensor_list


def tensor(size: int) -> dict[str, Any]:
    return {"shape": [size], "dtype": "float32"}


def test_repeating_layers_are_written_once() -> None:
    layers = [tensor(1), tensor(2), tensor(3)] * 12
    (compact,) = compact_arguments([{"tensors": [tensor(9), *layers, tensor(7)]}])
    assert compact == {"tensors": [tensor(9), {"tensors": [tensor(1), tensor(2), tensor(3)], "times": 12}, tensor(7)]}
    assert [t.shape for t in tensors_of([compact])] == [(9,), *[(1,), (2,), (3,)] * 12, (7,)]


def test_a_training_step_of_a_deep_network_stays_small() -> None:
    block = [tensor(n) for n in (768, 768, 2304, 2304, 768, 768, 3072, 3072)]
    argument = {"tensors": [tensor(50257), *block * 96, tensor(3)]}
    assert len(canonical_json(compact_arguments([argument] * 4))) < 2500


def test_equal_neighbours_are_merged() -> None:
    entries = [tensor(1), tensor(1) | {"times": 2}, None, None, tensor(1)]
    assert flatten_tensor_list(entries) == [tensor(1) | {"times": 3}, None, None, tensor(1)]
    assert len(tensors_of([{"tensors": entries}])) == 4


@given(st.lists(st.none() | st.builds(tensor, st.integers(1, 3)), max_size=40))
def test_nothing_is_lost(entries: list[Any]) -> None:
    argument = {"tensors": entries}
    compact = compact_arguments([argument])
    flat = flatten_arguments(compact)
    expected = [TensorSpec.from_dict(e) for e in entries if e]
    assert tensors_of([argument]) == tensors_of(compact) == tensors_of(flat) == expected
    assert flat == flatten_arguments([argument])
    assert flatten_arguments([[*compact, 1]]) == [[*flat, 1]]
    assert compact_arguments(flat) == compact == compact_arguments(compact)
    assert sum(e is None for e in flat[0]["tensors"]) == entries.count(None)


def test_other_arguments_pass_unchanged() -> None:
    args = [tensor(2), None, [1, 2], "mean", 0.5]
    assert compact_arguments(args) == flatten_arguments(args) == args


def test_lists_have_a_limit() -> None:
    with pytest.raises(ValueError, match="more than"):
        flatten_tensor_list([{"tensors": [tensor(1) | {"times": 1000}], "times": 1000}])
