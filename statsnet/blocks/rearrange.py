"""Blocks that only move data (transposing copies, concatenation, gathering by index), reductions and sorting."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided, halved, side_input
from statsnet.blocks.pointwise import divide_leading
from statsnet.signatures.categories import base_name
from statsnet.signatures.found import MASKS
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of
from statsnet.signatures.tensor_lists import each_in_list


class Transpose(Block):
    """A copy of `shape` with its axes in another `order`."""

    def __init__(self, shape: tuple, order: tuple) -> None:
        super().__init__(*shape)
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return self.enter(x).permute(self.order).contiguous()


class Concat(Block):
    """A tensor of `shape`, concatenated along `axis` from `pieces` contiguous ones of about equal length: the
    input and side inputs."""

    maps = True

    def __init__(self, shape: tuple, axis: int, pieces: int) -> None:
        lengths = [(shape[axis] + i) // pieces for i in range(pieces)]
        first, *others = [(*shape[:axis], n, *shape[axis + 1 :]) for n in lengths[::-1]]
        super().__init__(*first)
        self.axis = axis
        for number, piece in enumerate(others):
            self.register_buffer(f"side_input{number}", side_input(*piece).detach())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.enter(x), *self.buffers()], self.axis)


class Gather(Block):
    """`count` entries along `axis` of a tensor of `shape`, picked by a fixed random index. `subscript`
    makes it x[:, index], which runs another operator than index_select; with `indexed_axes`, x[:, i, j], an index
    for each of so many axes."""

    def __init__(self, shape: tuple, axis: int, count: int, subscript: bool = False, indexed_axes: int = 1) -> None:
        super().__init__(*shape)
        self.axis, self.subscript = axis, subscript
        for number, length in enumerate(shape[axis : axis + indexed_axes]):
            self.register_buffer(f"index{number}", torch.randint(length, (count,)))

    def forward(self, x: Tensor) -> Tensor:
        if self.subscript:
            indexed: Any = (*(slice(None),) * self.axis, *self.buffers())
            return self.enter(x)[indexed]
        return self.enter(x).index_select(self.axis, *self.buffers())


class Reduce(Block):
    """Sum, mean, maximum or the like of a tensor of `shape` along `axes`."""

    def __init__(self, function: str, shape: tuple, axes: tuple) -> None:
        super().__init__(*shape)
        self.function, self.axes = getattr(torch, function), axes

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.enter(x), self.axes)


class TopK(Block):
    """The `count` largest entries along the last axis of a tensor of `shape`, in order."""

    def __init__(self, shape: tuple, count: int) -> None:
        super().__init__(*shape)
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        return self.enter(x).topk(self.count).values


class _ShapeKind(BlockKind):
    """Kinds with a `shape` whose leading axes may be divided."""

    def kept_axis(self, config: Config) -> int | None:
        return config.get("axis")

    def scaled(self, config: Config, divisor: float) -> Config | None:
        shape = divide_leading(config["shape"], divisor, keep=self.kept_axis(config))
        return None if shape is None else {**config, "shape": shape}


class TransposeKind(_ShapeKind):
    name = "transpose"
    memory_bound = True
    module = Transpose

    def hands_back_a_view(self, config: Config) -> bool:
        return True

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) not in ("clone", "copy_", "contiguous", "_to_copy"):
            return None
        source = [a for a in first.args if is_tensor(a)][-1:]
        if not source:
            return None
        spec = TensorSpec.from_dict(source[0])
        floating = spec.dtype.startswith(("float", "bfloat"))
        if spec.strides is None or len(spec.shape) < 2 or 0 in spec.strides or not floating:
            return None
        stored = sorted(range(len(spec.shape)), key=lambda d: -spec.strides[d])  # type: ignore[index]
        order = tuple(stored.index(d) for d in range(len(stored)))
        return _moving({"shape": tuple(spec.shape[d] for d in stored), "order": order})

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """The outermost axis is divided first; the inner ones keep the access pattern."""
        shape = divide_leading(config["shape"], divisor)
        return None if shape is None else _moving({**config, "shape": shape})


def _moving(config: Config) -> Config | None:
    """The configuration; None if its order leaves all data in place, so that nothing would be copied."""
    moved = [axis for axis in config["order"] if config["shape"][axis] > 1]
    return config if moved != sorted(moved) else None


class ConcatKind(_ShapeKind):
    name = "concat"
    module = Concat
    helpers = (side_input,)

    def hands_back_a_view(self, config: Config) -> bool:
        return True

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) not in ("cat", "stack"):
            return None
        out = first.outputs[0]
        if not out["dtype"].startswith(("float", "bfloat")):
            return None
        pieces = sum(0 not in piece.shape for piece in tensors_of(first.args[:1]))
        shape = tuple(out["shape"])
        axis = (first.args[1] if len(first.args) > 1 else 0) % len(shape)
        if pieces < 2 or shape[axis] < pieces:
            return None
        return {"shape": shape, "axis": axis, "pieces": pieces}


class GatherKind(_ShapeKind):
    name = "gather"
    module = Gather

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first, base = motif[0], base_name(motif[0].op)
        if base not in ("index", "index_select", "gather") or not is_tensor(first.args[0]):
            return None
        shape = tuple(first.args[0]["shape"])
        total = math.prod(first.outputs[0]["shape"])
        if not shape or not total or not first.args[0]["dtype"].startswith(("float", "bfloat")):
            return None
        if base == "index":
            entries = list(each_in_list(first.args[1]["tensors"]))
            by_mask = any(entry["dtype"] in MASKS for entry in entries if entry is not None)
            return None if by_mask else _subscripted(shape, entries, total)  # a mask is searched first
        axis = int(first.args[1]) % len(shape)
        return {"shape": shape, "axis": axis, "count": max(1, total * shape[axis] // math.prod(shape))}

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Along the first axis, fewer rows, each read as often: their length decides how they are copied and added up.
        If what is picked by subscripts lies behind the first axis, a power of two of rows stays one: a runtime that
        brings the picked axes to the front writes rows of that length, and caches hold few that lie 4 KiB apart.
        Few rows become shorter, and along another axis the leading ones are divided."""
        rows, *rest = config["shape"]
        kept, count = divided(rows, divisor), divided(config["count"], divisor)
        if config["axis"] > 0 and config.get("subscript") and (fewer := halved(rows, divisor)) is not None:
            return {**config, "shape": (fewer, *rest)} if fewer != rows else None
        if config["axis"] > 0 or kept is None or count is None:
            return super().scaled(config, divisor)
        return {**config, "shape": (kept, *rest), "count": count}


