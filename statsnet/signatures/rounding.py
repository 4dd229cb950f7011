"""Numbers in bins: sizes of a model without the model's exact sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

SMALL = 16
"""Integers among an operator's arguments up to this size are windows, steps, axes and choices. They stay."""

PLACE_DIGITS = 4
"""Of a collective's place in its phase, as a share of it."""

PRIVATE_DIGITS = 3
"""Of times and rates of private members, in a proxy's folder."""


def half_octave(value: int) -> int:
    """The nearest of 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 …, by ratio: a size within 20 % that many sizes share. The sign is
    kept, and so is the largest integer of 64 bits, which stands for an end."""
    if value in (0, 2**63 - 1):
        return value
    size = abs(value)
    octave = size.bit_length() - 1
    below = 1 << octave
    best: int = min(sorted({below, 3 * below // 2, 2 * below}), key=lambda c: abs(math.log(c / size)))
    return best if value > 0 else -best


def binned_size(value: int) -> int:
    """A size of a tensor, of the same sign. In half octaves; but from 16 to 64, where tables and heads are counted, in
    powers of two; and from 65,536 on, where rows of tables are, in powers of four. It is its own bin."""
    size = abs(value)
    if SMALL < size < 79:  # 64 and 96 meet at 78.4
        ratio = 2
    elif 56_756 <= size < 2**63 - 1:  # 49,152 and 65,536 meet at 56,755.7
        ratio = 4
    else:
        return half_octave(value)
    return int(math.copysign(1, value)) * min(in_steps(size, ratio), 4**31)


def is_of_bins(size: int) -> bool:
    """Whether a size may be a product of binned ones, or a part of it: it has no prime factor but 2 and 3."""
    while size % 2 == 0 and size:
        size //= 2
    while size % 3 == 0 and size:
        size //= 3
    return abs(size) <= 1


def in_steps(value: float, ratio: int) -> int:
    """The nearest of 1, `ratio`, `ratio`² …, by ratio; 0 for less than a half."""
    return 0 if value < 0.5 else int(ratio ** max(0, round(math.log2(value) / math.log2(ratio))))


def rounded(value: float, digits: int = 2) -> float:
    """With so many significant digits."""
    return float(f"{value:.{digits}g}")


def is_binned_count(count: float) -> bool:
    """Whether a count is one of a coarse signature: a power of two, or a share of a call with one digit."""
    return count == rounded(count, 1) if count < 1 else count == in_steps(count, 2)


def binned_argument(arg: Any) -> Any:
    """An encoded argument with its sizes rounded, and the layouts that go with them."""
    if isinstance(arg, dict):
        return binned_list(arg["tensors"]) if "tensors" in arg else binned_tensor(arg)
    if isinstance(arg, list):
        return [binned_argument(a) for a in arg]
    if isinstance(arg, int) and not isinstance(arg, bool) and abs(arg) > SMALL:
        return binned_size(arg)
    return arg


def binned_tensor(tensor: dict[str, Any]) -> dict[str, Any]:
    """A tensor's sizes, and all that is counted of it, rounded. What has strides stays in the same order of
    axes, broadcast axes stay broadcast, and nothing lies between its elements."""
    out = {name: value for name, value in tensor.items() if name != "strides"}
    out["shape"] = [binned_size(n) for n in tensor["shape"]]
    for name in ("high", "sparse", "elements", "index_bytes", "squares"):
        if name in out:
            out[name] = binned_size(out[name])
    if "strides" in tensor:
        out["strides"] = dense_strides(out["shape"], tensor["strides"])
    return out


def dense_strides(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Strides of a tensor of another shape: the same order of axes, the same broadcast ones, no gaps."""
    new, step = [0] * len(shape), 1
    for axis in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        if strides[axis]:
            new[axis], step = step, step * shape[axis]
    return new


def binned_list(entries: Sequence[Any]) -> dict[str, Any]:
    """A list of tensors: each binned, equal ones together."""
    return {"tensors": _together([None if e is None else binned_tensor(e) for e in entries])}


def without_order(arg: Any) -> Any:
    """A list of tensors sorted by what they are, since the order of parameters is the list of layers. Where a tensor is
    left out, places matter, and the list stays."""
    if not (isinstance(arg, dict) and "tensors" in arg) or None in arg["tensors"]:
        return arg
    return {"tensors": _together(arg["tensors"])}


def _together(entries: Sequence[Any]) -> list[Any]:
    if None in entries:
        return list(entries)
    times: dict[str, int] = {}
    for entry in entries:
        bare = {name: value for name, value in entry.items() if name != "times"}
        key = json.dumps(bare, sort_keys=True)
        times[key] = times.get(key, 0) + entry.get("times", 1)
    return [{**json.loads(key), **({"times": n} if n > 1 else {})} for key, n in sorted(times.items())]
