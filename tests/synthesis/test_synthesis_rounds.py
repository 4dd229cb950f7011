"""The rounds of correction, on a machine that is simulated: what is learnt in place makes the network better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from live_benches import SPEED
from synthesis_builders import (
    BUDGET_S,
    CLASSES,
    PROCESS_S,
    SimulatedBench,
    alone,
    few_jumps,
    part,
    small_problem,
    small_signature,
)

from statsnet.errors import MeasurementError, ProcessError, StatsNetError
from statsnet.signatures.documents import Round
from statsnet.signatures.target import target_of
from statsnet.synthesis import rounds
from statsnet.synthesis.bench.bench import MeasuredBlocks
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.chosen_network import build_and_measure
from statsnet.synthesis.effort import NORMAL, QUICK, THOROUGH
from statsnet.synthesis.next_network import Choice, NextNetwork, Scope
from statsnet.synthesis.problem import Design, Problem
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.rounds import solve_in_rounds
from statsnet.synthesis.trials import LEAST_GAIN, Knowledge, Trial, gained_little


def in_rounds(problem: Problem, **wanted: Any) -> tuple[Trial, tuple[Round, ...]]:
    """The chosen network and an entry for each measured one."""
    solved = solve_in_rounds(problem, **wanted)
    return solved.best, solved.rounds


def test_learning_in_place_brings_the_network_nearer() -> None:
    problem = small_problem()
    best, history = in_rounds(problem, effort=THOROUGH)
    errors = [h.measured_error for h in history]
    assert 2 <= len(errors) <= THOROUGH.rounds
    assert min(errors) < 0.95 * errors[0]
    assert best.error(problem.rows, BUDGET_S) == pytest.approx(min(errors), rel=0.05)
    assert abs(history[-1].predicted_error - errors[-1]) < abs(history[0].predicted_error - errors[0])
    assert best.latency_s == pytest.approx(BUDGET_S, rel=0.2)


@pytest.fixture(autouse=True, scope="module")
def _few_jumps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few_jumps(patch)
        yield


OnABench = tuple[SimulatedBench, Trial, tuple[Round, ...]]


@pytest.fixture(scope="module")
def solved() -> OnABench:
    """A bench and what the usual rounds on it come to, for all who look at them."""
    bench = SimulatedBench()
    return bench, *in_rounds(small_problem(bench))


def test_no_network_is_measured_twice_before_the_end(solved: OnABench) -> None:
    bench, best, history = solved
    *rounds, last = bench.sources
    assert len(set(rounds)) == len(rounds) == len(history)
    assert last == best.source


def test_the_same_measurements_give_the_same_network() -> None:
    first, second = (in_rounds(small_problem(design=Design(seed=3)))[0] for _ in range(2))
    assert first.source == second.source


def test_what_is_known_is_passed_on_and_not_changed() -> None:
    """Networks that are known stand for the first rounds; the problem keeps the costs of blocks alone."""
    bench = SimulatedBench()
    problem = small_problem(bench)
    nothing = Knowledge(costs=problem.costs)
    assert nothing.best(problem) is None
    one = build_and_measure(problem, NextNetwork(problem=problem, known=nothing).free(), nothing, processes=1)
    assert (nothing.trials, problem.costs.seen()) == ((), [])
    assert len(one.trials) == 1
    assert {b.key for b in one.costs.seen()} >= one.trials[0].counts.keys()
    best, history = in_rounds(problem, effort=QUICK, known=one)
    assert history[0].measured_error == one.trials[0].error(problem.rows, BUDGET_S)
    assert best.source in bench.sources
    assert len(history) == len(bench.sources) == 2
    assert len(one.trials) == 1


def test_a_budget_that_nothing_fits_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program's relaxation rounds to may be no block at all."""

    def none(program: Any, *_: Any, **__: Any) -> list[Any]:
        return [0 * program.upper]

    monkeypatch.setattr("statsnet.synthesis.next_network.relaxation_starts", none)
    with pytest.raises(StatsNetError, match="no network fits"):
        in_rounds(small_problem())


