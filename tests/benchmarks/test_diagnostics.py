"""What the diagnostics make of times: their arithmetic, on small tables."""

from __future__ import annotations

from benchmarks.diagnostics.repeatability import differences, summed_up
from statsnet.measure.rounds_log import Logged, RoundsLog
from statsnet.signatures.timing import Timing


def log_of(seconds: list[float]) -> RoundsLog:
    """Groups of one workload whose baseline takes a second and whose setting takes `seconds`; it failed once."""
    log = RoundsLog(here="")
    log.groups["w"] = [
        {
            name: Logged(timing=Timing(latency_s=(s,), window_latency_s=(s,) * 3))
            for name, s in (("baseline", 1.0), ("threads=1", there))
        }
        for there in seconds
    ]
    log.groups["w"].append({**log.groups["w"][0], "threads=1": Logged(failed="it broke")})
    return log


def test_each_two_groups_are_compared() -> None:
    first, second, *worst = summed_up(differences(log_of([1.0, 1.1, 1.21]))).splitlines()
    assert first == "3 pairs of groups: median 10.0%, 95th percentile 19.9%"
    assert second.startswith("3 of them are further apart")  # turns without any scatter explain no difference
    assert worst[0].split() == ["21.0%", "w", "threads=1"]


def test_a_single_group_says_nothing() -> None:
    assert summed_up(differences(log_of([1.5]))).startswith("nothing of this environment")
