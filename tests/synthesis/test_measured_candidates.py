"""Which candidates are measured, on a machine where each kind of work takes a fixed time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from synthesis_builders import (
    BUDGET_S,
    CLASSES,
    GEMM,
    PROCESS_S,
    RELU,
    SimulatedBench,
    alone,
    candidate,
    cluster,
    measured,
    row,
    small_signature,
    tensor,
)

from statsnet.blocks import KINDS
from statsnet.errors import MeasurementError, ProcessError, StatsNetError
from statsnet.measure.cache import MeasurementCache
from statsnet.signatures.model import Motif
from statsnet.signatures.shapes import shape_class
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis import expected_time, measured_candidates
from statsnet.synthesis.bench.bench import MeasuredBlocks
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.bench.machine_speed import STEADY
from statsnet.synthesis.candidates.candidates import Candidate, StepRoom, candidates
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.effort import NORMAL
from statsnet.synthesis.expected_time import FIRST_NETWORK_S
from statsnet.synthesis.measured_candidates import (
    MOST_TRIES,
    OF_LARGE,
    costs_of,
    first_of_families,
    program_of,
)
from statsnet.synthesis.program.integer_program import relax
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

RATE = 1.2
"""How many times as long as estimated a block takes here."""


class SteadyMachine(SimulatedBench):
    """Takes the same time for each FLOP and byte, whatever a block's size. `waves` are the candidates that it was asked
    to measure, `faults` what it raises instead, `at_hand` the keys of those that it measured before. Of layers with an
    activation, the first ones may be `refused`."""

    def __init__(
        self, faults: Sequence[MeasurementError] = (), *, refused: int = 0, at_hand: Iterable[str] = (), **changes: Any
    ) -> None:
        super().__init__(**changes)
        self.waves: list[list[Candidate]] = []
        self.faults = list(faults)
        self.at_hand = {*at_hand}
        self.refused = refused

    def kept(self, wanted: Sequence[Candidate], *_: Any) -> list[Candidate]:
        return [c for c in wanted if c.key in self.at_hand]

    def measure_blocks(self, wanted: Sequence[Candidate], *_: Any, **__: Any) -> MeasuredBlocks:
        self.waves.append([*wanted])
        if self.faults:
            raise self.faults.pop(0)
        return [(c, alone(part_of(c))) for c in wanted if not self._refuses(c)]

    def _refuses(self, c: Candidate) -> bool:
        if c.kind != "linear" or not c.config["activation"] or not self.refused:
            return False
        self.refused -= 1
        return True

    def idle_s(self, *_: Any) -> dict[str, float]:
        return {}


def part_of(c: Candidate) -> BlockPart:
    kind, elements, spent_s = KINDS[c.kind], KINDS[c.kind].elements_read(c.config), RATE * c.time_s
    rows, width = (c.config["rows"], c.config["inputs"]) if c.kind == "linear" else (64, 512)
    product = shape_class("aten.mm.default", [tensor(rows, width), tensor(width, 512)], [tensor(rows, 512)])
    gemm = row(CLASSES[0], spent_s, shape_class=product, flops=kind.flops(c.config), bytes=8.0 * elements, joined=1.0)
    own = shape_class("aten.relu.default", [tensor(rows, 512)], [tensor(rows, 512)])
    relu = row(CLASSES[1], spent_s, category="activation", shape_class=own, flops=elements, bytes=8.0 * elements)
    relu = replace(relu, joined=1.0)
    if c.kind != "linear":
        return BlockPart(operators=(relu,), framework_s=spent_s / 4)
    both = (replace(gemm, time_s=0.8 * spent_s), replace(relu, time_s=0.2 * spent_s))
    return BlockPart(operators=both if c.config["activation"] else (gemm,), framework_s=spent_s / 4)


def layers(count: int) -> Target:
    """Layers of as many widths, with an activation behind each, as in a suite of several models."""
    clusters, times_s, motifs = [], [], []
    for i in range(count):
        width = 64 * (i + 1)
        args = (tensor(64, width), tensor(width, 512, strides=[1, width]))
        clusters += [replace(GEMM, args=args, flops=2.0 * 64 * width * 512), RELU]
        times_s += [0.006 / count, 0.002 / count]
        motifs.append(Motif(clusters=(2 * i, 2 * i + 1), count=4.0))
    times = measured(times_s, CLASSES * count)
    return target_of(small_signature(clusters=tuple(clusters), motifs=tuple(motifs), measurements=(times,)))


def error_of(some: Iterable[Candidate], target: Target) -> float:
    """Of the best network of these, with the rows that all candidates together tell."""
    chosen = candidates(target, budget_s=BUDGET_S, limit=1000)
    rows = MatchedCharacteristics(target, BlockCosts.of([(c, alone(part_of(c))) for c in chosen]).overheads)
    costs = BlockCosts.of([(c, alone(part_of(c))) for c in some])
    return relax(program_of(costs, list(costs.placed), rows, rows.target, StepRoom.of(target, BUDGET_S))).error


@pytest.mark.parametrize("count", [1, 4, 12])
def test_what_no_network_would_hold_is_not_measured(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And most of what the others could add to the first wave is there."""
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", 0.01)
    target, machine = layers(count), SteadyMachine()
    costs_of(target, BUDGET_S, machine, STEADY)
    everything = candidates(target, budget_s=BUDGET_S, limit=1000)
    tried = {c.key: c for wave in machine.waves for c in wave}
    assert len(tried) == sum(map(len, machine.waves)), "nothing is measured twice"
    assert len(tried) < len(everything)
    first, known, best = (error_of(some, target) for some in (machine.waves[0], tried.values(), everything))
    assert known - best < (first - best) / 2


