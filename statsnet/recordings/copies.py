"""What a recording holds twice, as where somebody put the same file into another one again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import groupby
from typing import TypeVar

Item = TypeVar("Item")


def first_of_each(
    items: Iterable[Item], span: Callable[[Item], tuple[int, int]], rest: Callable[[Item], Hashable]
) -> list[Item]:
    """Of items with the same span and the same rest, the first. They are sorted by their spans."""
    kept: list[Item] = []
    for _, alike in groupby(sorted(items, key=span), span):
        first: dict[Hashable, Item] = {}
        for item in alike:
            first.setdefault(rest(item), item)
        kept += first.values()
    return kept
