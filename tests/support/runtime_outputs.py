"""What a step in another runtime gives."""

from __future__ import annotations

from typing import Any


def arrays_of(result: Any) -> list[Any]:
    """Those that a request of OpenVINO, and values of onnxruntime and IREE hold."""
    values = [t.data for t in result.output_tensors] if hasattr(result, "output_tensors") else list(result)
    return [value.numpy() if hasattr(value, "numpy") else value for value in values]
