"""How far a command is, what is left of it and where its time went."""

from __future__ import annotations

import math

import pytest
from synthesis_builders import FakeClock

from statsnet.deadline import Deadline
from statsnet.progress import Progress, Stages
from statsnet.reporting.tables import stages_table


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def said() -> list[Progress]:
    return []


@pytest.fixture
def stages(clock: FakeClock, said: list[Progress]) -> Stages:
    return Stages(said.append, clock=clock)


def test_the_share_is_that_of_all_expected_work(stages: Stages, clock: FakeClock, said: list[Progress]) -> None:
    stages.expect({"blocks": 50.0, "solving": 150.0})
    with stages.stage("blocks"):
        clock.now_s += 40.0
        stages.report(Progress(stage="block 3 of 3", done=0.9))
    clock.now_s += 10.0
    with stages.stage("solving", 100.0):
        clock.now_s += 50.0
        stages.report(Progress(stage="solving"))
    first, second = said
    assert first == Progress(stage="block 3 of 3", done=0.2, remaining_s=None, of_all=True)
    assert second == Progress(stage="solving", done=0.5, remaining_s=100.0, of_all=True)


def test_a_running_stage_is_judged_by_its_own_speed(stages: Stages, clock: FakeClock) -> None:
    stages.expect({"members": 10.0})
    with stages.stage("members"):
        assert stages.left_s == 10.0
        for _ in range(9):
            clock.now_s += 10.0
            stages.advance(0.1)
        assert 9.0 < stages.left_s < 11.0
    assert stages.left_s == 0.0


def test_the_deadline_leaves_out_what_lies_beyond_it_but_not_the_running_stage(clock: FakeClock) -> None:
    stages = Stages(deadline=Deadline.after(30.0, clock), clock=clock)
    stages.expect({"solving": 1000.0})
    assert stages.left_s == 30.0
    with stages.stage("blocks", 40.0):
        assert stages.left_s == 40.0
    clock.now_s += 31.0
    stages.expect({"solving": 10.0})
    assert stages.left_s == 10.0, "one network is measured after the deadline, too"


def test_an_overdue_stage_is_not_said_to_be_at_its_end(stages: Stages, clock: FakeClock) -> None:
    with stages.stage("solving", 10.0):
        clock.now_s += 100.0
        assert stages.left_s == 25.0


def test_a_deadline_leaves_what_ends_before_it(clock: FakeClock) -> None:
    deadline = Deadline.after(10.0, clock)
    assert deadline.leaves(9.0)
    assert not deadline.leaves(11.0)
    assert not deadline.passed
    clock.now_s += 10.0
    assert deadline.passed
    assert Deadline.after(None, clock).left_s == math.inf


def test_stages_add_up_even_if_one_fails(stages: Stages, clock: FakeClock) -> None:
    def fail_after(seconds: float) -> None:
        with stages.stage("solving"):
            clock.now_s += seconds
            raise ZeroDivisionError

    for seconds in (30.0, 40.0):
        with pytest.raises(ZeroDivisionError):
            fail_after(seconds)
    with stages.stage("members"):
        clock.now_s += 0.1
    clock.now_s += 29.9
    assert stages.spent_s == pytest.approx({"solving": 70.0, "members": 0.1})
    columns = [list(column.cells) for column in stages_table(stages.spent_s, stages.total_s, waited_s=5.0).columns]
    assert [[str(cell) for cell in column] for column in columns] == [
        ["solving", "everything else", "in all", "of that, waiting for a quiet machine"],
        ["1 min 10 s", "30 s", "1 min 40 s", "5 s"],
        ["70.0%", "29.9%", "100.0%", "5.0%"],
    ]
