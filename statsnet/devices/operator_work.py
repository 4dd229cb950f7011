"""FLOPs and bytes of a table's operator, from its dims (the least that must be computed and moved)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from statsnet.devices.tables.words import ATTENTIONS, ITEM_BYTES

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
READ = {"add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "silu_mul": 2, "where": 2}
"""Operands that a point-wise operator reads; others read one."""

SCALAR = "scalar"
"""Variant of a point-wise operator whose second operand is a number."""

Dims = Mapping[str, int]


def item_bytes(dtype: str) -> float:
    """Bytes of one element; 4 for an unknown dtype."""
    return ITEM_BYTES.get(dtype, 4.0)


def output_size(size: int, kernel: int, pad: int, stride: int, dilation: int) -> int:
    """Length of a convolution's output along one axis."""
    return max((size + 2 * pad - dilation * (kernel - 1) - 1) // max(stride, 1) + 1, 1)


def work_of(operator: str, dtype: str, dims: Dims, variant: str = "") -> tuple[float, float]:
    """FLOPs (a multiply-add is two) and bytes moved if each tensor is read or written once."""
    item = item_bytes(dtype)
    if operator in ("gemm", "mla_bmm", "sparse_gemm"):
        b, m, n, k = (dims[name] for name in ("batch", "m", "n", "k"))
        out = item if item >= 2 else 2.0
        return 2.0 * b * m * n * k, b * ((m * k + k * n) * item + m * n * out)
    if operator == "convolution":
        return _convolution(dims, item)
    if operator in ATTENTIONS:
        return _attention(operator, dims, item)
    if operator == "moe":
        return _moe(dims, item)
    if operator in GATES:
        h, b, steps = dims["hidden"], dims["batch"], dims["steps"]
        weights = 2.0 * GATES[operator] * h * h
        return 2.0 * weights * b * steps, item * (weights + 2.0 * b * steps * h)
    if operator == "allreduce":
        return 0.0, item * 2.0 * dims["elements"]
    if operator == "gated_delta":
        return 0.0, item * 2.0 * dims["tokens"] * dims["hidden"]
    if "bytes_read" in dims:
        return float(dims["flops"]), float(dims["bytes_read"] + dims["bytes_written"])
    numbers = float(math.prod(dims.values())) if dims else 1.0
    read = 1 if variant == SCALAR else READ.get(operator, 1)
    return 0.0, item * numbers * (read + 1)


def _convolution(d: Dims, item: float) -> tuple[float, float]:
    out_h = output_size(d["in_h"], d["kernel_h"], d["pad_h"], d["stride_h"], d["dilation_h"])
    out_w = output_size(d["in_w"], d["kernel_w"], d["pad_w"], d["stride_w"], d["dilation_w"])
    weights = d["out_channels"] * d["in_channels"] / max(d["groups"], 1) * d["kernel_h"] * d["kernel_w"]
    read = d["batch"] * d["in_channels"] * d["in_h"] * d["in_w"]
    written = d["batch"] * d["out_channels"] * out_h * out_w
    return 2.0 * d["batch"] * out_h * out_w * weights, item * (read + weights + written)


def _attention(operator: str, d: Dims, item: float) -> tuple[float, float]:
    q, kv = d["q_len"], d["kv_len"]
    seen = q * kv - (0 if operator == "attention_encoder" else q * (q - 1) / 2)
    if d["window"]:
        seen = min(seen, q * d["window"])
    size = d["batch"] * d["head_dim"]
    nbytes = size * (2.0 * q * d["heads"] + 2.0 * kv * d["kv_heads"]) * item
    return 4.0 * size * d["heads"] * seen, nbytes


def _moe(d: Dims, item: float) -> tuple[float, float]:
    pairs = d["tokens"] * d["top_k"] / d["expert_parallel"]
    expert = 3.0 * d["hidden"] * d["intermediate"] / d["tensor_parallel"]
    experts = d["experts"] / d["expert_parallel"]
    used = experts * (1.0 - (1.0 - 1.0 / experts) ** pairs) if experts > 1 else 1.0
    return 2.0 * pairs * expert, used * expert * item + pairs * d["hidden"] * 2.0 * 2.0
