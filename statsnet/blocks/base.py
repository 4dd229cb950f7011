"""The parts of every block: a module for the generated network, and the rules that make its configuration.

A block file holds one `nn.Module` (its source is pasted into `network.py`, so it uses torch and the names of
`PRELUDE` alone) and one `BlockKind` that says which operators it stands for and how it may be made smaller.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from statsnet.signatures.documents import texts_in
from statsnet.signatures.model import Cluster

SIDE_INPUTS = ("side_input", "side_input_keys", "side_input_values")
"""How names of operands begin that stand for another branch: parameters among them get gradients, but no optimizer
steps them."""


def is_side_input(parameter: str) -> bool:
    """By the name of a block's parameter."""
    return parameter.rpartition(".")[2] in SIDE_INPUTS


Config = dict[str, Any]
"""Constructor arguments of a block: integers, booleans, names and tuples of integers; nothing else."""

PRELUDE = """\
import math
import warnings
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
"""


SMALLEST_MAP = 12
"""Maps are not made lower than this: in lower ones, windows and padding would dominate."""


class Block(nn.Module):
    """A piece of the network. It reads the first elements of its input as a tensor of `shape`.

    Blocks that read `maps` can be told that the convolutions around them write maps channels last.
    """

    maps = False
    last = False

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = torch.Size(shape)
        self.strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def read_channels_last(self) -> None:
        """From now on input maps are channels last, and side inputs are stored so too."""
        if not self.maps or len(self.shape) != 4:
            return
        _, channels, _, width = self.shape
        self.last, self.strides = True, [self.strides[0], 1, width * channels, channels]
        for name, branch in (*self.named_parameters(recurse=False), *self.named_buffers(recurse=False)):
            if name.startswith(SIDE_INPUTS) and branch.dim() == 4:
                branch.data = branch.data.to(memory_format=torch.channels_last)

    def enter(self, x: Tensor) -> Tensor:
        if x.shape == self.shape:
            return x
        if not x.requires_grad:  # a single view, because time between operators counts too
            return x.as_strided(self.shape, self.strides)
        last = x.dim() > 3 and not x.is_contiguous() and x.movedim(1, -1).is_contiguous()
        flat, count = (x.movedim(1, -1) if last else x).reshape(-1), math.prod(self.shape)
        if flat.numel() > count:  # even a slice of all elements costs one more pass backward
            flat = flat[:count]
        if not self.last:
            return flat.view(self.shape)
        batch, channels, *size = self.shape
        return flat.view(batch, *size, channels).permute(0, 3, 1, 2)


def laid_out(gradient: Tensor, end: nn.Module) -> Tensor:
    """The gradient of a tower's last block as later layers lay it out in memory: a slice of a wider one where the
    output is concatenated, contiguous where the output has another axis last."""
    if getattr(end, "output_is_concatenated", False):
        axis = getattr(end, "concatenated_axis", -1)
        return torch.cat([gradient, gradient], axis).narrow(axis, 0, gradient.shape[axis])
    return gradient if getattr(end, "output_last_axis", -1) < 0 else gradient.contiguous()


class BlockKind(ABC):
    """Rules of one kind of block. Stateless; one instance is registered in `blocks.KINDS`."""

    name: ClassVar[str]
    module: ClassVar[type[nn.Module]]
    helpers: ClassVar[tuple[Any, ...]] = ()
    """Functions, classes and tables that the module's source needs; they are pasted before it."""

    mixes: ClassVar[bool] = False
    """True if the output has both signs and a size of about one for any input, as random weights make it."""

    memory_bound: ClassVar[bool] = False
    """True if its time goes by what it reads and writes, whatever it computes."""

    words: ClassVar[Mapping[str, Collection[str]]] = {}
    """By argument: the texts that it may be. Some name functions of torch, and a file from elsewhere may name any."""

    @abstractmethod
    def from_motif(self, motif: list[Cluster]) -> Config | None:
        """Full-size configuration for a run of operators tied by data flow; None if this kind cannot stand for the
        first of them. It skips operators that it does not know."""

    def from_step(self, motif: list[Cluster]) -> Config | None:
        """The shortest block of this kind that runs the motif as one of its steps; None if no block does."""
        return None

    @abstractmethod
    def scaled(self, config: Config, divisor: float) -> Config | None:
        """The same block with its safest axis (batch, rows, elements) divided; None if that is not possible."""

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """The same block with a second axis (channels, features) divided; None if there is none."""
        return None

    def resized(self, config: Config, factor: float) -> Config | None:
        """The same block about `factor` times as large. Factors near one serve to balance a network."""
        return self.scaled(config, 1 / factor)

    def steady(self, config: Config) -> bool:
        """True if values and gradients keep their signs and order of magnitude on the way through. Unsteady blocks
        may only be next to each other or to blocks that mix, and a tower has only a few of them."""
        return True

    def with_concatenated_output(self, config: Config, axis: int) -> Config | None:
        """The same block with an output that is concatenated with other branches along an axis, counted from the back,
        so that its gradient is a slice of a wider one (a strided tensor); None if no such block is needed."""
        return None

    def hands_back_a_view(self, config: Config) -> bool:
        """Whether the gradient of its input is a view in another layout. A block before it would have to copy that,
        which few models do, so that in training it can only begin a tower."""
        return False

    def with_uses(self, config: Config, uses: int) -> Config | None:
        """The same block, whose weights are used so many times in a row, as in a loop over time steps; None if no such
        block is needed."""
        return None

    def uses(self, config: Config) -> int:
        """How often the block uses its weights in a row (`with_uses`)."""
        return 1

    def flops(self, config: Config) -> float:
        """Of the products in one forward pass; 0 for blocks without any."""
        return 0.0

    def with_output_last_axis(self, config: Config, axis: int) -> Config | None:
        """The same block with an output of which later layers have this axis last, so that its gradient is permuted in
        memory; None if no such block is needed."""
        return None

    def index_range(self, config: Config) -> tuple[int, int] | None:
        """(number of indices, number of rows) if the block reads indices; None if it reads activations."""
        return None

    def begins_tower(self, config: Config) -> bool:
        """True if the block does not read the output of another: it reads indices, or has an input of its own."""
        return self.index_range(config) is not None

    def ends_tower(self, config: Config) -> bool:
        """True if no block reads this one's output: it may have any dtype and values, and hands no gradient back."""
        return False

    def has_values(self, config: Config) -> bool:
        """True if the block cannot be made of tensors without values, as fake ones are."""
        return False

    def elements_read(self, config: Config) -> int:
        """Number of elements of the activation that the block reads, or of its indices."""
        index_range = self.index_range(config)
        if index_range is not None:
            return index_range[0]
        shape: tuple[int, ...] = self.on_meta(config).shape  # type: ignore[assignment]
        return math.prod(shape)

    def check(self, config: Config) -> None:
        """Raises ValueError for a configuration that no block of this kind has, before it becomes source."""
        for name, value in config.items():
            for text in texts_in([value]):
                if text not in self.words.get(name, ()):
                    raise ValueError(f"{text!r} cannot stand in a network as the {name} of a block '{self.name}'")

    def arguments(self, config: Config) -> list[str] | None:
        """The constructor's arguments as source; None if they are the configuration's."""
        return None

    def helpers_of(self, configs: list[Config]) -> tuple[Any, ...]:
        """Those of `helpers` that blocks of these configurations need."""
        return self.helpers

    def build(self, config: Config) -> nn.Module:
        return self.module(**config)

    def input_of(self, config: Config, module: nn.Module) -> Tensor:
        """A tensor like the block's input, without particular values."""
        index_range = self.index_range(config)
        if index_range is not None:
            return torch.empty(index_range[0], dtype=torch.long)
        shape: Any = module.shape
        return torch.empty(tuple(shape))

    def on_meta(self, config: Config) -> nn.Module:
        """The block on the meta device: it has shapes but no values. It is kept, and nobody changes it."""
        key = self.name, repr(config)
        if key not in _ON_META:
            if len(_ON_META) >= MOST_ON_META:
                del _ON_META[next(iter(_ON_META))]
            with torch.device("meta"), _NoValues():
                _ON_META[key] = self.build(config)
        return _ON_META[key]


