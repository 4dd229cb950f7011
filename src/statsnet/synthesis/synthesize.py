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
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.synthesis.cache import MeasurementCache
from statsnet.synthesis.candidates import Candidate, candidates
from statsnet.synthesis.emit import network_source
from statsnet.synthesis.measure import Bench, Report
from statsnet.synthesis.rows import Rows, load_of_column, load_of_target
from statsnet.synthesis.solve import Program, Solution, solve
from statsnet.synthesis.spec import Proxy, make_spec
from statsnet.synthesis.towers import Placed, Tower, build_towers

DEFAULT_COMPRESSION = 50
SHORTEST_STEP_S = 5e-3
LARGEST_COUNT = 96
MAX_DISTINCT = 44
ROUNDS = 5

@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A candidate, with or without the optimizer's step on its parameters, as a column of the program."""

    placed: Placed
    rows: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured proxy: its counts, its source, and how far its rows are from the target's."""

    counts: np.ndarray
    towers: list[Tower]
    signature: Signature
    achieved: np.ndarray
    error: float
    build_s: float


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
    columns = _columns(chosen, bench.columns(chosen), rows, budget)
    best, rounds = _correct(columns, rows, budget, bench, mix_text, seed)
    spec = make_spec(
        target, best.towers, mode=mode, dtype=dtype, seed=seed, budget_s=budget, environment=here, mix_text=mix_text
    )
    return Proxy(
        spec=spec,
        towers=best.towers,
        target=target,
        achieved=target_of(best.signature),
        signature=best.signature,
        replayed=tuple(sorted(replayed)),
        rounds=rounds,
        build_s=best.build_s,
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


def _columns(
    chosen: list[Candidate], measured: list[dict[str, Any]], rows: Rows, budget_s: float
) -> list[Column]:
    columns = []
    for candidate, column in zip(chosen, measured, strict=True):
        plain = Placed(kind=candidate.kind, config=candidate.config)
        columns.append(
            Column(placed=plain, rows=rows.vector(load_of_column(column, with_optimizer=False), budget_s))
        )
        if column["optimizer"]["operators"]:
            stepped = Placed(kind=candidate.kind, config=candidate.config, optimizer=candidate.optimizer)
            columns.append(
                Column(placed=stepped, rows=rows.vector(load_of_column(column, with_optimizer=True), budget_s))
            )
    unique = {c.placed.key: c for c in columns}
    return [unique[k] for k in sorted(unique)]


def _correct(
    columns: list[Column], rows: Rows, budget_s: float, bench: Bench, mix_text: str, seed: int
) -> tuple[Trial, list[dict[str, Any]]]:
    """Solve, build, measure the whole, move the right-hand side by what the columns mispredicted, again.

    The median misprediction of all rounds counts: a single one is as noisy as its measurement. The best trial
    wins.
    """
    matrix = np.stack([c.rows for c in columns], axis=1)
    upper = np.full(len(columns), LARGEST_COUNT)
    offsets: list[np.ndarray] = []
    best: Trial | None = None
    history: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        bench.report(f"solving, round {number + 1}", number / ROUNDS)
        wanted = rows.target - (np.median(offsets, axis=0) if offsets else 0.0)
        program = Program(matrix=matrix, target=wanted, weight=rows.weights, upper=upper)
        start = best.counts if best else None
        solution = solve(program, max_distinct=MAX_DISTINCT, start=start, seed=seed)
        trial = _try(columns, solution, rows, budget_s, bench, mix_text, seed)
        history.append(
            {
                "round": number + 1,
                "predicted_error": solution.error,
                "lower_bound": solution.bound,
                "measured_error": trial.error,
                "step_latency_s": trial.signature.measurements[0].latency_s,
            }
        )
        if best is None or trial.error < best.error:
            best = trial
        offsets.append(trial.achieved - matrix @ trial.counts)
    assert best is not None
    return best, history


def _try(
    columns: list[Column],
    solution: Solution,
    rows: Rows,
    budget_s: float,
    bench: Bench,
    mix_text: str,
    seed: int,
) -> Trial:
    counted = [(c.placed, int(n)) for c, n in zip(columns, solution.counts, strict=True) if n > 0]
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
    signature, build_s = bench.whole(source)
    achieved = target_of(signature)
    latency = signature.measurements[0].latency_s
    vector = rows.vector(load_of_target(achieved), budget_s / latency)
    error = float(rows.weights @ np.abs(vector - rows.target))
    return Trial(
        counts=solution.counts, towers=towers, signature=signature, achieved=vector, error=error, build_s=build_s
    )
