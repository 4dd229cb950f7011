"""What a model does in every n-th step alone: it copies a target network, say, or drops old entries of a cache.

A model that counts its steps shows that by plain values of its own that change, or by its state. Successive steps are
then captured until it shows whether they repeat themselves.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from statsnet.errors import ModelError, StatsNetError
from statsnet.profiling.capture import OpCall
from statsnet.profiling.joining import Variant
from statsnet.workloads import Step
from statsnet.workloads.held_state import PLAIN

MOST_STEPS = 40
"""So many steps are looked at: what happens in every 20th is averaged exactly, and what happens less often than in
every 40th is left out."""
LONGEST_S = 10.0
"""No further step is looked at after this time, where something tells that the model counts its steps."""
LOOK_SHARE = 0.15
"""Else so much of the time that a measurement takes is spent on it: a closure may count, or a library."""
FEWEST_STEPS = 12
"""After fewer steps, chance looks like a period too often."""
MOST_ENTRIES = 100
"""A longer container is no counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """Successive steps as they were captured: the distinct ones, and which one each step was. `is_cut` if there was no
    time for all of them, `by_chance` if what makes them differ is random numbers or inputs."""

    variants: Sequence[Variant]
    order: Sequence[int]
    is_cut: bool = False
    by_chance: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether state makes steps differ that come again, or the first ones from all that follow."""
        return not self.by_chance and (self.returns or self.settles)

    @property
    def grows(self) -> bool:
        """Whether steps become others and none comes again, as where a cache is filled."""
        return self.varies and not self.returns and not self.settles

    @property
    def varies(self) -> bool:
        return len(self.variants) > 1

    @property
    def returns(self) -> bool:
        """Whether some step comes again after another."""
        turns = [b for i, b in enumerate(self.order) if i == 0 or self.order[i - 1] != b]
        return len(turns) > len(set(turns))

    @property
    def settles(self) -> bool:
        """Whether the first steps are others than all that follow, as where a mean begins with a copy."""
        return self.varies and not self.returns and self.period == 1

    @property
    def period(self) -> int | None:
        """After so many steps they repeat themselves, from `begin` on; None if they do not."""
        return self._cycle[1] if self._cycle else None

    @property
    def begin(self) -> int:
        return self._cycle[0] if self._cycle else 0

    @property
    def _cycle(self) -> tuple[int, int] | None:
        n = len(self.order)
        for begin in range(n // 2 + 1):
            for period in range(1, (n - begin) // (3 if begin else 2) + 1):
                if self.order[begin : n - period] == self.order[begin + period :]:
                    return None if period == 1 and self.returns else (begin, period)
        return None

    def averaged(self) -> list[Variant]:
        """The distinct steps of one period, else of all, each with the number of times it comes."""
        within = self.order[self.begin :][: self.period]
        for number in set(within):
            self.variants[number].times = within.count(number)
        return [self.variants[number] for number in sorted(set(within))]

    def repeats(self, other: Lap) -> bool:
        """Whether both go on in the same way, so that neither does by chance."""
        return (self.settles and other.settles) or (self.begin, self.period, self.returns) == (
            other.begin,
            other.period,
            other.returns,
        )


def lap_of(capture: Callable[[int], list[OpCall]], draws: Iterable[int], longest_s: float | None = None) -> Lap:
    """Capture successive steps, each at its draw of random numbers, for LONGEST_S unless it is said how long. A model
    that fails on the way ends the lap."""
    longest_s = LONGEST_S if longest_s is None else longest_s
    variants: list[Variant] = []
    order: list[int] = []
    begin = time.perf_counter()
    for draw in draws:
        try:
            variant = Variant.of(capture(draw))
        except StatsNetError:
            break
        number = next((i for i, other in enumerate(variants) if other.keys == variant.keys), len(variants))
        variants += [variant] if number == len(variants) else []
        order.append(number)
        if time.perf_counter() - begin > longest_s:
            return Lap(variants=variants, order=order, is_cut=len(order) < MOST_STEPS)
    return Lap(variants=variants, order=order)


def look_for_laps(
    step: Step,
    capture: Callable[[int], list[OpCall]],
    capture_first: Callable[[int], list[OpCall]],
    longest_s: float | None = None,
) -> Lap:
    """The steps of a model that may do something in every n-th step alone, or other things at first: `goes_on` if it
    does. `capture` goes through the inputs, `capture_first` keeps to the first one.

    State that makes steps differ so is put back no longer to what it was as built, but to what it was when they began
    to repeat themselves, and not before each step, but after each such lap. Where steps only go on from one another, as
    a cache grows, numbers that count them are put back, too.
    """
    renewal = step.renewal
    renewal.lap = MOST_STEPS + 1
    renewal.start_again()
    found = again = lap_of(capture, range(MOST_STEPS), longest_s)
    if found.varies:  # chance and inputs make steps differ, too
        renewal.puts_counts_back = found.grows
        renewal.start_again()
        again = lap_of(capture_first, [0] * len(found.order), longest_s)
        is_sure = len(found.order) >= FEWEST_STEPS and found.repeats(again)
        renewal.puts_counts_back = found.grows and again.grows
        found = replace(found, by_chance=not is_sure)
    if found.goes_on and found.begin:
        renewal.start_again()
        lap_of(capture_first, [0] * max(found.begin, again.begin))
        renewal.settle()
    period = found.period or 1
    is_lap = found.goes_on and found.returns
    renewal.lap = (len(found.order) - found.begin) // period * period if is_lap else 1
    renewal.start_again()
    return found


def steps_grow() -> ModelError:
    """The error of steps that no end is seen of, and that nothing puts back."""
    return ModelError(
        "each step does more than the one before",
        cause="something grows from step to step, and it lies neither in the model's modules nor in what their code "
        "names",
        hint="empty it where forward() begins, or give it as an input, which each step gets as it was built",
    )


def has_own_optimizer(step: Step) -> bool:
    """Whether something of the user's own optimizes the model: it may count its steps for each parameter."""
    return any(_is_own(type(part).__module__) for part in (step.optimizer.parts if step.optimizer else ()))


def plain_values(step: Step) -> list[Any]:
    """The numbers and words that the model, its code and what optimizes it hold of their own, in small containers too:
    what counts steps is mostly one of them."""
    parts = step.optimizer.parts if step.optimizer else ()
    held = [*step.renewal.held_values(), *itertools.chain.from_iterable(map(_attributes, parts))]
    inner = itertools.chain.from_iterable(_attributes(value) for value in held if _is_users(value))
    return [entry for value in [*held, *inner] for entry in _entries(value) if isinstance(entry, PLAIN)]


def _attributes(holder: Any) -> list[Any]:
    return [*getattr(holder, "__dict__", {}).values()]


def _entries(value: Any) -> Iterable[Any]:
    if isinstance(value, dict | list | tuple | deque) and len(value) <= MOST_ENTRIES:
        return value.values() if isinstance(value, dict) else value
    return [value]


def _is_own(module: str) -> bool:
    return module in sys.modules and module.partition(".")[0] not in ("torch", "builtins")


def _is_users(value: Any) -> bool:
    is_object = hasattr(value, "__dict__") and not isinstance(value, type | ModuleType | torch.nn.Module)
    return is_object and _is_own(type(value).__module__)
