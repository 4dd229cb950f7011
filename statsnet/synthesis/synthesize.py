"""The whole way from a mix to a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statsnet.proxy.spec import Proxy, make_spec
from statsnet.signatures.target import target_of
from statsnet.synthesis.problem import Design, Problem, prepare
from statsnet.synthesis.rounds import ROUNDS, Trial, correct


def synthesize(mix_text: str, *, seed: int = 0, **options: Any) -> Proxy:
    """Make a proxy for a mix; `options` are those of `prepare`. Deterministic for the same signatures, seed and cached
    measurements.

    Raises UsageError for a bad mix or budget, DeviceError where the device is not there, MeasurementError where a
    measuring process fails.
    """
    return finish(prepare(mix_text, design=Design(seed=seed), **options))


def finish(problem: Problem, *, rounds: int = ROUNDS, trials: Sequence[Trial] = ()) -> Proxy:
    """The proxy of a problem, of which some `trials` may have been measured (see `correct`)."""
    bench = problem.bench
    best, history = correct(problem, rounds=rounds, trials=trials)
    whole = bench.counted(best.source, best.whole)
    spec = make_spec(
        problem.target,
        best.towers,
        mode=bench.mode,
        dtype=bench.dtype,
        seed=problem.design.seed,
        budget_s=problem.budget_s,
        environment=bench.environment,
    )
    return Proxy(
        spec=spec,
        towers=best.towers,
        target=problem.target,
        achieved=target_of(whole.signature),
        signature=whole.signature,
        replayed=problem.replayed,
        not_retimed=problem.not_retimed,
        rounds=history,
        build_s=whole.build_s,
        evidence=bench.evidence(whole.signature),
    )
