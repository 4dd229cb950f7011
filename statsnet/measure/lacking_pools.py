"""Adaptive pools in operators that other runtimes have. The same numbers, but for rounding.

Windows of one size are a plain pool. For uneven ones, averages are a product with each axis's windows, and maxima read
what lies in two windows twice, one axis after the other. Places of maxima are looked for in whole windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def adaptive_average(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """As `aten.adaptive_avg_pool3d`."""
    if sides := _even(x, sizes):
        return F.avg_pool3d(x, sides, sides)
    for axis, size in zip(range(-len(sizes), 0), sizes, strict=True):
        means = _means(x.shape[axis], size, x)
        x = x @ means.T if axis == -1 else (means @ x.flatten(axis + 1)).unflatten(-1, x.shape[axis + 1 :])
    return x


def adaptive_maximum(x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """As `aten.adaptive_max_pool1d` to `3d`: each window's maximum, and its first place in the map. Of several that are
    no number, torch has the last one's place, and this the first one's."""
    space = len(sizes)
    if sides := _even(x, sizes):
        pool: Any = getattr(torch.ops.aten, f"max_pool{space}d_with_indices").default
        made: tuple[Tensor, Tensor] = pool(x, sides, sides)
        return made
    values = x
    for axis, size in zip(range(-space, 0), sizes, strict=True):
        index = _inside(x.shape[axis], size, x)
        values = values.index_select(axis, index.flatten()).unflatten(axis, index.shape).amax(axis)
    size_of_map = x.shape[-space:]
    places = torch.arange(size_of_map.numel(), device=x.device).view(size_of_map)
    first = _in_windows(x, sizes).argmax(-1, keepdim=True)
    of_windows = _in_windows(places, sizes)
    return values, of_windows.expand(*first.shape[:-1], of_windows.shape[-1]).gather(-1, first).squeeze(-1)


def _even(x: Tensor, sizes: Sequence[int]) -> list[int]:
    """The sides of all windows; none if they differ."""
    given = x.shape[-len(sizes) :]
    even = not any(n % m for n, m in zip(given, sizes, strict=True))
    return [n // m for n, m in zip(given, sizes, strict=True)] if even else []


def _in_windows(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """[..., windows along each axis, elements of a window]. A short window has its last elements twice."""
    space = len(sizes)
    for done, size in enumerate(reversed(sizes)):
        axis = -1 - 2 * done
        index = _inside(x.shape[axis], size, x)
        x = x.index_select(axis, index.flatten()).unflatten(axis, index.shape)
    inner, windows = range(-1, -2 * space, -2), range(-2, -2 * space - 1, -2)
    order = [*range(x.dim() - 2 * space), *(x.dim() + axis for axis in (*reversed(windows), *reversed(inner)))]
    return x.permute(order).flatten(-space)


def _inside(given: int, made: int, like: Tensor) -> Tensor:
    """[made, longest]: which elements of an axis are in each window."""
    begins, ends = _bounds(given, made, like)
    longest = max(((i + 1) * given + made - 1) // made - i * given // made for i in range(made))
    return (begins + torch.arange(longest, device=like.device)).minimum(ends - 1)


def _means(given: int, made: int, like: Tensor) -> Tensor:
    """[made, given]: each row averages a window."""
    begins, ends = _bounds(given, made, like)
    places = torch.arange(given, device=like.device)
    inside = (places >= begins) & (places < ends)
    return inside.to(like.dtype) / (ends - begins)


def _bounds(given: int, made: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """[made, 1] each: where torch's adaptive pools begin and end their windows."""
    numbers = torch.arange(made, device=like.device)[:, None]
    return numbers * given // made, ((numbers + 1) * given + made - 1) // made
