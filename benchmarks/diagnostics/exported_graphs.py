"""The nodes of exported graphs, counted: a task for `exported_nodes.py`."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet.measure.network_file import load_network
from statsnet.measure.runtimes import captured_proxy, captured_workload, saved_onnx
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """Of one type, in one step: how often such nodes run, and the bytes that they write, as far as known."""

    count: float
    bytes_written: float


@dataclass(frozen=True, kw_only=True)
class CountNodes(Task[dict[str, NodeType]]):
    """Of a workload's model, or of the network in a folder."""

    model: Model | None = None
    folder: str | None = None
    optimized: bool = False

    def run(self, context: Context) -> dict[str, NodeType]:
        if self.model is not None:
            programs = captured_workload(self.model.build("cpu"))
        else:
            assert self.folder is not None
            network = load_network(self.folder)
            programs = captured_proxy(network, network.build("cpu"), "cpu")
        with tempfile.TemporaryDirectory() as name:
            paths = [saved_onnx(p, Path(name) / f"{i}.onnx") for i, p in enumerate(programs)]
            counted = [node_types(_optimized(path) if self.optimized else path) for path in paths]
        return {t: _mean([c.get(t) for c in counted]) for t in sorted(set().union(*counted))}


def _mean(values: list[NodeType | None]) -> NodeType:
    known = [value for value in values if value is not None]
    count, written = (math.fsum(getattr(v, name) for v in known) for name in ("count", "bytes_written"))
    return NodeType(count=count / len(values), bytes_written=written / len(values))


def _optimized(path: Path) -> Path:
    import onnxruntime

    options, made = onnxruntime.SessionOptions(), path.with_suffix(".optimized.onnx")
    options.optimized_model_filepath, options.log_severity_level = str(made), 3
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{made.name}.data")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return made


def node_types(path: Path) -> dict[str, NodeType]:
    """Of a model's file, without its weights."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    _count(model.graph, 1.0, counts)
    return {name: NodeType(count=count, bytes_written=written) for name, (count, written) in counts.items()}


def _count(graph: Any, times: float, counts: dict[str, list[float]]) -> None:
    """Add the nodes of a graph that runs so often, and of the graphs within them."""
    import onnx

    sizes = {v.name: _bytes(v.type.tensor_type) for v in (*graph.value_info, *graph.output)}
    numbers = {t.name: t for t in graph.initializer}
    for node in graph.node:
        entry = counts[node.op_type]
        entry[0] += times
        entry[1] += times * sum(sizes.get(name, 0.0) for name in node.output)
        inner = times
        if node.op_type == "Loop" and node.input and (trips := numbers.get(node.input[0])) is not None:
            inner *= float(onnx.numpy_helper.to_array(trips).reshape(-1)[0])
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _count(attribute.g, inner, counts)


def _bytes(tensor: Any) -> float:
    """Of a tensor with a static shape; 0 of any other."""
    import onnx

    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
    try:
        item = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    except KeyError:
        return 0.0
    return float(item * math.prod(dims))
