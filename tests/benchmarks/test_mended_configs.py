"""Configurations whose parts do not fit, changed as errors ask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.drawn.mended_configs import mended
from benchmarks.drawn.trying import first_that_runs
from statsnet.errors import WorkloadError


class Part(SimpleNamespace):
    def to_dict(self) -> dict[str, Any]:
        return vars(self)


class Twice(nn.Module):
    """Its second layer's width stands in a part of the configuration, in a tuple, its third's beside it."""

    def __init__(self, config: Part) -> None:
        super().__init__()
        self.config = config
        self.first = nn.Linear(12, 24)
        self.second = nn.Linear(config.part.widths[0][1], 20)
        self.third = nn.Linear(config.width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)))  # type: ignore[no-any-return]


def config() -> Part:
    return Part(width=32, is_wide=True, part=Part(widths=((3, 48), (5, 6))))


def inputs(model: nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    yield {"x": torch.ones(2, 12)}


def changes(model: Any, error: str) -> Any:
    return (partial(Twice, changed) for changed in mended(model.config, error))


def test_each_number_that_is_a_layers_size_becomes_that_of_what_the_layer_was_given() -> None:
    one = config()
    one.width = 48
    first, second = mended(one, "mat1 and mat2 shapes cannot be multiplied (2x24 and 48x20)")
    assert (first.width, first.part.widths) == (24, ((3, 48), (5, 6)))
    assert (second.width, second.part.widths) == (48, [[3, 24], (5, 6)])
    assert (one.width, one.part.widths) == (48, ((3, 48), (5, 6)))


@pytest.mark.parametrize(
    "error", ["it has no such attribute", "mat1 and mat2 shapes cannot be multiplied (2x24 and 6x9)"]
)
def test_what_no_size_is_told_of_or_a_small_one_is_left(error: str) -> None:
    assert not [*mended(config(), error)]


def test_a_model_is_changed_until_it_runs() -> None:
    model, _, given = first_that_runs("any", [partial(Twice, config())], inputs, refit=2, mend=changes)
    assert (model.second.in_features, model.third.in_features) == (24, 20)
    assert given["x"].shape == (2, 12)
    with pytest.raises(WorkloadError, match="any"):
        first_that_runs("any", [partial(Twice, config())], inputs, mend=changes)


class Single(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.view(1, 7))


def test_what_runs_on_no_larger_batch_gets_one_of_one() -> None:
    def noise(model: nn.Module) -> Iterator[dict[str, Any]]:
        yield {"input": torch.randn(2, 7)}

    _, _, given = first_that_runs("any", [lambda: Single(7, 2)], noise, refit=2)
    assert given["input"].shape == (1, 7)
