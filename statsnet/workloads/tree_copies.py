"""Replaces the tensors inside nested values, and copies such values."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from statsnet.workloads.trees import attributes_of, ends, is_freed, is_leaf, may_be_written

if TYPE_CHECKING:
    import torch


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with `function` of each tensor in its place. What holds no tensor stays the same object, and what is
    held twice is so afterwards too. The lengths of a packed sequence stay as they are: torch wants them on the CPU."""
    return _Mapped(function)(value)


def copied(value: Any, tensor: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Any:
    """A copy that a step may change: of every container, object and array inside, and `tensor` of each tensor
    (default: a copy). Modules, functions, iterators and what cannot be copied stay the same objects."""
    return _Copied(tensor or clone)(value)


def gone_through(value: Any) -> Any:
    """The value with a list of all that it yields in place of each iterator inside, but for those without an end and
    files."""
    return _GoneThrough(lambda tensor: tensor)(value)


class _Mapped:
    """Maps values, each once."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._function = function
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that no two of them get the same id

    def __call__(self, value: Any) -> Any:
        import torch

        if is_leaf(value) and not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._made:
            self._kept.append(value)
            self._made[id(value)] = value  # a value that holds itself keeps its old self inside
            self._made[id(value)] = self._function(value) if isinstance(value, torch.Tensor) else self._inside(value)
        return self._made[id(value)]

    def _inside(self, value: Any) -> Any:
        from torch.nn.utils.rnn import PackedSequence

        if isinstance(value, PackedSequence):
            data, lengths, *orders = value
            return PackedSequence(self(data), lengths, *(None if order is None else self(order) for order in orders))
        if isinstance(value, list | tuple) and type(value).__len__ in (list.__len__, tuple.__len__):
            return self._sequence(value)
        if isinstance(value, deque):
            items = deque(map(self, value), value.maxlen)
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        if isinstance(value, dict):
            made = {key: self(item) for key, item in value.items()}
            changed = any(made[key] is not item for key, item in value.items())
            return self._filled(value, made) if changed else value
        return self._object(value)

    def _sequence(self, value: list[Any] | tuple[Any, ...]) -> Any:
        items = [self(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return items if type(value) is list else type(value)(items)

    def _filled(self, value: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
        if type(value) is dict:
            return items
        filled: dict[Any, Any] = copy.copy(value)  # keeps a default factory, an order, a class of one's own
        for key, item in items.items():
            filled[key] = item
        return filled

    def _object(self, value: Any) -> Any:
        attributes = attributes_of(value) or {}
        made = {name: self(item) for name, item in attributes.items()}
        changed = {name: item for name, item in made.items() if item is not attributes[name]}
        if not changed:
            return value
        new = copy.copy(value)
        for name, item in changed.items():
            object.__setattr__(new, name, item)  # frozen dataclasses too
        return new


class _GoneThrough(_Mapped):
    """Replaces iterators, in objects and classes of one's own too."""

    def _inside(self, value: Any) -> Any:
        if ends(value):
            return [self(each) for each in value]
        return super()._inside(value)


class _Copied(_Mapped):
    """Copies containers and objects too, whether or not they hold a tensor."""

    def _inside(self, value: Any) -> Any:
        try:
            if may_be_written(value):
                return value.copy(order="K")
            if isinstance(value, deque):
                return deque(map(self, value), value.maxlen)
            if isinstance(value, set):
                return type(value)(map(self, value))
            if type(value) in (list, tuple):
                return type(value)(map(self, value))
            if isinstance(value, dict):
                return self._filled(value, {key: self(item) for key, item in value.items()})
            if isinstance(value, list | tuple):
                return super()._inside(value)
            return self._object_copied(value)
        except Exception:  # a lock, a file, a class that forbids it
            return value

    def _object_copied(self, value: Any) -> Any:
        attributes = attributes_of(value)
        # Generators draw on, as torch's and NumPy's do. Where a copy ends, `__del__` would close what the value uses.
        if attributes is None or isinstance(value, Iterator | Random) or hasattr(type(value), "__del__"):
            return value
        new = copy.copy(value)
        for name, item in attributes.items():
            object.__setattr__(new, name, self(item))
        return new


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that keeps strides, expanded axes, whether it needs a gradient, its class, and what people have hung on
    it; the tensor itself if its memory has been freed."""
    import torch

    if is_freed(tensor):
        return tensor
    plain = tensor.detach()
    if plain.layout is torch.strided and 0 in plain.stride() and plain.numel():
        stored = plain[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in plain.stride())]
        copy = _with_strides(stored).expand(plain.shape)
    else:
        copy = _with_strides(plain)
    if type(tensor) is not type(copy) and isinstance(tensor, type(copy)):
        copy = copy.as_subclass(type(tensor))
    for name, value in vars(tensor).items():
        vars(copy).setdefault(name, value)
    return copy.requires_grad_() if tensor.requires_grad else copy


def _with_strides(plain: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides: a view into a larger tensor keeps its gaps, by which kernels are chosen."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    copy = plain.clone()
    if plain.layout is not torch.strided or plain.is_quantized or is_traceable_wrapper_subclass(plain):
        return copy
    if copy.stride() == plain.stride() or not plain.numel() or _overlaps(plain):
        return copy
    return torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device).copy_(plain)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements may share their memory, as those of windows do."""
    axes = sorted((stride, n) for stride, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1)
    reached = 1
    for stride, n in axes:
        if stride < reached:
            return True
        reached = stride * (n - 1) + reached
    return False
