"""Memory that a host takes away from a virtual machine: what is measured, and what is said."""

from __future__ import annotations

import mmap

import pytest

from statsnet.measure.idle_memory import PLACES, SLOW_PAGE_S, IdleMemory, slow_memory
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Limits, TimedStep, TimingTask


class Steps(TimingTask):
    def run(self, context: Context) -> TimedStep:
        raise NotImplementedError


def test_a_page_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", "1")
    seen: list[int] = []

    class Slow:
        def __getitem__(self, place: int) -> int:
            seen.append(place)
            return 1

    clock = iter((1.0, 1.0 + 6e-5 * len(PLACES)))
    memory = IdleMemory()
    assert memory.page_s() is not None
    monkeypatch.setattr(memory, "_memory", Slow())
    monkeypatch.setattr("time.thread_time", lambda: next(clock))
    assert memory.page_s() == pytest.approx(6e-5)
    assert len(seen) == len({place // mmap.PAGESIZE for place in seen}) == len(PLACES)


@pytest.mark.parametrize("page_s", [None, 3e-7, SLOW_PAGE_S])
def test_nothing_is_said_of_usual_memory(page_s: float | None) -> None:
    assert slow_memory(page_s) == []


def test_slow_memory_is_told_with_what_to_do() -> None:
    (sentence,) = slow_memory(6e-5)
    assert "takes 60 µs a page" in sentence
    assert "another machine" in sentence


@pytest.mark.parametrize(("page_s", "warned"), [(3e-7, False), (6e-5, True)])
def test_whoever_measures_is_warned(page_s: float, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IdleMemory, "page_s", lambda _: page_s)
    task = Steps(limits=Limits(min_time_s=0.0, max_time_s=0.01))
    timing = task.time(lambda: None, Context()).timing
    assert any("a page to reach" in warning for warning in timing.warnings) == warned


def test_without_patience_and_on_a_gpu_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_PATIENCE_S", "0")
    assert IdleMemory().page_s() is None
    monkeypatch.setenv("STATSNET_PATIENCE_S", "1")
    assert IdleMemory("cuda:0").page_s() is None
