"""What each part of the method is worth: the method without it, or with coarser signatures. Each function returns the
source of a network."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from benchmarks.ways import coarser_signatures as coarser
from statsnet.signatures.target import Target
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.problem import Problem, costs_of
from statsnet.synthesis.rounds import solve_in_rounds


def solved(problem: Problem, rounds: int | None = None) -> str:
    """As `synthesize` does it, or in so many rounds."""
    usual = problem.bench.setup.effort
    best, _ = solve_in_rounds(problem, effort=replace(usual, rounds=rounds or usual.rounds, confirming=()))
    return best.source


def without_devices(problem: Problem) -> str:
    """No modelled devices."""
    return solved(replace(problem, rows=_rows(problem, without={"device"})))


def without_overhead(problem: Problem) -> str:
    """The fixed cost of calls is not matched."""
    return solved(replace(problem, rows=_rows(problem, without={"overhead"})))


def without_kernels(problem: Problem) -> str:
    """Which library kernel ran is not matched: only categories, roofline devices and rates are."""
    told_by_kernel = {"kernel_class", "kernel_shape", "class_flops", "shape_flops", "class_bytes", "overhead"}
    rows = _rows(problem, without=told_by_kernel)
    for i, (group, name) in enumerate(rows.keys):
        if group == "device" and rows.devices[int(name)].seed is not None:
            rows.weights[i] = 0.0  # these tell kernels apart
    return solved(replace(problem, rows=rows, costs=_costs(problem, problem.target)))


def without_motifs(problem: Problem) -> str:
    """Blocks of one operator each."""
    single = tuple(replace(m, clusters=(c,)) for m in problem.target.motifs for c in m.clusters)
    return solved(replace(problem, costs=_costs(problem, replace(problem.target, motifs=single))))


def without_rounds(problem: Problem) -> str:
    """The solver's first answer, from blocks measured alone: no network is measured to correct it."""
    return solved(problem, rounds=1)


def with_rounded_shapes(problem: Problem) -> str:
    """Shapes are known only to the nearest power of two."""
    return _with_target(problem, coarser.rounded(problem.target))


def with_dearest_operators(problem: Problem) -> str:
    """Only each member's most expensive operators are known."""
    return _with_target(problem, coarser.dearest(problem.target))


def _with_target(problem: Problem, target: Target) -> str:
    costs = _costs(problem, target)
    rows = MatchedCharacteristics(target, costs.overheads)
    return solved(replace(problem, target=target, rows=rows, costs=costs))


def _costs(problem: Problem, target: Target) -> BlockCosts:
    """Of all candidates for a target, including those that `prepare` leaves out."""
    return costs_of(target, problem.budget_s, problem.bench, problem.speed)


def _rows(problem: Problem, without: Collection[str]) -> MatchedCharacteristics:
    rows = MatchedCharacteristics(problem.target, problem.costs.overheads)
    for i, (group, _) in enumerate(rows.keys):
        if group in without:
            rows.weights[i] = 0.0
    return rows


ABLATIONS: dict[str, Callable[[Problem], str]] = {
    "no devices": without_devices,
    "no overhead": without_overhead,
    "no kernels": without_kernels,
    "no motifs": without_motifs,
    "no rounds": without_rounds,
    "rounded shapes": with_rounded_shapes,
    f"{coarser.DEAREST} operators": with_dearest_operators,
}
