"""The timing rules, with clocks that we set ourselves."""

from __future__ import annotations

import itertools
import json
import math
import mmap
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import binom

from statsnet.measure import timing as harness
from statsnet.signatures.storage import validate


class FakeMachine:
    """A step that takes the given seconds, one after the other, and the clock that shows it."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self.now_s = 0.0
        self.seconds = iter(seconds)

    def step(self) -> None:
        self.now_s += next(self.seconds)

    def clock(self) -> float:
        return self.now_s


def measure(seconds: Iterable[float], **limits: Any) -> dict[str, Any]:
    machine = FakeMachine(seconds)
    return harness.measure(machine.step, clock=machine.clock, **limits)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing else happens: only the samples themselves can give a warning."""
    monkeypatch.setattr(harness, "_counters", lambda: {})
    monkeypatch.setattr(harness, "usable_cores", lambda: 10**6)


@pytest.mark.usefixtures("quiet")
class TestMeasure:
    def test_stops_when_there_are_enough_runs_and_enough_time(self) -> None:
        result = measure(itertools.repeat(0.25))
        assert result["latency_s"] == [0.25] * 10  # enough time after 4 runs, enough runs after 10
        assert result["warmup_latency_s"] == [0.25] * 6  # two windows of 3
        assert result["stable"]
        assert result["warnings"] == []

    def test_short_steps_run_until_the_time_is_enough(self) -> None:
        result = measure(itertools.repeat(2**-10))
        assert 1.0 <= sum(result["latency_s"]) < 1.11  # the last group is a tenth of the runs before it

    def test_noise_makes_it_run_longer(self) -> None:
        result = measure(itertools.cycle([0.9, 1.0, 1.1]), max_time_s=1000.0)
        assert len(result["latency_s"]) > 20
        assert harness.precision(result["latency_s"]) < harness.PRECISION

    def test_gives_up_after_the_longest_time_and_says_so(self) -> None:
        result = measure(itertools.cycle([0.5, 1.0]), max_time_s=20.0)
        assert 20.0 <= sum(result["latency_s"]) <= 24.0
        assert not result["stable"]
        assert any("--max-time" in warning for warning in result["warnings"])

    def test_a_step_longer_than_the_longest_time_runs_once_to_warm_up_and_three_times(self) -> None:
        result = measure(itertools.repeat(60.0))
        assert result["warmup_latency_s"] == [60.0]
        assert result["latency_s"] == [60.0] * 3
        assert not result["stable"]

    def test_the_warm_up_lasts_until_two_windows_agree(self) -> None:
        falling = [8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 1.0, 1.0, 1.0]
        result = measure([*falling, *itertools.repeat(1.0, 100)], max_time_s=100.0)
        assert result["warmup_latency_s"] == [*falling, 1.0, 1.0, 1.0]
        assert set(result["latency_s"]) == {1.0}

    def test_a_warm_up_that_does_not_settle_is_bounded(self) -> None:
        halving = (2.0**-n for n in itertools.count())
        result = harness.warm_up(lambda: next(halving), window_s=0.0, limit_s=1.9)
        assert result == ([1.0, 0.5, 0.25, 0.125, 0.0625], False)

    @pytest.mark.parametrize("min_time_s", [0.0, 1.0])
    def test_a_clock_that_stands_still_is_an_error(self, min_time_s: float) -> None:
        with pytest.raises(RuntimeError, match="the clock shows no time"):
            measure(itertools.repeat(0.0), min_time_s=min_time_s)

    @pytest.mark.parametrize("warm", [10, 700])
    def test_a_clock_that_stops_is_an_error(self, warm: int) -> None:
        seconds = itertools.chain(itertools.repeat(0.001, warm), itertools.repeat(0.0))
        with pytest.raises(RuntimeError, match="the clock shows no time"):
            measure(seconds, max_time_s=10.0)

    def test_a_clock_too_coarse_for_some_steps_will_do(self) -> None:
        result = measure(itertools.cycle([0.0, 0.25, 0.25]))
        assert sum(result["latency_s"]) >= 1.0
        assert harness.precision([0.0] * 10) == math.inf

    def test_a_gpu_is_timed_by_events_on_its_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log: list[str] = []

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self, stream: str) -> None:
                log.append(f"record on {stream}")

            def synchronize(self) -> None:
                log.append("synchronize")

            def elapsed_time(self, end: Event) -> float:
                return 250.0  # milliseconds

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
        result = harness.measure(lambda: log.append("step"), device="cuda:0")
        assert set(result["latency_s"]) == {0.25}
        assert log[:4] == [
            "record on the stream of cuda:0", "step", "record on the stream of cuda:0", "synchronize",
        ]  # fmt: skip


