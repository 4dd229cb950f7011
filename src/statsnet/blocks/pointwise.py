"""Runs of element-wise operators: activations, arithmetic with a kept operand, dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, held
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec, is_tensor

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "leaky_relu": F.leaky_relu, "elu": F.elu, "hardtanh": F.hardtanh, "hardswish": F.hardswish, "mish": F.mish,
    "softplus": F.softplus, "abs": torch.abs, "neg": torch.neg, "cos": torch.cos, "sin": torch.sin,
    "exp": lambda x: torch.exp(-x.abs()), "log": lambda x: torch.log(x.abs() + 1),
    "sqrt": lambda x: torch.sqrt(x.abs() + 1), "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "square": lambda x: x.pow(2), "cube": lambda x: x.pow(3),
    "scale": lambda x: x * 0.9, "shift": lambda x: x + 0.1,
    "dropout": lambda x: F.dropout(x, 0.1), "copy": lambda x: x.clone(),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum,
    "div": lambda x, other: x / (other.abs() + 1), "where": lambda x, other: torch.where(x > 0, x, other),
}  # fmt: skip


class Pointwise(Block):
    """Functions from UNARY and BINARY one after the other; BINARY ones share an operand that the block keeps,
    `operand` being its shape (a broadcast one for biases and masks)."""

    def __init__(self, shape: tuple, functions: tuple, operand: tuple = ()) -> None:
        super().__init__(*shape)
        self.functions = functions
        self.other = held(*operand) if operand else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for name in self.functions:
            x = UNARY[name](x) if name in UNARY else BINARY[name](x, self.other)
        return x


_SAME = {
    "native_dropout": "dropout", "bernoulli": "dropout", "clone": "copy", "copy": "copy", "_to_copy": "copy",
    "clamp": "hardtanh", "clamp_min": "relu", "rsub": "sub", "log1p": "log", "reciprocal": "rsqrt",
    "masked_fill": "where", "lerp": "add", "addcmul": "mul", "addcdiv": "div", "minimum": "maximum",
    "erf": "tanh", "log2": "log", "exp2": "exp",
}  # fmt: skip


def function_of(cluster: Cluster) -> str | None:
    """The function of the tables above that stands for an element-wise operator, None for others."""
    base = base_name(cluster.op).rstrip("_")
    name = _SAME.get(base, base)
    second = next((a for a in cluster.args[1:] if is_tensor(a)), None)
    if base == "pow":
        return "cube" if cluster.args[1] == 3 else "square"
    if name in BINARY and second is None:
        return {"add": "shift", "sub": "shift", "mul": "scale", "div": "scale"}.get(name)
    return name if name in UNARY or name in BINARY else None


class PointwiseKind(BlockKind):
    name = "pointwise"
    module = Pointwise
    helpers = (held, UNARY, BINARY)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = next((o for o in motif[0].outputs if o is not None), None)
        if first is None or not first["shape"] or not first["dtype"].startswith(("float", "bfloat")):
            return None
        functions: list[str] = []
        operand: tuple[int, ...] = ()
        for cluster in motif:
            name = function_of(cluster)
            if name is None:
                break
            functions.append(name)
            if name in BINARY and not operand:
                operand = _operand(cluster)
        if not functions:
            return None
        config: Config = {"shape": tuple(first["shape"]), "functions": tuple(functions)}
        return {**config, "operand": operand} if operand else config

    def scaled(self, config: Config, divisor: int) -> Config | None:
        shape = divide_leading(config["shape"], divisor)
        if shape is None:
            return None
        scaled = {**config, "shape": shape}
        if "operand" in config:
            missing = len(config["shape"]) - len(config["operand"])
            scaled["operand"] = tuple(
                n if n == 1 else min(n, new)
                for n, new in zip(config["operand"], shape[missing:], strict=True)
            )
        return scaled


def _operand(cluster: Cluster) -> tuple[int, ...]:
    """Shape of the second operand; stride-0 axes are stored once."""
    shape = tuple(cluster.outputs[0]["shape"])
    second = next((a for a in cluster.args[1:] if is_tensor(a)), None)
    if second is None:
        return shape
    spec = TensorSpec.from_dict(second)
    strides = spec.strides or (1,) * len(spec.shape)
    stored = tuple(1 if s == 0 else n for n, s in zip(spec.shape, strides, strict=True))
    fits = len(stored) <= len(shape) and all(
        a in (1, b) for a, b in zip(stored[::-1], shape[::-1], strict=False)
    )
    return (stored or (1,)) if fits else shape


def divide_leading(shape: tuple[int, ...], divisor: int, keep: int | None = None) -> tuple[int, ...] | None:
    """Divide the number of elements by dividing the first axis, then the next; `keep` is left alone."""
    out = list(shape)
    last = len(shape) - 1 if keep is None and len(shape) > 1 else len(shape)
    for axis in range(last):
        if divisor <= 1:
            break
        if axis == keep:
            continue
        part = min(divisor, out[axis])
        out[axis] = max(1, round(out[axis] / part))
        divisor = -(-divisor // part)
    return tuple(out) if divisor <= 1 else None
