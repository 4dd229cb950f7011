"""ONNX's products of matrices → ATen's: plain, batched, by an equation, in attention, in recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from statsnet.recordings.onnx_call import OnnxCall, Tensor, Translated
from statsnet.recordings.onnx_einsum import as_product


def attention(call: OnnxCall) -> list[Translated] | None:
    """Query, key, value [B, H, S, D], or [B, S, H · D] with the numbers of heads; mask; a cache [B, H, P, D]."""
    heads = [int(call.attributes.get(f"{kind}_num_heads") or 0) for kind in ("q", "kv", "kv")]
    tensors = [_with_heads(call.input(i), heads[i]) for i in range(3)]
    if any(tensor is None or len(tensor["shape"]) != 4 for tensor in tensors):
        return None
    query, key, value = (tensor for tensor in tensors if tensor)
    past = call.input(4)
    if past and len(past["shape"]) == 4:
        key, value = (
            t | {"shape": [*t["shape"][:2], t["shape"][2] + past["shape"][2], t["shape"][3]]} for t in (key, value)
        )
    args = [query, key, value, call.input(3), 0.0, bool(call.attributes.get("is_causal", 0)) and not past]
    grouped = query["shape"][1] != key["shape"][1]
    return [("aten.scaled_dot_product_attention.default", [*args, None, True] if grouped else args)]


def _with_heads(tensor: Tensor, heads: int) -> Tensor:
    if tensor is None or len(tensor["shape"]) != 3 or heads < 1:
        return tensor
    batch, tokens, width = tensor["shape"]
    return {"shape": [batch, heads, tokens, width // heads], "dtype": tensor["dtype"]}


def _swapped(tensor: Tensor, swap: bool) -> Tensor:
    """A matrix, read transposed."""
    if tensor is None or not swap or len(tensor["shape"]) != 2:
        return tensor
    rows, columns = tensor["shape"]
    return {"shape": [columns, rows], "dtype": tensor["dtype"], "strides": [1, columns]}


def gemm(call: OnnxCall) -> list[Translated]:
    left = _swapped(call.input(0), bool(call.attributes.get("transA", 0)))
    right = _swapped(call.input(1), bool(call.attributes.get("transB", 0)))
    if call.input(2) is None:
        return [("aten.mm.default", [left, right])]
    return [("aten.addmm.default", [call.input(2), left, right, 1, 1])]


def matmul(call: OnnxCall) -> list[Translated]:
    """Matrices as they are; with leading axes, one batched product, or one of all rows if the right side has none."""
    left, right = call.input(0), call.input(1)
    if left is None or right is None or min(len(left["shape"]), len(right["shape"])) < 2:
        return [("aten.matmul.default", [left, right])]
    a, b = left["shape"], right["shape"]
    if len(b) == 2:
        rows = math.prod(a[:-1])
        return [("aten.mm.default", [{"shape": [rows, a[-1]], "dtype": left["dtype"]}, right])]
    batch = math.prod(max(sizes) if all(sizes) else 0 for sizes in _leading_axes(a, b))
    return [("aten.bmm.default", [_batched(tensor, batch) for tensor in (left, right)])]


def _leading_axes(one: Sequence[int], other: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The sizes of all axes but the last two, side by side; where one has fewer, they are 1."""
    return zip_longest(reversed(one[:-2]), reversed(other[:-2]), fillvalue=1)


def _batched(tensor: dict[str, Any], batch: int) -> Tensor:
    """An operand of a batched product: one matrix for all of them lies in memory once."""
    *leading, rows, columns = tensor["shape"]
    made = {"shape": [batch, rows, columns], "dtype": tensor["dtype"]}
    return made | {"strides": [0, columns, 1]} if batch > 1 == math.prod(leading) else made


def einsum(call: OnnxCall) -> list[Translated] | None:
    left, right = call.input(0), call.input(1)
    equation = call.attributes.get("equation", b"")
    if left is None or right is None or len(call.inputs) != 2 or not isinstance(equation, bytes):
        return None
    operands = as_product(equation.decode(errors="replace"), left, right)
    return [("aten.bmm.default", list(operands))] if operands else None


def recurrent(call: OnnxCall) -> list[Translated] | None:
    """X, W [directions, gates·hidden, in], R [directions, gates·hidden, hidden], B: one layer as ATen's."""
    weights = [{"shape": list(w["shape"][1:]), "dtype": w["dtype"]} for w in (call.input(1), call.input(2)) if w]
    if both := call.input(3):  # of the input's and of the state's weights
        weights += [{"shape": [both["shape"][-1] // 2], "dtype": both["dtype"]}] * 2
    first, hidden_weights = call.input(0), call.input(2)
    if first is None or hidden_weights is None or len(first["shape"]) != 3:
        return [("aten.lstm.input", [None])]
    directions, hidden = hidden_weights["shape"][0], hidden_weights["shape"][2]
    if directions not in (1, 2):
        return None
    state = {"shape": [directions, first["shape"][1], hidden], "dtype": first["dtype"]}
    name = {"LSTM": "lstm.input", "GRU": "gru.input", "RNN": "rnn_tanh.input"}[call.op]
    states = {"tensors": [state, state]} if call.op == "LSTM" else state
    how = [both is not None, 1, 0.0, False, directions == 2, False]  # biases, layers, dropout, train, batch first
    return [(f"aten.{name}", [first, states, {"tensors": weights * directions}, *how])]
