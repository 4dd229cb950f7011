"""Lists of tensors among encoded arguments: written out in memory, short in files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

MAX_LIST_TENSORS = 100_000
"""Longest tensor list that is accepted: a few bytes in a file must not ask for gigabytes of memory."""


def listed_tensors(args: Iterable[Any]) -> int:
    """How many tensors the lists among encoded arguments stand for."""
    return sum(map(_listed, args))


def _listed(arg: Any) -> int:
    if isinstance(arg, list):
        return listed_tensors(arg)
    return sum(map(_stands_for, arg["tensors"])) if isinstance(arg, dict) and "tensors" in arg else 0


def flatten_arguments(args: Iterable[Any]) -> list[Any]:
    """Arguments as used in memory: tensor lists without groups (see `flatten_tensor_list`)."""
    return [_with_list(arg, flatten_tensor_list) for arg in args]


def compact_arguments(args: Iterable[Any]) -> list[Any]:
    """Arguments as written to files: repetitions within tensor lists are written once."""
    return [_with_list(arg, _compact_tensor_list) for arg in args]


def _with_list(arg: Any, change: Any) -> Any:
    if isinstance(arg, list):
        return [_with_list(each, change) for each in arg]
    if isinstance(arg, dict) and "tensors" in arg:
        return {"tensors": change(arg["tensors"])}
    return arg


def flatten_tensor_list(entries: Sequence[Any]) -> list[Any]:
    """Entries with groups written out and equal neighbours merged into one entry with "times".

    Raises ValueError if the list stands for more than MAX_LIST_TENSORS tensors.
    """
    if sum(_stands_for(e) for e in entries) > MAX_LIST_TENSORS:
        raise ValueError(f"a tensor list stands for more than {MAX_LIST_TENSORS} tensors")
    merged: list[Any] = []
    for entry in _without_groups(entries):
        if entry is None:
            merged.append(None)
            continue
        spec, times = _spec_of(entry), entry.get("times", 1)
        if merged and merged[-1] is not None and _spec_of(merged[-1]) == spec:
            times += merged.pop().get("times", 1)
        merged.append(spec | ({"times": times} if times > 1 else {}))
    return merged


def each_in_list(entries: Sequence[Any]) -> Iterator[dict[str, Any] | None]:
    """A tensor list's entries, each as often as it stands there. Raises ValueError as `flatten_tensor_list` does."""
    for entry in flatten_tensor_list(entries):
        yield from [None] if entry is None else itertools.repeat(_spec_of(entry), entry.get("times", 1))


def _stands_for(entry: Any) -> int:
    if entry is None:
        return 1
    inside = sum(_stands_for(e) for e in entry["tensors"]) if "tensors" in entry else 1
    return inside * int(entry.get("times", 1))


def _without_groups(entries: Sequence[Any]) -> Iterable[Any]:
    for entry in entries:
        if entry is not None and "tensors" in entry:
            for _ in range(entry.get("times", 1)):
                yield from _without_groups(entry["tensors"])
        else:
            yield entry


def _spec_of(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k != "times"}


LONGEST_RUN = 64
"""Tensors of a layer."""


def _compact_tensor_list(entries: Sequence[Any]) -> list[Any]:
    """Flat entries with runs that repeat (parameters of equal layers) written once; greedy, left to right."""
    flat = flatten_tensor_list(entries)
    keys = [json.dumps(e, sort_keys=True) for e in flat]
    out: list[Any] = []
    i = 0
    while i < len(flat):
        best_length, best_times = 1, 1
        for length in range(1, min(LONGEST_RUN, (len(flat) - i) // 2) + 1):
            times = _repeats(keys, i, length)
            if (times - 1) * length > (best_times - 1) * best_length:
                best_length, best_times = length, times
        if best_times > 1:
            out.append({"tensors": flat[i : i + best_length], "times": best_times})
        else:
            out.append(flat[i])
        i += best_length * best_times
    return out


def _repeats(keys: list[str], start: int, length: int) -> int:
    times = 1
    if start + length >= len(keys) or keys[start] != keys[start + length]:
        return times
    block = keys[start : start + length]
    while keys[start + times * length : start + (times + 1) * length] == block:
        times += 1
    return times