_ON_META: dict[tuple[str, str], nn.Module] = {}
MOST_ON_META = 10_000
"""One synthesis looks at several thousand sizes, each of a few kilobytes. A long search forgets the oldest."""


class _NoValues(TorchFunctionMode):
    """Skips functions that fill a tensor in place, and the arithmetic of `side_input`: on the meta device they take
    most of the time to make a module."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = getattr(func, "__name__", ""), kwargs or {}
        tensor = args[0] if args else options.get("tensor")
        fills = name.endswith("_") and not name.startswith("_")
        if isinstance(tensor, torch.Tensor) and (fills or (name in _OF_VALUES and _is_like(tensor, args[1:]))):
            return tensor
        return func(*args, **options)


_OF_VALUES = frozenset({"sign", "__rmul__", "mul", "add"})


def _is_like(tensor: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether the tensor has the shape and dtype of what follows from it and these numbers and tensors."""
    tensors = (o for o in others if isinstance(o, Tensor))
    return tensor.is_floating_point() and all(o.shape == tensor.shape and o.dtype == tensor.dtype for o in tensors)


def numbers(*shape: int, generator: torch.Generator | None = None) -> Tensor:
    """Normal numbers. Beyond a million they repeat: drawing new ones takes fifteen times as long as copying them."""
    values = torch.empty(math.prod(shape))
    if values.is_meta:
        return values.view(shape)
    first = torch.randn(min(values.numel(), 1_000_003), generator=generator)
    for part in values.split(len(first)):
        part.copy_(first[: len(part)])
    return values.view(shape)


def side_input(*shape: int) -> nn.Parameter:
    """A block's second operand, in place of another branch: for example one side of an addition.

    Its values have both signs and are never near zero, so products and quotients neither vanish nor grow.
    """
    values = numbers(*shape)
    return nn.Parameter(0.8 * values.sign() + 0.25 * values)


def resized_map(config: Config, factor: float) -> Config | None:
    """A batch of maps `factor` times as large, by their number; by their height if the batch is too small for that."""
    batch, (height, *rest) = config["batch"], config["size"]
    maps = max(1, round(batch * factor))
    if abs(maps / (batch * factor) - 1) < 0.05:
        return {**config, "batch": maps}
    higher = round(height * factor)
    return {**config, "size": (higher, *rest)} if higher >= SMALLEST_MAP else None


def per_axis(value: Any, axes: int) -> tuple[int, ...]:
    """A size for each axis, from one size per axis or one for all."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return values if len(values) == axes else values[:1] * axes


def with_tuples(value: Any) -> Any:
    """JSON has lists where a block's configuration has tuples."""
    if isinstance(value, dict):
        return {name: with_tuples(v) for name, v in value.items()}
    return tuple(with_tuples(v) for v in value) if isinstance(value, (list, tuple)) else value


def halved(value: int, divisor: float) -> int | None:
    """A power of two ÷ the one that is nearest to the divisor; None of other numbers, and if that is below 1."""
    exponent = math.log2(value) - round(math.log2(divisor))
    return int(2**exponent) if exponent.is_integer() and exponent >= 0 else None


def divided(value: int, divisor: float) -> int | None:
    """value ÷ divisor; None if that is below 1."""
    return max(1, round(value / divisor)) if value >= divisor else None
