"""Tensors inside of any value that a model takes: containers, dataclasses, packed sequences, objects of one's own."""

from __future__ import annotations

import hashlib
import io
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count, cycle, repeat
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PLAIN = (str, bytes, int, float, complex, type(None), type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def all_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor inside, each once, in order. A module's parameters are its own, not an input's."""
    import torch

    for leaf in _leaves(value, set()):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def parameters_of(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """A model's parameters, each once, also where its own `parameters()` gives groups for an optimizer."""
    import torch

    return list(torch.nn.Module.parameters(model))


def is_data_parallel(module: torch.nn.Module) -> bool:
    """Whether it only shares a model's step with other processes (DistributedDataParallel, FullyShardedDataParallel):
    what it holds of its own is no state of the model."""
    import torch

    return isinstance(module, torch.nn.parallel.DistributedDataParallel) or hasattr(module, "_flat_param")


def data_bytes(value: Any) -> int:
    """Bytes of all tensors inside, and of NumPy's arrays."""
    import torch

    leaves = list(_leaves(value, set()))
    tensors = sum(stored_bytes(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
    return tensors + sum(leaf.nbytes for leaf in leaves if _is_array(leaf))


def state_of(value: Any, seen: set[int] | None = None) -> list[Any]:
    """What tells whether a step changed a value: the tensors inside with their versions and, of small ones, what they
    hold, plain values, what arrays hold, and the lengths of containers. `same_state` compares two. What is in `seen` is
    left out, and what was looked at is added."""
    import torch

    def told(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf, (_version(leaf), _content(leaf))
        if may_be_written(leaf):
            return f"{leaf.shape} {leaf.dtype} {hashlib.blake2b(leaf.tobytes()).hexdigest()}"
        return leaf if isinstance(leaf, PLAIN) else type(leaf)

    return [told(leaf) for leaf in _leaves(value, set() if seen is None else seen, with_lengths=True)]


def same_state(before: list[Any], after: list[Any]) -> bool:
    """Whether two results of `state_of` are equal; tensors must be the same objects."""
    return len(before) == len(after) and all(map(_same, before, after))


def holds_iterator(value: Any) -> bool:
    """Whether something inside can be gone through only once."""
    return any(map(ends, _leaves(value, set())))


_ENDLESS = (count, cycle, repeat, io.IOBase)


def ends(value: Any) -> bool:
    """Whether it is an iterator that is used up. A file, such as a logger writes to, is nothing to go through."""
    return isinstance(value, Iterator) and not isinstance(value, _ENDLESS)


def shape_key(value: Any) -> tuple[Any, ...]:
    """A key that values of equal shapes share: each tensor's or array's shape and dtype, each number or text, and the
    type of anything else."""
    import torch

    return tuple(
        _tensor_key(leaf) if isinstance(leaf, torch.Tensor) else _plain_key(leaf) for leaf in _leaves(value, set())
    )


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors that hold a tensor's data: itself, or the indices and values of a sparse one, the buffers of a
    nested one, and the inner tensors of a subclass that wraps some (a jagged or a quantised tensor)."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]
        return [part for t in inner if isinstance(t, torch.Tensor) for part in parts_of(t)]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.is_nested:
        return [tensor.values()]
    return [tensor]


def lengths_of(nested: Any) -> tuple[int, ...]:
    """The length of each row of a nested tensor: its first dimension behind the batch."""
    import torch

    if nested.layout is torch.jagged:
        lengths = nested.lengths()
        return tuple((nested.offsets().diff() if lengths is None else lengths).tolist())
    return tuple(nested._nested_tensor_size()[:, 0].tolist()) if nested.dim() > 1 else (1,) * nested.size(0)


def packed_tensors(value: Any) -> list[torch.Tensor]:
    """The weights and biases inside the packed parameters of quantised layers: of one such object, or of all that a
    module holds. Elsewhere torch shows them neither as parameters nor as buffers."""
    import torch

    if isinstance(value, torch.nn.Module):
        held = [entry for module in value.modules() for entry in vars(module).values()]
        return [tensor for entry in held if isinstance(entry, torch.ScriptObject) for tensor in packed_tensors(entry)]
    if isinstance(value, torch.ScriptObject):
        packed: Any = value
        try:
            inside = packed.unpack() if packed._has_method("unpack") else packed.__getstate__()
        except RuntimeError:  # an object of another kind, which shows nothing of itself
            return []
        return packed_tensors(inside)
    if isinstance(value, list | tuple):
        return [tensor for entry in value for tensor in packed_tensors(entry)]
    return [value] if isinstance(value, torch.Tensor) else []


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a tensor that is sharded over several; any other tensor itself."""
    local = getattr(tensor, "to_local", None)  # a DTensor; by name, since importing its module takes time
    return tensor if local is None else tensor._local_tensor  # type: ignore[attr-defined]


def stored_elements(tensor: torch.Tensor) -> int:
    """Elements that this process holds of a tensor; of a sparse one, those that are stored, or all if that is not known
    (a fake tensor stores none)."""
    own = own_part(tensor)
    stored = parts_of(own)[-1].numel() if str(own.layout).startswith("torch.sparse") else 0
    return stored or own.numel()


def stored_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a tensor's data takes, without the padding of a nested one or the zeros of a sparse one."""
    return sum(part.numel() * part.element_size() for part in parts_of(tensor))


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no memory any more, as gathered parameters of a sharded model between steps: to read it may
    end the process."""
    import torch

    try:
        parts = [part for part in parts_of(tensor) if part.layout is torch.strided and part.numel()]
        return any(part.untyped_storage().nbytes() == 0 for part in parts)
    except (RuntimeError, ValueError):  # of a class that tells nothing of its memory
        return False


SMALL_BYTES = 4096


def is_small(tensor: torch.Tensor) -> bool:
    """Whether it may be a place in a cache, or a number of steps: what a step does may depend on it."""
    from torch.nn.parameter import is_lazy

    return not is_lazy(tensor) and stored_bytes(tensor) <= SMALL_BYTES


def _content(tensor: torch.Tensor) -> bytes | None:
    """What changes with a tensor that is written without a new version: a small one, through `data`, and one that was
    made in inference mode. None of another, and of one without data."""
    import torch

    if (not tensor.is_inference() and not is_small(tensor)) or is_freed(tensor):
        return None
    digest = hashlib.blake2b()
    try:
        for part in parts_of(tensor):
            copy = part.detach().cpu().clone(memory_format=torch.contiguous_format)  # NumPy's could not be resized
            digest.update(copy.flatten().view(torch.uint8).numpy().tobytes())
    except (RuntimeError, TypeError):  # without data, or of a class or a type that shows none
        return None
    return digest.digest()


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        return before[0] is after[0] and before[1] == after[1]
    return before is after or (type(before) is type(after) and bool(before == after or before != before))


def _leaves(value: Any, seen: set[int], *, with_lengths: bool = False) -> Iterator[Any]:
    """Tensors, each once, and everything else that holds nothing; `with_lengths` also how much each container holds."""
    import torch

    waiting = [value]  # no recursion: lists of linked objects are deep
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            if id(value) not in seen:
                seen.add(id(value))
                yield value
        elif isinstance(value, PLAIN):
            yield value
        elif id(value) not in seen and not is_leaf(value):
            seen.add(id(value))
            children = children_of(value)
            if children is None or isinstance(value, Iterator):
                yield value
                continue
            if with_lengths:
                yield len(children)
            waiting += reversed(children)


def is_leaf(value: Any) -> bool:
    """Whether nothing is looked for inside: plain values, tensors, modules, and optimizers, which keep their state."""
    import torch

    optimizers = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
    return isinstance(value, (*PLAIN, torch.Tensor, torch.nn.Module, *optimizers))


def children_of(value: Any) -> list[Any] | None:
    """What a value holds; None for one that cannot be looked into."""
    if _is_array(value):
        return None  # of a class of one's own, too
    if isinstance(value, Mapping):
        return list(value.values())
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
    for kind in kinds:
        if isinstance(value, kind):
            return [*kind.__iter__(value)]  # a class of one's own may count or show its items in another way
    attributes = attributes_of(value)
    return None if attributes is None else list(attributes.values())


def attributes_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an object, from its `__dict__` and slots."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    own = getattr(value, "__dict__", None)
    return found | own if own is not None else found or None


def _tensor_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    parts = parts_of(tensor)
    if len(parts) == 1 and parts[0] is tensor:
        return (tuple(tensor.shape), tensor.dtype)
    key = (tensor.dtype, str(tensor.layout), *((tuple(part.shape), part.dtype) for part in parts))
    return (*key, lengths_of(tensor)) if tensor.is_nested else (*key, tuple(tensor.shape))


def _plain_key(leaf: Any) -> Any:
    if isinstance(leaf, str | bytes | int | float | complex | type(None)):
        return repr(leaf)
    if _is_array(leaf):
        return (leaf.shape, str(leaf.dtype))
    return f"{type(leaf).__module__}.{type(leaf).__qualname__}"


def may_be_written(value: Any) -> bool:
    """Whether it is an array of NumPy's that a step may write into. One that lies in a file is a data set."""
    return _is_array(value) and value.flags.writeable and not isinstance(value, sys.modules["numpy"].memmap)


def _is_array(leaf: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(leaf, numpy.ndarray)
