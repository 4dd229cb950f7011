"""Motifs: runs of operators tied by data flow, as a compiler would fuse them (conv, batch norm, relu); and what
collectives are tied to."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from statsnet.profiling.capture import OpCall
from statsnet.signatures.categories import FUSABLE, base_name, categorize
from statsnet.signatures.collectives import is_collective

MAX_LENGTH = 6
JOINING = ("convolution", "gemm")
ELEMENT_BY_ELEMENT = ("activation", "elementwise")


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


def collective_pairs(calls: list[OpCall]) -> list[tuple[int, int]]:
    """Indices of calls of which the second reads what the first has written, in any phase, where one of them is a
    collective."""
    moving = [is_collective(call.op) for call in calls]
    return [
        (producer, index)
        for index, call in enumerate(calls)
        for producer in call.producers
        if (moving[index] or moving[producer]) and not (call.metadata or calls[producer].metadata)
    ]


def mark_fused(calls: list[OpCall]) -> None:
    """Mark each call that is `fused` or `joined`, with others of its own segment."""
    for call in calls:
        call.fused = call.joined = False
    runs = motif_runs(calls)
    written_by = {i: run[0] for run in runs for i in run}
    for run in runs:
        in_run = [calls[i] for i in run]
        for segment in {call.segment for call in in_run}:
            mine = [call for call in in_run if call.segment == segment]  # a run never comes back to a segment
            named = [(call.op, categorize(call.op, call.phase)) for call in mine]
            for call, is_fused, is_joined in zip(mine, fused(named), joined(named), strict=True):
                call.fused, call.joined = is_fused, is_joined
        heads = [calls[written_by[i]] for i in in_run[0].producers if i in written_by]
        if _is_convolution(in_run[0]) and any(_is_convolution(h) and h.segment == in_run[0].segment for h in heads):
            in_run[0].joined = True


def fused(run: Sequence[tuple[str, str]]) -> list[bool]:
    """For each operator of a run, given with its category: whether a compiler would run it in one pass with the one
    before it, because both are FUSABLE."""
    return [False, *({before, category} <= FUSABLE for (_, before), (_, category) in pairwise(run))]


def joined(run: Sequence[tuple[str, str]]) -> list[bool]:
    """For each operator of a run, given with its category: whether runtimes of inference make it a part of the
    convolution or product at the run's head, or if it is that product, whether something becomes a part of it. They put
    a batch norm into weights, and what is done to each element behind results. A layer norm becomes one with the
    addition before it.

    A convolution is joined if it reads what another one of its segment wrote: runtimes keep such maps in a layout of
    their own. That a run does not tell.
    """
    goes_on = run[0][1] in JOINING
    behind = []
    for op, category in run[1:]:
        goes_on = goes_on and (category in ELEMENT_BY_ELEMENT or "batch_norm" in base_name(op))
        behind.append(goes_on)
    marked = [run[0][1] == "gemm" and any(behind), *behind]
    for i, (before, after) in enumerate(pairwise(base_name(op) for op, _ in run)):
        if before in ("add", "add_") and "layer_norm" in after:
            marked[i] = marked[i + 1] = True
    return marked


def count_motifs(runs: list[tuple[int, ...]], cluster_of: list[int | None]) -> Counter[tuple[int, ...]]:
    """How often each sequence of clusters occurs, single operators included."""
    counted: Counter[tuple[int, ...]] = Counter()
    for run in runs:
        clusters = tuple(c for i in run if (c := cluster_of[i]) is not None)
        if clusters:
            counted[clusters] += 1
    return counted


def _is_convolution(call: OpCall) -> bool:
    return categorize(call.op, call.phase) == "convolution"


def _numel(call: OpCall) -> int:
    first = next((o for o in call.outputs if o is not None), None)
    return math.prod(first["shape"]) if first else 0
