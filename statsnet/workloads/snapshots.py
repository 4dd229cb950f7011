"""What a value holds, kept to be put back: the same objects with the contents that they had."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from statsnet.workloads.trees import attributes_of, children_of, is_leaf, may_be_written

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A value and what each container, object and array inside of it holds. Tensors stay themselves, as whatever draws
    or yields does."""

    value: Any
    inside: list[tuple[Any, Any]] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, value: Any) -> Snapshot:
        import torch

        inside: list[tuple[Any, Any]] = []
        tensors: list[torch.Tensor] = []
        seen: set[int] = set()
        waiting = [value]
        while waiting:
            found = waiting.pop()
            if isinstance(found, torch.Tensor):
                tensors.append(found)
            if id(found) in seen or is_leaf(found) or isinstance(found, Iterator | Random):
                continue
            seen.add(id(found))
            waiting += children_of(found) or []
            if not isinstance(found, tuple | frozenset):
                inside.append((found, _contents(found)))
        return cls(value, inside, tensors)

    def put_back(self) -> Any:
        """The value, which holds again what it held."""
        for holder, contents in self.inside:
            try:
                _fill(holder, contents)
            except Exception:
                continue
        return self.value


def _contents(holder: Any) -> Any:
    if isinstance(holder, list | set | deque):
        return list(holder)
    if isinstance(holder, dict):
        return dict(holder)
    return holder.copy(order="K") if may_be_written(holder) else attributes_of(holder)


def _fill(holder: Any, contents: Any) -> None:
    if isinstance(holder, list):
        holder[:] = contents
    elif isinstance(holder, set | dict):
        holder.clear()
        holder.update(contents)
    elif isinstance(holder, deque):
        holder.clear()
        holder.extend(contents)
    elif may_be_written(holder):
        holder[...] = contents
    elif contents is not None:
        for name in (attributes_of(holder) or {}).keys() - contents.keys():
            object.__delattr__(holder, name)
        for name, item in contents.items():
            object.__setattr__(holder, name, item)  # frozen dataclasses too


@dataclass(frozen=True, slots=True)
class TensorContent:
    """A tensor and a copy of what it held."""

    tensor: torch.Tensor
    content: torch.Tensor

    def put_back(self) -> None:
        import torch

        with torch.inference_mode() if self.tensor.is_inference() else torch.no_grad():
            if self.tensor.shape == self.content.shape:
                self.tensor.copy_(self.content)
            else:  # a step has resized it
                self.tensor.data = self.content.clone()
