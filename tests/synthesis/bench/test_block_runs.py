"""Blocks that end the process that measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from synthesis_builders import alone, bench_setup, candidate, part

from statsnet.environment import describe
from statsnet.errors import MeasurementError, ProcessError
from statsnet.measure.cache import MeasurementCache
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.block_runs import MOST_FAULTS, Measure, fastest_measurements
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.machine_speed import MachineSpeed, reference_network
from statsnet.synthesis.candidates.candidates import Candidate


def failing(*kinds: str, runs: list[list[str]], from_run: int = 0) -> Measure:
    """A process that ends when it comes to one of these, from a run on; later runs take longer."""

    def measure(wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
        runs.append([c.kind for c in wanted])
        for place, c in enumerate(wanted):
            begun(place)
            if c.kind in kinds and len(runs) > from_run:
                raise ProcessError("a measuring process was ended by the signal SIGSEGV")
        return [alone(part("k", float(len(runs)))) for _ in wanted]

    return measure


@pytest.mark.parametrize("from_run", range(2))
def test_the_rest_is_measured_without_the_block_that_ends_its_process(from_run: int) -> None:
    runs: list[list[str]] = []
    a, b, c = (candidate(kind) for kind in "abc")
    measured, faults = fastest_measurements([a, b, c], failing("b", runs=runs, from_run=from_run), 2)
    assert measured.keys() == {a.key, c.key}
    assert list(faults) == [b.key]
    assert runs.count(["a", "c"]) == 2 - from_run
    ended_well = [n for n, _ in enumerate(runs, 1) if n != from_run + 1]
    assert measured[a.key].operator_time_s == min(ended_well)


def test_many_faults_are_no_blocks_matter() -> None:
    wanted = [candidate(f"k{i}") for i in range(MOST_FAULTS + 5)]
    with pytest.raises(ProcessError, match=rf"SIGSEGV while it measured k{MOST_FAULTS} "):
        fastest_measurements(wanted, failing(*(c.kind for c in wanted), runs=[]))


@pytest.mark.parametrize("kind", [MeasurementError, ProcessError])
def test_a_block_that_takes_all_memory_or_hangs_is_left_out_with_its_other_sizes(kind: type[MeasurementError]) -> None:
    hangs, larger, other = (
        candidate("operator", operator=(name, "default"), operands=size)
        for name, size in (("logit", 8), ("logit", 64), ("tanh", 8))
    )

    def measure(wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
        for place, c in enumerate(wanted):
            begun(place)
            if c.config["operator"][0] == "logit":
                raise kind("a measuring process said nothing for 600 s", hint="allow more time")
        return [alone(part("k", 1.0)) for _ in wanted]

    measured, faults = fastest_measurements([hangs, larger, other], measure)
    assert measured.keys() == {other.key}
    assert [type(fault) for fault in faults.values()] == [kind]
    assert "logit" in faults[hangs.key].message and faults[hangs.key].hint == "allow more time"


def test_a_block_that_ran_in_one_process_counts() -> None:
    runs = [BlockMeasurement.of_refused(MemoryError("none is free")), alone(part("k", 2.0)), alone(part("k", 1.0))]

    def measure(wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[BlockMeasurement]:
        begun(0)
        return [runs.pop(0)]

    measured, _ = fastest_measurements([a := candidate("a")], measure, 3)
    assert measured[a.key].operator_time_s == 1.0 and measured[a.key].refused is None


def test_what_lacked_memory_may_run_later() -> None:
    errors = [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), ValueError("shapes differ")]
    assert [BlockMeasurement.of_refused(error).lacked_memory for error in errors] == [True, True, False]


def test_where_no_block_was_begun_the_process_itself_is_told_of() -> None:
    measured, faults = fastest_measurements([candidate("a")], failing("a", runs=[]))
    assert (measured, len(faults)) == ({}, 1)

    def cannot_start(*_: Any) -> list[BlockMeasurement]:
        raise ProcessError("no torch")

    with pytest.raises(ProcessError, match=r"^no torch$"):
        fastest_measurements([candidate("a"), candidate("b")], cannot_start)


SPEED = MachineSpeed(reference_network=reference_network("inference", "float32"), reference_latency_s=0.01)


def test_a_block_that_raises_an_exception_leaves_the_others_in_its_process(tmp_path: Path) -> None:
    notes: list[str] = []
    setup = bench_setup(MeasurementCache(tmp_path), environment=describe("cpu"), note=notes.append)
    bench = LiveBench(setup)
    size: dict[str, Any] = {
        "rows": 8,
        "inputs": 8,
        "bias": True,
        "activation": "",
        "weight_first_axis_in": False,
    }
    sound, negative = (candidate("linear", **size, outputs=outputs) for outputs in (8, -8))
    with pytest.raises(ProcessError, match="none of 1 block runs") as all_fail:
        bench.measure_blocks([negative], SPEED)
    assert '"outputs": -8' in all_fail.value.cause and "negative dimension" in all_fail.value.cause
    for times in (1, 2):  # the second time both are from the cache
        ((kept, measurement),) = bench.measure_blocks([negative, sound], SPEED)
        assert kept == sound
        assert measurement.block.operators
        assert len(notes) == times
    assert "1 block left out" in notes[0] and "negative dimension" in notes[0]
