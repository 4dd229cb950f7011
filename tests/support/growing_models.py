"""Models whose inputs or state grow, or are used up, from step to step, and where they keep it."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from changing_models import WIDTH, Calls


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
