"""A configured operator in other sizes: which axes of its operands change together, and which may change at all.

No table says this for an operator. So hypotheses are tried, the most careful first: an axis of the input changes, and
with it those of equal length at the same place of other operands, counted from the front, then from the back; then that
axis alone; then all of equal length; then every operand's first axis. Numbers among the arguments that are as long
change too. The first hypothesis counts under which the operator still runs, its results have as many axes as before,
all operands keep their layout, and torch has the same library run a convolution. A convolution's gradients need no
hypothesis (convolution_gradients.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statsnet.blocks import convolution_gradients
from statsnet.blocks.base import Config, halved
from statsnet.blocks.convolution_library import Window, library
from statsnet.blocks.operator_call import Form, Operand, name_of, operands_of
from statsnet.blocks.operator_source import argument_names
from statsnet.blocks.operator_trial import is_lax, may_run, result_shapes
from statsnet.signatures.categories import base_name
from statsnet.signatures.nested import Nested
from statsnet.signatures.partitions import ENDS
from statsnet.signatures.quantized import Cell, Packed
from statsnet.signatures.sparse import Stored
from statsnet.workloads.torch_operators import overload

Place = tuple[int, int]
"""An operand and one of its axes."""

FEWEST = 16
"""An inner axis is not made shorter than this: kernels run along it in vectors."""

NEAR = 1.4
"""A size within this factor of the wanted one will do."""

BY_INDEX = frozenset({
    "index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl", "index_select", "index_add",
    "index_copy", "index_fill", "gather", "scatter", "scatter_add", "scatter_reduce", "embedding", "_embedding_bag",
    "_embedding_bag_forward_only", "take", "put",
})  # fmt: skip
"""Their time goes by the number of indices, and their rows should shrink with it: all first axes change."""

WEIGHTS = frozenset({"weight", "bias", "running_mean", "running_var"})
"""Arguments without a batch axis."""

WHOLE_LAYERS = {
    "_transformer_encoder_layer_fwd": [0, 1], "mkldnn_rnn_layer": [0], "mkldnn_rnn_layer_backward": [],
    "_ctc_loss_backward": [],
}  # fmt: skip
"""Layers and losses with several operands, whose sizes depend on each other; and the axes of their input that may
change. They read past the end of a weight, a state or what is kept for the backward pass that does not fit."""

QUANTIZED_LAYERS = frozenset({"quantized_lstm", "quantized_gru"})
"""Recurrent layers, whose weights' sizes depend on each other and on the state's."""

SIZES = ("size", "sizes", "shape", "N", "C", "HxW", "num_weights", "normalized_shape", "output_size", "input_size",
         "input_sizes", "split_sizes", "rows", "end")  # fmt: skip
"""Words in names of arguments that are lengths of axes."""

LAST_AXES = frozenset({"output_size", "normalized_shape"})
"""Lists of the lengths of the last axes alone."""


def resized(config: Config, factor: float) -> Config | None:
    """The operator about `factor` times as large: the outermost axes of its input change first, the innermost last.
    None if they cannot change by so much."""
    if ("device",) in config["arguments"] or base_name(name_of(config)).startswith("new_"):
        return _resized_factory(config, factor)
    if base_name(name_of(config)) in ENDS and (places := _grouped_places(config)):
        return _resized_groups(config, places, factor)
    changed, left = config, factor
    rank = len(operands_of(config)[0].shape)
    for axis in _in_turn(config, rank):
        length = operands_of(changed)[0].shape[axis]
        fewest = FEWEST if axis == rank - 1 and rank > 1 else 1
        whole = halved(length, 1 / left) if axis == 0 and _picks_behind_first_axis(config) else None
        if whole == length:
            return None
        new = max(fewest, whole or round(length * left))
        if length <= fewest or new == length:
            continue
        lengths = (new, 2) if new == 1 and length > 2 else (new,)  # an axis of one element has no layout
        tried = next(filter(None, (_changed(changed, (0, axis), n) for n in lengths)), None)
        if tried is None:
            continue
        changed, left = tried, left * length / operands_of(tried)[0].shape[axis]
        if 1 / NEAR < left < NEAR:
            return changed
    return None


def _picks_behind_first_axis(config: Config) -> bool:
    """Whether it is x[:, i]: see `GatherKind.scaled`."""
    return base_name(name_of(config)) == "index" and not _is_along_first_axis(config)


def _is_along_first_axis(config: Config) -> bool:
    """Whether an index picks from the first axis of what it is applied to."""
    names = [a.name for a in overload(name_of(config))._schema.arguments]
    by_name = dict(zip(names, config["arguments"], strict=True))
    if "indices" in by_name and by_name["indices"][0] == "operands":
        return bool(next(iter(by_name["indices"][1]), 0) >= 0)
    return bool(by_name.get("dim", ("number", 0))[1] in (0, -len(operands_of(config)[0].shape)))


def _grouped_places(config: Config) -> frozenset[Place]:
    """The axes of a grouped product's operands that its groups share; none if it has no groups."""
    names = argument_names(config)
    if not {"self", "mat2", "offs"} <= set(names):
        return frozenset()
    left, right = names.index("self"), names.index("mat2")
    axes = len(operands_of(config)[left].shape), len(operands_of(config)[right].shape)
    by_axes = {(2, 3): {(left, 0)}, (3, 2): {(right, 1)}, (2, 2): {(left, 1), (right, 0)}}
    return frozenset(by_axes.get(axes, ()))


