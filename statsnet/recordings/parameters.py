"""What stays in memory, told from who reads a tensor first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """A tensor that an operator reads at this place among its arguments."""

    storage: int
    place: int
    elements: int
    item_bytes: int
    is_floating: bool


def memory_of(uses: Iterable[TensorUse]) -> dict[str, int | None]:
    """Memory of a step from the tensors that its forward pass reads and did not make.

    Floating-point tensors that are read as a second or later argument (weights, biases, statistics) count as
    parameters, all others as inputs. A recording says no more: buffers are among the parameters, a bias that is a first
    argument is among the inputs; activations and the optimizer's state are not known.
    """
    largest: dict[int, TensorUse] = {}
    later: set[int] = set()
    for use in uses:
        if use.storage not in largest or use.elements > largest[use.storage].elements:
            largest[use.storage] = use
        if use.place > 0 and use.is_floating:
            later.add(use.storage)
    parameters = [use for storage, use in largest.items() if storage in later]
    inputs = [use for storage, use in largest.items() if storage not in later]
    return {
        "parameter_count": sum(use.elements for use in parameters),
        "parameter_bytes": sum(use.elements * use.item_bytes for use in parameters),
        "buffer_bytes": 0,
        "input_bytes": sum(use.elements * use.item_bytes for use in inputs),
        "optimizer_bytes": None,
        "activation_bytes": None,
        "peak_bytes": None,
    }
