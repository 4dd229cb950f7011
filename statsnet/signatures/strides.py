"""Strides as views of a contiguous tensor: what torch code gives them, and what they become in another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOf:
    """A tensor as a view of a contiguous one of shape `base`: its axes are the tensor's, from the outermost in memory
    to the innermost, and where the tensor leaves elements out between its own, one more axis, of which it takes the
    first index (`steps`). `order` puts axes in the tensor's order; then each is cut to its length. Axes of stride 0 are
    1 long in `base`, and are expanded."""

    base: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    steps: bool

    @property
    def source(self) -> str:
        """Method calls on the contiguous tensor, as Python."""
        text = "[..., 0]" if self.steps else ""
        lengths = list(self.base[: len(self.shape)])
        for axis, place in sorted(enumerate(self.order), key=lambda pair: pair[1]):
            if lengths[place] > self.shape[axis]:
                text += f".narrow({place}, 0, {self.shape[axis]})"
                lengths[place] = self.shape[axis]
        moved = [axis for axis in range(len(self.order)) if self.order[axis] != axis]
        if len(moved) == 2:
            text += f".transpose({moved[0]}, {moved[1]})"
        elif moved:
            text += f".permute({', '.join(map(str, self.order))})"
        held = tuple(lengths[place] for place in self.order)
        if held != self.shape:
            text += f".expand({', '.join(map(str, self.shape))})"
        return text


def view_of(shape: Sequence[int], strides: Sequence[int]) -> ViewOf | None:
    """The view that has these strides; None if no such view has, as where windows overlap."""
    stored = [axis for axis, stride in enumerate(strides) if stride > 0 and shape[axis] > 1]
    stored.sort(key=lambda axis: (-strides[axis], axis))
    lengths = dict.fromkeys(range(len(shape)), 1)
    outer: int | None = None
    for axis in stored:
        if outer is None:
            lengths[axis] = shape[axis]
        else:
            ratio, rest = divmod(strides[outer], strides[axis])
            if rest or ratio < shape[axis]:
                return None
            lengths[axis] = ratio
        outer = axis
    step = strides[outer] if outer is not None else 1
    in_memory = _places(len(shape), stored)
    return ViewOf(
        base=(*(lengths[axis] for axis in in_memory), *((step,) if step > 1 else ())),
        order=tuple(in_memory.index(axis) for axis in range(len(shape))),
        shape=tuple(shape),
        steps=step > 1,
    )


def _places(rank: int, stored: list[int]) -> list[int]:
    """All axes, the outermost in memory first. Those that are 1 long or expanded may stand anywhere: they keep their
    place, so that as few axes as possible are moved."""
    in_memory = iter(stored)
    return [next(in_memory) if axis in stored else axis for axis in range(rank)]


def strides_of(view: ViewOf) -> tuple[int, ...]:
    """The strides of a view."""
    of_base = [math.prod(view.base[place + 1 :]) for place in range(len(view.base))]
    stored = [view.base[place] for place in view.order]
    return tuple(0 if stored[axis] == 1 and n > 1 else of_base[view.order[axis]] for axis, n in enumerate(view.shape))


def resized_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """Strides of the same layout for a tensor of shape `new`: what lies between its rows is in proportion. Where no
    view has the strides, they stay."""
    view = view_of(shape, strides)
    if view is None:
        return tuple(strides)
    base = list(view.base)
    for axis, place in enumerate(view.order):
        if shape[axis] != new[axis] and base[place] >= shape[axis] > 0:
            base[place] = max(new[axis], round(base[place] * new[axis] / shape[axis]))
    resized = ViewOf(base=tuple(base), order=view.order, shape=tuple(new), steps=view.steps)
    expanded = [stride == 0 and n > 1 for n, stride in zip(shape, strides, strict=True)]
    return tuple(0 if e else s for e, s in zip(expanded, strides_of(resized), strict=True))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last in memory."""
    if not math.prod(shape):
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
