"""How much an operator finds by the values of a tensor: entries of a mask, sums of repeats, distinct numbers.

The values are not in a signature. But the shapes of the results tell what they were like, and so how to make others
for which the operator does as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import first_tensor, is_tensor
from statsnet.signatures.tensor_lists import each_in_list

INDEXING = frozenset({"index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl"})
"""They find something by values only where an index is a mask."""

MASKS = ("bool", "uint8")

_FINDERS = {
    "nonzero": ("self", "hits"), "masked_select": ("mask", "hits"), "repeat_interleave": ("repeats", "shares"),
    "unique_consecutive": ("self", "runs"), "_unique": ("self", "distinct"), "_unique2": ("self", "distinct"),
    "bincount": ("self", "distinct"),
}  # fmt: skip
"""By the length of their first result: the argument whose values decide it, and how."""

FINDING = INDEXING | _FINDERS.keys()
HOW = {name: how for name, (_, how) in _FINDERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The argument whose values decide (its name in the schema), and what `count` of them is: how many are not zero
    (`hits`), their sum (`shares`), how many are distinct (`distinct`), or how many runs of equal ones there are
    (`runs`)."""

    argument: str
    how: str
    count: int


def finds_by_values(op: str, given: Mapping[str, Any]) -> bool:
    """Whether values decide how much an operator with these arguments, by the schema's names, finds."""
    base = base_name(op).removesuffix("_")
    masks = (e for e in _indices(given) if e is not None and e["dtype"] in MASKS)
    return any(masks) if base in INDEXING else base in _FINDERS and is_tensor(given.get(_FINDERS[base][0]))


def _indices(given: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    indices = given.get("indices")
    return list(each_in_list(indices["tensors"])) if isinstance(indices, dict) and "tensors" in indices else []


def found_of(op: str, given: Mapping[str, Any], outputs: Sequence[Any]) -> Found | None:
    """What an operator with these arguments found; None if it finds nothing by values, or if its shapes do not tell how
    much."""
    base = base_name(op).removesuffix("_")
    if base in INDEXING:
        hits = _hits(base, given, outputs)
        return None if hits is None else Found(argument="indices", how="hits", count=hits)
    argument, how = _FINDERS.get(base, ("", ""))
    deciding, written = first_tensor([given.get(argument)]), first_tensor(outputs)
    if deciding is None or written is None or not written.shape or given.get("dim") is not None:
        return None
    count, most = written.shape[0], math.prod(deciding.shape)
    if base == "masked_select" and is_tensor(given.get("self")):  # the mask stands for all that it is spread over
        count = round(count * most / max(1, _spread(deciding.shape, given["self"]["shape"])))
    return Found(argument=argument, how=how, count=min(count, most) if how == "hits" else count)


def _spread(first: Sequence[int], second: Sequence[int]) -> int:
    """Elements of two tensors that are spread over each other."""
    longer, shorter = sorted((list(first), list(second)), key=len, reverse=True)
    shorter = [1] * (len(longer) - len(shorter)) + shorter
    return math.prod(n if m == 1 else m for n, m in zip(longer, shorter, strict=True))


def _hits(base: str, given: Mapping[str, Any], outputs: Sequence[Any]) -> int | None:
    """How many entries of a mask among the indices are true. Half of them where nothing tells: one value was written to
    all that was found."""
    entries = _indices(given)
    masks: list[int] = [math.prod(e["shape"]) for e in entries if e is not None and e["dtype"] in MASKS]
    numbers = [e["shape"] for e in entries if e is not None and e["dtype"] not in MASKS]
    if not masks or any(len(shape) > 1 for shape in numbers) or not is_tensor(given.get("self")):
        return None
    kept = _kept(given["self"]["shape"], entries)
    of_each = math.prod(kept)
    if base.endswith("index"):
        written = first_tensor(outputs)
        return None if written is None or not of_each else min(written.numel // of_each, *masks)
    values = first_tensor([given.get("values")])
    told = values is not None and len(values.shape) == len(kept) + 1 and of_each
    return min(values.numel // of_each, *masks) if values and told else min(masks) // 2


def _kept(shape: Sequence[int], entries: Sequence[dict[str, Any] | None]) -> list[int]:
    """Lengths of the axes that no index goes along. A mask goes along as many as it has."""
    kept: list[int] = []
    place = 0
    for entry in entries:
        if entry is None:
            kept += shape[place : place + 1]
        place += len(entry["shape"]) if entry is not None and entry["dtype"] in MASKS else 1
    return [*kept, *shape[place:]]
