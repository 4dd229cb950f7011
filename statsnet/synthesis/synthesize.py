"""From a prepared problem to a finished proxy."""

from __future__ import annotations

from dataclasses import replace

from statsnet.proxy.spec import Proxy, make_spec
from statsnet.signatures.coverage import coverage_of
from statsnet.signatures.target import target_of
from statsnet.synthesis.costs.loads import least_times_s
from statsnet.synthesis.effort import Effort
from statsnet.synthesis.expected_time import CONFIRMING
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.rounds import solve_in_rounds
from statsnet.synthesis.together import with_collectives
from statsnet.synthesis.tower_purposes import keep_dtypes, tower_purposes
from statsnet.synthesis.trials import Knowledge


def finish(problem: Problem, *, effort: Effort | None = None, known: Knowledge | None = None) -> Proxy:
    """The proxy of a problem; networks that are already measured may be given (see `solve_in_rounds`). All its times
    are at the machine's speed while it was measured at last, so that whoever runs it next finds them."""
    bench = problem.bench
    solved = solve_in_rounds(problem, effort=effort, known=known)
    best = solved.best
    measurement = bench.count_network(best.source, best.measurement)
    drift = measurement.drift
    target = problem.target.scale_times(drift)
    measured = tuple(m.scale_times(drift) for m in measurement.signature.measurements)
    signature = replace(measurement.signature, measurements=measured)
    purposes = tower_purposes(problem.target, best.measurement)
    kept = keep_dtypes(problem.target, best.measurement, best.towers)
    whole = problem.whole.scale_times(drift) if problem.whole else target
    step_s = signature.measurements[0].latency_s / problem.computing_share
    spec = make_spec(
        whole,
        [replace(t, purpose=p, keeps_dtype=k) for t, p, k in zip(best.towers, purposes, kept, strict=True)],
        title=problem.title,
        notes=problem.notes,
        dtype=bench.setup.dtype,
        seed=problem.design.seed,
        budget_s=problem.asked_budget_s or problem.budget_s * drift,
        environment=bench.setup.environment,
    )
    with bench.setup.stages.stage(CONFIRMING):
        together = with_collectives(spec, whole, step_s, bench, tries=bench.setup.effort.rounds)
    achieved = target_of(signature)
    loads = [*problem.costs.loads(), *solved.costs.loads()]
    tried = least_times_s(load.scale_times(drift) for load in loads)
    return Proxy(
        spec=together.spec,
        target=target,
        achieved=achieved,
        coverage=coverage_of(target, tried, achieved),
        signature=signature,
        replayed=problem.replayed,
        not_retimed=problem.not_retimed,
        slowed_share=measurement.slowed_share,
        rounds=solved.rounds,
        build_s=measurement.build_s,
        effort=bench.setup.effort.name,
        evidence=bench.evidence(signature),
        communication=together.rows,
        not_together=together.unmeasured,
    )
