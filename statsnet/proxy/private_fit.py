"""What a proxy's folder tells of private members: few digits of their rates, and roughly their layers' sizes.

Exact rates are a fingerprint: whoever guesses a model can compute its FLOPs per byte to nine digits and look for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import fields, replace
from typing import Any, TypeVar

from statsnet.blocks import KINDS
from statsnet.blocks.base import with_tuples
from statsnet.blocks.operator import OperatorKind
from statsnet.signatures.documents import Characteristic, Distances, Fit, ProxySpec, Round, SpecBlock, Uncovered
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.signatures.products import Product
from statsnet.signatures.rounding import (
    PLACE_DIGITS,
    PRIVATE_DIGITS,
    SMALL,
    binned_size,
    in_steps,
    is_of_bins,
    rounded,
)
from statsnet.signatures.simulation import LeftOut, SimulationFit

D = TypeVar("D", bound=Distances)

OF_THE_PROXY = frozenset(
    {"budget_s", "step_latency_s", "step_latency_error", "coefficient_of_variation", "parameter_count",
     "idle_share_achieved", "framework_share_achieved", "formula_coverage_achieved"}
)  # fmt: skip
"""Figures of a summary that do not depend on the target."""


def without_fingerprints(fit: Fit) -> Fit:
    """The fit with what was asked for rounded to PRIVATE_DIGITS, peak memory to a power of two, and errors against
    these: errors against exact figures would give the figures away."""
    rows = tuple(_rounded(row) for row in fit.characteristics)
    uncovered = fit.uncovered and tuple(map(_rounded_cover, fit.uncovered))
    simulation = fit.simulation and _rounded_simulation(fit.simulation)
    summary, rounds = rounded_figures(fit.summary, rows), tuple(map(_rounded_round, fit.rounds))
    return replace(
        fit, characteristics=rows, summary=summary, uncovered=uncovered, simulation=simulation, rounds=rounds
    )


def without_sizes(unscaled: Product, product: Product) -> Product:
    """The sizes that a private layer had, in bins, before it was scaled to `product`; no bin is smaller than that."""
    return Product(
        rows=_bin(unscaled.rows, product.rows),
        columns=_bin(unscaled.columns, product.columns),
        depth=_bin(unscaled.depth, product.depth),
        batch=_bin(unscaled.batch, product.batch),
    )


def fingerprints_in(spec: ProxySpec, fit: Fit) -> list[str]:
    """Where a folder tells more of private members than this version writes, in words."""
    if spec.level is None:
        return []
    told, found = without_fingerprints(fit), []
    if any(getattr(told, part) != getattr(fit, part) for part in ("characteristics", "simulation", "rounds")):
        found.append(f"fit.json: figures of private members have more than {PRIVATE_DIGITS} digits")
    layers = spec.simulation.layers if spec.simulation else ()
    if any(x.unscaled != without_sizes(x.unscaled, x.unscaled) for x in layers):
        found.append("simulation.layers[].unscaled: a size of a private member's layer is exact")
    if any(x.macs_share != rounded(x.macs_share, PRIVATE_DIGITS) for x in layers):
        found.append(f"simulation.layers[].macs_share: it has more than {PRIVATE_DIGITS} digits")
    collectives = spec.collectives or ()
    if any(round(share, PLACE_DIGITS) != share for c in collectives for share in (c.begins_at, c.awaited_at)):
        found.append(f"collectives[]: a place has more than {PLACE_DIGITS} digits")
    if any(abs(c.nbytes - rounded(c.nbytes, PRIVATE_DIGITS)) > ITEM_SIZE.get(c.dtype, 4) for c in collectives):
        found.append(f"collectives[].elements: their bytes have more than {PRIVATE_DIGITS} digits")
    return found + [
        f"towers[].blocks[].config: the size {size} of a {kind} block cannot come from a coarse signature"
        for kind, size in dict.fromkeys(_exact_sizes(spec))
    ]


def _exact_sizes(spec: ProxySpec) -> Iterator[tuple[str, int]]:
    """Sizes of blocks that no coarse member can have given. Where a member ships with StatsNet, whose sizes are public,
    nobody can tell whose a size is. In a proxy for simulators, they are multiples of a quantum that anybody chooses."""
    is_public = any(m.batch is not None or m.preset is not None for m in spec.mix)
    if spec.level != "coarse" or spec.simulation is not None or is_public:
        return
    for block in (b for tower in spec.towers for b in tower.blocks):
        for value in _not_tuned(block):
            yield from ((block.kind, n) for n in _integers(value) if n > SMALL and not is_of_bins(n))


def _not_tuned(block: SpecBlock) -> list[Any]:
    """What a configuration holds beside the axis by which a block is made to take a little more or less time. Of an
    operator that may be any axis, and only running it tells which: no operator of a file is run here."""
    kind, config = KINDS.get(block.kind), with_tuples(block.config)
    if block.kind == OperatorKind.name:
        return []
    try:
        others = [kind.scaled(config, divisor) or config for divisor in (2, 1 / 2)] if kind else []
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):  # it is no such block
        others = []
    return [value for name, value in config.items() if all(other.get(name) == value for other in others)]


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _integers(each)


def _bin(size: int, least: int) -> int:
    """Of the bin that a size is in and the two above it, the first that is no smaller than `least`."""
    bins = (binned_size(size), binned_size(size * 3 // 2), binned_size(size * 2))
    return next((b for b in bins if b >= least), least)


def _rounded_simulation(fit: SimulationFit) -> SimulationFit:
    """The sums over members, and the layers that are left out, to PRIVATE_DIGITS. The predictions follow from sizes
    that `without_sizes` gave."""
    latency_s = fit.suite_latency_s and rounded(fit.suite_latency_s, PRIVATE_DIGITS)
    macs, left_out = rounded(fit.suite_macs, PRIVATE_DIGITS), tuple(map(_rounded_layer, fit.left_out))
    return replace(fit, suite_macs=macs, suite_latency_s=latency_s, left_out=left_out)


def _rounded_round(each: Round) -> Round:
    """Its errors are against exact figures."""
    names = ("predicted_error", "lower_bound", "measured_error", "drift")
    told: dict[str, Any] = {name: rounded(getattr(each, name), PRIVATE_DIGITS) for name in names}
    return replace(each, **told)


def _rounded_layer(layer: LeftOut) -> LeftOut:
    return replace(
        layer,
        repeats=rounded(layer.repeats, PRIVATE_DIGITS),
        macs_share=None if layer.macs_share is None else rounded(layer.macs_share, PRIVATE_DIGITS),
        time_share=None if layer.time_share is None else rounded(layer.time_share, PRIVATE_DIGITS),
    )


def _rounded_cover(cover: Uncovered) -> Uncovered:
    fits = cover.fits_from_s and rounded(cover.fits_from_s, PRIVATE_DIGITS)
    return replace(cover, share=rounded(cover.share, PRIVATE_DIGITS), fits_from_s=fits)


def rounded_figures(summary: D, rows: Sequence[Characteristic] = (), kept: Set[str] = OF_THE_PROXY) -> D:
    """With PRIVATE_DIGITS, but for those `kept`; errors of rates are against the rounded ones in `rows`."""
    found = {row.name: row for row in rows}
    known = {f.name: getattr(summary, f.name) for f in fields(summary) if f.name not in kept}
    figures: dict[str, Any] = {n: rounded(v, PRIVATE_DIGITS) for n, v in known.items() if v is not None}
    for name in ("flops_per_s", "bytes_per_s"):
        if f"{name}_error" in figures and name in found:
            figures[f"{name}_error"] = _ratio(found[name]) - 1.0
    if "launches_per_s_ratio" in figures and "launches_per_s" in found:
        figures["launches_per_s_ratio"] = _ratio(found["launches_per_s"])
    return replace(summary, **figures)


def rounded_target(target: float, group: str) -> float:
    """What is asked for in a row of this group, as it is told of private members."""
    return in_steps(target, 2) if group == "memory" else rounded(target, PRIVATE_DIGITS)


def _rounded(row: Characteristic) -> Characteristic:
    return row if row.target is None else replace(row, target=rounded_target(row.target, row.group))


def _ratio(row: Characteristic) -> float:
    """Achieved over asked; only for what was asked for and achieved."""
    assert row.target and row.achieved is not None
    return row.achieved / row.target