def test_the_first_wave_has_some_of_each_family() -> None:
    large, small = (candidate("linear", rows=rows) for rows in (8, 16))
    chosen = [replace(large, time_s=i, share=0.5) for i in range(1, 6)]
    chosen += [replace(small, time_s=i, family="rare", share=0.001) for i in range(1, 6)]
    first = first_of_families(chosen)
    assert [(c.family, c.time_s) for c in first] == [
        ("linear", 1),
        ("rare", 1),
        *(("linear", i) for i in range(2, OF_LARGE + 1)),
    ]


def test_no_more_are_measured_than_the_effort_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", 0.0)
    machine = SteadyMachine(effort=replace(NORMAL, candidates=5))
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    assert [sum(c.kind != "operator" for c in wave) for wave in machine.waves][:2] == [4, 1]
    assert sum(c.kind != "operator" for wave in machine.waves for c in wave) == 5


def test_a_wave_that_promises_little_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", 0.99)
    machine = SteadyMachine()
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    assert all(c.kind == "operator" for wave in machine.waves[1:] for c in wave)


def test_the_most_useful_of_a_wave_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", 0.01)
    target, everything, one = layers(12), SteadyMachine(), SteadyMachine()
    costs_of(target, BUDGET_S, everything, STEADY)
    monkeypatch.setattr(measured_candidates, "AT_A_TIME", 1)
    costs_of(target, BUDGET_S, one, STEADY)
    assert len(everything.waves[1]) > 1
    assert one.waves[1] == everything.waves[1][:1]
    wave = everything.waves[1]
    lost = [error_of([*one.waves[0], *(other for other in wave if other is not c)], target) for c in wave]
    assert lost[0] >= median(lost)


@pytest.mark.parametrize("refused", [1, 3, 9])
def test_where_the_first_sizes_of_a_family_do_not_run_others_are_tried(refused: int) -> None:
    """A few times: an operator that fails in four sizes fails in all."""
    machine = SteadyMachine(refused=refused)
    known = costs_of(layers(4), BUDGET_S, machine, STEADY).known.values()
    tried = [c for wave in machine.waves for c in wave if c.kind == "linear" and c.config["activation"]]
    assert len(tried) >= refused if refused < MOST_TRIES else len(tried) <= MOST_TRIES + OF_LARGE
    assert any(b.kind == "linear" and b.config["activation"] for b in known) == (refused < MOST_TRIES)


