"""The optimizer's part of a step whose phases nobody names, such as that of a user's own loop.

torch opens a range around an optimizer's step, and around setting its gradients to zero. What loops do to gradients
before the step (clipping, a GradScaler's check) runs in no range.
"""

from __future__ import annotations

from collections.abc import Iterable

from statsnet.signatures.categories import categorize

OPTIMIZER_RANGES = ("Optimizer.step#", "Optimizer.zero_grad#")
"""So begin the names of the ranges that torch itself opens around an optimizer's work."""

_PRODUCTS = ("gemm", "convolution", "attention", "recurrent")


class AfterBackward:
    """The places of the calls between the last backward call and the optimizer's next range. If a product is among
    them, a model runs there once more, and they are none of the optimizer's."""

    def __init__(self) -> None:
        self._places: list[int] | None = None

    def see(self, place: int, op: str, phase: str) -> None:
        """The next call."""
        if phase == "backward":
            self._places = []
        elif phase == "forward" and self._places is not None:
            if categorize(op, phase) in _PRODUCTS:
                self._places = None
            else:
                self._places.append(place)

    def take(self) -> list[int]:
        """An optimizer's range begins: the places of the calls that belong to it."""
        places, self._places = self._places or [], None
        return places


def scales_gradients(op: str) -> bool:
    """Whether it is an operator of a GradScaler, which calls them in no range, some of them after the optimizer's."""
    return op.startswith(("aten._amp_foreach_non_finite", "aten._amp_update_scale"))


def optimizer_places(calls: Iterable[tuple[int, int, str, str]], ranges: Iterable[int]) -> set[int]:
    """The places of the calls that belong to the optimizer and lie in no range of it. Each call is its begin, its
    place, its operator and its phase; `ranges` are the begins of the optimizer's ranges. All may come in any order."""
    after, found = AfterBackward(), set[int]()
    begun = [(begin, -1, "", "") for begin in ranges]
    for _, place, op, phase in sorted([*calls, *begun], key=lambda item: item[:2]):
        if not op:
            found.update(after.take())
        elif phase == "forward" and scales_gradients(op):
            found.add(place)
        else:
            after.see(place, op, phase)
    return found
