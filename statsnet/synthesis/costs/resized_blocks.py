"""Blocks in sizes that were not measured: which ones, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statsnet.blocks import KINDS, Config
from statsnet.blocks.operator import OperatorKind
from statsnet.blocks.operator_call import encoded_arguments, name_of
from statsnet.blocks.operator_trial import results_without_values
from statsnet.profiling.costs import work_of_call
from statsnet.profiling.encode import encode_outputs
from statsnet.proxy.towers import Placed, elements_read, parameter_count, shapes
from statsnet.synthesis.costs.loads import OperatorGroup, scaled
from statsnet.synthesis.costs.overhead import NONE, Overheads

RESIZINGS = (0.55, 0.65, 0.75, 0.85, 0.93, 1.07, 1.15, 1.3, 1.5, 1.75)
"""Other sizes of a block, as multiples of its size."""

FARTHEST = (0.5, 1.95)
"""Sizes in which a block's costs are derived from a measured one, as multiples of that one's. Near it, FLOPs, bytes and
time beyond the call's overhead are proportional to the size; farther away, another cache holds its operands."""

PRODUCTS = frozenset({"gemm", "convolution", "recurrent"})
FEW_ROWS_INTENSITY = 4.0
"""Below this FLOP/byte, reading weights is what bounds a product, on any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """How a block that was not measured is derived from one that was: that block's identity, the ratio of their sizes,
    and the bytes of weights that both read, whatever their size. If a block `repeats` calls, a larger one has more of
    the same calls. Of an operator by itself, other operands may change than are most of the work: the ratios of FLOPs
    and bytes are those of its `work`."""

    origin: str
    ratio: float
    weights_bytes: int
    repeats: bool = False
    work: tuple[float, float] | None = None


def other_sizes(block: Placed, measured: Placed, item_bytes: int) -> Iterator[tuple[Placed, Resized]]:
    """The block in those other sizes that its kind has, and how each is derived from the measured block."""
    for factor in RESIZINGS:
        try:
            config = KINDS[block.kind].resized(block.config, factor)
            if config is None or _becomes_one(block.config, config):
                continue
            resized = replace(block, config=config)
            shapes(resized)  # which runs it without values, as whoever chains blocks will do
            work = _work_ratios(measured.config, config) if block.kind == OperatorKind.name else None
            ratio = work[1] if work else elements_read(resized) / elements_read(measured)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            continue  # the kind's rules fail on this size
        ratios = work or (ratio,)
        if FARTHEST[0] <= min(ratios) and max(ratios) <= FARTHEST[1] and {*ratios} != {1.0}:
            weights_bytes = item_bytes * _shared_weights(measured, resized)
            repeats = KINDS[block.kind].uses(config) > 1
            yield (
                resized,
                Resized(origin=measured.identity, ratio=ratio, weights_bytes=weights_bytes, repeats=repeats, work=work),
            )


def _work_ratios(measured: Config, resized: Config) -> tuple[float, float]:
    """How many times as many FLOPs, and bytes, an operator in another size has."""
    (flops, moved), (new_flops, new_moved) = map(_work, (measured, resized))
    return (new_flops / flops if flops else new_moved / moved), new_moved / moved


def _work(config: Config) -> tuple[float, float]:
    """FLOPs and bytes of a configured operator."""
    outputs = encode_outputs(results_without_values(config) or [])
    return work_of_call(name_of(config), encoded_arguments(config), outputs)


def _becomes_one(measured: Any, resized: Any) -> bool:
    """Whether a number of a block's configuration above 1 is 1 in another size. Libraries run another kernel then: a
    convolution of one sample, a product of one row."""
    if isinstance(measured, Mapping) and isinstance(resized, Mapping):
        return any(_becomes_one(value, resized[name]) for name, value in measured.items() if name in resized)
    if isinstance(measured, (list, tuple)) and isinstance(resized, (list, tuple)):
        return any(map(_becomes_one, measured, resized))
    return isinstance(measured, int) and isinstance(resized, int) and measured > 1 == resized


def _shared_weights(block: Placed, resized: Placed) -> int:
    """Weights that each product of a block reads or writes, whatever the block's size."""
    count = parameter_count(block)
    same = count == parameter_count(resized)
    return count if same and KINDS[block.kind].index_range(block.config) is None else 0


def resized_groups(groups: tuple[OperatorGroup, ...], resized: Resized, known: Overheads) -> tuple[OperatorGroup, ...]:
    """The groups of a block's origin, for the resized block. The overhead of calls and of weights stays. Products still
    read all shared weights; if the cost of weights is not known separately, that share of their time stays too."""
    ratio = resized.ratio
    flops_ratio, bytes_ratio = resized.work or (ratio, ratio)
    if resized.repeats:
        return scaled(groups, ratio, calls=ratio)
    products = [g for g in groups if g.category in PRODUCTS]
    moved, calls = sum(g.bytes for g in products), sum(g.calls for g in products)
    weights_share = min(calls * resized.weights_bytes / moved, 1.0) if moved else 0.0
    changed = []
    for operators in groups:
        same_bytes = weights_share if operators.category in PRODUCTS else 0.0
        overhead = known.get(operators.kernel_class, NONE)
        few_rows = operators.bytes and operators.flops / operators.bytes < FEW_ROWS_INTENSITY
        time_ratio = flops_ratio if operators.category in PRODUCTS and not few_rows else bytes_ratio
        same_time = same_bytes if few_rows and not overhead.weight_byte_s else 0.0
        fixed_s = overhead.fixed_s(operators)
        changed.append(
            replace(
                operators,
                time_s=fixed_s + (operators.time_s - fixed_s) * (time_ratio + same_time * (1.0 - time_ratio)),
                flops=operators.flops * flops_ratio,
                bytes=operators.bytes * (bytes_ratio + same_bytes * (1.0 - bytes_ratio)),
            )
        )
    return tuple(changed)