def test_on_a_gpu_they_are_measured_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "AT_A_TIME_IN_ORDER", 4)
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", -9.0)
    machine = SteadyMachine(own_sizes=True, effort=replace(NORMAL, candidates=4, candidates_in_order=8))
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    order = [c.key for c in candidates(layers(4), budget_s=BUDGET_S, own_sizes=True)]
    tried = [c.key for wave in machine.waves for c in wave if c.kind != "operator"]
    assert tried == order[: len(tried)]
    assert len(tried) == 8


def test_on_a_gpu_a_wave_that_ends_its_process_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "AT_A_TIME_IN_ORDER", 4)

    class DyingInTheSecond(SteadyMachine):
        def measure_blocks(self, wanted: Sequence[Candidate], *_: Any, **__: Any) -> MeasuredBlocks:
            found = super().measure_blocks(wanted)
            if len(self.waves) == 2:
                raise ProcessError("killed", cause="nobody knows", hint="none")
            return found

    machine = DyingInTheSecond(own_sizes=True)
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    assert any(c.kind != "operator" for wave in machine.waves[2:] for c in wave)


def test_a_wave_that_ends_its_process_does_not_end_the_others() -> None:
    machine = SteadyMachine([ProcessError("killed", cause="nobody knows", hint="none")])
    assert costs_of(layers(4), BUDGET_S, machine, STEADY).placed
    first, second, *_ = machine.waves
    assert not {c.key for c in first} & {c.key for c in second}
    assert machine.notes == ["blocks were left out: killed: nobody knows"]


def test_a_first_wave_that_hangs_is_the_last_one() -> None:
    """Operators by themselves stand for all that is missing."""
    machine = SteadyMachine([MeasurementError("took too long", cause="it hangs", hint="none")])
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    assert {c.kind for wave in machine.waves[1:] for c in wave} == {"operator"}


def test_where_nothing_can_be_measured_the_reason_is_told() -> None:
    machine = SteadyMachine([MeasurementError("took too long", cause="it hangs", hint="none") for _ in range(2)])
    with pytest.raises(MeasurementError, match="took too long"):
        costs_of(layers(1), BUDGET_S, machine, STEADY)


def test_operators_that_nothing_stands_for_are_an_error() -> None:
    unknown = cluster("prims.nothing.default", "other", (tensor(4),), tensor(4))
    signature = small_signature(clusters=(unknown,), motifs=(), measurements=(measured((0.008,), ("other|x",)),))
    with pytest.raises(StatsNetError, match="no block stands for any operator"):
        costs_of(target_of(signature), BUDGET_S, SteadyMachine(), STEADY)


def test_a_deadline_makes_the_first_wave_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_time, "FEWEST_BLOCKS", 2)
    usual, hurried = SteadyMachine(), SteadyMachine(within_s=FIRST_NETWORK_S + 1.0)
    for machine in (usual, hurried):
        costs_of(layers(12), BUDGET_S, machine, STEADY)
    assert [len(machine.waves[0]) for machine in (hurried, usual)] == [2, 4]


def test_what_a_deadline_cut_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_time, "FEWEST_BLOCKS", 2)
    cache = MeasurementCache(tmp_path)
    hurried, later = SteadyMachine(cache=cache, within_s=FIRST_NETWORK_S + 1.0), SteadyMachine(cache=cache)
    for machine in (hurried, later):
        costs_of(layers(12), BUDGET_S, machine, STEADY)
    assert [len(machine.waves[0]) for machine in (hurried, later)] == [2, 4]


