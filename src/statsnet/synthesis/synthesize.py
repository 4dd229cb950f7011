"""The whole way from a mix to a proxy folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet import environment
from statsnet.errors import StatsNetError, UsageError
from statsnet.running.child import measuring_environment
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.synthesis.cache import MeasurementCache
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.columns import Columns
from statsnet.synthesis.correct import correct
from statsnet.synthesis.measure import Bench, Report
from statsnet.synthesis.rows import Rows
from statsnet.synthesis.spec import Proxy, make_spec

DEFAULT_COMPRESSION = 53
"""Fifty and some: machines drift by a few percent between one process and the next."""

SHORTEST_STEP_S = 5e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a proxy is to be made of and for: the target, and measured blocks. `replayed` names the members whose
    times come from replay."""

    mix_text: str
    target: Target
    budget_s: float
    rows: Rows
    columns: Columns
    bench: Bench
    replayed: tuple[str, ...]


def prepare(
    mix_text: str,
    *,
    mode: str = "inference",
    budget_s: float | None = None,
    device: str = "cpu",
    profiles: Path | None = None,
    cache: MeasurementCache | None = None,
    report: Report = lambda _stage, _share: None,
) -> Problem:
    """Resolve a mix, choose candidates and measure them. Raises as `synthesize` does."""
    here = measuring_environment(device)
    db = ProfilesDB(profiles) if profiles else ProfilesDB()
    mix = resolve_mix(mix_text, mode, db, environment=environment.fingerprint(here))
    bench = Bench(
        environment=here,
        mode=mode,
        dtype=_common_dtype(mix),
        device=device,
        cache=cache or MeasurementCache(),
        report=report,
    )
    replayed = bench.replays(mix)
    target = target_of_mix(mix, replayed)
    budget = budget_s or default_budget_s(target)
    chosen = candidates(target, budget_s=budget)
    if not chosen:
        raise StatsNetError(
            "no block stands for any operator of this mix",
            cause="its signatures hold only operators that StatsNet cannot rebuild",
            hint="statsnet show FILE lists a signature's operators",
        )
    return Problem(
        mix_text=mix_text,
        target=target,
        budget_s=budget,
        rows=Rows(target),
        columns=Columns(chosen, bench.columns(chosen), bench.dtype),
        bench=bench,
        replayed=tuple(sorted(replayed)),
    )


def synthesize(mix_text: str, *, seed: int = 0, **options: Any) -> Proxy:
    """Make a proxy for a mix; `options` are those of `prepare`. Deterministic for the same signatures, seed and cached
    measurements.

    Raises UsageError for a bad mix or budget, DeviceError where the device is not there, MeasurementError where a
    measuring process fails.
    """
    problem = prepare(mix_text, **options)
    bench, target, budget_s = problem.bench, problem.target, problem.budget_s
    best, rounds = correct(problem.columns, problem.rows, budget_s, bench, problem.mix_text, seed)
    spec = make_spec(
        target,
        best.towers,
        mode=bench.mode,
        dtype=bench.dtype,
        seed=seed,
        budget_s=budget_s,
        environment=bench.environment,
    )
    return Proxy(
        spec=spec,
        towers=best.towers,
        target=target,
        achieved=target_of(best.whole.signature),
        signature=best.whole.signature,
        replayed=problem.replayed,
        rounds=rounds,
        build_s=best.whole.build_s,
    )


def default_budget_s(target: Target) -> float:
    """Σ T_i ÷ DEFAULT_COMPRESSION, not under SHORTEST_STEP_S."""
    return max(sum(m.latency_s for m in target.members) / DEFAULT_COMPRESSION, SHORTEST_STEP_S)


def _common_dtype(mix: Mix) -> str:
    found = sorted({m.signature.dtype for m in mix.members})
    if len(found) > 1:
        raise UsageError(
            f"the mix holds signatures of {' and '.join(found)}",
            cause="one proxy computes in one dtype",
            hint="profile all members with the same --dtype",
        )
    return found[0]
