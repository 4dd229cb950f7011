"""The fixed cost of a call: its path through the library, from thread to thread, and the layout of its weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from statsnet.synthesis.costs.loads import OperatorGroup

FEWEST = 4
"""A kernel class's overhead is estimated if it has at least this many blocks."""

FEWEST_WITH_WEIGHTS = 8
"""With at least this many blocks, the cost of weights is estimated too: one more unknown, small in many blocks."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time that a smaller batch does not shorten: `call_s` for each call, `weight_byte_s` for each byte of weights."""

    call_s: float = 0.0
    weight_byte_s: float = 0.0

    def of_calls_s(self, operators: OperatorGroup) -> float:
        return min(operators.calls * self.call_s, operators.time_s)

    def of_weights_s(self, operators: OperatorGroup) -> float:
        return min(operators.weights * self.weight_byte_s, operators.time_s - self.of_calls_s(operators))

    def fixed_s(self, operators: OperatorGroup) -> float:
        return self.of_calls_s(operators) + self.of_weights_s(operators)


NONE = Overhead()

Overheads = Mapping[str, Overhead]
"""By kernel class."""


def overheads(groups: Iterable[OperatorGroup]) -> dict[str, Overhead]:
    """For each kernel class, a and d of the fit t = a + b · FLOPs + c · (bytes − weights) + d · weights per call, over
    the class's blocks in several sizes: least squares of the relative errors, without negative coefficients (Lawson and
    Hanson 1974). d is the time that each call takes per byte of weights to read them, pack them and bring them into the
    library's layout."""
    by_class: dict[str, list[OperatorGroup]] = defaultdict(list)
    for operators in groups:
        if operators.calls > 0 and operators.time_s > 0:
            by_class[operators.kernel_class].append(operators)
    return {name: _overhead(of_class) for name, of_class in by_class.items() if len(of_class) >= FEWEST}


def _overhead(groups: list[OperatorGroup]) -> Overhead:
    calls = np.array([g.calls for g in groups])
    times_s = np.array([g.time_s for g in groups]) / calls
    fits_weights = len(groups) >= FEWEST_WITH_WEIGHTS
    weights = np.array([g.weights if fits_weights else 0.0 for g in groups])
    moved = np.maximum(np.array([g.bytes for g in groups]) - weights, 0.0)
    flops = np.array([g.flops for g in groups])
    amounts = np.stack([np.ones(len(groups)), flops / calls, moved / calls, weights / calls], axis=1)
    scale = np.where(amounts.max(axis=0) > 0, amounts.max(axis=0), 1.0)
    fit, _ = nnls(amounts / scale / times_s[:, None], np.ones(len(groups)))
    return Overhead(call_s=float(fit[0]), weight_byte_s=float(fit[3] / scale[3]))