@pytest.mark.parametrize(("left_s", "waves"), [(FIRST_NETWORK_S - 1, 1), (FIRST_NETWORK_S + 1, 2)])
def test_a_deadline_leaves_time_for_a_network(left_s: float, waves: int) -> None:
    class Slow(SteadyMachine):
        def measure_blocks(self, wanted: Sequence[Candidate], *_: Any, **__: Any) -> MeasuredBlocks:
            self.clock.now_s += PROCESS_S
            return super().measure_blocks(wanted)

    machine = Slow(within_s=PROCESS_S + left_s)
    costs_of(layers(12), BUDGET_S, machine, STEADY)
    assert len(machine.waves) == waves


def test_what_is_at_hand_comes_first_and_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", 0.0)
    family = candidates(layers(4), budget_s=BUDGET_S)[0].family
    at_hand = [c.key for c in candidates(layers(4), budget_s=BUDGET_S) if c.family == family]
    machine = SteadyMachine(at_hand=at_hand, effort=replace(NORMAL, candidates=3))
    costs_of(layers(4), BUDGET_S, machine, STEADY)
    tried = [c for wave in machine.waves for c in wave if c.kind != "operator"]
    assert [c.key for c in tried[: len(at_hand)]] == at_hand
    assert 0 < len(tried) - len(at_hand) <= 3
    assert family not in {c.family for c in tried[len(at_hand) :]}


def test_the_same_mix_has_the_same_candidates_again(tmp_path: Path) -> None:
    """Though more are at hand then."""
    cache = MeasurementCache(tmp_path)
    target, machine = layers(12), SteadyMachine(cache=cache)
    first = costs_of(target, BUDGET_S, machine, STEADY)
    at_hand = [c.key for c in candidates(target, budget_s=BUDGET_S)]
    assert len(at_hand) > len(machine.waves[0])
    again = SteadyMachine(cache=cache, at_hand=at_hand)
    assert costs_of(target, BUDGET_S, again, STEADY).placed == first.placed
    other = costs_of(layers(11), BUDGET_S, SteadyMachine(cache=cache, at_hand=at_hand), STEADY)
    assert len(other.placed) > len(first.placed)


def test_candidates_that_were_chosen_in_a_hurry_are_not_chosen_again(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    hurried = SteadyMachine(cache=cache, within_s=FIRST_NETWORK_S / 2)
    costs_of(layers(12), BUDGET_S, hurried, STEADY)
    machine = SteadyMachine(cache=cache)
    costs_of(layers(12), BUDGET_S, machine, STEADY)
    assert len(machine.waves) > len(hurried.waves)


def test_on_a_gpu_the_same_waves_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware counters are kept by wave."""
    monkeypatch.setattr(measured_candidates, "AT_A_TIME_IN_ORDER", 4)
    monkeypatch.setattr(measured_candidates, "LEAST_GAIN", -9.0)
    cache = MeasurementCache(tmp_path)
    first, again = (SteadyMachine(own_sizes=True, cache=cache) for _ in range(2))
    for machine in (first, again):
        costs_of(layers(4), BUDGET_S, machine, STEADY)
    assert len(first.waves) > 2
    assert [[c.key for c in wave] for wave in again.waves] == [[c.key for c in wave] for wave in first.waves]


def test_where_other_candidates_are_considered_they_are_chosen_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another version of this program."""
    cache = MeasurementCache(tmp_path)
    monkeypatch.setattr(measured_candidates, "CONSIDERED", 4)
    effort = replace(NORMAL, candidates=4)
    costs_of(layers(12), BUDGET_S, SteadyMachine(cache=cache, effort=effort), STEADY)
    monkeypatch.setattr(measured_candidates, "CONSIDERED", 40)
    machine = SteadyMachine(cache=cache, effort=effort)
    costs_of(layers(12), BUDGET_S, machine, STEADY)
    fresh = SteadyMachine(effort=effort)
    costs_of(layers(12), BUDGET_S, fresh, STEADY)
    assert [[c.key for c in wave] for wave in machine.waves] == [[c.key for c in wave] for wave in fresh.waves]
