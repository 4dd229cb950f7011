"""Samples that have no one speed are recognised, and those that have one are left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.errors import MeasurementError
from statsnet.evaluation.compare import Comparison, compare
from statsnet.evaluation.speeds import drift, out_of_line, speeds_of, two_speeds
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import Timing

DRAW = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Of each test, whichever ran before it."""
    DRAW.bit_generator.state = np.random.default_rng(7).bit_generator.state


def steps(time_s: float, count: int = 200, spread: float = 0.01) -> np.ndarray:
    return time_s * np.exp(spread * DRAW.standard_normal(count))


def mixed(fast_s: float, slow_s: float, slow_share: float, count: int = 400) -> np.ndarray:
    slow = np.arange(count) < round(count * slow_share)
    return np.where(DRAW.permutation(slow), slow_s, fast_s) * DRAW.uniform(0.999, 1.001, count)


def result(*processes: np.ndarray | list[float], threads: int = 1) -> Result:
    return Result(
        subject=Subject(type="proxy", id="sha256:" + "1" * 64, mode="inference"),
        environment={"device": "cpu", "device_name": "A CPU", "threads": threads},
        processes=tuple(Timing(latency_s=tuple(map(float, times))) for times in processes),
    )


def compared(a: Result, b: Result) -> Comparison:
    comparison = compare(a, b)
    assert comparison.factor.low is not None
    assert comparison.factor.high is not None
    return comparison


def test_two_results_of_one_mixture_show_no_difference() -> None:
    first = result(*(mixed(0.010, 0.013, share) for share in (0.46, 0.47, 0.48)))
    second = result(*(mixed(0.010, 0.013, share) for share in (0.52, 0.53, 0.54)), threads=2)
    comparison = compared(first, second)
    assert comparison.factor.value == pytest.approx(1.016, abs=0.004)
    assert comparison.factor.low == pytest.approx(10 / 13, rel=1e-3)
    assert comparison.factor.high == pytest.approx(13 / 10, rel=1e-3)
    assert comparison.significant is False
    assert comparison.verdict.startswith("no difference shown (0.769 to 1.3 times as long)")
    assert comparison.verdict.endswith("each of the two runs at two speeds")
    assert any("3 of 3 processes: 10 ms and 13 ms (47% of steps)" in warning for warning in comparison.warnings)


def test_a_difference_larger_than_that_of_the_speeds_is_shown() -> None:
    first = result(*(mixed(0.010, 0.013, 0.5) for _ in range(3)))
    comparison = compared(first, result(*(steps(0.002) for _ in range(3)), threads=2))
    assert comparison.significant
    assert comparison.factor.low == pytest.approx(0.002 / 0.013, rel=0.01)
    assert comparison.verdict.endswith("times faster: first runs at two speeds")


def test_steps_that_take_two_inputs_in_turn_are_compared_with_their_like() -> None:
    first, second = ([[0.01 * f, 0.03 * f] * 30 for f in (k, 1.01 * k, 0.99 * k)] for k in (1.0, 2.0))
    comparison = compared(result(*first), result(*second, threads=2))
    assert comparison.factor.value == pytest.approx(2.0, rel=1e-6)
    assert comparison.factor.high < 2.1


def test_two_speeds_of_processes() -> None:
    speeds = speeds_of(result(*(steps(0.010 if i % 2 else 0.013) for i in range(8))).of_subject)
    assert [note.does for note in speeds.notes] == ["runs at two speeds"]
    assert speeds.slowest_s / speeds.fastest_s == pytest.approx(1.3, rel=0.02)


def test_one_process_out_of_line_leaves_no_tight_interval() -> None:
    first = result(*(steps(0.010) for _ in range(3)))
    comparison = compared(first, result(steps(0.010), steps(0.010), steps(0.020), threads=2))
    assert comparison.significant is False
    assert "second has a process out of line" in comparison.verdict
    assert any("process 3 took 2 times as long" in warning for warning in comparison.warnings)


