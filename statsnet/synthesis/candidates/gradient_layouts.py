"""Which gradients a mix's operators have, and the layouts that later layers give them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.strides import view_of
from statsnet.signatures.target import Target

Gradient = tuple[str, tuple[int, ...]]
"""A member, and the shape of a gradient in it."""

Summed = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape of a gradient, and of an operand for which it is summed, because that was broadcast and needs a gradient of
its own. Leading axes of one element are left out of the second."""


def cut_gradients(target: Target) -> dict[Gradient, int]:
    """Gradients that are slices of wider ones, as after a concatenation, and the axis along which most of their time is
    spent on slices, counted from the back."""
    return _most_of_axis(target, lambda first: _cut_axis(first) if first.layout == "strided" else None)


def permuted_gradients(target: Target) -> dict[Gradient, int]:
    """Gradients of which another axis than the last is innermost in memory, as of a later layer that reads the output
    transposed, and that axis."""
    axes = {"transposed": lambda rank: rank - 2, "channels_last": lambda rank: 1}
    return _most_of_axis(target, lambda g: axes[g.layout](len(g.shape)) if g.layout in axes else None)


def summed_gradients(target: Target) -> Mapping[str, Collection[Summed]]:
    """By member. Without those of which a recording does not tell the shapes of all sums."""
    summed: dict[str, set[Summed]] = {member.name: set() for member in target.members}
    for cluster in target.clusters:
        if cluster.phase != "backward" or base_name(cluster.op) != "sum" or cluster.member not in summed:
            continue
        shapes = [spec["shape"] for spec in (*cluster.args[:1], *cluster.outputs[:1]) if is_tensor(spec)]
        if len(shapes) == 2:
            summed[cluster.member].add((tuple(shapes[0]), without_leading_ones(shapes[1])))
        else:
            del summed[cluster.member]
    return summed


def without_leading_ones(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(itertools.dropwhile(lambda n: n == 1, shape))


def _most_of_axis(target: Target, axis_of: Callable[[TensorSpec], int | None]) -> dict[Gradient, int]:
    """For each gradient that has such an axis, the one that most of its time is spent with."""
    times: dict[Gradient, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for cluster in target.clusters:
        first = next((TensorSpec.from_dict(a) for a in cluster.args if is_tensor(a)), None)
        if cluster.phase != "backward" or first is None or 0 in (first.strides or ()):
            continue  # a stride of 0 is an expanded gradient, as of a sum
        axis = axis_of(first)
        if axis is not None:
            times[cluster.member, first.shape][axis] += cluster.time_share
    return {key: max(axes, key=lambda axis: (axes[axis], axis)) for key, axes in times.items()}


def _cut_axis(tensor: TensorSpec) -> int:
    """The innermost axis along which a strided tensor is a part of a longer one, counted from the back. How far apart
    its rows are, and so whether a kernel runs along it in vectors, depends on that."""
    assert tensor.strides is not None
    view, rank = view_of(tensor.shape, tensor.strides), len(tensor.shape)
    cut = [] if view is None else [a for a in range(rank) if view.base[view.order[a]] > tensor.shape[a]]
    return max(cut, default=rank - 1) - rank
