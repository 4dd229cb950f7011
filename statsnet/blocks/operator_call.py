"""One call of an operator as a block's configuration: from a captured call, to torch's arguments, to source.

A configuration holds
    operator    the words of its name, ("tanh", "default"); if it is not one of ATen, with its library
    spelling    how the network calls it: "torch", "F" (torch.nn.functional), "method" or "aten"
    operands    its tensors in order: (dtype, shape, strides); the network's dtype is "own", contiguous strides are ().
                Of one whose values decide how much is found, also the number that says it (signatures/found.py); of a
                sparse matrix, also ("stored", count, height and width of its blocks) (signatures/sparse.py); of packed
                parameters, a weight, also ("packed", what stands beside it), of those of a recurrent layer ("cell",
                what does) (signatures/quantized.py); of a nested tensor, also ("nested", (each row's length, ...))
                (signatures/nested.py)
    arguments   its arguments in the schema's order, each one of
                ("operand", place), ("operands", (place, ...)) where -1 is None, ("nothing",),
                ("usual",) for the default, ("number", x), ("numbers", (x, ...)), ("infinity", sign), ("word", "mean"),
                ("dtype", name), ("format", name), ("device",)
    output      which of several results is handed on; -1 for the only one
All are numbers, words and tuples of them, so that a spec's file can be checked before it becomes source.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

import torch

from statsnet.blocks.base import Config
from statsnet.blocks.operator_schema import runnable
from statsnet.signatures.indices import bound_of
from statsnet.signatures.nested import Nested
from statsnet.signatures.operators import ITEM_SIZE, TensorSpec
from statsnet.signatures.quantized import Cell, Packed
from statsnet.signatures.sparse import Stored
from statsnet.signatures.strides import resized_strides
from statsnet.workloads.torch_operators import overload

OWN = "own"
OF_MEMORY = ("pin_memory", "non_blocking")
"""Arguments about how memory is allocated and copied; they are left to torch."""

OF_SPARSE = frozenset({"mm", "addmm", "mv", "addmv", "_sparse_mm", "_sparse_addmm"})
"""Operators that may have a sparse matrix among their operands."""

Shape = tuple[int, ...]


Form = Stored | Packed | Cell | Nested
FORMS: dict[str, type[Form]] = {"stored": Stored, "packed": Packed, "cell": Cell, "nested": Nested}
"""What tells more of an operand than its shape, by the word that stands before it in a configuration."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of a call. `strides` are in elements; `found` is how much the operator finds by its values; `form`
    what a sparse matrix stores, what stands beside the weight in packed parameters, or the rows of a nested tensor."""

    dtype: str
    shape: Shape
    strides: Shape
    found: int | None = None
    form: Form | None = None

    @property
    def is_contiguous(self) -> bool:
        return not any(n > 1 and s != usual for n, s, usual in self._axes())

    def reshaped(self, shape: Shape) -> Operand:
        """Another shape in the same layout."""
        strides = contiguous_strides(shape) if self.is_contiguous else resized_strides(self.shape, self.strides, shape)
        return replace(self, shape=shape, strides=strides)

    def _axes(self) -> list[tuple[int, int, int]]:
        return list(zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True))

    @property
    def numel(self) -> int:
        if isinstance(self.form, Nested):
            return self.form.elements(self.shape)
        return self.form.elements if isinstance(self.form, Stored) else math.prod(self.shape)

    @property
    def layout(self) -> str:
        """As in `TensorSpec`."""
        strides = None if self.is_contiguous else self.strides
        return TensorSpec(shape=self.shape, dtype=self.dtype, strides=strides).layout

    @property
    def entry(self) -> tuple[Any, ...]:
        """As an entry of a configuration."""
        layout = self.dtype, self.shape, () if self.is_contiguous else self.strides
        told = () if self.found is None else (self.found,)
        return (*layout, *told) if self.form is None else (*layout, entry_of(self.form))


def entry_of(form: Form) -> tuple[Any, ...]:
    """As the last part of an operand's entry."""
    word = next(word for word, kind in FORMS.items() if isinstance(form, kind))
    return word, *astuple(form)


