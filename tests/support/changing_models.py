"""Models whose steps are not alike: inputs or state that steps change, random numbers, inputs of many shapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH = 16


class Calls(nn.Module):
    """Calls a function with the module and its inputs."""

    def __init__(self, function: Callable[..., Any], **held: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = function
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class Cache:
    """Rows of a class of one's own."""

    def __init__(self) -> None:
        self.rows = [torch.randn(8, WIDTH)]

    def grown(self, row: torch.Tensor) -> torch.Tensor:
        self.rows[0] = torch.cat([self.rows[0], row])
        return self.rows[0]


def growing_cache() -> Any:
    return Calls(lambda self, x, cache: self.linear(cache.grown(x))), (torch.randn(1, WIDTH),), {"cache": Cache()}


def popped_list() -> Any:
    return Calls(lambda self, rows: self.linear(rows.pop())), ([torch.randn(9, WIDTH) for _ in range(2)],)


def popped_dict() -> Any:
    return Calls(lambda self, rows: self.linear(rows.pop("x"))), ({"x": torch.randn(9, WIDTH)},)


def growing_state() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x])
        return self.linear(self.seen)  # type: ignore[no-any-return]

    return Calls(run, seen=torch.zeros(8, WIDTH)), (torch.randn(1, WIDTH),)


def growing_list() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        return self.linear(torch.cat(self.seen))  # type: ignore[no-any-return]

    return Calls(run, seen=[torch.zeros(8, WIDTH)]), (torch.randn(1, WIDTH),)


def growing_from_a_number() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        before = self.seen if isinstance(self.seen, torch.Tensor) else torch.zeros(8, WIDTH)
        self.seen = torch.cat([before, x])
        return self.linear(self.seen)  # type: ignore[no-any-return]

    return Calls(run, seen=0), (torch.randn(1, WIDTH),)


def growing_attribute() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([getattr(self, "seen", torch.zeros(8, WIDTH)), x])
        return self.linear(self.seen)  # type: ignore[no-any-return]

    return Calls(run), (torch.randn(1, WIDTH),)


def growing_place() -> Any:
    """A place in a cache that is written through `data`, which tells nobody."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.place.data += 1
        return self.linear(self.rows[: int(self.place)])  # type: ignore[no-any-return]

    return Calls(run, rows=torch.zeros(64, WIDTH), place=torch.tensor(8)), (torch.randn(1, WIDTH),)


def growing_in_inference_mode() -> Any:
    """What is made there has no version."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            if self.place is None:
                self.place = torch.full((2000,), 8)
            self.place += 1
        return self.linear(self.rows[: int(self.place[0])])  # type: ignore[no-any-return]

    return Calls(run, rows=torch.zeros(64, WIDTH), place=None), (torch.randn(1, WIDTH),)


class Episode:
    """An environment that holds no rows before the first step."""

    def __init__(self) -> None:
        self.length = 8

    def grown(self, row: torch.Tensor) -> torch.Tensor:
        rows: list[torch.Tensor] = vars(self).setdefault("rows", [torch.zeros(self.length, WIDTH)])
        rows[0] = torch.cat([rows[0], row])
        return rows[0]


def growing_episode() -> Any:
    return Calls(lambda self, x: self.linear(self.episode.grown(x)), episode=Episode()), (torch.randn(1, WIDTH),)


def prompt_and_next_tokens() -> Any:
    """The first input has no cache, the others grow the one that they share."""

    def run(self: Any, x: torch.Tensor, cache: Cache | None = None) -> Any:
        return self.linear(x if cache is None else cache.grown(x))

    cache = Cache()
    rest = [((torch.randn(1, WIDTH),), {"cache": cache}) for _ in range(2)]
    return {"model": Calls(run), "inputs": [((torch.randn(8, WIDTH),), {}), *rest]}


def iterated() -> Any:
    return Calls(lambda self, rows: self.linear(next(rows))), (iter([torch.randn(1, WIDTH)]),)


def random_layer() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        return self.linear(x) if random.random() < 0.5 else x

    return Calls(run), (torch.randn(4, WIDTH),)


def counting() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = self.linear(x)
        return self.linear(x) if self.count % 2 else x

    return Calls(run, count=0), (torch.randn(4, WIDTH),)


def many_lengths(descending: bool = False) -> Any:
    lengths = sorted(range(4, 84, 4), reverse=descending)
    return {"model": nn.Linear(WIDTH, WIDTH), "inputs": [((torch.randn(n, WIDTH),), {}) for n in lengths]}


def recurrent() -> Any:
    class Last(nn.GRU):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(rows)[0]

    return Last(WIDTH, WIDTH), torch.randn(2, WIDTH)


def every_fourth(counter: str = "attribute") -> Any:
    """Its layer runs once, and in every fourth step once more."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if counter == "buffer":
            self.count.add_(1)
        elif counter == "dictionary":
            self.count["steps"] += 1
        else:
            self.count += 1
        count = self.count["steps"] if counter == "dictionary" else self.count
        x = self.linear(x)
        return self.linear(x) if count % 4 == 0 else x

    counts: dict[str, Any] = {"attribute": 0, "buffer": torch.tensor(0), "dictionary": {"steps": 0}}
    return Calls(run, count=counts[counter]), (torch.randn(4, WIDTH),)


class EveryFourth(torch.optim.SGD):
    """Accumulates gradients over four steps."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        return super().step() if self.count % 4 == 0 else None


def accumulating() -> Any:
    model = nn.Linear(WIDTH, WIDTH)
    return {"model": model, "inputs": torch.randn(4, WIDTH), "optimizer": EveryFourth}


def averaging_weights() -> Any:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.update_parameters(self.linear)
        return self.linear(x)  # type: ignore[no-any-return]

    model = Calls(run)
    model.mean = AveragedModel(model.linear, multi_avg_fn=get_ema_multi_avg_fn(0.9)).requires_grad_(False)
    return model, (torch.randn(4, WIDTH),)


def resizing() -> Any:
    """Its first step gives an empty buffer a size, as an observer's does. torch cannot resize what NumPy holds."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not self.range.numel():
            self.range.resize_(WIDTH).zero_()
        self.range.add_(x.detach().amax(0))
        return self.linear(x) + self.range  # type: ignore[no-any-return]

    model = Calls(run)
    model.register_buffer("range", torch.empty(0))
    return model, (torch.randn(4, WIDTH),)