class PickyBench(SimulatedBench):
    """Ends in an error where a block is of another size than those that were measured alone; or wherever it `never`
    runs."""

    def __init__(self, *, never: bool = False) -> None:
        super().__init__()
        self.never = never

    def measure_network(self, source: str, runs: range, speed: Any) -> Any:
        rows = {int(n) for n in re.findall(r"rows=(\d+)", source)}
        assert rows
        if self.never or rows - {40, 130, 400, 1300}:
            raise ProcessError("a measuring process failed", cause="shapes do not match")
        return super().measure_network(source, runs, speed)


def test_blocks_that_never_ran_may_not_cost_the_proxy() -> None:
    bench = PickyBench()
    best, history = in_rounds(small_problem(bench))
    assert best.source in bench.sources and len(history) >= 2
    assert bench.notes and all("shapes do not match" in note for note in bench.notes)


class FailingBench(SimulatedBench):
    """Fails from its so manieth measurement on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def measure_network(self, source: str, runs: range, speed: Any) -> Any:
        if len(self.sources) >= self.first:
            raise MeasurementError("a measuring process took more memory than there is", cause="9 GiB were at hand")
        return super().measure_network(source, runs, speed)


@pytest.mark.parametrize("first", [1, 2])
def test_a_later_network_that_fails_does_not_cost_the_best_before(first: int) -> None:
    bench = FailingBench(first)
    best, history = in_rounds(small_problem(bench), effort=THOROUGH)
    assert len(history) == first and best.source in bench.sources
    assert any("the best one before is kept" in note for note in bench.notes)
    assert any("the fit is that of the processes that chose it" in note for note in bench.notes)


def test_a_first_network_that_fails_says_why() -> None:
    with pytest.raises(MeasurementError, match="more memory than there is"):
        in_rounds(small_problem(FailingBench(0)))


def test_a_network_of_tried_blocks_that_does_not_run_is_an_error() -> None:
    bench = PickyBench(never=True)
    with pytest.raises(ProcessError, match="failed"):
        in_rounds(small_problem(bench))
    assert not bench.sources and len(bench.notes) <= 1


def reachable(bench: SimulatedBench) -> Problem:
    """A problem whose target is a network of its blocks."""
    usual = small_problem(bench)
    wanted, _ = in_rounds(usual, effort=QUICK)
    bench.runs.clear()
    target = target_of(wanted.measurement.signature)
    return replace(usual, target=target, budget_s=wanted.latency_s, rows=MatchedCharacteristics(target))


def test_rounds_stop_when_a_network_is_good() -> None:
    """A thorough synthesis goes on, to find a better one."""
    problem = reachable(SimulatedBench())
    best, history = in_rounds(problem)
    assert best.is_good(problem)
    assert len(history) < len(in_rounds(problem, effort=THOROUGH)[1])


def test_a_network_that_meets_all_bars_is_kept_before_one_of_a_lower_error(
    solved: OnABench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates weigh little in the error, and have a bar of their own."""
    _, best, _ = solved
    problem = small_problem()
    other = replace(best, counts={}, measurement=replace(best.measurement, drift=2.0))
    known = Knowledge(costs=problem.costs, trials=(best, other))
    monkeypatch.setattr(Trial, "error", lambda self, *_: self.measurement.drift)
    monkeypatch.setattr(Trial, "is_good", lambda self, _: self is other)
    assert (known.best(problem), known.chosen(problem)) == (best, other)
    monkeypatch.setattr(Trial, "is_good", lambda *_: False)
    assert known.chosen(problem) == best


def test_rounds_stop_when_one_gains_little(solved: OnABench) -> None:
    """A thorough synthesis goes on."""
    *_, history = solved
    assert NORMAL.least_rounds <= len(history) < THOROUGH.rounds
    errors = [r.measured_error for r in history]
    assert errors[-1] > (1 - LEAST_GAIN) * min(errors[:-1])
    _, all_of_them = in_rounds(small_problem(), effort=THOROUGH)
    assert len(all_of_them) == THOROUGH.rounds


@pytest.mark.parametrize(
    ("errors", "uncertainty", "is_little"),
    [((2.0,), 0.1, False), ((2.0, 1.0), 0.1, False), ((2.0, 1.7), 0.1, False), ((2.0, 1.7), 0.3, True),
     ((2.0, 1.9), 0.0, True), ((1.0, 2.0), 0.0, True), ((2.0, 1.0, 1.5), 0.1, True)],
)  # fmt: skip
def test_a_round_gains_little_if_two_differ_as_much_by_chance(
    errors: Sequence[float], uncertainty: float, is_little: bool
) -> None:
    trials: list[Any] = [SimpleNamespace(error=lambda *_, e=e: e, uncertainty=lambda *_: uncertainty) for e in errors]
    assert gained_little(trials, small_problem()) is is_little


