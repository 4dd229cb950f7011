"""From a prepared problem to a finished proxy."""

from __future__ import annotations

from dataclasses import replace

from statsnet.proxy.spec import Proxy, make_spec
from statsnet.signatures.target import target_of
from statsnet.synthesis.effort import Effort
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.rounds import solve_in_rounds
from statsnet.synthesis.tower_purposes import tower_purposes
from statsnet.synthesis.trials import Knowledge


def finish(problem: Problem, *, effort: Effort | None = None, known: Knowledge | None = None) -> Proxy:
    """The proxy of a problem; networks that are already measured may be given (see `solve_in_rounds`)."""
    bench = problem.bench
    best, history = solve_in_rounds(problem, effort=effort, known=known)
    measurement = bench.count_network(best.source, best.measurement)
    purposes = tower_purposes(problem.target, best.measurement)
    spec = make_spec(
        problem.target,
        [replace(tower, purpose=purpose) for tower, purpose in zip(best.towers, purposes, strict=True)],
        title=problem.title,
        notes=problem.notes,
        dtype=bench.setup.dtype,
        seed=problem.design.seed,
        budget_s=problem.budget_s,
        environment=bench.setup.environment,
    )
    return Proxy(
        spec=spec,
        target=problem.target,
        achieved=target_of(measurement.signature),
        signature=measurement.signature,
        replayed=problem.replayed,
        not_retimed=problem.not_retimed,
        rounds=history,
        build_s=measurement.build_s,
        effort=bench.setup.effort.name,
        evidence=bench.evidence(measurement.signature),
    )
