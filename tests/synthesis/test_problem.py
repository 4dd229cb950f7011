"""What is measured before anything is solved, and the speed at which a finished proxy is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from live_benches import answers, with_setup
from synthesis_builders import BUDGET_S, GEMM, RELU, SimulatedBench, mix_of, play, small_problem, small_signature

from statsnet.deadline import Deadline
from statsnet.errors import UsageError
from statsnet.measure.reference_network import Looked, TimeReferenceNetwork
from statsnet.signatures.model import Cluster, Signature
from statsnet.synthesis import problem as problems
from statsnet.synthesis.bench import bench as benches
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.bench.tasks import MeasureBlocks
from statsnet.synthesis.candidates.candidates import StepRoom, candidates
from statsnet.synthesis.common_dtype import common_dtype
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.measured_candidates import LARGEST_COUNT, first_of_families, program_of
from statsnet.synthesis.problem import Design, ProxyRequest, prepare
from statsnet.synthesis.synthesize import finish


def test_after_the_deadline_the_first_candidates_are_enough(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = play(monkeypatch, benches, answers(profile))
    late = with_setup(bench, deadline=Deadline(ends_at_s=0.0, clock=lambda: 1.0))
    problem = prepare(mix_of(profile), late, ProxyRequest(mix_text="a mix"), Design())
    (first,) = (task.blocks for task in tasks if isinstance(task, MeasureBlocks))
    chosen = candidates(problem.target, budget_s=problem.budget_s)
    assert [b.key for b in first] == [c.key for c in first_of_families(chosen)]


def test_a_budget_that_is_asked_for_is_meant_at_the_present_speed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual: Any = answers(profile)
    play(monkeypatch, benches, usual)
    bench.machine_speed()
    play(monkeypatch, benches, answers(profile, slower=1.25))
    problem = prepare(mix_of(profile), bench, ProxyRequest(mix_text="a mix", budget_s=0.010), Design())
    assert problem.asked_budget_s == 0.010
    assert problem.budget_s == pytest.approx(0.010 / 1.25, rel=0.011)  # drift is rounded


def test_a_host_that_takes_memory_away_is_told_once(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "LOOK_AGAIN_S", 0.0)
    usual, notes = answers(profile), list[str]()

    def answer(task: Any) -> Any:
        return Looked(latency_s=0.01, page_s=6e-5) if isinstance(task, TimeReferenceNetwork) else usual(task)

    play(monkeypatch, benches, answer)
    prepare(mix_of(profile), with_setup(bench, note=notes.append), ProxyRequest(mix_text="a mix"), Design())
    assert len([note for note in notes if "60 µs a page" in note]) == 1


def test_a_machine_that_was_disturbed_at_the_first_look_is_looked_at_again(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks were measured when it was quiet: they are kept."""
    monkeypatch.setattr(problems, "LOOK_AGAIN_S", 0.0)
    quiet, looks = answers(profile), iter((0.09, 0.01, 0.01, 0.01))
    tasks = play(
        monkeypatch,
        benches,
        lambda t: Looked(latency_s=next(looks)) if isinstance(t, TimeReferenceNetwork) else quiet(t),
    )
    problem = prepare(mix_of(profile), bench, ProxyRequest(mix_text="a mix"), Design())
    assert problem.speed.reference_latency_s == 0.01
    measured = [block for task in tasks if isinstance(task, MeasureBlocks) for block in task.blocks]
    assert len(measured) == len({block.key for block in measured})


class SlowerMeanwhile(SimulatedBench):
    """A machine that has become 1.25 times as slow when networks are measured."""

    def measure_network(self, *args: Any) -> NetworkMeasurement:
        return replace(super().measure_network(*args), drift=1.25)

    def count_network(self, source: str, measurement: NetworkMeasurement) -> NetworkMeasurement:
        return measurement

    def evidence(self, signature: Signature) -> None:
        return None


@pytest.mark.parametrize("asked_s", [None, BUDGET_S])
def test_a_finished_proxy_is_shown_at_the_speed_of_its_last_measurement(asked_s: float | None) -> None:
    bench = SlowerMeanwhile()
    problem = replace(small_problem(bench), asked_budget_s=asked_s)
    slower = finish(problem, effort=QUICK)
    at_speed = SimulatedBench().measure_network(bench.sources[-1], range(1), problem.speed)
    assert slower.latency_s == pytest.approx(1.25 * at_speed.latency_s)
    assert slower.suite_latency_s == pytest.approx(1.25 * sum(m.latency_s for m in problem.target.members))
    assert slower.target.flops_per_s == pytest.approx(problem.target.flops_per_s / 1.25)
    assert slower.spec.budget_s == pytest.approx(asked_s or 1.25 * BUDGET_S)


def test_a_proxy_of_mixed_dtypes_computes_in_the_one_that_takes_the_time() -> None:
    def read(cluster: Cluster, dtype: str) -> Cluster:
        (first, *rest), outputs = cluster.args, cluster.outputs
        return replace(cluster, args=(first | {"dtype": dtype}, *rest), outputs=outputs)

    narrow_products = (read(GEMM, "bfloat16"), read(RELU, "float32"))  # 6 ms of products, 2 ms of relu
    mixed = small_signature(dtype="mixed", clusters=narrow_products)
    assert common_dtype(mix_of(mixed)) == "bfloat16"
    assert common_dtype(mix_of(mixed, small_signature(dtype="bfloat16"))) == "bfloat16"
    with pytest.raises(UsageError, match="bfloat16 and float32"):
        common_dtype(mix_of(mixed, small_signature()))
    counted = replace(mixed, clusters=(read(GEMM, "complex64"), read(RELU, "complex64")), measurements=())
    assert common_dtype(mix_of(counted)) == "float32"


@pytest.mark.parametrize(("longer", "most"), [(0.5, LARGEST_COUNT), (20.0, 20 * LARGEST_COUNT)])
def test_a_step_that_is_longer_than_the_suites_holds_more_of_a_block(longer: float, most: int) -> None:
    """Else short operators could not fill it, and others would."""
    problem = small_problem()
    rows, blocks = problem.rows, list(problem.costs.placed)
    program = program_of(problem.costs, blocks, rows, rows.target, StepRoom.of(problem.target, longer * rows.suite_s))
    assert max(program.upper) == most