def contiguous_strides(shape: Shape) -> Shape:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def operands_of(config: Config) -> list[Operand]:
    """Raises ValueError for what is no tensor."""
    try:
        return [_operand(entry, config["operator"][0]) for entry in config["operands"]]
    except TypeError as error:  # of other values than it has, or of more
        raise ValueError("an operand is no tensor") from error


def _operand(entry: tuple[Any, ...], base: str) -> Operand:
    dtype, shape, strides, *rest = entry
    shape, form = tuple(shape), None
    if rest and isinstance(rest[0], tuple):
        word, *values = rest.pop(0)
        form = FORMS[word](*values) if word in FORMS else None
        known = form is not None and form.fits(shape) and not strides and not rest
        known = known and (base in OF_SPARSE or not isinstance(form, Stored))
    else:
        known = len(rest) < 2
    numbers = (*shape, *strides, *rest)
    fits = len(strides) in (0, len(shape)) and all(isinstance(n, int) and n >= 0 for n in numbers)
    if not (known and fits and (dtype == OWN or dtype in ITEM_SIZE)):
        raise ValueError("an operand is no tensor")
    return Operand(dtype, shape, tuple(strides) or contiguous_strides(shape), rest[0] if rest else None, form)


def name_of(config: Config) -> str:
    """`aten.tanh.default`. Raises ValueError for an operator that may not be a block."""
    words = config["operator"]
    name = ".".join(words if len(words) == 3 else ("aten", *words))
    if runnable(name) != name:
        raise ValueError(f"{name} may not stand in a network")
    return name


def index_limit(config: Config) -> int:
    """Integers in the operands stay below this."""
    return max(1, bound_of(name_of(config), encoded_arguments(config)))


def encoded_arguments(config: Config) -> list[Any]:
    """The arguments as `signatures.operators` encodes them. Own dtypes are float32."""
    operands = [_encoded(o) for o in operands_of(config)]
    encoded: list[Any] = []
    for kind, *value in config["arguments"]:
        if kind == "operand":
            encoded.append(operands[value[0]])
        elif kind == "operands":
            encoded.append({"tensors": [operands[place] if place >= 0 else None for place in value[0]]})
        else:
            given = list(value[0]) if kind == "numbers" else value[0] if value else None
            encoded.append(given if kind in ("number", "numbers", "word") else None)
    return encoded


def _encoded(operand: Operand) -> dict[str, Any]:
    dtype = "float32" if operand.dtype == OWN else operand.dtype
    encoded: dict[str, Any] = {"shape": list(operand.shape), "dtype": dtype}
    if isinstance(operand.form, Nested):
        squares = sum(n * n for n in operand.form.lengths)
        return encoded | {"elements": operand.numel, "squares": squares}
    return encoded if operand.is_contiguous else encoded | {"strides": list(operand.strides)}


def torch_arguments(config: Config, tensors: list[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of the operator, with these tensors as its operands."""
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for argument, (kind, *rest) in zip(overload(name_of(config))._schema.arguments, config["arguments"], strict=True):
        value: Any = rest[0] if rest else None
        if kind == "usual":
            given = argument.default_value
        elif kind == "operand":
            given = tensors[value]
        elif kind == "operands":
            given = [None if place < 0 else tensors[place] for place in value]
        elif kind == "dtype":
            given = tensors[0].dtype if value == OWN else getattr(torch, value)
        elif kind == "format":
            given = getattr(torch, value)
        elif kind == "nothing":
            given = None
        elif kind == "infinity":
            given = value * math.inf
        else:
            given = tensors[0].device if kind == "device" else list(value) if kind == "numbers" else value
        if argument.kwarg_only:
            keyword[argument.name] = given
        else:
            positional.append(given)
    return positional, keyword
