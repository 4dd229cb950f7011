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
from statsnet.measure.quiet_machine import ATTEMPTS, LOOK_AGAIN_S, MOST_THREADS, Probes, QuietMachine

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


def seeing(*looks: Look, slept: list[float] | None = None, patience_s: float = 10.0) -> QuietMachine:
    """A machine that is as these looks say, and then as the last one; a second passes from one look at the clock to
    the next."""
    left: Iterator[Look] = chain(looks, repeat(looks[-1]))
    return machine(lambda: next(left), slept, patience_s)


def machine(look: Callable[[], Look], slept: list[float] | None = None, patience_s: float = 10.0) -> QuietMachine:
    ticks = count()
    sleep: Callable[[float], None] = slept.append if slept is not None else lambda _: None
    return QuietMachine(look=look, patience_s=patience_s, sleep=sleep, clock=lambda: float(next(ticks)))


def counting() -> Callable[[], int]:
    numbers = count(1)
    return lambda: next(numbers)


def kept(cache: Path) -> list[float]:
    (file,) = (cache / "quiet_machine").iterdir()
    return [float(seconds) for seconds in json.loads(file.read_text())]


def test_at_its_best_it_measures_once() -> None:
    slept: list[float] = []
    quiet_machine = seeing(BEST, slept=slept)
    assert quiet_machine.measure(counting()) == 1
    assert slept == []
    assert quiet_machine.warnings == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("state", [FAR, SLOW])
def test_a_better_moment_is_waited_for(state: Look) -> None:
    slept: list[float] = []
    quiet_machine = seeing(state, state, BEST, slept=slept)
    assert quiet_machine.measure(counting()) == 1
    assert slept == [LOOK_AGAIN_S] * 2
    assert quiet_machine.waited_s > 0


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("state", [FAR, SLOW])
def test_what_was_disturbed_is_measured_again(state: Look) -> None:
    assert seeing(BEST, state, BEST, BEST).measure(counting()) == 2


@pytest.mark.usefixtures("known")
def test_a_machine_that_is_never_quiet_for_long_is_measured_all_the_same() -> None:
    looks = chain.from_iterable(repeat((BEST, FAR)))
    assert machine(lambda: next(looks)).measure(counting()) == ATTEMPTS


@pytest.mark.usefixtures("known")
def test_a_few_percent_are_no_other_state() -> None:
    slept: list[float] = []
    seeing((1.7 * BEST[0], 1.07 * BEST[1]), slept=slept).measure(counting())
    assert slept == []


@pytest.mark.usefixtures("known")
def test_who_has_waited_long_enough_goes_by_what_there_is(cache: Path) -> None:
    slept: list[float] = []
    quiet_machine = seeing(FAR, slept=slept, patience_s=5.0)
    assert quiet_machine.measure(counting()) == 1
    assert 0 < sum(slept) <= 5.0
    assert kept(cache) == list(FAR)
    assert ["STATSNET_PATIENCE_S" in warning for warning in quiet_machine.warnings] == [True]
    slept.clear()
    assert quiet_machine.measure(counting()) == 1
    assert seeing(FAR, slept=slept).measure(counting()) == 1, "the next process does not wait again"
    assert slept == []
    seeing(BEST).measure(counting())
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