class TestMedianInterval:
    @pytest.mark.parametrize("n", [*range(6, 60), 100, 317, 1000, 4999])
    def test_holds_the_median_with_95_percent(self, n: int) -> None:
        low, high = harness.median_interval([float(i) for i in range(n)])
        assert high == n - 1 - low
        # The median lies between the order statistics unless too few or too many samples fall below it.
        assert 1 - 2 * binom.cdf(low, n, 0.5) >= 0.95

    def test_below_six_samples_nothing_is_known(self) -> None:
        assert harness.median_interval([1.0] * 5) == (0.0, math.inf)
        assert harness.precision([1.0] * 5) == math.inf

    def test_six_samples_give_their_range(self) -> None:
        assert harness.median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)


class TestNoiseWarnings:
    def warnings(self, times: list[float] | None = None, threads: int = 2, cores: int = 2, **changes: int) -> list[str]:
        used = {"ticks": 1000, "busy": 510, "own": 500, "stolen": 0, "faults": 10} | changes
        return harness.noise_warnings(times or [1.0] * 40, used, threads, cores)

    def test_a_quiet_machine_gives_none(self) -> None:
        assert self.warnings() == []

    def test_without_proc_only_the_samples_speak(self) -> None:
        assert harness.noise_warnings([1.0] * 40, {}, 2, 2) == []

    @pytest.mark.parametrize(
        ("used", "word"),
        [
            ({"threads": 4}, "4 threads share 2 cores"),
            ({"busy": 900}, "other programs kept the cores 40% busy"),
            ({"stolen": 30}, "the hypervisor took 3%"),
            ({"faults": 40 * 57_000}, "57000 page faults per step: set MALLOC_MMAP_THRESHOLD_"),
        ],
    )
    def test_names_the_cause(self, used: dict[str, int], word: str) -> None:
        (warning,) = self.warnings(**used)
        assert word in warning

    def test_page_faults_that_cost_nothing_are_not_mentioned(self) -> None:
        assert self.warnings(faults=40 * 15_000) == []  # 15 ms of a second

    def test_drift(self) -> None:
        warning = self.warnings([1.0, 1.01] * 10 + [1.10, 1.11] * 10)[0]
        assert "the time changed by +10.0%" in warning

    def test_two_speeds(self) -> None:
        (warning,) = self.warnings([1.0, 1.2, 1.001, 1.199] * 10)
        assert "two speeds" in warning

    def test_a_uniform_spread_has_one_speed(self) -> None:
        mixed = [1.0 + 0.01 * (7 * i % 40) for i in range(40)]
        assert self.warnings(mixed) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_counters_advance_with_our_own_work() -> None:
    before = harness._counters()
    with mmap.mmap(-1, 2**24) as pages:
        pages.write(b"x" * 2**24)
    after = harness._counters()
    assert before.keys() == {"ticks", "busy", "stolen", "own", "faults"}
    assert all(after[name] >= before[name] for name in before)
    assert after["faults"] > before["faults"]
    assert after["busy"] <= after["ticks"]


STAT = """cpu  9 9 9 9 9 9 9 9 0 0
cpu0 1 2 3 4 5 6 7 8 0 0
cpu1 10 20 30 40 50 60 70 80 0 0
intr 1 2 3
"""


