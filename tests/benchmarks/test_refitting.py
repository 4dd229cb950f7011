"""Inputs of a class of which little is known: guessed by names, changed as errors ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.drawn import trying
from benchmarks.drawn.refitting import refitted
from benchmarks.drawn.trying import first_that_runs
from statsnet.errors import WorkloadError


class Mixed(nn.Module):
    """Tokens and a prompt of widths that nobody told, and a second time that it needs."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.prompt, self.time = nn.Linear(24, 8), nn.Linear(40, 8), nn.Linear(1, 8)

    def forward(
        self, hidden_states: torch.Tensor, text_states: torch.Tensor, timestep_r: torch.Tensor, steps: int
    ) -> torch.Tensor:
        time = self.time(timestep_r[:, None])[:, None]
        return torch.cat([self.tokens(hidden_states), self.prompt(text_states)], dim=1) * steps + time


class Video(nn.Module):
    """Takes pictures of five axes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(6, 4, (1, 2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, _, _, _, _ = x.shape
        return self.conv(x)  # type: ignore[no-any-return]


class Joined(nn.Module):
    """Two inputs, one behind the other, have the width of its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(20, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([x, mask], dim=-1))  # type: ignore[no-any-return]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


@pytest.mark.parametrize(
    ("model", "starts", "shapes"),
    [
        (Mixed(), [{"hidden_states": noise(2, 5, 7)}], {"hidden_states": (2, 5, 24), "timestep_r": (2,)}),
        (Video(), [{"x": noise(2, 3, 8, 8)}], {"x": (2, 6, 1, 8, 8)}),
        (Joined(), [{"x": noise(2, 13), "mask": noise(2, 5)}], {"x": (2, 13), "mask": (2, 7)}),
        (nn.Linear(6, 2), [{"input": torch.ones(2, 6, dtype=torch.long)}], {"input": (2, 6)}),
        (nn.Linear(6, 2), [{"input": noise(2, 4)}, {"input": noise(2, 6)}], {"input": (2, 6)}),
    ],
)
def test_inputs_change_until_the_model_takes_them(
    model: nn.Module, starts: list[dict[str, Any]], shapes: dict[str, tuple[int, ...]]
) -> None:
    found = refitted(model, starts, batch=2)
    assert found is not None
    assert {name: tuple(found[name].shape) for name in shapes} == shapes
    model(**found)


class Hopeless(nn.Module):
    def forward(self, session: Any) -> None:
        raise RuntimeError("Expected a session")


def test_what_no_change_helps_is_given_up() -> None:
    assert refitted(Hopeless(), [], batch=2) is None


def test_all_that_failed_is_tried_again_with_changes() -> None:
    def inputs(model: nn.Module) -> list[dict[str, Any]]:
        return [{"input": noise(2, 5)}]

    def makes(*models: nn.Module) -> list[Callable[[], nn.Module]]:
        return [lambda model=model: model for model in models]  # type: ignore[misc]

    linear = nn.Linear(7, 2)
    model, _, given = first_that_runs("any", makes(Hopeless(), linear), inputs, refit=2)
    assert model is linear
    assert given["input"].shape == (2, 7)
    with pytest.raises(WorkloadError, match="any") as caught:
        first_that_runs("any", makes(Hopeless(), linear), inputs)
    assert "TypeError" in caught.value.cause
    assert "mat1 and mat2" in caught.value.cause


class ReadsValues(nn.Module):
    """Cannot be built without data, and so not be counted before it takes memory."""

    def __init__(self) -> None:
        super().__init__()
        self.width = int(torch.ones(()).item())
        self.layers = nn.ModuleList(nn.Linear(10, 10) for _ in range(20))


def test_a_model_is_too_large_before_all_of_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "MOST_PARAMETERS", 1000)
    with pytest.raises(WorkloadError) as caught:
        first_that_runs("any", [ReadsValues], lambda model: [{}])
    assert "it has over 0 million parameters" in caught.value.cause
    assert nn.Module.register_parameter.__module__ == "torch.nn.modules.module"


def test_inputs_that_would_be_huge_are_not_made() -> None:
    def refuses(input: torch.Tensor) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x5 and 1000000000x2)")

    model = nn.Module()
    model.forward = refuses  # type: ignore[method-assign]
    assert refitted(model, [{"input": noise(2, 5)}], batch=2) is None
