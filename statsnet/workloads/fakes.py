"""Fake tensors that keep the entries of sparse ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any
from unittest.mock import patch

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import _disable_current_modes

from statsnet.workloads.compressed_fakes import (
    MAKERS,
    NeedsValuesError,
    compressed_fake,
    is_compressed,
    with_stored_elements,
)
from statsnet.workloads.grouped_products import empty_product
from statsnet.workloads.torch_operators import find_overload


class NeedsMemoryError(RuntimeError):
    """An operator cannot be counted without memory, and there is too little."""


class SparseFakeTensorMode(FakeTensorMode):
    """FakeTensorMode that knows sparse gradients, and matrices in compressed layouts.

    In torch's own mode (2.13), copies of a sparse tensor lose its entries, and so do gradients of embedding bags.
    Operators without a rule really run, on zeros as large as the table: 20 GB for a table of DLRM-DCNv2. Which entries
    coincide is unknown here: a coalesced tensor gets as many as possible.
    """

    supports_higher_order_operators = True  # so that they come here, and are refused in words of ours

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            raise NeedsValuesError(f"what a step of {func} calls is known on a real device alone")
        kwargs = kwargs or {}
        args = [self.from_tensor(arg) if is_compressed(arg) else arg for arg in args]
        if func in MAKERS or any(map(is_compressed, args)):
            run = super().__torch_dispatch__
            return with_stored_elements(self, func, args, kwargs, lambda: run(func, types, args, kwargs))
        if func in RULES and (result := RULES[func](*args, **kwargs)) is not None:
            return result
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
                raise
            raise NeedsMemoryError(
                f"torch has no rule for {func} without data and runs it on zeros, for which there is too little memory"
            ) from error

    def from_tensor(self, tensor: torch.Tensor, **options: Any) -> torch.Tensor:  # type: ignore[override]
        if is_compressed(tensor):
            return tensor if isinstance(tensor, FakeTensor) else compressed_fake(self, tensor)
        return super().from_tensor(tensor, **options)

    def create_symbolic_nested_int(self, **_: Any) -> Any:
        raise NeedsValuesError("the lengths of a nested tensor's rows stand in its values")


@contextmanager
def fake_tensors() -> Iterator[SparseFakeTensorMode]:
    """All tensors made inside have shapes and no memory, and modules can be moved and cast. For processes of their own:
    no other thread may build modules meanwhile."""
    with castable_modules(), lazy_layers(), SparseFakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode


@contextmanager
def castable_modules() -> Iterator[None]:
    """Modules of fake parameters can be moved and cast inside, which torch's own `Module.to` refuses."""
    original = torch.nn.Module._apply
    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = original  # type: ignore[method-assign]


@contextmanager
def lazy_layers() -> Iterator[None]:
    """Layers that learn their sizes later can be made inside: their parameters are real tensors. torch cannot make fake
    ones of that class. What is written into them is lost, so they take no memory."""
    with ExitStack() as stack:
        for kind in (UninitializedParameter, UninitializedBuffer):
            for name in ("__new__", "materialize"):
                stack.enter_context(patch.object(kind, name, _unwatched(getattr(kind, name))))
        yield


def _unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return run


def _apply(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """New parameters in place of those that change; tied parameters stay tied. Whoever else holds a parameter, such as
    a reducer of gradients, keeps it if it stays. Modules of sharded parameters look up their new ones, and those that
    hold other tensors alone move these themselves, as a proxy's operators do."""
    made: dict[int, torch.nn.Parameter] = {}
    is_changed = False
    parts = list(module.modules()) if recurse else [module]
    for part in parts:
        for name, parameter in list(part.named_parameters(recurse=False)):
            if id(parameter) not in made:
                old = parameter.detach()
                new = fn(old)
                stays = new is old and isinstance(new, FakeTensor) == isinstance(parameter, FakeTensor)
                made[id(parameter)] = parameter if stays else torch.nn.Parameter(new, parameter.requires_grad)
            is_changed |= made[id(parameter)] is not parameter
            setattr(part, name, made[id(parameter)])
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, fn(buffer))
        if part is not module and type(part)._apply is not _apply and not _is_stored(part):
            part._apply(fn)
    if is_changed and recurse:
        for part in parts[1:]:
            if hasattr(part, "reshard"):  # an FSDPModule; the outermost does so itself
                part._apply(lambda tensor: tensor, recurse=False)
    return module


def _is_stored(part: torch.nn.Module) -> bool:
    return any(True for _ in itertools.chain(part.parameters(), part.buffers()))


def _clone(tensor: torch.Tensor, **_: Any) -> torch.Tensor | None:
    if tensor.layout is not torch.sparse_coo:
        return None
    return _sparse(tensor._indices(), tensor._values(), tensor.shape, is_coalesced=tensor.is_coalesced())


def _coalesce(tensor: torch.Tensor) -> torch.Tensor:
    indices, values = tensor._indices(), tensor._values()
    kept = min(indices.shape[1], prod(tensor.shape[: indices.shape[0]]))
    return _sparse(indices[:, :kept], values[:kept], tensor.shape, is_coalesced=True)


def _sparse_mask(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | None:
    if mask.layout is not torch.sparse_coo:
        return None
    values = mask._values().to(tensor.dtype)
    return _sparse(mask._indices(), values, tensor.shape, is_coalesced=mask.is_coalesced())


def _add_(tensor: torch.Tensor, other: Any, **_: Any) -> torch.Tensor | None:
    is_sparse = isinstance(other, torch.Tensor) and other.layout is torch.sparse_coo
    return tensor if is_sparse and tensor.layout is torch.strided else None


def _embedding_bag_backward(grad: torch.Tensor, indices: torch.Tensor, *settings: Any) -> torch.Tensor | None:
    rows, sparse = settings[4], settings[7]
    if not sparse:
        return None
    values = grad.new_empty((indices.numel(), grad.shape[1]))
    return _sparse(indices.reshape(1, -1), values, torch.Size((rows, grad.shape[1])), is_coalesced=False)


def _grouped_mm(a: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor | None:
    return None if a.dtype is torch.bfloat16 else empty_product(a, *rest, **options)


def _sparse(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size, *, is_coalesced: bool) -> torch.Tensor:
    """A new sparse tensor with entries like these."""
    return torch.sparse_coo_tensor(
        torch.empty_like(indices),
        torch.empty_like(values),
        shape,
        is_coalesced=is_coalesced,
        check_invariants=False,
    )


_BY_NAME: dict[str, Callable[..., torch.Tensor | None]] = {
    "aten.add_.Tensor": _add_,
    "aten.clone.default": _clone,
    "aten._coalesce.default": _coalesce,
    "aten.sparse_mask.default": _sparse_mask,
    "aten._embedding_bag_backward.default": _embedding_bag_backward,
    "aten._grouped_mm.default": _grouped_mm,
}
RULES = {function: rule for name, rule in _BY_NAME.items() if (function := find_overload(name)) is not None}
"""By operator; older versions of torch lack some."""
