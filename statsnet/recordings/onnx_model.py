"""ONNX models → signatures: one inference, counted from shapes. Nothing runs and nothing is timed.

Symbolic sizes (a dynamic batch) need a number: `dims`, else 1. Of an If whose condition depends on the inputs' values,
the branch with more nodes is counted, as if it were taken; the body of a Loop or Scan is counted once, as its trips
depend on values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError
from statsnet.profiling.build_signature import build_signature, dtype_of_elements
from statsnet.profiling.step_trace import StepTrace
from statsnet.recordings.imported import Imported, within_limits
from statsnet.recordings.onnx_call import IN_A_BYTE, encoded_tensor, tensor_of_type
from statsnet.recordings.onnx_file import load_model
from statsnet.recordings.onnx_graph import GraphReader
from statsnet.signatures.operators import MOST_AXES, bytes_of, tensors_of


def read_onnx(path: Path, *, dims: Mapping[str, int] | None = None) -> Imported:
    """One inference of an ONNX model (.onnx or .onnx.gz), as a signature without a measurement.

    `dims` gives the sizes of symbolic dimensions by name; those that are not named are 1. Weights in files beside the
    model are not needed. Raises UsageError if the package onnx is missing or `dims` names a dimension that the model
    does not have, FileFormatError for what is no model.
    """
    notes = ["an ONNX model has no times: the signature has counts alone"]
    note = notes.append
    model, was_symbolic = load_model(path, dims or {}, note)
    reader = GraphReader(note, max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1))
    reader.read(model.graph)
    if not reader.calls:
        raise FileFormatError(
            f"'{path}' computes nothing", cause="its graph has no operators", hint="export the whole model"
        )
    reader.tell()
    weights = [encoded_tensor(t.data_type, t.dims) for t in model.graph.initializer]
    few_bits = [(n, IN_A_BYTE[t.data_type]) for t in model.graph.initializer if (n := _of_few_bits(t))]
    names = {t.name for t in model.graph.initializer}
    inputs = [tensor_of_type(v.type) for v in model.graph.input if v.name not in names]
    batch = next((t["shape"][0] for t in inputs if t and t["shape"]), None)
    signature = within_limits(lambda: build_signature(
        [StepTrace.counted(reader.calls)],
        mode="inference",
        dtype=dtype_of_elements(weights + inputs),
        memory={
            "parameter_count": sum(t.numel for t in tensors_of(weights)) + sum(n for n, _ in few_bits),
            "parameter_bytes": bytes_of(weights, ()) + sum(-(-n // in_a_byte) for n, in_a_byte in few_bits),
            "buffer_bytes": 0, "input_bytes": bytes_of(inputs, ()), "optimizer_bytes": None,
            "activation_bytes": None, "peak_bytes": None,
        },
        environment=None,
        batch=batch if was_symbolic and batch else None,
    ), str(path))  # fmt: skip
    return Imported(signature=signature, notes=tuple(notes))


def _of_few_bits(weight: Any) -> int:
    """Its elements, if several of them lie in a byte; else 0."""
    if weight.data_type not in IN_A_BYTE or len(weight.dims) > MOST_AXES or any(n < 0 for n in weight.dims):
        return 0
    return math.prod(weight.dims)
