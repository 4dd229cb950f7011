"""The optimizer's part of a step whose phases nobody names, such as that of a user's own loop.

torch opens a range around an optimizer's step, and around setting its gradients to zero. What loops do to gradients
before the step (clipping, a GradScaler's check) runs in no range. Nor does anything else there, such as a metric, which
cannot be told from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from statsnet.signatures.categories import categorize
from statsnet.signatures.vocabulary import OPAQUE_OP

_STEP = "Optimizer.step#"
OPTIMIZER_RANGES = (_STEP, "Optimizer.zero_grad#")
"""So begin the names of the ranges that torch itself opens around an optimizer's work."""

_OF_MODELS = ("gemm", "convolution", "attention", "recurrent", "embedding")


class AfterBackward:
    """The places of the calls between the last backward call and an optimizer's next range, or between the steps of two
    optimizers. If a product, a look-up or something unknown is among them, a model runs there once more, and they are
    none of the optimizer's."""

    def __init__(self) -> None:
        self._places: list[int] | None = None
        self._has_stepped = False

    def see(self, place: int, op: str, phase: str) -> None:
        """The next call."""
        if phase == "backward":
            self._places, self._has_stepped = [], False
        elif phase == "forward" and self._places is not None:
            if op == OPAQUE_OP or categorize(op, phase) in _OF_MODELS:
                self._places = None
            else:
                self._places.append(place)

    def take(self, name: str) -> list[int]:
        """An optimizer's range of this name begins: the places of the calls that belong to it."""
        steps = name.startswith(_STEP)
        places = (self._places or []) if steps or not self._has_stepped else []
        self._places, self._has_stepped = ([] if steps else None), steps
        return places


def scales_gradients(op: str) -> bool:
    """Whether it is an operator of a GradScaler, which calls them in no range, some of them after the optimizer's."""
    return op.startswith(("aten._amp_foreach_non_finite", "aten._amp_update_scale"))


def optimizer_places(calls: Iterable[tuple[int, int, str, str]], ranges: Iterable[tuple[int, str]]) -> set[int]:
    """The places of the calls that belong to the optimizer and lie in no range of it. Each call is its begin, its
    place, its operator and its phase; `ranges` are those of optimizers, by begin and name. All may come in any
    order."""
    after, found = AfterBackward(), set[int]()
    begun = [(begin, -1, name, "optimizer") for begin, name in ranges]
    for _, place, op, phase in sorted([*calls, *begun], key=lambda item: item[:2]):
        if place < 0:
            found.update(after.take(op))
        elif phase == "forward" and scales_gradients(op):
            found.add(place)
        else:
            after.see(place, op, phase)
    return found
