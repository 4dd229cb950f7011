"""Which operator of the tables an ATen call is, with which dims: the bridge from captured calls to recorded devices.

A call that no table knows is mapped to None; its time is then a roofline estimate. Backward of attention and of norms
is such a call. A convolution's backward is two operators of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.devices.tables.row import Direction, TableRow
from statsnet.devices.tables.words import check_dims, named
from statsnet.profiling.costs import cost_of
from statsnet.profiling.costs.attention import is_causal
from statsnet.profiling.costs.call import MisfitError, OperatorCall
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, bytes_of, dtype_of, tensors_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """An operator of the tables."""

    operator: str
    dtype: str
    dims: tuple[tuple[str, int], ...]
    variant: str = ""
    direction: Direction = "forward"

    def row(self, source: str = "", time_s: Mapping[str, float] | None = None) -> TableRow:
        """The operator as a table's row; without times, it asks for one."""
        return TableRow(
            source=source, operator=self.operator, dtype=self.dtype, dims=self.dims, variant=self.variant,
            direction=self.direction, time_s=time_s or {},
        )  # fmt: skip


def mapped(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[Mapped, ...] | None:
    """The operators of the tables that an encoded call runs, one after the other; None if no table has it."""
    rule = _RULES.get(base_name(op).removesuffix("_"))
    if rule is None:
        return None
    try:
        found = rule(OperatorCall.decode(op, args, outputs))
        for part in found or ():
            check_dims(part.operator, dict(part.dims))
    except (MisfitError, ValueError, IndexError, TypeError, ZeroDivisionError):
        return None
    return found or None


def table_operator(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Mapped:
    """The table's operator that a call is, or the call by its work if it is none or several of them."""
    parts = mapped(op, args, outputs) or ()
    return parts[0] if len(parts) == 1 else by_work(op, args, outputs)


SMALL = 8
"""An operand with so many times fewer numbers than the result stays in the cache."""


def by_work(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> Mapped:
    """Any call, by its name and its work: for operators that published tables do not have and recordings do."""
    cost = cost_of(op, list(args), list(outputs))
    read, written = (cost.bytes_read, cost.bytes_written) if cost else (bytes_of(args, ()), bytes_of((), outputs))
    tensors = tensors_of(args)
    layout = tensors[0].layout if tensors else ""
    dims = (("flops", int(cost.flops if cost else 0)), ("bytes_read", int(read)), ("bytes_written", int(written)))
    return Mapped(
        operator=".".join(op.split(".")[:2])[:80], dtype=dtype_of(args, outputs), dims=dims,
        variant="strided" if layout == "expanded" else layout,
    )  # fmt: skip


Rule = Callable[[OperatorCall], tuple[Mapped, ...] | None]


def _gemm(dtype: str, sizes: tuple[int, int, int, int], variant: str) -> tuple[Mapped, ...]:
    return (Mapped(operator="gemm", dtype=dtype, dims=named("gemm", sizes), variant=variant),)


def _letters(left: TensorSpec, right: TensorSpec) -> str:
    """`NT`: the second operand is stored transposed."""
    return "".join("T" if s.strides is not None and s.layout == "transposed" else "N" for s in (left, right))


def _product(call: OperatorCall, first: int, bias: str = "") -> tuple[Mapped, ...] | None:
    left, right = call.tensor(first), call.tensor(first + 1)
    if len(left.shape) == len(right.shape) == 2:
        (m, k), n = left.shape, right.shape[1]
        return _gemm(left.dtype, (1, m, n, k), _letters(left, right) + bias)
    if len(left.shape) == len(right.shape) == 3:
        (b, m, k), n = left.shape, right.shape[2]
        return _gemm(left.dtype, (b, m, n, k), _letters(left, right) + bias)
    return None


def _grouped(call: OperatorCall) -> tuple[Mapped, ...] | None:
    """Rows sorted by group: as many products as groups, of equal sizes."""
    left, right = call.tensor(0), call.tensor(1)
    if len(left.shape) == 2 and len(right.shape) == 3:
        groups, k, n = right.shape
        return _gemm(left.dtype, (groups, max(left.shape[0] // groups, 1), n, k), "NN")
    return None


def _pair(call: OperatorCall, place: int, default: int) -> tuple[int, int]:
    values = call.integers(place) or (default,)
    return (values[0], values[-1])


def _conv_dims(call: OperatorCall, x: TensorSpec, weight: TensorSpec, first: int) -> tuple[tuple[str, int], ...] | None:
    """Stride, padding and dilation begin at argument `first`; then transposed, output padding, groups."""
    if len(x.shape) not in (3, 4) or len(weight.shape) != len(x.shape) or call.flag(first + 3):
        return None
    n, c, *space = x.shape
    k, _, *window = weight.shape
    flat = len(space) == 1
    h, w = (1, space[0]) if flat else (space[0], space[1])
    kh, kw = (1, window[0]) if flat else (window[0], window[1])
    (sh, sw), (ph, pw), (dh, dw) = (_pair(call, first + i, d) for i, d in enumerate((1, 0, 1)))
    if flat:
        sh, ph, dh = 1, 0, 1
    groups = int(call.number(first + 5, 1))
    return named("convolution", (n, c, h, w, k, kh, kw, ph, pw, sh, sw, dh, dw, groups))


def _convolution(call: OperatorCall) -> tuple[Mapped, ...] | None:
    x, weight = call.tensor(0), call.tensor(1)
    dims = _conv_dims(call, x, weight, 3)
    return (Mapped(operator="convolution", dtype=x.dtype, dims=dims, variant="NCHW"),) if dims else None


def _convolution_backward(call: OperatorCall) -> tuple[Mapped, ...] | None:
    x, weight = call.tensor(1), call.tensor(2)
    dims = _conv_dims(call, x, weight, 4)
    if dims is None:
        return None
    data, weights, _ = call.mask(10, 3)
    wanted: list[Direction] = [d for d, on in (("backward_data", data), ("backward_weight", weights)) if on]  # type: ignore[misc]
    return tuple(Mapped(operator="convolution", dtype=x.dtype, dims=dims, variant="NCHW", direction=d) for d in wanted)


def _attention(call: OperatorCall) -> tuple[Mapped, ...] | None:
    """Heads first: [batch, heads, tokens, width]."""
    q, k = call.tensor(0), call.tensor(1)
    batch, heads, q_len, width = q.shape
    _, kv_heads, kv_len, _ = k.shape
    causal = is_causal(call)
    operator = "attention_decode" if q_len == 1 else "attention_prefill" if causal else "attention_encoder"
    dims = named(operator, (batch, q_len, kv_len, heads, kv_heads, width, 0))
    variant = "" if operator == "attention_encoder" else f"kv {q.dtype}"
    return (Mapped(operator=operator, dtype=q.dtype, dims=dims, variant=variant),)


def _rows(operator: str) -> Rule:
    """A point-wise operator by the shape of its result."""

    def rule(call: OperatorCall) -> tuple[Mapped, ...] | None:
        spec = call.output()
        columns = spec.shape[-1] if spec.shape else 1
        dims = named(operator, (math.prod(spec.shape[:-1]), columns))
        scalar = operator in _BINARY and _reads_one(call, spec.numel)
        dtype = spec.dtype if operator in _BINARY else call.tensor(0).dtype
        return (Mapped(operator=operator, dtype=dtype, dims=dims, variant="scalar" if scalar else ""),)

    return rule


def _reads_one(call: OperatorCall, numbers: int) -> bool:
    """Whether an operand is a number, or so small that its bytes do not count."""
    sizes = [arg.touched if isinstance(arg := call.arg(place), TensorSpec) else 1 for place in (0, 1)]
    return min(sizes) * SMALL <= numbers


def _embedding(call: OperatorCall) -> tuple[Mapped, ...] | None:
    table, out = call.tensor(0), call.output()
    dims = named("embedding", (math.prod(out.shape[:-1]), out.shape[-1]))
    return (Mapped(operator="embedding", dtype=table.dtype, dims=dims, variant=f"vocabulary {table.shape[0]} by 1"),)


_BINARY = frozenset({"add", "sub", "mul", "div", "pow"})
_POINTWISE = {
    "add": "add", "sub": "add", "rsub": "add", "mul": "mul", "div": "div", "pow": "pow", "relu": "relu",
    "gelu": "gelu", "tanh": "tanh", "silu": "gelu", "sigmoid": "tanh", "_softmax": "softmax",
    "_log_softmax": "softmax", "_safe_softmax": "softmax", "native_layer_norm": "layer_norm",
    "_fused_rms_norm": "rms_norm", "rms_norm": "rms_norm", "neg": "relu", "exp": "tanh", "sqrt": "relu",
    "rsqrt": "relu", "reciprocal": "relu", "maximum": "add", "minimum": "add", "clamp": "relu",
    "masked_fill": "add", "where": "add",
}  # fmt: skip
"""Operators of the tables by ATen's names. Those that read and write as much are taken for each other: on a GPU, a
point-wise operator's time is that of its bytes."""

_RULES: dict[str, Rule] = {
    "mm": lambda c: _product(c, 0),
    "bmm": lambda c: _product(c, 0),
    "addmm": lambda c: _product(c, 1, " bias"),
    "baddbmm": lambda c: _product(c, 1, " bias"),
    "_addmm_activation": lambda c: _product(c, 1, " bias"),
    "_grouped_mm": _grouped,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
    "embedding": _embedding,
    **dict.fromkeys(
        (
            "scaled_dot_product_attention", "_scaled_dot_product_attention_math",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
        ), _attention,
    ),
    **{name: _rows(operator) for name, operator in _POINTWISE.items()},
}  # fmt: skip
