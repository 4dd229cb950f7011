"""Runs of element-wise operators: activations, arithmetic with a side input, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, side_input
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec, is_tensor

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "relu": lambda x, _: F.relu(x),
    "gelu": lambda x, _: F.gelu(x),
    "gelu_tanh": lambda x, _: F.gelu(x, approximate="tanh"),
    "gelu_by_parts": lambda x, _: 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x.pow(3.0)))),
    "silu": lambda x, _: F.silu(x),
    "tanh": lambda x, _: torch.tanh(x),
    "sigmoid": lambda x, _: torch.sigmoid(x),
    "leaky_relu": lambda x, _: F.leaky_relu(x),
    "elu": lambda x, _: F.elu(x),
    "hardtanh": lambda x, _: F.hardtanh(x),
    "hardsigmoid": lambda x, _: F.hardsigmoid(x),
    "hardswish": lambda x, _: F.hardswish(x),
    "mish": lambda x, _: F.mish(x),
    "softplus": lambda x, _: F.softplus(x),
    "abs": lambda x, _: x.abs(),
    "neg": lambda x, _: -x,
    "cos": lambda x, _: x.cos(),
    "sin": lambda x, _: x.sin(),
    "exp": lambda x, _: torch.exp(-x.abs()),
    "log": lambda x, _: torch.log(x.abs() + 1),
    "sqrt": lambda x, _: torch.sqrt(x.abs() + 1),
    "rsqrt": lambda x, _: torch.rsqrt(x + 256),
    "square": lambda x, _: x.pow(2),
    "cube": lambda x, _: x.pow(3),
    "power": lambda x, _: (x.abs() + 1).pow(0.75),
    "scale": lambda x, _: x * 0.9,
    "shift": lambda x, _: x + 0.1,
    "divide": lambda x, _: x / 1.1,
    "subtract": lambda x, _: x - 0.1,
    "dropout": lambda x, _: F.dropout(x, 0.1),
    "copy": lambda x, _: x.clone(),
    "add": lambda x, other: x + other,
    "sub": lambda x, other: x - other,
    "mul": lambda x, other: x * other,
    "div": lambda x, other: x / other,
    "maximum": lambda x, other: torch.maximum(x, other),
    "where": lambda x, other: torch.where(other > 0, x, other),
}
"""Functions that are not safe for every number (logarithm, square root) make their argument safe first. `rsqrt`
adds 256: not even the cube of a random number is below -256."""

BINARY = frozenset({"add", "sub", "mul", "div", "maximum", "where"})
SQUASHING = frozenset({"tanh", "sigmoid", "hardtanh", "sin", "cos", "exp"})
UNSTEADY = frozenset({"square", "cube", "rsqrt", "leaky_relu", "hardsigmoid", "where"})


class Pointwise(Block):
    """Element-wise functions in sequence. Those with two operands share a side input of shape `operand`
    (broadcast for biases and masks). A `constant` one, such as a mask, needs no gradient. If the output is concatenated
    with other branches, its gradient is a slice of a wider one. If later layers have the axis `output_last_axis` last,
    it is so in the gradient's memory."""

    maps = True
    side_input: Tensor | None

    def __init__(
        self, shape: tuple, functions: tuple, operand: tuple = (), output_is_concatenated: bool = False,
        concatenated_axis: int = -1, output_last_axis: int = -1, constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(*shape)
        self.functions, self.output_is_concatenated = functions, output_is_concatenated
        self.concatenated_axis, self.output_last_axis = concatenated_axis, output_last_axis
        if constant:
            self.register_buffer("side_input", side_input(*operand).detach())
        else:
            self.side_input = side_input(*operand) if operand else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for name in self.functions:
            x = FUNCTIONS[name](x, self.side_input)
        return x if self.output_last_axis < 0 else x.movedim(self.output_last_axis, -1)


_SAME = {
    "native_dropout": "dropout", "bernoulli": "dropout", "clone": "copy", "copy": "copy", "_to_copy": "copy",
    "clamp": "hardtanh", "clamp_min": "relu", "rsub": "sub", "log1p": "log", "reciprocal": "rsqrt",
    "masked_fill": "where", "lerp": "add", "addcmul": "mul", "addcdiv": "div", "minimum": "maximum",
    "erf": "tanh", "log2": "log", "exp2": "exp",
}  # fmt: skip


def function_of(cluster: Cluster) -> str | None:
    """The name in FUNCTIONS for an element-wise operator, None for other operators."""
    base = base_name(cluster.op).rstrip("_")
    name = _SAME.get(base, base)
    second = next((a for a in cluster.args[1:] if is_tensor(a)), None)
    if base == "pow":
        return _power_of(cluster.args[1])
    if base == "gelu" and "tanh" in cluster.args:
        return "gelu_tanh"
    if name in BINARY and second is None:
        return {"add": "shift", "sub": "subtract", "mul": "scale", "div": "divide"}.get(name)
    return name if name in FUNCTIONS else None


_POWERS = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "rsqrt", 1.0: "square", 2.0: "square", -2.0: "square", 3.0: "cube"}
"""A forward exponent of 1 comes from signatures that were made before exponents were kept. It is taken for 2."""