@pytest.mark.parametrize(
    ("usable", "ticks"),
    [({0, 1}, 36 + 360), ({1}, 360), ({5, 9}, 36 + 360), ({0, 9}, 36 + 360), ({7}, None), (set(range(64)), None)],
)
def test_cores_that_proc_numbers_otherwise(
    monkeypatch: pytest.MonkeyPatch, usable: set[int], ticks: int | None
) -> None:
    """/proc/stat shows two cores. A container may use two others by their numbers, of which it shows none."""
    read_text = Path.read_text

    def text(self: Path, *args: Any, **kwargs: Any) -> str:
        if str(self) == "/proc/self/stat":
            return "1 (a name) S " + " ".join(map(str, range(50)))
        return STAT if str(self) == "/proc/stat" else read_text(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", text)
    monkeypatch.setattr(harness.os, "sched_getaffinity", lambda _: usable, raising=False)
    assert harness._counters().get("ticks") == ticks


class TestMain:
    ID = "sha256:" + "a" * 64

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(harness, "relaunch_with_allocator", lambda: None)

    def run(self, monkeypatch: pytest.MonkeyPatch, *arguments: str, step: Any = lambda: None) -> int:
        monkeypatch.setattr(sys, "argv", ["network.py", "--min-time", "0.01", "--max-time", "0.05", *arguments])
        return harness.main(lambda device: step, self.ID, "inference")

    def test_summary(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(monkeypatch) == 0
        assert " ms ± " in capsys.readouterr().out

    @pytest.mark.parametrize(("options", "threads"), [([], 1), (["--threads", "2"], 2)])
    def test_threads_are_those_that_a_containers_quota_allows_or_the_user_asks_for(
        self, monkeypatch: pytest.MonkeyPatch, options: list[str], threads: int
    ) -> None:
        monkeypatch.setattr(harness, "quota_env", lambda: {"OMP_NUM_THREADS": "1"})
        asked: list[int] = []
        monkeypatch.setattr(torch, "set_num_threads", asked.append)
        assert self.run(monkeypatch, *options) == 0
        assert asked == [threads]

    def test_no_thread_is_refused(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            self.run(monkeypatch, "--threads", "0")
        assert ended.value.code == 2
        assert "--threads takes a number from 1" in capsys.readouterr().err

    def test_json_is_a_valid_result(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(monkeypatch, "--json", "--threads", str(torch.get_num_threads())) == 0
        result = json.loads(capsys.readouterr().out)
        validate(result, "statsnet.result")
        assert result["subject"] == {"type": "proxy", "id": self.ID, "mode": "inference"}

    def test_a_file_is_written_whole_or_not_at_all(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = tmp_path / "result.json"
        assert self.run(monkeypatch, "--json", str(target)) == 0
        before = target.read_text()
        validate(json.loads(before), "statsnet.result")
        assert " ms ± " in capsys.readouterr().out

        def disk_full(self: Path, target: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", disk_full)
        assert self.run(monkeypatch, "--json", str(target)) == 1
        assert target.read_text() == before
        assert "No space left" in capsys.readouterr().err

    def test_a_step_that_fails_ends_with_one(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def step() -> None:
            raise RuntimeError("out of memory")

        assert self.run(monkeypatch, step=step) == 1
        out, err = capsys.readouterr()
        assert (out, err) == ("", "error: out of memory\n")

    def test_ctrl_c_ends_quietly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def step() -> None:
            raise KeyboardInterrupt

        assert self.run(monkeypatch, step=step) == 130

    @pytest.mark.parametrize("option", ["--thread-count=2", "--threads=-1", "--threads=x", "--device=gpu"])
    def test_a_wrong_option_ends_with_two(self, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
        with pytest.raises(SystemExit) as stopped:
            self.run(monkeypatch, option)
        assert stopped.value.code == 2

    @pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
    def test_a_missing_device_ends_with_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run(monkeypatch, "--device", "cuda") == 1
