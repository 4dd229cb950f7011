"""The method with one part taken out, or with coarser signatures: what does each part earn? Each gives the source of a
network."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import coarser

from statsnet.signatures.target import Target
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.problem import Problem, columns_of
from statsnet.synthesis.rounds import ROUNDS, correct


def solved(problem: Problem, rounds: int = ROUNDS) -> str:
    """As `synthesize` does it."""
    best, _ = correct(problem, rounds=rounds, confirm=False)
    return best.source


def without_devices(problem: Problem) -> str:
    """No modelled devices."""
    return solved(replace(problem, rows=_rows(problem, without={"device"})))


def without_overhead(problem: Problem) -> str:
    """What calls take whatever their work is nobody's concern."""
    return solved(replace(problem, rows=_rows(problem, without={"overhead"})))


def without_kernels(problem: Problem) -> str:
    """Nobody asks which kernel of the library ran: categories, roofline devices and rates alone."""
    told_by_kernel = {"kernel_class", "kernel_shape", "class_flops", "shape_flops", "class_bytes", "overhead"}
    rows = _rows(problem, without=told_by_kernel)
    for i, (group, name) in enumerate(rows.keys):
        if group == "device" and rows.devices[int(name)].seed is not None:
            rows.weights[i] = 0.0  # these tell kernels apart
    return solved(replace(problem, rows=rows, columns=_columns(problem, problem.target)))


def without_motifs(problem: Problem) -> str:
    """Blocks of one operator each."""
    single = tuple(replace(m, clusters=(c,)) for m in problem.target.motifs for c in m.clusters)
    return solved(replace(problem, columns=_columns(problem, replace(problem.target, motifs=single))))


def without_rounds(problem: Problem) -> str:
    """What the solver finds from blocks measured alone: no network is measured and corrected."""
    return solved(problem, rounds=1)


def with_rounded_shapes(problem: Problem) -> str:
    """Of shapes only the powers of two that are nearest are known."""
    return _with_target(problem, coarser.rounded(problem.target))


def with_dearest_operators(problem: Problem) -> str:
    """A member's dearest operators alone are known."""
    return _with_target(problem, coarser.dearest(problem.target))


def _with_target(problem: Problem, target: Target) -> str:
    columns = _columns(problem, target)
    rows = MatchedCharacteristics(target, columns.overheads)
    return solved(replace(problem, target=target, rows=rows, columns=columns))


def _columns(problem: Problem, target: Target) -> BlockCosts:
    """Of all candidates for a target, also those that `prepare` leaves out."""
    chosen = candidates(target, budget_s=problem.budget_s)
    return columns_of(chosen, problem.bench)


def _rows(problem: Problem, without: Collection[str]) -> MatchedCharacteristics:
    rows = MatchedCharacteristics(problem.target, problem.columns.overheads)
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
