"""Motifs: runs of operators tied by data flow, as a compiler would fuse them (conv, batch norm, relu)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise

from statsnet.profiling.capture import OpCall
from statsnet.signatures.categories import FUSABLE, categorize

MAX_LENGTH = 6


def motif_runs(calls: list[OpCall]) -> list[tuple[int, ...]]:
    """Partition the forward calls that move data into runs; each run is a tuple of call indices.

    A run starts at any call. It goes on while exactly one call reads its last result, and that call is fusable and
    keeps the number of elements.
    """
    forward = [i for i, c in enumerate(calls) if c.phase == "forward" and not c.metadata]
    readers: dict[int, list[int]] = defaultdict(list)
    for index in forward:
        for producer in calls[index].producers:
            readers[producer].append(index)
    taken: set[int] = set()
    runs: list[tuple[int, ...]] = []
    for index in forward:
        if index in taken:
            continue
        run = [index]
        while len(run) < MAX_LENGTH:
            following = readers[run[-1]]
            if len(following) != 1 or following[0] in taken:
                break
            candidate = calls[following[0]]
            fusable = categorize(candidate.op, candidate.phase) in FUSABLE
            if not fusable or _numel(candidate) != _numel(calls[run[-1]]):
                break
            run.append(following[0])
        taken.update(run)
        runs.append(tuple(run))
    return runs


def mark_fused(calls: list[OpCall]) -> None:
    """Mark each call that a compiler would run in one pass with the call before it: both are FUSABLE, neighbours in
    a run, and in one segment."""
    for call in calls:
        call.fused = False
    for run in motif_runs(calls):
        for before, index in pairwise(run):
            first, second = calls[before], calls[index]
            both = {categorize(first.op, first.phase), categorize(second.op, second.phase)} <= FUSABLE
            second.fused = both and first.segment == second.segment


def count_motifs(runs: list[tuple[int, ...]], cluster_of: list[int | None]) -> Counter[tuple[int, ...]]:
    """How often each sequence of clusters occurs, single operators included."""
    counted: Counter[tuple[int, ...]] = Counter()
    for run in runs:
        clusters = tuple(c for i in run if (c := cluster_of[i]) is not None)
        if clusters:
            counted[clusters] += 1
    return counted


def _numel(call: OpCall) -> int:
    first = next((o for o in call.outputs if o is not None), None)
    return math.prod(first["shape"]) if first else 0
