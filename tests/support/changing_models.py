"""Models whose steps are not alike: inputs or state that steps change, random numbers, inputs of many shapes."""

from __future__ import annotations

import itertools
import random
from collections import deque
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


SEEN: list[torch.Tensor] = []
PLACE = 8


def growing_global() -> Any:
    SEEN[:] = [torch.zeros(8, WIDTH)]

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(x)
        return self.linear(torch.cat(SEEN))  # type: ignore[no-any-return]

    return Calls(run), (torch.randn(1, WIDTH),)


def growing_closure() -> Any:
    seen = {"rows": torch.zeros(8, WIDTH)}

    def grown(row: torch.Tensor) -> torch.Tensor:
        seen["rows"] = torch.cat([seen["rows"], row])
        return seen["rows"]

    return Calls(lambda self, x: self.linear(grown(x))), (torch.randn(1, WIDTH),)


class Shared(Calls):
    """Rows that all of the class hold together."""

    rows = torch.zeros(8, WIDTH)


def growing_class() -> Any:
    Shared.rows = torch.zeros(8, WIDTH)

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        Shared.rows = torch.cat([Shared.rows, x])
        return self.linear(Shared.rows)  # type: ignore[no-any-return]

    return Shared(run), (torch.randn(1, WIDTH),)


def growing_function() -> Any:
    def grown(row: torch.Tensor) -> torch.Tensor:
        grown.rows = torch.cat([grown.rows, row])  # type: ignore[attr-defined]
        return grown.rows  # type: ignore[attr-defined, no-any-return]

    grown.rows = torch.zeros(8, WIDTH)  # type: ignore[attr-defined]
    return Calls(lambda self, x: self.linear(grown(x))), (torch.randn(1, WIDTH),)


def growing_default() -> Any:
    def run(self: Any, x: torch.Tensor, seen: list[torch.Tensor] = [torch.zeros(8, WIDTH)]) -> torch.Tensor:  # noqa: B006, B008
        seen.append(x)
        return self.linear(torch.cat(seen))  # type: ignore[no-any-return]

    return Calls(run), (torch.randn(1, WIDTH),)


def decaying() -> Any:
    """A rate of the model's own: after twenty steps hardly a row is left."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.rate *= 0.9
        return self.linear(x[: round(10 * self.rate)])  # type: ignore[no-any-return]

    return Calls(run, rate=1.0), (torch.randn(10, WIDTH),)


def filled(by: str = "attribute") -> Any:
    """A cache of twenty places and the number of the next, which is a plain one. It fails when it is full."""

    def place(self: Any) -> int:
        global PLACE
        if by == "attribute":
            self.place += 1
            return int(self.place)
        PLACE += 1
        return PLACE

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        end = place(self)
        self.rows[end - 1] = x[0]
        return self.linear(self.rows[:end])  # type: ignore[no-any-return]

    globals()["PLACE"] = 8
    return Calls(run, rows=torch.zeros(20, WIDTH), place=8), (torch.randn(1, WIDTH),)


def growing_iterator() -> Any:
    """What counts cannot be put back."""
    numbers = itertools.count(8)
    return Calls(lambda self, x: self.linear(x.expand(next(numbers), WIDTH))), (torch.randn(1, WIDTH),)


def settling_queue() -> Any:
    """Of the last three inputs."""
    last: deque[torch.Tensor] = deque(maxlen=3)

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        last.append(x)
        return self.linear(torch.cat(list(last)))  # type: ignore[no-any-return]

    return Calls(run), (torch.randn(4, WIDTH),)


def own_generator() -> Any:
    import numpy

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.numbers.integers(1, 3)):
            x = self.linear(x)
        return x

    return Calls(run, numbers=numpy.random.default_rng(0)), (torch.randn(4, WIDTH),)


def optimizer_inside() -> Any:
    """The first step makes the optimizer's state."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            self.linear(x).square().mean().backward()
        self.adam.step()
        self.adam.zero_grad()
        return x

    model = Calls(run)
    model.adam = torch.optim.Adam(model.linear.parameters())
    return model, (torch.randn(4, WIDTH),)


def scaled_loss() -> Any:
    """The loss and the optimizer share a scaler through a closure."""
    shared: dict[str, Any] = {}

    class Scaled:
        def __init__(self, parameters: Any) -> None:
            self.inner = torch.optim.Adam(parameters)
            self.scaler = torch.amp.GradScaler("cpu")

        def step(self) -> None:
            self.scaler.step(self.inner)
            self.scaler.update()

        def zero_grad(self) -> None:
            self.inner.zero_grad()

    def optimizer(parameters: Any) -> Any:
        shared["it"] = Scaled(parameters)
        return shared["it"]

    def loss(out: torch.Tensor) -> Any:
        return shared["it"].scaler.scale(out.square().mean())

    return {"model": nn.Linear(WIDTH, WIDTH), "args": torch.randn(4, WIDTH), "optimizer": optimizer, "loss": loss}


def every_fourth_decomposed() -> Any:
    """Whether a mode is on decides how torch computes this derivative."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = self.linear(x)
        return torch.cumprod(x, 1) if self.count % 4 == 0 else x

    return Calls(run, count=0), (torch.randn(4, WIDTH),)


def every_fourth_larger() -> Any:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.linear(x.repeat(100, 1)) if self.count % 4 == 0 else self.linear(x)  # type: ignore[no-any-return]

    return Calls(run, count=0), (torch.randn(4, WIDTH),)


def asking() -> Any:
    return {"model": nn.Linear(WIDTH, WIDTH), "args": torch.randn(4, WIDTH, requires_grad=True), "loss": torch.sum}
