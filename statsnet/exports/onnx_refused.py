"""What onnxruntime does not run of an ONNX model on a CPU, although ONNX has it."""

from __future__ import annotations

from statsnet.exports.onnx_piece import Piece

_OF_16_BITS = "ArgMax ArgMin Clip DepthToSpace Max Min Pad Resize Trilu Where"
_UNSIGNED = ("ArgMax ArgMin CumSum DepthToSpace PRelu ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
             "ReduceProd ReduceSum Resize TopK Trilu")  # fmt: skip
_REFUSED = {
    "float16": "RandomNormal RandomUniform",
    "float64": "AveragePool Conv ConvTranspose Elu Erf Gelu HardSigmoid HardSwish InstanceNormalization LeakyRelu "
               "PRelu Resize Selu Softplus",
    "int64": "DepthToSpace PRelu Relu Resize", "int32": "DepthToSpace PRelu", "int16": f"{_OF_16_BITS} Relu",
    "int8": "Trilu", "uint8": "Trilu", "uint16": f"{_OF_16_BITS} TopK", "uint32": _UNSIGNED,
    "uint64": f"{_UNSIGNED} Where", "bool": "DepthToSpace Resize Where",
}  # fmt: skip
"""dtype -> operators for which onnxruntime 1.31 and 1.32 have no implementation on CPUs. They compute float16 in
float32."""

_OF_BFLOAT16 = ("Cast Concat Gather GatherElements GatherND Identity LayerNormalization ScatterElements ScatterND "
                "Sign Transpose")  # fmt: skip
"""All that they have of bfloat16."""


def refused(piece: Piece) -> str | None:
    """The operator and element type that it does not run; one is enough, and it loads nothing of a model."""
    dtypes = {value.name: value.dtype for value in piece.values}
    for node in piece.nodes:
        first = node.inputs or node.outputs
        dtype = dtypes[first[-1 if node.op == "Where" else 0]]  # a condition comes first
        runs = (
            node.op in _OF_BFLOAT16.split() if dtype == "bfloat16" else node.op not in _REFUSED.get(dtype, "").split()
        )
        if not runs:
            return f"{node.op} of {dtype}"
    return None
