"""What other files add to a profiler's recording: shapes from an execution trace, counters from Nsight Compute."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError, MeasurementError
from statsnet.measure.ncu_csv import read_counters
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import assign_to_clusters, with_counters
from statsnet.recordings.chrome_trace import Arguments, Recording
from statsnet.recordings.json_events import open_text
from statsnet.signatures.model import Signature

_CPP_TYPES = {"Int": "Scalar", "Bool": "Scalar", "Double": "Scalar", "Float": "Scalar", "Complex": "Scalar"}


def give_arguments(recording: Recording, path: Path) -> int:
    """Give the operators that have no shapes those of an execution trace of the same program.

    They are joined by the id of their record function where both files have one and name the same operator; else the
    n-th operator of a name is the n-th node of that name, from the first again when a recording holds more steps.
    Returns how many got shapes. Raises FileFormatError for a file that is no execution trace.
    """
    nodes = _nodes(path)
    by_id: dict[tuple[str, int], Arguments] = {}
    by_name: dict[str, deque[Arguments]] = defaultdict(deque)
    for node in sorted(nodes, key=lambda n: int(n.get("id", 0))):
        arguments = _arguments(node)
        if arguments is not None:
            by_name[str(node["name"])].append(arguments)
            if (number := _record_id(node)) is not None:
                by_id[str(node["name"]), number] = arguments
    operators = sorted((e for e in recording.events if e.kind == "operator"), key=lambda e: e.start_ns)
    same = sum((e.name, e.record_id) in by_id for e in operators) > len(operators) / 2
    given = 0
    for event in operators:
        if event.arguments is not None:
            continue
        if same and event.record_id is not None:
            event.arguments = by_id.get((event.name, event.record_id))
        elif waiting := by_name.get(event.name):
            event.arguments = waiting[0]
            waiting.rotate(-1)
        given += event.arguments is not None
    recording.with_dims += given
    return given


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


def _nodes(path: Path) -> list[dict[str, Any]]:
    try:
        with open_text(path) as stream:
            data = json.load(stream)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise FileFormatError(f"'{path}' is no execution trace", cause=str(error)[:200]) from error
    nodes = data.get("nodes") if isinstance(data, dict) else None
    if not isinstance(nodes, list):
        hint = "give a file of torch's ExecutionTraceObserver"
        raise FileFormatError(f"'{path}' is no execution trace", cause="it has no list of nodes", hint=hint)
    return [node for node in nodes if isinstance(node, dict) and "name" in node]


def _record_id(node: dict[str, Any]) -> int | None:
    for attribute in node.get("attrs") or ():
        if isinstance(attribute, dict) and attribute.get("name") == "rf_id" and isinstance(attribute.get("value"), int):
            return int(attribute["value"])
    return node["rf_id"] if isinstance(node.get("rf_id"), int) else None


def _arguments(node: dict[str, Any]) -> Arguments | None:
    """A node's arguments, in the words of the profiler's recordings."""
    inputs = node.get("inputs")
    if isinstance(inputs, dict):
        values, shapes, types = inputs.get("values"), inputs.get("shapes"), inputs.get("types")
        strides = inputs.get("strides")
    else:
        values, shapes, types, strides = inputs, node.get("input_shapes"), node.get("input_types"), None
    if not isinstance(shapes, list) or not isinstance(types, list) or not shapes:
        return None
    texts = [_text(v, t) for v, t in zip(values, types, strict=False)] if isinstance(values, list) else None
    return Arguments(shapes, [_type(t) for t in types], strides if isinstance(strides, list) else None, texts)


def _type(name: Any) -> str:
    """`Tensor(c10::Half)` -> `c10::Half`."""
    text = str(name)
    if text.startswith("Tensor(") and text.endswith(")"):
        return text[len("Tensor(") : -1]
    if text.startswith("GenericList["):
        return "TensorList" if "Tensor" in text else "ScalarList"
    return _CPP_TYPES.get(text, "" if text in ("None", "Device", "String", "Generator") else text)


def _text(value: Any, kind: Any) -> str:
    if "Tensor" in str(kind) or value is None or str(kind) == "None":
        return ""
    return str(value)