def _resized_groups(config: Config, places: frozenset[Place], factor: float) -> Config | None:
    """As many groups of a product, each of fewer or more rows."""
    operands = operands_of(config)
    number, axis = min(places)
    length = operands[number].shape[axis]
    new = max(FEWEST, FEWEST * round(length * factor / FEWEST))
    changed = _with(config, operands, places, length, new, "")
    return changed if new != length and changed is not None and may_run(changed) else None


def _resized_factory(config: Config, factor: float) -> Config | None:
    """An operator that reads no tensor: the first length above 1 among its arguments changes."""
    arguments, schema = list(config["arguments"]), overload(name_of(config))._schema.arguments
    for place, (kind, *value) in enumerate(arguments):
        is_length = kind == "number" and schema[place].name != "fill_value"
        lengths = list(value[0] if kind == "numbers" else value if is_length else ())
        for axis, length in enumerate(lengths):
            new = round(length * factor) if isinstance(length, int) else 0
            if length > 1 and new >= 1:
                lengths[axis] = new
                arguments[place] = (kind, tuple(lengths) if kind == "numbers" else new)
                return {**config, "arguments": tuple(arguments)}
    return None


def narrowed(config: Config, divisor: int) -> Config | None:
    """The operator with the longest axes of its other operands divided, as the weight of a product; None if it has
    none that matters. Not a whole layer: the sizes of its weights depend on each other."""
    operands, base = operands_of(config), base_name(name_of(config))
    if base == convolution_gradients.NAME:
        return convolution_gradients.narrowed(config, divisor)
    if len(operands) < 2 or base in {*WHOLE_LAYERS, *QUANTIZED_LAYERS}:
        return None
    largest = max(range(1, len(operands)), key=lambda i: operands[i].numel)
    if operands[largest].numel < operands[0].numel / 4:
        return None
    changed: Config | None = config
    while divisor > 1 and changed is not None:
        shape = operands_of(changed)[largest].shape
        axes = sorted((a for a in range(len(shape)) if shape[a] >= 2 * FEWEST), key=lambda a: -shape[a])
        halves = (_changed(changed, (largest, axis), shape[axis] // 2) for axis in axes)
        changed = next(filter(None, halves), None)
        divisor //= 2
    return changed


def _in_turn(config: Config, rank: int) -> list[int]:
    """The axes of the input, the safest to change first."""
    base = base_name(name_of(config))
    if base in WHOLE_LAYERS:
        return WHOLE_LAYERS[base]
    if base in QUANTIZED_LAYERS:  # shorter sequences: their number is in the states, too
        names = [a.name for a in overload(name_of(config))._schema.arguments]
        is_known = "batch_first" in names  # of packed sequences, lengths stand in another operand
        return [int(config["arguments"][names.index("batch_first")] == ("number", True))] if is_known else []
    if base == convolution_gradients.NAME:
        return [0, *range(2, rank)]
    return [0, *range(2, rank), *range(1, min(rank, 2))] if base.startswith("conv") else list(range(rank))


def _changed(config: Config, place: Place, length: int) -> Config | None:
    """The operator with another length of one operand's axis, and of all that must change with it."""
    operands = operands_of(config)
    old = operands[place[0]].shape[place[1]]
    if base_name(name_of(config)) == convolution_gradients.NAME:
        return convolution_gradients.with_map(config, place[1], length)
    before = result_shapes(config)
    for places in _hypotheses(config, operands, place):
        made = (_with(config, operands, places, old, length, numbers) for numbers in ("front", "back", ""))
        changed = [c for c in made if c is not None]
        for tried in {str(c): c for c in changed}.values():
            if [o.layout for o in operands_of(tried)] != [o.layout for o in operands]:
                continue
            after = result_shapes(tried)
            fits = before is None or (after is not None and [len(s) for s in after] == [len(s) for s in before])
            if length == 1 and after == before and _is_spread(operands, places, place, old):
                continue
            if fits and _library(tried) == _library(config) and may_run(tried):
                return tried
    return None


def _is_spread(operands: list[Operand], places: frozenset[Place], place: Place, old: int) -> bool:
    """Whether a single element of this axis would be spread over another operand, which stays as long as before."""
    number, axis = place
    others = ((i, o.shape) for i, o in enumerate(operands) if i != number and (i, axis) not in places)
    return any(axis < len(shape) and shape[axis] == old for i, shape in others)


def _library(config: Config) -> str:
    """Which library torch has run a convolution; empty for other operators."""
    if base_name(name_of(config)) != "convolution":
        return ""
    x, weight, *_ = operands_of(config)
    *window, (_, groups) = config["arguments"][3:]
    return library(x.shape, weight.shape, Window.of(window, len(x.shape) - 2), groups)


def _hypotheses(config: Config, operands: list[Operand], place: Place) -> Iterator[frozenset[Place]]:
    """Sets of axes that may have to change together."""
    number, axis = place
    base = base_name(name_of(config)).removesuffix("_")
    named = enumerate(zip(operands, argument_names(config), strict=True))
    shapes = [() if _stays(base, o, n, axis) and i != number else o.shape for i, (o, n) in named]
    length, behind = operands[number].shape[axis], axis - len(operands[number].shape)
    front = {(i, axis) for i, s in enumerate(shapes) if axis < len(s) and s[axis] == length}
    back = {(i, len(s) + behind) for i, s in enumerate(shapes) if -behind <= len(s) and s[behind] == length}
    first = {(i, 0) for i, s in enumerate(shapes) if s and s[0] > 1}
    if axis == 0 and base in BY_INDEX and _is_along_first_axis(config):
        yield frozenset(first)
    yield frozenset({place, *front})
    if is_lax(base):
        return
    yield frozenset({place, *back})
    yield frozenset({place, *front, *back})
    yield frozenset({place})
    for other in sorted(front | back):
        yield frozenset({place, other})
    yield frozenset({place, *((i, a) for i, s in enumerate(shapes) for a, n in enumerate(s) if n == length)})
    if axis == 0:
        yield frozenset(first)


def _stays(base: str, operand: Operand, name: str, axis: int) -> bool:
    """Whether an operand never changes along with another one's axis."""
    is_weight = name in WEIGHTS or isinstance(operand.form, Packed | Cell)
    return base in WHOLE_LAYERS or (axis == 0 and is_weight)


def _with(
    config: Config, operands: list[Operand], places: frozenset[Place], old: int, new: int, numbers: str
) -> Config | None:
    """The configuration with these axes `new` / `old` times as long; with `numbers`, also lengths among arguments:
    those of axes that are counted from the "front", or from the "back". None if a sparse operand's blocks do not tile
    it then."""
    entries: list[Any] = []
    told: dict[Any, Any] = {}
    for number, operand in enumerate(operands):
        shape = list(operand.shape)
        for axis in range(len(shape)):
            if (number, axis) in places:
                shape[axis] = new if shape[axis] == old else max(1, round(shape[axis] * new / old))
        found = _found(operand, shape, [operands[n].shape[a] for n, a in places if n != number], old, new)
        told |= {("number", operand.found): ("number", found)}
        form = _form(operand, shape)
        if form is not None and not form.fits(tuple(shape)):
            return None
        entries.append(replace(operand.reshaped(tuple(shape)), found=found, form=form).entry)
    schema = overload(name_of(config))._schema.arguments
    named = zip(schema, config["arguments"], strict=True)
    arguments = tuple(told.get(e, e) if a.name == "output_size" else e for a, e in named)
    if numbers and base_name(name_of(config)) not in WHOLE_LAYERS:
        rank, axes = len(operands[0].shape), {axis for number, axis in places if number == 0}
        from_back = {axis - rank for axis in axes}
        arguments = tuple(
            _lengths(a.name, e, from_back if numbers == "back" or a.name in LAST_AXES else axes, old, new)
            for a, e in zip(schema, arguments, strict=True)
        )
    return {**config, "operands": tuple(entries), "arguments": arguments}


def _found(operand: Operand, shape: list[int], others: list[int], old: int, new: int) -> int | None:
    """How much is found in an operand of another shape: the same share. If another operand has as many rows, they
    change together."""
    if operand.found is None:
        return None
    larger = new / old if operand.found in others else math.prod(shape) / max(1, operand.numel)
    return max(min(1, operand.found), round(operand.found * larger))


def _form(operand: Operand, shape: list[int]) -> Form | None:
    """What tells more of an operand of another shape. A sparse one stores as much in each row, or in each column if it
    has as many rows. A convolution with one channel a group has as many groups as it has channels."""
    form = operand.form
    if isinstance(form, Stored):
        axis = 0 if shape[0] != operand.shape[0] else 1
        return replace(form, count=max(1, round(form.count * shape[axis] / operand.shape[axis])))
    if isinstance(form, Packed) and form.groups > 1:
        return replace(form, groups=form.groups * shape[0] // operand.shape[0])
    return form.resized(shape[0], shape[1]) if isinstance(form, Nested) else form


def _lengths(name: str, entry: tuple[Any, ...], axes: set[int], old: int, new: int) -> tuple[Any, ...]:
    """An argument that holds lengths of axes, with the new length. Those of windows stay."""
    is_window = name == "kernel_size" or (name == "size" and entry[0] == "number")
    if is_window or not any(word in name.split("_") or name == word for word in SIZES):
        return entry
    if entry[0] == "number" and entry[1] == old and not isinstance(entry[1], bool):
        return "number", new
    if entry[0] == "numbers":
        kept = entry[1]
        at_axes = [a % len(kept) for a in axes if -len(kept) <= a < len(kept) and kept[a] == old]
        return "numbers", tuple(new if i in at_axes else v for i, v in enumerate(kept))
    return entry
