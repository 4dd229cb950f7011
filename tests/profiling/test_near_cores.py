"""Measuring while cores are near: the rules, with a look that is told what to see; and the real look."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
import torch

from statsnet.profiling import near_cores
from statsnet.profiling.near_cores import ATTEMPTS, Handover, NearCores

NEAR, FAR = 40e-6, 170e-6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATSNET_CACHE", str(tmp_path))
    return tmp_path


def seeing(*looks: float, slept: list[float] | None = None, patience_s: float = 10.0) -> NearCores:
    """Cores that are as these looks say, and then as the last one."""
    left: Iterator[float] = chain(looks, repeat(looks[-1]))
    sleep: Callable[[float], None] = (lambda s: slept.append(s)) if slept is not None else lambda _: None
    return NearCores(look=lambda: next(left), patience_s=patience_s, sleep=sleep)


def counting() -> Callable[[], int]:
    numbers = iter(range(1, 100))
    return lambda: next(numbers)


def kept(cache: Path) -> float:
    (file,) = (cache / "handover").iterdir()
    return float(file.read_text())


def test_near_cores_are_measured_once() -> None:
    slept: list[float] = []
    assert seeing(NEAR, slept=slept).undisturbed(counting()) == 1
    assert slept == []


def test_far_cores_are_waited_for() -> None:
    seeing(NEAR).undisturbed(counting())
    slept: list[float] = []
    assert seeing(FAR, FAR, NEAR, slept=slept).undisturbed(counting()) == 1
    assert len(slept) == 2


def test_what_was_measured_while_they_were_moved_is_measured_again() -> None:
    seeing(NEAR).undisturbed(counting())
    assert seeing(NEAR, FAR, NEAR, NEAR).undisturbed(counting()) == 2


def test_cores_that_move_on_and_on_are_measured_all_the_same() -> None:
    seeing(NEAR).undisturbed(counting())
    moving = chain.from_iterable(repeat((NEAR, FAR)))
    cores = NearCores(look=lambda: next(moving), sleep=lambda _: None)
    assert cores.undisturbed(counting()) == ATTEMPTS


def test_a_core_that_had_slept_is_near() -> None:
    seeing(NEAR).undisturbed(counting())
    slept: list[float] = []
    seeing(1.6 * NEAR, slept=slept).undisturbed(counting())
    assert slept == []


def test_who_has_waited_long_enough_goes_by_what_there_is(cache: Path) -> None:
    seeing(NEAR).undisturbed(counting())
    slept: list[float] = []
    cores = seeing(FAR, slept=slept, patience_s=5.0)
    assert cores.undisturbed(counting()) == 1
    assert sum(slept) == pytest.approx(5.0)
    assert kept(cache) == FAR
    slept.clear()
    assert cores.undisturbed(counting()) == 1
    assert seeing(FAR, slept=slept).undisturbed(counting()) == 1, "the next process does not wait again"
    assert slept == []
    seeing(NEAR).undisturbed(counting())
    assert kept(cache) == NEAR, "nearer ones count at once"


@pytest.mark.parametrize("text", ["", "near", "-1", "nan"])
def test_a_damaged_record_is_none(cache: Path, text: str) -> None:
    seeing(NEAR).undisturbed(counting())
    (file,) = (cache / "handover").iterdir()
    file.write_text(text)
    assert seeing(FAR).undisturbed(counting()) == 1
    assert kept(cache) == FAR


def test_a_record_that_cannot_be_kept_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("STATSNET_CACHE", str(blocked / "below"))
    assert seeing(NEAR).undisturbed(counting()) == 1


@pytest.mark.parametrize(
    ("device", "threads"), [("cuda:0", 2), ("cpu", 1), ("cpu", near_cores.MOST_CORES + 1)]
)
def test_where_it_does_not_matter_nobody_looks(
    device: str, threads: int, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert NearCores(device).undisturbed(counting()) == 1
    assert not (cache / "handover").exists()


def test_a_look_takes_time_and_leaves_its_matrices_finite() -> None:
    handover = Handover()
    assert 0 < handover() < math.inf
    assert handover._here.abs().max() == 1.0, "it does not grow from look to look"
