"""What a call takes whatever its work: its way through the library, from thread to thread, its weights' layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from scipy.optimize import nnls

from statsnet.synthesis.rows import Work

FEWEST = 4
"""Blocks of a kernel class from which its overhead can be told."""


def call_overhead_s(works: Iterable[Work]) -> dict[str, float]:
    """Seconds by kernel class: a of t = a + b · FLOPs + c · bytes, of each call, over blocks of one class in several
    sizes: least squares of the relative errors, no part of it negative (Lawson and Hanson 1974)."""
    by_class: dict[str, list[Work]] = defaultdict(list)
    for work in works:
        if work.calls > 0 and work.time_s > 0:
            by_class[work.kernel_class].append(work)
    return {name: _overhead_s(found) for name, found in by_class.items() if len(found) >= FEWEST}


def _overhead_s(works: list[Work]) -> float:
    times_s = np.array([w.time_s / w.calls for w in works])
    amounts = np.array([[1.0, w.flops / w.calls, w.bytes / w.calls] for w in works])
    scale = np.where(amounts.max(axis=0) > 0, amounts.max(axis=0), 1.0)
    found, _ = nnls(amounts / scale / times_s[:, None], np.ones(len(works)))
    return float(found[0])
