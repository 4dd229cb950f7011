"""Copies of what a step is given, and whether two states differ."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from statsnet.workloads.tree_copies import copied
from statsnet.workloads.trees import same_state, state_of


class Cache:
    """Rows of a class of one's own."""

    def __init__(self) -> None:
        self.rows = [torch.randn(8, 2)]


def test_copies_are_independent_and_keep_what_holds_nothing() -> None:
    shared = torch.ones(2)
    module = nn.Linear(2, 2)
    value = {"a": [shared, shared.expand(3, 2)], "cache": Cache(), "module": module, "draws": random.Random(0)}
    arrays = value["arrays"] = [np.zeros(2), np.broadcast_to(np.zeros(1), 2)]
    copy = copied(value)
    copy["arrays"][0] += 1
    copy["a"].append(1)
    copy["cache"].rows[0] = torch.ones(1, 2)
    copy["a"][0].zero_()
    assert len(value["a"]) == 2
    assert value["cache"].rows[0].shape == (8, 2)
    assert shared.tolist() == [1, 1]
    assert arrays[0].tolist() == [0, 0]
    assert copy["arrays"][1] is arrays[1]  # nobody may write into it
    assert copy["a"][1].stride() == value["a"][1].stride()
    assert copy["module"] is module
    assert copy["draws"] is value["draws"]  # an environment's episodes go on to differ


@pytest.mark.parametrize("view", [
    lambda x: x, lambda x: x.t(), lambda x: x[:, :3], lambda x: x[::2],
    lambda x: x[:, :1].expand(8, 5), lambda x: x[None, 0, 2],
    lambda x: x.flatten().unfold(0, 4, 2),
])  # fmt: skip
def test_copies_keep_values_and_the_layout_of_views(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    given = view(torch.randn(8, 8))
    made = copied(given)
    assert torch.equal(made, given)
    assert made.data_ptr() != given.data_ptr()
    if given.stride() != (2, 1):  # windows that overlap become rows of their own
        assert made.stride() == given.stride()


class Tagged(torch.Tensor):
    """A tensor with a name, as libraries of pictures have; operators do not hand it on."""


def test_copies_keep_the_class_of_a_tensor_and_what_hangs_on_it() -> None:
    given = torch.randn(4, 8)[:, :3].as_subclass(Tagged)
    given.name_of_picture = "a"
    made = copied(given)
    assert (type(made), made.name_of_picture, made.stride()) == (Tagged, "a", given.stride())


def test_states_differ_by_any_change() -> None:
    tensor, values = torch.zeros(3), [float("nan")]
    held = {"t": tensor, "v": values}
    before = state_of(held)
    assert same_state(before, state_of(held))
    tensor.add_(1)
    assert not same_state(before, state_of(held))
    before = state_of(held)
    tensor.data += 1
    assert not same_state(before, state_of(held))
    before = state_of(held)
    values.append(1.0)
    assert not same_state(before, state_of(held))
    before = state_of(held)
    held["t"] = tensor.clone()
    assert not same_state(before, state_of(held))
    held["n"] = np.zeros(3)
    before = state_of(held)
    assert same_state(before, state_of(held))
    held["n"][0] = 1.0
    assert not same_state(before, state_of(held))


def test_what_has_no_memory_any_more_is_left_alone() -> None:
    """As gathered parameters between two steps, and views of them."""
    gathered = torch.randn(4, 8)
    held = [gathered, gathered[1:3]]
    gathered.untyped_storage().resize_(0)
    assert all(made is given for made, given in zip(copied(held), held, strict=True))
    assert same_state(state_of(held), state_of(held))