def _power_of(exponent: Any) -> str:
    """The name in FUNCTIONS for an exponent; tensors, and numbers without a kernel of their own, are alike."""
    return _POWERS.get(exponent, "power") if isinstance(exponent, (int, float)) else "power"


_PARTS_OF_GELU = ("cube", "scale", "add", "scale", "tanh", "shift")
"""What is in a row where a model writes the approximation of gelu out. Signatures without exponents have a square in
place of the cube."""


def with_gelu_in_one(config: Config) -> Config:
    """The same block; if its functions are those parts, with all of that gelu in place of them. Other runtimes know it
    and make one node of it."""
    written_out = config["functions"] in (_PARTS_OF_GELU, ("square", *_PARTS_OF_GELU[1:]))
    return {"shape": config["shape"], "functions": ("gelu_by_parts",)} if written_out else config


class PointwiseKind(BlockKind):
    name = "pointwise"
    memory_bound = True
    module = Pointwise
    words: ClassVar = {"functions": FUNCTIONS}
    helpers = (side_input, FUNCTIONS)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = next((o for o in motif[0].outputs if o is not None), None)
        if first is None or not first["shape"] or not first["dtype"].startswith(("float", "bfloat")):
            return None
        functions: list[str] = []
        operand: tuple[int, ...] = ()
        for cluster in _without_masking(motif):
            name = function_of(cluster)
            if name is None or cluster.outputs[0]["shape"] != first["shape"]:
                break  # broadcasting to a larger operand is another block's work
            if name == "rsqrt" and functions[-1:] == ["shift"]:
                functions.pop()  # the root adds a number itself
            functions.append(name)
            if name in BINARY and not operand:
                operand = _operand(cluster)
        if not functions:
            return None
        config: Config = {"shape": tuple(first["shape"]), "functions": tuple(functions)}
        return {**config, "operand": operand} if operand else config

    def with_concatenated_output(self, config: Config, axis: int) -> Config | None:
        along = {"concatenated_axis": axis} if -len(config["shape"]) <= axis < -1 else {}
        return {**config, "output_is_concatenated": True, **along}

    def with_output_last_axis(self, config: Config, axis: int) -> Config | None:
        return {**config, "output_last_axis": axis} if axis < len(config["shape"]) - 1 else None

    def steady(self, config: Config) -> bool:
        steady = True
        for name in config["functions"]:
            if name in UNSTEADY:
                steady = False
            elif name in SQUASHING:
                steady = True
        return steady and "neg" not in config["functions"]

    def scaled(self, config: Config, divisor: float) -> Config | None:
        # A slice along another axis than the last is strided only if it has several rows.
        least = min(2, config["shape"][0]) if "concatenated_axis" in config else 1
        shape = divide_leading(config["shape"], divisor, least=least)
        last = config.get("output_last_axis")
        if shape is None or (last is not None and shape[last] == 1):  # an axis of one has no place in memory
            return None
        scaled = {**config, "shape": shape}
        if "operand" in config:
            missing = len(config["shape"]) - len(config["operand"])
            axes = zip(config["operand"], config["shape"][missing:], shape[missing:], strict=True)
            scaled["operand"] = tuple(new if n == old else n for n, old, new in axes)
        return scaled


def _without_masking(motif: list[Cluster]) -> list[Cluster]:
    """Without the rest of a dropout, which on a CPU is a random mask, a division by the share kept, and a product."""
    names = [base_name(c.op).rstrip("_") for c in motif[:3]]
    masked = names[:1] == ["bernoulli"] and names == ["bernoulli", "div", "mul"][: len(names)]
    return [motif[0], *motif[3:]] if masked else motif


def _operand(cluster: Cluster) -> tuple[int, ...]:
    """Shape of the second operand; stride-0 axes are stored once."""
    shape = tuple(cluster.outputs[0]["shape"])
    second = next((a for a in cluster.args[1:] if is_tensor(a)), None)
    if second is None:
        return shape
    spec = TensorSpec.from_dict(second)
    strides = spec.strides or (1,) * len(spec.shape)
    stored = tuple(1 if s == 0 else n for n, s in zip(spec.shape, strides, strict=True))
    fits = len(stored) <= len(shape) and all(a in (1, b) for a, b in zip(stored[::-1], shape[::-1], strict=False))
    return (stored or (1,)) if fits else shape


def divide_leading(
    shape: tuple[int, ...], divisor: float, keep: int | None = None, least: int = 1
) -> tuple[int, ...] | None:
    """Divide the number of elements by dividing the first axis, down to `least`, then the next; never the axis
    `keep`."""
    out = list(shape)
    if divisor < 1:
        first = next((a for a in range(len(out)) if a != keep), None)
        if first is None:
            return None
        out[first] = round(out[first] / divisor)
        return tuple(out)
    last = len(shape) - 1 if keep is None and len(shape) > 1 else len(shape)
    for axis in range(last):
        if divisor <= 1:
            break
        if axis == keep:
            continue
        fewest = least if axis == 0 else 1
        part = max(min(divisor, out[axis] // fewest), 1)
        out[axis] = max(fewest, round(out[axis] / part))
        divisor = -(-divisor // part)
    return tuple(out) if divisor <= 1 else None
