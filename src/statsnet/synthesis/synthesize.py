"""The whole way from a mix to a proxy folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from statsnet.synthesis.measure import FINAL_PROCESSES, Bench, Report, Whole
from statsnet.synthesis.rows import Rows, load_of_target
from statsnet.synthesis.solve import Program, Solution, polish, solve
from statsnet.synthesis.spec import Proxy, make_spec
from statsnet.synthesis.towers import Tower, build_towers

DEFAULT_COMPRESSION = 50
SHORTEST_STEP_S = 5e-3
LARGEST_COUNT = 96
MAX_DISTINCT = 44
ROUNDS = 12
FREE_ROUNDS = 3
RADII = (4, 7, 10, 14)
"""By how many uses of blocks a later round may differ from the best network so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured network. `drift` is how much slower the machine was than in the first round."""

    counts: np.ndarray
    towers: list[Tower]
    source: str
    whole: Whole
    drift: float

    def achieved(self, rows: Rows, budget_s: float, drift: float) -> np.ndarray:
        """Its rows, had the machine been slower by `drift`."""
        load = load_of_target(target_of(self.whole.signature)).slowed(drift / self.drift)
        return rows.vector(load, budget_s / self.whole.signature.measurements[0].latency_s)

    def error(self, rows: Rows, budget_s: float, drift: float) -> float:
        return float(rows.weights @ np.abs(self.achieved(rows, budget_s, drift) - rows.target))


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
        environment=here,
        mode=mode,
        dtype=dtype,
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
    rows = Rows(target)
    columns = Columns(chosen, bench.columns(chosen))
    best, rounds = _correct(columns, rows, budget, bench, mix_text, seed)
    spec = make_spec(
        target,
        best.towers,
        mode=mode,
        dtype=dtype,
        seed=seed,
        budget_s=budget,
        environment=here,
        mix_text=mix_text,
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
    """Solve, build, measure the whole, learn from it, again; the best network is measured once more, with care.

    What is learnt is each block's time in place and, on the right-hand side, what belongs to no block (towers' ends,
    the loss, framework time). The first rounds choose freely. The later ones make a few changes to the best network
    so far, among blocks that have been part of one: a wholly new network would bring new surprises. All is judged at
    the machine's median speed over the rounds.
    """
    trials: list[Trial] = []
    history: list[dict[str, Any]] = []
    tried: set[bytes] = set()
    for number in range(ROUNDS):
        bench.report(f"solving, round {number + 1}", number / ROUNDS)
        drift = float(np.median([t.drift for t in trials])) if trials else 1.0
        matrix = columns.matrix(rows, budget_s, drift)
        best = min(trials, key=lambda t: t.error(rows, budget_s, drift), default=None)
        outside = [t.achieved(rows, budget_s, drift) - matrix @ t.counts for t in trials]
        upper = np.full(len(columns.placed), LARGEST_COUNT)
        if best is None or number < FREE_ROUNDS:
            wanted = rows.target - (np.median(outside, axis=0) if outside else 0.0)
            program = Program(matrix=matrix, target=wanted, weight=rows.weights, upper=upper)
            solution = solve(
                program, max_distinct=MAX_DISTINCT, start=best.counts if best else None, seed=seed
            )
        else:
            wanted = rows.target - (best.achieved(rows, budget_s, drift) - matrix @ best.counts)
            upper = np.where(columns.seen, LARGEST_COUNT, 0)
            program = Program(matrix=matrix, target=wanted, weight=rows.weights, upper=upper)
            solution = _untried(program, best.counts, tried)
        tried.add(solution.counts.tobytes())
        trial = _try(columns, solution.counts, budget_s, bench, mix_text, seed)
        trials.append(trial)
        history.append(
            {
                "round": number + 1,
                "predicted_error": solution.error,
                "lower_bound": solution.bound,
                "measured_error": trial.error(rows, budget_s, drift),
                "machine_drift": trial.drift,
                "step_latency_s": trial.whole.signature.measurements[0].latency_s,
            }
        )
    drift = float(np.median([t.drift for t in trials]))
    best = min(trials, key=lambda t: t.error(rows, budget_s, drift))
    return replace(best, whole=bench.whole(best.source, processes=FINAL_PROCESSES)), history


def _untried(program: Program, start: np.ndarray, tried: set[bytes]) -> Solution:
    """The best network within the first radius that has one which was not measured yet."""
    for radius in RADII:
        found = polish(program, start, max_distinct=MAX_DISTINCT, radius=radius)
        if found.counts.tobytes() not in tried:
            break
    return found


def _try(
    columns: Columns, counts: np.ndarray, budget_s: float, bench: Bench, mix_text: str, seed: int
) -> Trial:
    counted = [(p, int(n)) for p, n in zip(columns.placed, counts, strict=True) if n > 0]
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
    return Trial(
        counts=counts, towers=towers, source=source, whole=whole, drift=columns.learn(towers, whole.blocks)
    )