def _subscripted(shape: tuple[int, ...], entries: list[Any], total: int) -> Config:
    """x[:, i, j] with any number of leading axes. A graph with two indices is another one than with a single index, so
    indexed axes stay apart unless others lie between them. Axes after them are merged into one."""
    indexed = [axis for axis, entry in enumerate(entries) if entry is not None] or [0]
    leading, end = indexed[0], indexed[0] + len(indexed)
    before, picked, after = shape[:leading], shape[leading:end], shape[end:]
    count = max(1, total // max(1, math.prod(before + after)))
    apart = {"indexed_axes": len(picked)} if 1 < len(picked) == indexed[-1] + 1 - leading else {}
    axes = picked if apart else (math.prod(picked),)
    merged = (*before, *axes, *((math.prod(after),) if after else ()))
    return {"shape": merged, "axis": leading, "count": count, "subscript": True, **apart}


REDUCTIONS = ("sum", "mean", "amax", "amin")


class ReduceKind(_ShapeKind):
    name = "reduce"
    module = Reduce
    words: ClassVar = {"function": REDUCTIONS}

    def steady(self, config: Config) -> bool:
        return False  # sums grow and means shrink; extremes have one sign

    def hands_back_a_view(self, config: Config) -> bool:
        """The gradient of a sum is expanded; of others it is a new tensor."""
        return bool(config["function"] == "sum")

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first, base = motif[0], base_name(motif[0].op)
        if base not in REDUCTIONS or not is_tensor(first.args[0]):
            return None
        shape = tuple(first.args[0]["shape"])
        if not shape or not first.args[0]["dtype"].startswith(("float", "bfloat")):
            return None
        axes: Any = first.args[1] if len(first.args) > 1 and isinstance(first.args[1], list) else None
        chosen = tuple(a % len(shape) for a in axes) if axes else tuple(range(len(shape)))
        return {"function": base, "shape": shape, "axes": chosen}


class TopKKind(_ShapeKind):
    name = "topk"
    module = TopK

    def steady(self, config: Config) -> bool:
        return False  # the largest entries have one sign

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first, base = motif[0], base_name(motif[0].op)
        if base not in ("topk", "sort", "argsort") or not is_tensor(first.args[0]):
            return None
        shape = tuple(first.args[0]["shape"])
        place = 2 if base == "topk" or first.op.endswith(".stable") else 1
        axis = first.args[place] if len(first.args) > place else -1
        is_last = axis in (-1, len(shape) - 1)
        if not shape or not is_last or not first.args[0]["dtype"].startswith(("float", "bfloat")):
            return None
        return {"shape": shape, "count": first.args[1] if base == "topk" else shape[-1]}

    def kept_axis(self, config: Config) -> int:
        """The axis that is sorted: in a shorter one there may not be so many entries."""
        return len(config["shape"]) - 1
