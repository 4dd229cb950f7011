"""A node of an ONNX model and its tensors, as they are translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.signatures.operators import MOST_AXES

Tensor = dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxCall:
    """One node: its inputs and outputs as encoded tensors (None: absent or of unknown shape) and its attributes."""

    op: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    attributes: Mapping[str, Any]

    def input(self, index: int) -> Tensor:
        return self.inputs[index] if index < len(self.inputs) else None

    def shapes(self) -> tuple[list[int], list[int]] | None:
        """Of the first input and of the first output; None if one of them is not known."""
        read, written = self.input(0), self.outputs[0] if self.outputs else None
        return (read["shape"], written["shape"]) if read and written else None

    def rank(self) -> int:
        first = self.input(0)
        return len(first["shape"]) if first else 0


Translated = tuple[str, list[Any]]
DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
           10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
           17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
           24: "float8_e8m0fnu"}  # fmt: skip
"""TensorProto.DataType -> dtype."""
IN_A_BYTE = {21: 2, 22: 2, 23: 2, 25: 4, 26: 4}
"""TensorProto.DataType -> how many elements lie in a byte, of those that torch has no dtype for: integers of 4 and of 2
bits, and floats of 4."""

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def tensor_of_type(type_: Any) -> Tensor:
    if not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    dims = type_.tensor_type.shape.dim
    if any(not d.HasField("dim_value") for d in dims):
        return None
    return encoded_tensor(type_.tensor_type.elem_type, [d.dim_value for d in dims])


def encoded_tensor(data_type: int, dims: Any) -> Tensor:
    """None also for negative sizes, which onnx infers where a branch is read that no input takes."""
    dtype = DTYPES.get(data_type)
    if dtype is None or len(dims) > MOST_AXES or any(d < 0 for d in dims):
        return None
    return {"shape": [int(d) for d in dims], "dtype": dtype}
