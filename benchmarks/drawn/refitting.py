"""Inputs that a model refuses, guessed by their names or changed as its error asks, until it takes them.

Only for a model that has failed with all that is known of its library: each try costs a forward pass.
"""

from __future__ import annotations

import inspect
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

MOST_TRIES = 40
"""Forward passes for one model."""

MOST_S = 20.0
"""CPU time after which no other one begins."""

MOST_STARTS = 6
"""Inputs that a model refused, from which others are made."""

MOST_VALUES = 20_000_000
"""Of a tensor. One that should be larger is not tried: it would take longer than all others, or all memory."""

_TOKENS = 16
_NARROWEST = 40
"""Width of the first guessed tensor; each other one is wider, so that an error's number says which one it means."""

_SIZES = (
    re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<had>\d+) and (?P<wanted>\d+)x\d+\)"),
    re.compile(r"to have (?P<wanted>\d+) channels, but got (?P<had>\d+) channels"),
    re.compile(r"with shape \[\*, (?P<wanted>\d+)\], but got input of size\s?\[.*?(?P<had>\d+)\]"),
    re.compile(r"size of tensor a \((?P<had>\d+)\) must match the size of tensor b \((?P<wanted>\d+)\)"),
    re.compile(r"size of tensor a \((?P<wanted>\d+)\) must match the size of tensor b \((?P<had>\d+)\)"),
    re.compile(r"Expected size (?P<wanted>\d+) but got size (?P<had>\d+) for tensor"),
    re.compile(r"Expected size (?P<had>\d+) but got size (?P<wanted>\d+) for tensor"),
    re.compile(r"expanded size of the tensor \((?P<wanted>\d+)\) must match the existing size \((?P<had>\d+)\)"),
)
"""What torch says of a size: the one that there is, and the one that it wants."""

_AXES = (
    re.compile(r"not enough values to unpack \(expected (?P<wanted>\d+), got (?P<had>\d+)\)"),
    re.compile(r"too many values to unpack \(expected (?P<wanted>\d+)(?P<had>)\)"),
    re.compile(r"or (?P<wanted>\d)D \(batched\) input(?P<had>)"),
    re.compile(r"input\.dim\(\) = (?P<had>\d+) is not equal to len\(dims\) = (?P<wanted>\d+)"),
)
"""What torch and Python say of the number of dimensions."""

_TOO_SMALL = re.compile(r"shape '\[.*\b0\b.*\]' is invalid|greater than actual input size|[Oo]utput size is too small")
_LARGER = 8


def refitted(model: nn.Module, starts: list[Mapping[str, Any]], batch: int) -> dict[str, Any] | None:
    """The first inputs with which the model runs, of those that begin with one of the starts; None if there are none.

    A start may lack what the model asks for. Starts take turns, so that a hopeless one costs few tries.
    """
    different = [*{_shapes(start): start for start in starts}.values()][:MOST_STARTS]
    waiting = deque([dict(start)] for start in _with_guesses(model, different, batch))
    seen: set[str] = set()
    tries, begin_s = 0, time.process_time()
    while waiting and tries < MOST_TRIES and time.process_time() - begin_s < MOST_S:
        stack = waiting.popleft()
        given = stack.pop()
        if _shapes(given) not in seen:
            seen.add(_shapes(given))
            tries += 1
            try:
                with torch.no_grad():
                    model(**given)
                return given
            except Exception as error:
                stack.extend(reversed(list(_changed(given, str(error)))))
        if stack:
            waiting.append(stack)
    return None


def _shapes(given: Mapping[str, Any]) -> str:
    return str({n: (v.shape, v.dtype) if isinstance(v, torch.Tensor) else v for n, v in sorted(given.items())})


def _with_guesses(model: nn.Module, starts: list[Mapping[str, Any]], batch: int) -> Iterator[Mapping[str, Any]]:
    """Each start with what the model needs beside it; then the first with all tensors that the model may take."""
    for has_all in (False, True):
        guesses = guessed_arguments(model.forward, batch, has_all=has_all)
        for start in starts or [{}]:
            yield {**guesses, **start}


def guessed_arguments(function: Callable[..., Any], batch: int, *, has_all: bool = False) -> dict[str, Any]:
    """A value for each parameter without a default whose name and annotation tell enough; with `has_all`, for every
    tensor that the function may take, too."""
    guesses = {}
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        is_needed = parameter.default is parameter.empty or (has_all and "Tensor" in str(parameter.annotation))
        if is_needed and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            value = guess(parameter.name, str(parameter.annotation), batch, _NARROWEST + 8 * place)
            if value is not None:
                guesses[parameter.name] = value
    return guesses


