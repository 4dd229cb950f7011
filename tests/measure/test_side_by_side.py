"""Processes that take turns: real ones, and the rules by which a step is timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_turns import MOMENT_S, WaitingInTurn

from statsnet.errors import StatsNetError, WorkloadError
from statsnet.measure import turns
from statsnet.measure.control import Control, Failure, Job
from statsnet.measure.patience import PATIENCE
from statsnet.measure.side_by_side import FEWEST_TURNS, side_by_side
from statsnet.measure.task import Context, Event
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeNetwork, TimeWorkload
from statsnet.measure.turns import LOOK_S, SLEEPLESS_S, fall_asleep, take_turns
from statsnet.workloads.settings import BASELINE, Setting, parse_settings

SETTINGS = [BASELINE, *parse_settings("mkldnn=off")]
"""None that a process must be started anew for, which takes seconds."""
QUICK = Limits(max_time_s=0.1, min_time_s=0.02)


def timing(
    target: str,
    limits: Limits = QUICK,
    *,
    preset: str | None = None,
    settings: Sequence[Setting] = SETTINGS,
    **control: Any,
) -> list[Job[TimedStep]]:
    task = TimeWorkload(model=Model(target=target, mode="inference", preset=preset), limits=limits)
    return [Job(task, Control(setting=s, label=f"it ({s.name})", **control)) for s in settings]


def test_every_process_has_as_many_windows() -> None:
    settings = [BASELINE, *parse_settings("threads=1+aten=default")]
    outcomes = side_by_side(timing("recsys/ncf", Limits(max_time_s=0.1), preset="tiny", settings=settings))
    assert outcomes[1].environment["threads"] == 1
    assert outcomes[1].environment["settings"]["ATEN_CPU_CAPABILITY"] == "default"
    for timing_ in (o.timing for o in outcomes):
        assert len(timing_.window_latency_s) == FEWEST_TURNS
        assert min(timing_.latency_s) <= min(timing_.window_latency_s)
        assert len(timing_.latency_s) > FEWEST_TURNS


def test_what_may_not_share_the_memory_runs_one_after_the_other() -> None:
    outcomes = side_by_side(timing("recsys/ncf", preset="tiny", peak_bytes=1 << 60))
    assert len(outcomes) == len(SETTINGS)
    assert all(o.timing.window_latency_s is None for o in outcomes)


@pytest.mark.parametrize("may_fail", [False, True])
def test_those_that_run_out_of_memory_together_run_one_after_the_other(tmp_path: Path, may_fail: bool) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import os, torch\n"
        "from pathlib import Path\n"
        "def make():\n"
        f"    seen = Path({str(tmp_path / 'seen')!r})\n"
        "    seen.mkdir(exist_ok=True)\n"
        "    if any(os.path.exists(f'/proc/{process.name}') for process in seen.iterdir()):\n"
        "        raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 130.00 MiB.')\n"
        "    (seen / str(os.getpid())).touch()\n"
        "    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)\n"
    )
    outcomes = side_by_side(timing(f"{model}:make", may_fail=may_fail))
    assert [o.timing.window_latency_s for o in outcomes] == [None] * len(SETTINGS)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("def make():\n    raise RuntimeError('the weights are gone')\n")
    with pytest.raises(WorkloadError) as caught:
        side_by_side(timing(f"{model}:make"))
    assert "the weights are gone" in str(caught.value.cause)


def test_one_that_dies_in_its_turn_ends_all(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import os, torch\n"
        "class Dying(torch.nn.Module):\n"
        "    steps = 0\n"
        "    def forward(self, x):\n"
        "        Dying.steps += 1\n"
        "        if not torch._C._get_mkldnn_enabled() and Dying.steps > 40:\n"
        "            os._exit(3)\n"
        "        return x @ x\n"
        "def make():\n"
        "    return Dying(), (torch.ones(300, 300),)\n"
    )
    jobs = timing(f"{model}:make", Limits(max_time_s=0.5))
    with pytest.raises(StatsNetError, match=r"it \(mkldnn=off\): a measuring process failed \(exit code 3\)"):
        side_by_side(jobs)


@pytest.mark.parametrize("side", ["side by side", "one after the other"])
def test_one_that_may_fail_says_why_and_the_others_go_on(tmp_path: Path, side: str) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\n"
        "class Choosy(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if not torch._C._get_mkldnn_enabled():\n"
        "            raise RuntimeError('no kernel without oneDNN')\n"
        "        return x @ x\n"
        "def make():\n"
        "    return Choosy(), (torch.ones(300, 300),)\n"
    )
    control = {"peak_bytes": 1 << 60} if side == "one after the other" else {}
    outcomes = side_by_side(timing(f"{model}:make", may_fail=True, **control))
    assert [isinstance(o, Failure) for o in outcomes] == [False, True]
    assert outcomes[1].why.startswith("it (mkldnn=off): ")
    assert "no kernel without oneDNN" in outcomes[1].why


def test_each_process_knows_what_the_others_have_spent_on_waiting() -> None:
    PATIENCE.restart()
    task = WaitingInTurn(limits=Limits(max_time_s=0.0))
    outcomes = side_by_side([Job(task, Control()), Job(task, Control())])
    for place, outcome in enumerate(outcomes):
        assert outcome.environment["spent_s"] == [(2 * turn + place) * MOMENT_S for turn in range(FEWEST_TURNS)]
    assert PATIENCE.spent_s == 2 * FEWEST_TURNS * MOMENT_S


def test_a_window_for_each_command() -> None:
    said: list[Event] = []
    timing = take_turns(lambda: sum(range(100_000)), ["step", "step", "step"], said.append, limit_s=0.1)
    assert said[0].ready
    assert tuple(event.window_s for event in said[1:]) == timing.window_latency_s
    assert len(timing.window_latency_s or ()) == 3


class Threads:
    """Two threads that spin for `spin_s` after their last work, and a clock that only sleeping moves."""

    def __init__(self, spin_s: float) -> None:
        self.now_s, self.spin_s = 0.0, spin_s

    def clock(self) -> float:
        return self.now_s

    def used_s(self) -> float:
        return 2 * min(self.now_s, self.spin_s)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def fall_asleep(self) -> bool:
        return fall_asleep(used_s=self.used_s, clock=self.clock, sleep=self.sleep)


@pytest.mark.parametrize("spin_s", [0.0, 0.003, 0.2])
def test_a_turn_ends_when_its_threads_sleep(spin_s: float) -> None:
    threads = Threads(spin_s)
    assert threads.fall_asleep()
    assert spin_s <= threads.now_s <= spin_s + 2 * LOOK_S + 1e-9


def test_threads_that_never_sleep_are_not_waited_for_longer_than_a_while() -> None:
    threads = Threads(math.inf)
    assert not threads.fall_asleep()
    assert threads.now_s == pytest.approx(SLEEPLESS_S, abs=LOOK_S)


def test_a_process_says_nothing_before_its_threads_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(turns, "fall_asleep", lambda: order.append("asleep"))
    context = Context(setting=BASELINE, say=lambda event: order.append("said"), turns=iter(["0.0", "0.0"]))
    TimeNetwork(folder="", limits=QUICK).time(lambda: None, context)
    assert order == ["asleep", "said"] * 3
