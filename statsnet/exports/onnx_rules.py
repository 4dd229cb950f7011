"""ONNX nodes for operators that are no matrix products, by the operators' base names."""

from __future__ import annotations

from statsnet.exports.onnx_lookups import LOOKUPS
from statsnet.exports.onnx_movement import MOVEMENT
from statsnet.exports.onnx_over_axes import OVER_AXES
from statsnet.exports.onnx_piece import Rule
from statsnet.exports.onnx_pointwise import POINTWISE
from statsnet.exports.onnx_windows import WINDOWS

RULES: dict[str, Rule] = {**POINTWISE, **OVER_AXES, **WINDOWS, **MOVEMENT, **LOOKUPS}
