"""The whole way from a mix to a proxy folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from statsnet import environment
from statsnet.errors import StatsNetError, UsageError
from statsnet.running.child import measuring_environment
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.synthesis.cache import MeasurementCache
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.columns import Columns
from statsnet.synthesis.emit import network_source
from statsnet.synthesis.measure import Bench, Report, Whole
from statsnet.synthesis.rows import Rows, load_of_target
from statsnet.synthesis.solve import Program, Solution, solve
from statsnet.synthesis.spec import Proxy, make_spec
from statsnet.synthesis.towers import Tower, build_towers

DEFAULT_COMPRESSION = 50
SHORTEST_STEP_S = 5e-3
LARGEST_COUNT = 96
MAX_DISTINCT = 44
ROUNDS = 6
FREE_ROUNDS = 3

@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured proxy: its counts, its source, and how far its rows are from the target's."""

    counts: np.ndarray
    towers: list[Tower]
    whole: Whole
    achieved: np.ndarray
    error: float


def synthesize(
    mix_text: str,
    *,
    mode: str = "inference",
    budget_s: float | None = None,
    device: str = "cpu",
    profiles: Path | None = None,
    seed: int = 0,
    cache: MeasurementCache | None = None,
    report: Report = lambda _stage, _share: None,
) -> Proxy:
    """Make a proxy for a mix. Deterministic for the same signatures, seed and cached measurements.

    Raises UsageError for a bad mix or budget, DeviceError where the device is not there, MeasurementError where a
    measuring process fails.
    """
    here = measuring_environment(device)
    db = ProfilesDB(profiles) if profiles else ProfilesDB()
    mix = resolve_mix(mix_text, mode, db, environment=environment.fingerprint(here))
    dtype = _common_dtype(mix)
    bench = Bench(
        environment=here, mode=mode, dtype=dtype, device=device, cache=cache or MeasurementCache(), report=report
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
    rows = Rows(target)
    columns = Columns(chosen, bench.columns(chosen))
    best, rounds = _correct(columns, rows, budget, bench, mix_text, seed)
    spec = make_spec(
        target, best.towers, mode=mode, dtype=dtype, seed=seed, budget_s=budget, environment=here, mix_text=mix_text
    )
    return Proxy(
        spec=spec,
        towers=best.towers,
        target=target,
        achieved=target_of(best.whole.signature),
        signature=best.whole.signature,
        replayed=tuple(sorted(replayed)),
        rounds=rounds,
        build_s=best.whole.build_s,
    )


def default_budget_s(target: Target) -> float:
    """Σ T_i ÷ 50, not under 5 ms."""
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


def _correct(
    columns: Columns, rows: Rows, budget_s: float, bench: Bench, mix_text: str, seed: int
) -> tuple[Trial, list[dict[str, Any]]]:
    """Solve, build, measure the whole, learn from it, again; the best measured trial wins.

    The first rounds choose among all blocks, the later ones among those whose times in place are known by then: new
    blocks would bring new surprises. What is learnt: each block's time in place, and, on the right-hand side, what belongs to no block (towers' ends,
    the loss, framework time), the median over the rounds.
    """
    outside: list[np.ndarray] = []
    best: Trial | None = None
    history: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        bench.report(f"solving, round {number + 1}", number / ROUNDS)
        allowed = columns.seen if number >= FREE_ROUNDS else np.ones(len(columns.placed), dtype=bool)
        upper = np.where(allowed, LARGEST_COUNT, 0)
        wanted = rows.target - (np.median(outside, axis=0) if outside else 0.0)
        program = Program(
            matrix=columns.matrix(rows, budget_s), target=wanted, weight=rows.weights, upper=upper
        )
        start = best.counts if best else None
        solution = solve(program, max_distinct=MAX_DISTINCT, start=start, seed=seed)
        trial = _try(columns, solution, rows, budget_s, bench, mix_text, seed)
        history.append(
            {
                "round": number + 1,
                "predicted_error": solution.error,
                "lower_bound": solution.bound,
                "measured_error": trial.error,
                "step_latency_s": trial.whole.signature.measurements[0].latency_s,
            }
        )
        if best is None or trial.error < best.error:
            best = trial
        columns.learn(trial.towers, trial.whole.blocks)
        outside.append(trial.achieved - columns.matrix(rows, budget_s) @ trial.counts)
    assert best is not None
    return best, history


def _try(
    columns: Columns,
    solution: Solution,
    rows: Rows,
    budget_s: float,
    bench: Bench,
    mix_text: str,
    seed: int,
) -> Trial:
    counted = [(p, int(n)) for p, n in zip(columns.placed, solution.counts, strict=True) if n > 0]
    if not counted:
        raise StatsNetError(
            "no network fits the time budget",
            cause=f"the smallest block is longer than {budget_s:.3g} s",
            hint="give a longer --budget",
        )
    towers = build_towers(counted)
    source = network_source(
        towers, title=f"Proxy for {mix_text}", spec_id="", mode=bench.mode, dtype=bench.dtype, seed=seed
    )
    whole = bench.whole(source)
    latency = whole.signature.measurements[0].latency_s
    achieved = rows.vector(load_of_target(target_of(whole.signature)), budget_s / latency)
    error = float(rows.weights @ np.abs(achieved - rows.target))
    return Trial(counts=solution.counts, towers=towers, whole=whole, achieved=achieved, error=error)