@pytest.mark.parametrize(
    ("has_shares", "gains", "least_rounds", "scopes"),
    [
        (True, "", 2, ""),
        (False, "", 2, "SEEN NEAR"),
        (False, "SEEN", 2, "SEEN SEEN SEEN SEEN SEEN"),
        (False, "NEAR", 2, "SEEN NEAR SEEN NEAR SEEN"),
        (True, "", 7, "SEEN NEAR SEEN NEAR SEEN"),
    ],
)
def test_after_a_round_that_gained_little_the_next_has_another_scope_unless_shares_are_good(
    has_shares: bool, gains: str, least_rounds: int, scopes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Scope] = []
    near = NextNetwork.near_the_best

    def near_the_best(self: NextNetwork, scope: Scope) -> Choice:
        looked.append(scope)
        choice = near(self, scope)
        return replace(choice, solution=replace(choice.solution, error=0.0))

    monkeypatch.setattr(NextNetwork, "near_the_best", near_the_best)
    monkeypatch.setattr(
        rounds, "gained_little", lambda trials, _: len(trials) > 1 and (not looked or looked[-1].name != gains)
    )
    monkeypatch.setattr(Trial, "has_shares", lambda *_: has_shares)
    monkeypatch.setattr(Trial, "is_good", lambda *_: False)
    in_rounds(small_problem(), effort=replace(NORMAL, rounds=7, least_rounds=least_rounds))
    assert " ".join(scope.name for scope in looked) == scopes


