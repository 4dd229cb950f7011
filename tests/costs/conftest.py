"""Operator calls as a profile sees them: run a function, look at the calls it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.profiling.costs import Cost, cost_of
from statsnet.profiling.encode import encode_arguments, encode_outputs
from statsnet.signatures.categories import base_name

EncodedCall = tuple[str, list[Any], list[Any]]


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[EncodedCall] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        encoded = encode_arguments(func, args, kwargs)
        result = func(*args, **kwargs)
        self.calls.append((str(func), encoded, encode_outputs(result)))
        return result


@pytest.fixture
def calls_of() -> Callable[[Callable[[], Any]], list[EncodedCall]]:
    """`calls_of(function)`: every operator call that the function makes, encoded."""

    def calls(function: Callable[[], Any]) -> list[EncodedCall]:
        with _Recorder() as recorder:
            function()
        return recorder.calls

    return calls


@pytest.fixture
def cost(calls_of: Callable[[Callable[[], Any]], list[EncodedCall]]) -> Callable[..., Cost]:
    """`cost(function, "mm")`: the cost of the only call of that operator that the function makes."""

    def cost_of_only(function: Callable[[], Any], name: str) -> Cost:
        calls = [call for call in calls_of(function) if base_name(call[0]) == name]
        assert len(calls) == 1, f"{name} is called {len(calls)} times"
        result = cost_of(*calls[0])
        assert result is not None
        return result

    return cost_of_only


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Reproducible numbers; nobody else's random state is touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def meta() -> Callable[..., torch.Tensor]:
    """`meta(4, 5)`: a tensor without data, float32 unless said otherwise."""

    def make(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)

    return make
