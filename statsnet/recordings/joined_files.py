"""What other files add to a profiler's recording: shapes from an execution trace, counters from Nsight Compute."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from statsnet.errors import FileFormatError, MeasurementError
from statsnet.measure.ncu_csv import read_counters
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import assign_to_clusters, with_counters
from statsnet.recordings.arguments import Arguments, KnownArguments
from statsnet.recordings.chrome_trace import RecordedEvent, Recording
from statsnet.recordings.execution_nodes import Node, nodes_by_step, places_of, read_nodes, without_copies
from statsnet.signatures.model import Signature

Named = TypeVar("Named", RecordedEvent, Node)
Pair = tuple[RecordedEvent, Node]

MOST_STEPS = 100
"""Of an execution trace, so many are compared with each step of a recording."""


def give_arguments(recording: Recording, path: Path) -> str:
    """Give the operators whose shapes or numbers are not recorded those of an execution trace of the same program.
    Returns what was given, as a sentence.

    They are joined by the id of their record function where both files have one and name the same operator. Else they
    are joined step by step: the n-th operator of a name in a step is the n-th node of that name in a step of the trace,
    if there are as many, or a multiple (an unmarked recording of several steps). Raises FileFormatError for a file that
    is no execution trace, or one of another program.
    """
    nodes = without_copies(read_nodes(path))
    operators = sorted(recording.operators, key=lambda e: e.start_ns)
    lacking = sum(_is_lacking(e.arguments) for e in operators)
    pairs = _paired_by_id(operators, nodes)
    if pairs is None:
        pairs = _paired_by_order(recording, operators, nodes)
    given = _give(pairs)
    if lacking and not given:
        raise FileFormatError(
            f"'{path}' is the execution trace of another program",
            cause=f"none of {lacking} operators has a node in it with the same name, place and sizes",
            hint="give the trace that ExecutionTraceObserver wrote of the same step, or leave out --execution-trace",
        )
    if not lacking:
        return "the recording has all shapes and numbers: the execution trace adds none"
    return f"{given} of {lacking} operators without shapes or numbers got them from the execution trace"


def _paired_by_id(operators: Sequence[RecordedEvent], nodes: Sequence[Node]) -> list[Pair] | None:
    """Operators and nodes with the same record; None if the ids of the files are not the same."""
    by_id: dict[tuple[str, int | None], Node] = {(n.name, n.record_id): n for n in nodes if n.record_id is not None}
    pairs = [(event, node) for event in operators if (node := by_id.get((event.name, event.record_id)))]
    return pairs if len(pairs) > len(operators) / 2 else None


def _paired_by_order(recording: Recording, operators: Sequence[RecordedEvent], nodes: Sequence[Node]) -> list[Pair]:
    """Operators and nodes of the same name and place in a step."""
    parts = nodes_by_step(nodes, places_of(nodes), lambda n: n.is_operator).values()
    traced = [_by_name(part) for part in islice(parts, MOST_STEPS)]
    sizes = [sum(map(len, step.values())) for step in traced]
    pairs: list[Pair] = []
    for index, events in enumerate(_steps_of(recording, operators) if traced else ()):
        # Steps differ where a first one sets something up.
        best = min(
            range(len(traced)),
            key=lambda i: (_distance(events, traced[i], sizes[i]), (i - index) % len(traced)),
        )
        for name, waiting in events.items():
            candidates = traced[best].get(name, [])
            if candidates and len(waiting) % len(candidates) == 0:
                pairs += ((event, candidates[i % len(candidates)]) for i, event in enumerate(waiting))
    return pairs


def _give(pairs: Iterable[Pair]) -> int:
    """Give the operators that lack arguments those of their nodes; returns how many got some."""
    known = KnownArguments()
    given = 0
    for event, node in pairs:
        if not _is_lacking(event.arguments) or not node.inputs.types:
            continue
        made = node.inputs.arguments
        if event.arguments is None or _sizes(event.arguments) == _sizes(made):
            event.arguments = known.same(made)
            given += 1
    return given


def _is_lacking(arguments: Arguments | None) -> bool:
    """Whether shapes, or the numbers beside them, are not recorded."""
    return arguments is None or arguments.values is None


def _sizes(arguments: Arguments) -> list[Any]:
    """The sizes of all tensors that have an axis."""
    return [sizes for sizes in arguments.dims or () if sizes and sizes != [[]]]


def _steps_of(recording: Recording, events: Sequence[RecordedEvent]) -> list[dict[str, list[RecordedEvent]]]:
    """The events, which are sorted, of each marked step by their names; all of them, where none is marked."""
    steps = [step for _, step in recording.steps]
    if not steps:
        return [_by_name(events)]
    starts = [e.start_ns for e in events]
    spans = [(bisect_left(starts, step.start_ns), bisect_left(starts, step.end_ns)) for step in steps]
    return [_by_name(events[begin:end]) for begin, end in spans]


def _by_name(named: Iterable[Named]) -> dict[str, list[Named]]:
    found: dict[str, list[Named]] = defaultdict(list)
    for each in named:
        found[each.name].append(each)
    return found


def _distance(one: Mapping[str, Sequence[Any]], other: Mapping[str, Sequence[Any]], size: int) -> int:
    """In how many operators two steps differ, of which the other has so many. Looks at the names of the one alone."""
    there = ((len(events), len(other.get(name, ()))) for name, events in one.items())
    return size + sum(abs(a - b) - b for a, b in there)


def counted_by(signature: Signature, launches: Sequence[Launch], path: Path) -> Signature:
    """The signature with the counters of ncu's table, whose n-th kernel is the n-th of the step.

    Raises FileFormatError if the file is no such table, MeasurementError if it holds other kernels.
    """
    if signature.measurements[0].gpu is None:
        raise MeasurementError(
            "the recording has no kernels to count",
            cause="counters are those of a GPU's kernels",
            hint="leave out --ncu",
        )
    table = read_counters(path)
    counters = assign_to_clusters(launches, table.kernels, clusters=len(signature.clusters), tool=table.tool)
    return with_counters(signature, counters)