@pytest.mark.parametrize(
    ("scope", "promised", "is_chosen"),
    [(Scope.SEEN, 0.95, False), (Scope.SEEN, 0.85, True), (Scope.NEAR, 0.95, True), (Scope.NEAR, 1.05, False)],
)
def test_a_network_near_the_best_must_promise_a_gain(
    scope: Scope, promised: float, is_chosen: bool, solved: OnABench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, best, _ = solved
    problem, name = small_problem(), next(iter(best.counts))
    solution = replace(best.solution, error=promised * best.error_in_budget(problem.rows, BUDGET_S))
    choice = Choice(counts={**best.counts, name: best.counts[name] + 1}, solution=solution, costs=problem.costs)
    monkeypatch.setattr(NextNetwork, "near_the_best", lambda *_: choice)
    following = NextNetwork(problem=problem, known=Knowledge(costs=problem.costs, trials=(best,)))
    assert (following.choose(scope) is choice) is is_chosen


def test_the_finished_network_is_measured_in_new_processes(solved: OnABench) -> None:
    bench, *_ = solved
    first, *rounds, confirming = bench.runs
    assert first == range(1) and set(rounds) == {range(1)}
    assert confirming == range(1, 3)


def test_what_the_confirmation_tells_of_the_pace_holds_for_the_round_too(
    solved: OnABench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are slower in every network than alone are no disturbance."""
    steady = replace(small_problem(), speed=SPEED)
    paces = iter([1.5] * 20)
    monkeypatch.setattr("statsnet.synthesis.costs.block_costs.BlockCosts.pace", lambda *_: next(paces))
    bench = SimulatedBench(effort=replace(NORMAL, rounds=1, least_rounds=1))
    in_rounds(replace(steady, bench=bench))
    assert bench.runs == [range(1), range(1, 3)]


class NeighbouredBench(SimulatedBench):
    """A neighbour is there whenever the first operator runs, in so many of the processes that confirm a network."""

    def __init__(self, disturbed: int) -> None:
        super().__init__()
        self.disturbed = disturbed

    def measure_network(self, source: str, runs: range, speed: Any) -> Any:
        found = super().measure_network(source, runs, speed)
        if runs.start == 0 or len(runs) > self.disturbed:
            return found
        (measurement,) = found.signature.measurements
        first_s, second_s, *others_s = measurement.cluster_time_s
        slowed = replace(measurement, cluster_time_s=(3 * first_s, second_s, *others_s))
        return replace(found, signature=replace(found.signature, measurements=(slowed,)))


@pytest.mark.parametrize(("disturbed", "is_told"), [(2, False), (4, True)])
def test_an_operator_that_a_neighbour_slowed_down_does_not_spoil_the_fit(
    disturbed: int, is_told: bool, solved: OnABench
) -> None:
    """Nothing of it shows in the step's time. It is looked at in more processes, and else has its earlier time."""
    bench = NeighbouredBench(disturbed)
    best, _ = in_rounds(small_problem(bench))
    assert bench.runs[-2:] == [range(1, 3), range(1, 5)]
    assert best.measurement.signature == solved[1].measurement.signature
    assert (best.measurement.slowed_share > 0.02) is is_told
    assert any("The cause is not known" in note for note in bench.notes) is is_told


class BusyBench(SimulatedBench):
    """Operators take twice as long as the step has time for."""

    def measure_network(self, source: str, runs: range, speed: Any) -> Any:
        found = super().measure_network(source, runs, speed)
        (measurement,) = found.signature.measurements
        longer = replace(measurement, cluster_time_s=tuple(t and 2 * t for t in measurement.cluster_time_s))
        return replace(found, signature=replace(found.signature, measurements=(longer,)))


@pytest.mark.parametrize(("machine", "is_told"), [(SimulatedBench, False), (BusyBench, True)])
def test_a_fit_from_a_busy_machine_says_so(machine: type[SimulatedBench], is_told: bool) -> None:
    bench = machine(effort=QUICK)
    in_rounds(replace(small_problem(bench), speed=SPEED))
    assert any("did other work meanwhile" in note for note in bench.notes) is is_told


def test_a_quick_one_is_solved_once_and_looked_at_once() -> None:
    bench = SimulatedBench(effort=QUICK)
    _, history = in_rounds(small_problem(bench))
    assert len(history) == 1
    assert bench.runs == [range(1)]


@pytest.mark.parametrize(
    ("processes", "rounds", "confirmed"),
    [(0.1, 1, False), (2.5, 1, False), (3.5, 1, True), (4.5, 2, True), (1000, None, True)],
)
def test_the_deadline_ends_the_rounds(processes: float, rounds: int | None, confirmed: bool, solved: OnABench) -> None:
    """Each round takes one process, the confirmation two. With time enough all is as without an end."""
    rounds = len(solved[2]) if rounds is None else rounds
    bench = SimulatedBench(within_s=processes * PROCESS_S)
    best, history = in_rounds(small_problem(bench))
    assert len(history) == rounds
    assert bench.runs == [range(1)] * rounds + [range(1, 3)] * confirmed
    assert best.source in bench.sources
    assert bool(bench.notes) == (rounds < len(solved[2]) or not confirmed)


def test_what_the_rounds_took_is_listed(solved: OnABench) -> None:
    bench, _, history = solved
    assert bench.setup.stages.spent_s == {
        "solving": 0.0,
        "networks measured": PROCESS_S * len(history),
        "blocks measured": 0.0,  # operators by themselves for what the first network is short of
        "confirming": 2 * PROCESS_S,
    }
    assert bench.setup.stages.left_s == 0.0


class BenchWithOperators(SimulatedBench):
    """Measures operators by themselves, too: all take as long as was thought."""

    def measure_blocks(self, wanted: Sequence[Candidate], *_: Any, **__: Any) -> MeasuredBlocks:
        return [(c, alone(part(CLASSES[1], c.time_s))) for c in wanted]


def test_what_a_network_is_short_of_comes_by_itself_in_the_next() -> None:
    """A network of products alone is short of activations; of one that is near enough nothing follows."""
    problem = small_problem(BenchWithOperators())
    problem = replace(problem, target=target_of(small_signature(motifs=())))  # its activations are behind no layer
    nothing = Knowledge(costs=problem.costs)
    free = NextNetwork(problem=problem, known=nothing).free()
    products = {b.key: 5 for b in problem.costs.placed if not b.config["activation"]}
    short = build_and_measure(problem, replace(free, counts=products), nothing, processes=1)
    further = [b for b in short.with_operators(problem).costs.placed if b not in problem.costs.placed]
    assert further and {b.kind for b in further} == {"operator"}
    assert all("relu" in b.config["operator"][0] for b in further)

    near = replace(problem, target=target_of(short.trials[0].measurement.signature))
    assert short.with_operators(near) is short
