"""The whole way from a mix to a proxy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statsnet.signatures.target import target_of
from statsnet.synthesis.correct import correct
from statsnet.synthesis.problem import Design, prepare
from statsnet.synthesis.spec import Proxy, make_spec


def synthesize(mix_text: str, *, seed: int = 0, design: Design | None = None, **options: Any) -> Proxy:
    """Make a proxy for a mix; `options` are those of `prepare`. Deterministic for the same signatures, seed and cached
    measurements.

    Raises UsageError for a bad mix or budget, DeviceError where the device is not there, MeasurementError where a
    measuring process fails.
    """
    problem = prepare(mix_text, design=replace(design or Design(), seed=seed), **options)
    bench = problem.bench
    best, rounds = correct(problem)
    spec = make_spec(
        problem.target,
        best.towers,
        mode=bench.mode,
        dtype=bench.dtype,
        seed=seed,
        budget_s=problem.budget_s,
        environment=bench.environment,
    )
    return Proxy(
        spec=spec,
        towers=best.towers,
        target=problem.target,
        achieved=target_of(best.whole.signature),
        signature=best.whole.signature,
        replayed=problem.replayed,
        rounds=rounds,
        build_s=best.whole.build_s,
    )
