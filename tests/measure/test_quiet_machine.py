"""Measuring at quiet moments: the rules, with looks that are told what to see; and the real look."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from pathlib import Path

import pytest
import torch

from statsnet.errors import UsageError
from statsnet.measure.patience import SHARE, Patience
from statsnet.measure.quiet_machine import ATTEMPTS, LOOK_AGAIN_S, MOST_THREADS, RAMP_S, Probes, QuietMachine

Look = tuple[float, float]

BEST: Look = (40e-6, 30e-6)
FAR: Look = (170e-6, 30e-6)
SLOW: Look = (40e-6, 50e-6)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATSNET_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def known() -> None:
    """The machine has been at its best before."""
    seeing(BEST).measure(counting())


class Clock:
    """Time passes where somebody sleeps or measures, and a little at each look at the clock."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        self.now_s += RAMP_S / 4
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def an_hour(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Patience:
    """The patience of a command that has run for so long."""
    monkeypatch.delenv("STATSNET_PATIENCE_S")
    return Patience(begun_s=clock.now_s - 3600.0)


def machine(look: Callable[[], Look], clock: Clock | None = None, patience: Patience | None = None) -> QuietMachine:
    clock = clock or Clock()
    return QuietMachine(look=look, patience=patience or Patience(begun_s=0.0), sleep=clock.sleep, clock=clock)


def seeing(*looks: Look, clock: Clock | None = None, patience: Patience | None = None) -> QuietMachine:
    """A machine that is as these looks say, and then as the last one."""
    left: Iterator[Look] = chain(looks, repeat(looks[-1]))
    return machine(lambda: next(left), clock, patience)


def counting() -> Callable[[], int]:
    numbers = count(1)
    return lambda: next(numbers)


def taking(clock: Clock, seconds: float) -> Callable[[], int]:
    """Something to measure that takes so long; it counts how often it has run."""
    numbers = count(1)

    def measure() -> int:
        clock.now_s += seconds
        return next(numbers)

    return measure


def kept(cache: Path) -> list[float]:
    (file,) = (cache / "quiet_machine").iterdir()
    return [float(seconds) for seconds in json.loads(file.read_text())]


def test_at_its_best_it_measures_once(clock: Clock, an_hour: Patience) -> None:
    quiet_machine = seeing(BEST, clock=clock, patience=an_hour)
    assert quiet_machine.measure(counting()) == 1
    assert clock.slept == []
    assert an_hour.spent_s == 0.0
    assert quiet_machine.warnings == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("state", [FAR, SLOW])
def test_a_better_moment_is_waited_for(state: Look, clock: Clock, an_hour: Patience) -> None:
    told: list[float] = []
    an_hour.tell = told.append
    seen: Iterator[Look] = chain([state] * 12, repeat(BEST))
    quiet_machine = machine(lambda: next(seen), clock, an_hour)
    assert quiet_machine.measure(counting()) == 1
    assert clock.slept == [LOOK_AGAIN_S] * 2
    assert an_hour.spent_s == sum(told) > sum(clock.slept)
    assert quiet_machine.warnings == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("state", [FAR, SLOW])
def test_what_was_disturbed_is_measured_again(state: Look, clock: Clock, an_hour: Patience) -> None:
    measure = taking(clock, 7.0)
    quiet_machine = seeing(BEST, state, BEST, BEST, clock=clock, patience=an_hour)
    assert quiet_machine.measure(measure) == 2
    assert an_hour.spent_s == pytest.approx(7.0, abs=RAMP_S)
    assert quiet_machine.warnings == []


@pytest.mark.usefixtures("known")
def test_what_takes_longer_than_may_be_spent_is_not_measured_again(clock: Clock, an_hour: Patience) -> None:
    an_hour.spent_s = SHARE * 3600.0 - 2.0
    quiet_machine = seeing(BEST, FAR, BEST, BEST, clock=clock, patience=an_hour)
    assert quiet_machine.measure(taking(clock, 7.0)) == 1
    assert ["STATSNET_PATIENCE_S" in warning for warning in quiet_machine.warnings] == [True]


@pytest.mark.usefixtures("known")
def test_a_machine_that_is_never_quiet_for_long_is_measured_all_the_same(clock: Clock, an_hour: Patience) -> None:
    looks = chain.from_iterable(repeat((BEST, FAR)))
    assert machine(lambda: next(looks), clock, an_hour).measure(counting()) == ATTEMPTS


@pytest.mark.usefixtures("known")
def test_a_few_percent_are_no_other_state(clock: Clock, an_hour: Patience) -> None:
    seeing((1.7 * BEST[0], 1.07 * BEST[1]), clock=clock, patience=an_hour).measure(counting())
    assert clock.slept == []


@pytest.mark.usefixtures("known")
def test_all_measurements_of_a_command_wait_for_a_fifth_of_its_time_at_most(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATSNET_PATIENCE_S")
    begun_s = clock.now_s
    patience = Patience(begun_s=begun_s)
    for _ in range(60):
        process = seeing(FAR, clock=clock, patience=patience)
        assert process.measure(taking(clock, 1.0)) == 1
        assert process.warnings
        seeing(BEST).measure(counting())  # so the standard stays as it was
    allowed_s = SHARE * (clock.now_s - begun_s)
    assert 0.7 * allowed_s < patience.spent_s <= allowed_s


@pytest.mark.usefixtures("known")
def test_a_number_of_seconds_holds_for_the_whole_command(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", "3")
    patience = Patience(begun_s=clock.now_s)
    for _ in range(20):
        seeing(FAR, clock=clock, patience=patience).measure(taking(clock, 1.0))
    assert 2.5 < patience.spent_s <= 3.0


@pytest.mark.usefixtures("known")
def test_seldom_is_more_than_half_of_the_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", "1e-9")
    quiet_machine = seeing(BEST, BEST, FAR, FAR, clock=clock)
    quiet_machine.measure(counting())
    quiet_machine.measure(counting())
    assert quiet_machine.warnings == []
    quiet_machine.measure(counting())
    assert len(quiet_machine.warnings) == 1


@pytest.mark.usefixtures("known")
def test_a_machine_that_has_changed_for_good_is_not_waited_for_forever(
    cache: Path, clock: Clock, an_hour: Patience
) -> None:
    quiet_machine = seeing(SLOW, clock=clock, patience=an_hour)
    quiet_machine.measure(counting())
    assert 30 < an_hour.spent_s < 120
    assert BEST[1] < kept(cache)[1] < SLOW[1]
    slept_before = [*clock.slept]
    assert seeing(SLOW, clock=clock, patience=an_hour).measure(counting()) == 1
    assert clock.slept == slept_before, "the next process does not wait again"
    seeing(BEST, clock=clock).measure(counting())
    assert kept(cache) == list(BEST), "better ones count at once"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("text", ["", "near", "4e-5", "[-1, 1]", "[NaN, NaN]", "[1, 2, 3]", "{}", "[[1], [2]]"])
def test_a_damaged_record_is_none(cache: Path, text: str) -> None:
    (file,) = (cache / "quiet_machine").iterdir()
    file.write_text(text)
    assert seeing(FAR).measure(counting()) == 1
    assert kept(cache) == list(FAR)


def test_a_record_that_cannot_be_kept_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("STATSNET_CACHE", str(blocked / "below"))
    assert seeing(BEST).measure(counting()) == 1


@pytest.mark.parametrize(
    ("device", "threads", "patience"), [("cuda:0", 2, "9"), ("cpu", MOST_THREADS + 1, "9"), ("cpu", 2, "0")]
)
def test_where_it_does_not_matter_nobody_looks(
    device: str, threads: int, patience: str, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", patience)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert QuietMachine(device).measure(counting()) == 1
    assert not (cache / "quiet_machine").exists()


@pytest.mark.parametrize("text", ["long", "-1", "inf", "nan"])
def test_a_patience_that_is_no_number_of_seconds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", text)
    with pytest.raises(UsageError, match="STATSNET_PATIENCE_S") as caught:
        QuietMachine()
    assert "STATSNET_PATIENCE_S=0" in caught.value.hint


def test_the_real_look(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    probes = Probes()
    for _ in range(3):
        assert all(0 < seconds < math.inf for seconds in probes())
    assert probes._here.abs().max() == 1.0, "numbers do not grow from look to look"
    monkeypatch.setenv("STATSNET_PATIENCE_S", "0.1")
    assert QuietMachine().measure(counting()) >= 1
    assert len(kept(cache)) == len(Probes.limits)


def test_probes_are_the_same_whatever_dtype_a_model_makes_usual() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        probes = Probes()
    finally:
        torch.set_default_dtype(torch.float32)
    assert {t.dtype for t in (probes._here, probes._there, probes._numbers, probes._results)} == {torch.float32}
