"""What a call takes whatever its work: its way through the library, from thread to thread, and its weights' layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from statsnet.synthesis.loads import OperatorGroup

FEWEST = 4
"""Blocks of a kernel class from which its overhead can be told."""

FEWEST_WITH_WEIGHTS = 8
"""And from which what its weights take can be told too: another unknown, of which many blocks have little."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What dividing a batch does not divide: `call_s` of each call, `weight_byte_s` of each byte of its weights."""

    call_s: float = 0.0
    weight_byte_s: float = 0.0

    def of_calls_s(self, work: OperatorGroup) -> float:
        return min(work.calls * self.call_s, work.time_s)

    def of_weights_s(self, work: OperatorGroup) -> float:
        return min(work.weights * self.weight_byte_s, work.time_s - self.of_calls_s(work))

    def fixed_s(self, work: OperatorGroup) -> float:
        return self.of_calls_s(work) + self.of_weights_s(work)


NONE = Overhead()

Overheads = Mapping[str, Overhead]
"""By kernel class."""


def overheads(works: Iterable[OperatorGroup]) -> dict[str, Overhead]:
    """Of each kernel class, a and d of t = a + b · FLOPs + c · (bytes − weights) + d · weights of each call, over
    blocks of one class in several sizes: least squares of the relative errors, no part of it negative (Lawson and
    Hanson 1974). d is what a weight's byte takes at every call: to be read, packed, laid out as the library
    wants it."""
    by_class: dict[str, list[OperatorGroup]] = defaultdict(list)
    for work in works:
        if work.calls > 0 and work.time_s > 0:
            by_class[work.kernel_class].append(work)
    return {name: _overhead(found) for name, found in by_class.items() if len(found) >= FEWEST}


def _overhead(works: list[OperatorGroup]) -> Overhead:
    calls = np.array([w.calls for w in works])
    times_s = np.array([w.time_s for w in works]) / calls
    apart = len(works) >= FEWEST_WITH_WEIGHTS
    weights = np.array([w.weights if apart else 0.0 for w in works])
    moved = np.maximum(np.array([w.bytes for w in works]) - weights, 0.0)
    flops = np.array([w.flops for w in works])
    amounts = np.stack([np.ones(len(works)), flops / calls, moved / calls, weights / calls], axis=1)
    scale = np.where(amounts.max(axis=0) > 0, amounts.max(axis=0), 1.0)
    found, _ = nnls(amounts / scale / times_s[:, None], np.ones(len(works)))
    return Overhead(call_s=float(found[0]), weight_byte_s=float(found[3] / scale[3]))
