"""What a graph takes in: tensors as they lie in memory, and the operands of operators by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from statsnet.signatures.categories import base_name, categorize

OF_WEIGHTS = frozenset({"convolution", "gemm", "recurrent", "embedding", "normalization"})
"""Categories whose operators have weights among their operands."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in memory: `order` puts the axes there, from the outermost to the innermost, into the tensor's.

    A runtime takes in arrays without gaps. So a slice is handed over as if it were a tensor of its own, as a model
    slices once what several operators read. What is expanded or transposed in torch becomes so in the graph. Nothing is
    reshaped there: OpenVINO does not know the shapes of a model's inputs, and would know those of a proxy.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor) -> Layout:
        moving = [axis for axis, (n, stride) in enumerate(zip(x.shape, x.stride(), strict=True)) if n > 1 and stride]
        in_memory = list(range(x.dim()))
        for place, axis in zip(moving, sorted(moving, key=lambda axis: x.stride()[axis], reverse=True), strict=True):
            in_memory[place] = axis
        order = [in_memory.index(axis) for axis in range(x.dim())]
        return cls(tuple(x.shape), tuple(order))

    def handed(self, x: Tensor) -> Tensor:
        """What comes in for `x`."""
        once = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.stride())]
        in_memory = sorted(range(x.dim()), key=lambda axis: self.order[axis])
        return once.permute(in_memory).contiguous()

    def taken(self, x: Tensor) -> Tensor:
        """What the graph reads, of what came in."""
        if self.order != tuple(range(len(self.order))):
            x = x.permute(self.order)
        return x if x.shape == self.shape else x.expand(self.shape)


class WithTensors(nn.Module):
    """A model that is given tensors alone, in the order of its arguments' leaves; all else of a call stays as it is.
    For OpenVINO, a flag such as `use_cache=False` would be an input of which it does not know the shape."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        leaves, self.spec = tree_flatten((args, kwargs))
        self.fixed = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def forward(self, *tensors: Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.model(*args, **kwargs)


FLAGS = (bool, int, float, str, type(None))


def taking_tensors(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A model and its arguments for a graph: the same, unless there are flags and numbers among them. What may hold
    tensors that no tree shows stays an argument, for a graph would take these for constants."""
    leaves, _ = tree_flatten((args, kwargs))
    others = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    if not others or not all(isinstance(leaf, FLAGS) for leaf in others):
        return model, args, kwargs
    return WithTensors(model, args, kwargs), tuple(leaf for leaf in leaves if isinstance(leaf, Tensor)), {}


def operands_read(proxy: nn.Module) -> dict[str, tuple[Tensor, ...]]:
    """By the names of operators by themselves: what they read beside their input, where these are no weights."""
    operators: Iterator[tuple[str, Any]] = ((n, m) for n, m in proxy.named_modules() if hasattr(m, "others"))
    return {name: module.others for name, module in operators if module.others and not _reads_weights(module)}


@contextlib.contextmanager
def reading(proxy: nn.Module, operands: Mapping[str, Sequence[Tensor]]) -> Iterator[None]:
    """Operators, by name, read these beside their input."""
    operators: list[Any] = [proxy.get_submodule(name) for name in operands]
    usual = [operator.others for operator in operators]
    for operator, others in zip(operators, operands.values(), strict=True):
        operator.others = tuple(others)
    try:
        yield
    finally:
        for operator, others in zip(operators, usual, strict=True):
            operator.others = others


def convolves(module: nn.Module) -> bool:
    """Whether this is a convolution as an operator by itself."""
    return hasattr(module, "others") and "convolution" in _categories_of(module)


def _reads_weights(operator: Any) -> bool:
    return not OF_WEIGHTS.isdisjoint(_categories_of(operator))


def _categories_of(operator: Any) -> set[str]:
    """Of what an operator by itself calls, but for products of two activations."""
    seen = _Seen()
    with torch.no_grad(), seen:
        operator.forward(operator.operands[0])
    return {categorize(op, "forward") for op in seen.called if "bmm" not in base_name(op)}


class _Seen(TorchDispatchMode):
    """Notes which operators are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(str(func))
        return func(*args, **(kwargs or {}))