def test_a_hopeless_interval_is_no_factor() -> None:
    comparison = compared(result(steps(0.010), steps(0.011)), result(steps(0.010), steps(0.1), threads=2))
    assert comparison.verdict == "no difference shown: the processes differ too much to tell any factor"
    assert compare(result([1e-300], [1e9]), result([1e-300], [1e9], threads=2)).to_dict()["high"] is not None


@pytest.mark.parametrize("times", [steps(0.01) * np.linspace(1, 1.2, 200), np.r_[steps(0.01, 99), steps(0.012, 99)]])
def test_drift_within_processes(times: np.ndarray) -> None:
    found = drift(list(times))
    assert found is not None
    assert found.late_s / found.early_s == pytest.approx(1.16, abs=0.06)
    comparison = compared(result(times, 1.001 * times, times), result(times, 0.999 * times, times, threads=2))
    assert comparison.significant is False
    assert comparison.verdict.endswith("each of the two drifts")


def test_a_host_that_drifts_from_process_to_process() -> None:
    still, drifting = ([steps(0.01 * (1 + rate * i)) for i in range(8)] for rate in (0.0, 0.02))
    comparison = compared(result(*still), result(*drifting, threads=2))
    assert any("the machine drifts: +" in warning for warning in comparison.warnings)
    assert comparison.factor.high > 1.1


def test_a_clock_that_stands_still() -> None:
    comparison = compare(result(*(steps(0.010) for _ in range(3))), result(*[[0.005] * 50] * 3, threads=2))
    assert comparison.significant is None
    assert comparison.verdict == "not comparable: second: its clock stands still: 50 steps took exactly the same time"
    assert comparison.to_dict()["comparable"] is False


def test_a_coarse_clock_widens_the_interval() -> None:
    ticks = [np.round(steps(0.012, spread=0.1), 3) for _ in range(3)]
    comparison = compared(result(*(steps(0.010) for _ in range(3))), result(*ticks, threads=2))
    assert any("the clock is coarse: it moves by 1 ms" in warning for warning in comparison.warnings)
    assert comparison.factor.high - comparison.factor.low > 0.09


@pytest.mark.parametrize("count", [100, 1000])
def test_samples_of_one_peak_have_one_speed(count: int) -> None:
    draw = np.random.default_rng(3)
    shapes = {
        "normal": lambda: 0.01 * (1 + 0.02 * draw.standard_normal(count)),
        "uniform": lambda: draw.uniform(0.010, 0.011, count),
        "skewed": lambda: 0.01 + 0.001 * draw.exponential(size=count),
        "wide tails": lambda: 0.01 * np.exp(0.01 * draw.standard_t(3, count)),
    }
    for name, shape in shapes.items():
        found = [two_speeds(list(shape())) for _ in range(40)]
        assert sum(each is not None for each in found) <= 3, name


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60), st.floats(1e-3, 1e3))
def test_a_unit_changes_no_judgement(times: list[float], scale: float) -> None:
    speeds, others = (speeds_of([Timing(latency_s=tuple(f * t for t in times))]) for f in (1.0, scale))
    assert speeds.fastest_s <= speeds.slowest_s
    assert min(times) * 0.49 <= speeds.fastest_s
    assert (speeds.two is None) == (others.two is None)
    assert speeds.slowest_s * scale == pytest.approx(others.slowest_s, rel=1e-6)


def test_a_result_without_times_is_no_factor() -> None:
    with pytest.raises(MeasurementError, match="no process to take a time from"):
        compare(result([1.0]), result(threads=2))
    suite = replace(result(), members=())
    with pytest.raises(MeasurementError, match="hold no workload"):
        compare(suite, suite)
    with pytest.raises(ValueError, match="'settings' is no object"):
        replace(result([1.0]), environment={"device": "cpu", "device_name": "A CPU", "settings": "fast"})


def test_out_of_line_needs_three_processes() -> None:
    assert out_of_line([1.0, 2.0]) == []
    assert out_of_line([1.0, 1.001, 1.5]) == [2]
    assert out_of_line([1.0, 1.2, 1.5]) == []