def guess(name: str, annotation: str, batch: int, width: int) -> Any:
    """A value for a parameter of which only name and annotation are known: a tensor if nothing is annotated. None for
    what is no number or tensor."""
    if "Tensor" not in annotation and "_empty" not in annotation:
        if re.search(r"\bint\b", annotation) and "[" not in annotation:
            return 8
        return 1.0 if re.search(r"\bfloat\b", annotation) and "[" not in annotation else None
    if re.search(r"(list|tuple|dict)\[", annotation, re.IGNORECASE):
        return None
    if "mask" in name:
        return torch.ones(batch, _TOKENS, dtype=torch.bool if "Bool" in annotation else torch.float32)
    if re.search(r"(^|_)(ids?|ind(ex|ices)|tokens?|types?)(_|$)", name):
        return torch.zeros(batch, _TOKENS, dtype=torch.long)
    if re.search(r"time|sigma|ratio|scale|guidance|(^|_)(r|t)$", name):
        return torch.full((batch,), 0.5)
    if re.search(r"pooled|global|style|vector", name):
        return torch.randn(batch, width)
    return torch.randn(batch, _TOKENS, width)


def sizes_told(error: str) -> Iterator[tuple[int, int]]:
    """What an error of torch says of sizes: the one that there is, and the one that is wanted."""
    for pattern in _SIZES:
        if found := pattern.search(error):
            yield max(1, int(found["had"])), max(1, int(found["wanted"]))


def _changed(given: Mapping[str, Any], error: str) -> Iterator[dict[str, Any]]:
    """The inputs with one tensor changed as the error asks, the likeliest first."""
    tensors = {n: v for n, v in given.items() if isinstance(v, torch.Tensor)}
    for had, wanted in sizes_told(error):
        yield from _resized(given, tensors, had, wanted)
    for pattern in _AXES:
        if found := pattern.search(error):
            yield from _with_axes(given, tensors, int(found["had"]) if found["had"] else None, int(found["wanted"]))
    if tensors and _TOO_SMALL.search(error):
        name = max(tensors, key=lambda n: tensors[n].numel())
        shape = tensors[name].shape
        sides = max(1, min(len(shape) - 2, 2))
        yield from _with_shape(given, name, [*shape[:-sides], *(_LARGER * n for n in shape[-sides:])])
    if "same dtype" in error or "expected scalar type" in error or "Expected tensor for argument" in error:
        for name, value in sorted(tensors.items(), key=lambda item: item[1].is_floating_point()):
            yield {**given, name: value.long() if value.is_floating_point() else value.float()}


def _resized(
    given: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], had: int, wanted: int
) -> Iterator[dict[str, Any]]:
    """A tensor with the size that there is gets the wanted one. A layer may also see several values of it as one, or
    several tensors one behind the other."""
    sizes = {size for tensor in tensors.values() for size in tensor.shape[1:]}
    found = []
    for name, tensor in tensors.items():
        for axis in range(1, tensor.dim()):
            size = tensor.shape[axis]
            if size > 1 and had % size == 0 and (wanted * size) % had == 0 and wanted != had:
                found.append((size != had, -size, name, axis, wanted * size // had))
            elif had - size in sizes and size + wanted - had > 0:
                found.append((True, 0, name, axis, size + wanted - had))
    for _, _, name, axis, size in sorted(found):
        shape = [*tensors[name].shape]
        yield from _with_shape(given, name, [*shape[:axis], size, *shape[axis + 1 :]])


def _with_axes(
    given: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], had: int | None, wanted: int
) -> Iterator[dict[str, Any]]:
    """A tensor gets so many dimensions: one more behind the channels or before the sides, or a side less."""
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].numel()):
        shape = list(tensor.shape)
        if tensor.dim() not in (had or tensor.dim(), 0) or len(shape) == wanted:
            continue
        more = [1] * (wanted - len(shape))
        for changed in ([*shape[:2], *more, *shape[2:]], [shape[0], *more, *shape[1:]]) if more else (shape[:wanted],):
            yield from _with_shape(given, name, changed)


def _with_shape(given: Mapping[str, Any], name: str, shape: list[int]) -> Iterator[dict[str, Any]]:
    """The inputs with one tensor of this shape, unless that is too large."""
    if math.prod(shape) <= MOST_VALUES:
        yield {**given, name: _filled(given[name], shape)}


def _filled(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Of this shape and the tensor's type: noise, or its last value everywhere."""
    if like.is_floating_point() and like.numel() > 1 and bool(like.ne(like.flatten()[0]).any()):
        return torch.randn(shape)
    return torch.full(shape, like.flatten()[-1].item() if like.numel() else 0, dtype=like.dtype)
