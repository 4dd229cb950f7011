"""A fleet in simulation: closed forms where nothing fails, and nothing lost or counted twice where much does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import csv_tables
from benchmarks.fleet_simulation import Fleet, simulate
from benchmarks.scale import ScaleRow, _options, report

TASK = (10.0, 1000.0)


@pytest.mark.parametrize(("machines", "workloads", "copies"), [(1, 3, 1), (4, 10, 3), (50, 7, 2)])
def test_equal_tasks_are_worked_off_in_turns(machines: int, workloads: int, copies: int) -> None:
    run = simulate(Fleet(machines=machines, workloads=workloads, environments=1, copies=copies), [TASK])
    tasks = workloads * copies
    assert run.done == tasks
    assert run.measured_s == run.half_s == 10 * math.ceil(tasks / machines)
    assert (run.worked_s, run.lost_s, run.moved_bytes) == (10 * tasks, 0, 1000 * tasks)
    assert run.written_s == run.measured_s


def test_a_driver_that_is_too_slow_is_done_when_it_has_had_all() -> None:
    run = simulate(Fleet(machines=100, workloads=100, environments=1, copies=1, driver_s=2.0), [TASK])
    assert run.measured_s == 10
    assert run.written_s == 10 + 100 * 2
    assert (run.waiting, run.waiting_bytes) == (100, 100_000)


def test_a_driver_that_is_fast_enough_lets_nothing_wait() -> None:
    run = simulate(Fleet(machines=1, workloads=20, environments=1, copies=1, driver_s=2.0), [TASK])
    assert (run.waiting, run.written_s) == (1, 202)


@given(
    seconds=st.lists(st.floats(1, 100), min_size=1, max_size=5),
    machines=st.integers(1, 30),
    environments=st.integers(1, 4),
    killed=st.floats(0, 0.5),
    seed=st.integers(0, 9),
)
@settings(max_examples=40)
def test_whatever_fails_each_task_counts_once(
    seconds: list[float], machines: int, environments: int, killed: float, seed: int
) -> None:
    fleet = Fleet(
        machines=machines, workloads=12, environments=environments, killed=killed, hours_between_failures=0.05,
        repair_hours=0.1, seed=seed,
    )  # fmt: skip
    run = simulate(fleet, [(s, 1.0) for s in seconds])
    assert run.done == run.moved_bytes == 12 * 3 * environments
    assert 0 <= run.lost_s <= run.worked_s
    assert run.worked_s - run.lost_s >= 36 * environments * min(seconds) * 0.999
    assert simulate(fleet, [(s, 1.0) for s in seconds]) == run


@given(seconds=st.lists(st.floats(1, 100), min_size=1, max_size=20), machines=st.integers(1, 9))
@settings(max_examples=30)
def test_a_fleet_is_no_faster_than_its_work_and_wastes_at_most_one_task(seconds: list[float], machines: int) -> None:
    run = simulate(Fleet(machines=machines, workloads=15, environments=1), [(s, 1.0) for s in seconds])
    least_s = run.worked_s / machines
    assert least_s * 0.999 <= run.measured_s <= least_s + max(seconds)


def test_common_environments_have_more_machines() -> None:
    sizes = Fleet(machines=1100, workloads=1, environments=3).sizes()
    assert sizes == [600, 300, 200]
    assert Fleet(machines=2, workloads=1, environments=5).sizes() == [1] * 5


def test_the_report_names_what_is_full_first() -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / "scale.csv"
    words = ["--machines", "2000", "--workloads", "20", "--environments", "6"]
    text = report(csv_tables.read(kept, ScaleRow), _options(words))
    limits = text.partition("What breaks first")[2].splitlines()
    assert limits[4].startswith("| the driver's processor")
    assert "720" in text  # profiles: 20 workloads, 2 modes, 3 copies, 6 environments
    assert text.count("this program") == 3
