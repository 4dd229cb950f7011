"""Hardware counters and power of a target, and of a fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthesis_builders import STEP_S, small_signature

from statsnet.signatures.comparison import characteristics
from statsnet.signatures.gpu import Counters, GpuActivity, Power
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of
from statsnet.signatures.target_cluster import counters_over
from statsnet.synthesis.costs.loads import StepLoad
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics


def on_a_gpu(**counters: tuple[float | None, ...]) -> Signature:
    """The small signature with counters of its two clusters."""
    signature = small_signature()
    activity = GpuActivity(
        busy_time_s=0.008, streams=1, kernels=(), duration_log2_us=(), gap_log2_us=(),
        power=Power(energy_j_per_step=5.0, missing={}),
        counters=Counters(tool="ncu 2025.3", clusters=counters, missing={}),
    )  # fmt: skip
    (measurement,) = signature.measurements
    return replace(signature, measurements=(replace(measurement, gpu=activity),))


def test_counters_of_a_target_are_means_over_time_and_sums_per_second() -> None:
    target = target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9), dram_bytes=(1e6, 2e6), ipc=(None, 2.0)))
    assert target.counters == {
        "achieved_occupancy": pytest.approx(0.6),
        "dram_bytes": pytest.approx(3e6 / STEP_S),
    }  # of ipc only a quarter of the time is known
    assert target.power_w == pytest.approx(500.0)
    assert target.throttled == ()
    assert target.time_per_launch_s == pytest.approx(0.8 * STEP_S / 8)
    assert target_of(small_signature()).power_w is None


def test_bytes_of_a_partly_counted_target_are_scaled_to_all_of_its_time() -> None:
    """Two clusters take 0.6 and 0.2 of the step. A third, of a thirtieth of their time, is not counted."""
    clusters = target_of(on_a_gpu(dram_bytes=(1e6, 2e6))).clusters
    uncounted = replace(clusters[0], time_share=(clusters[0].time_share + clusters[1].time_share) / 30, counters={})
    assert counters_over([*clusters, uncounted])["dram_bytes"] == pytest.approx(3e6 / STEP_S * 31 / 30)


def test_a_counters_row_is_its_mean_times_the_operators_share() -> None:
    rows = MatchedCharacteristics(target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9), ipc=(2.0, 4.0))))

    def value(vector: np.ndarray, name: str) -> float:
        return float(vector[rows.keys.index(("counter", name))])

    assert value(rows.target, "achieved_occupancy") == pytest.approx(0.8 * 0.6)
    assert value(rows.target, "ipc") == pytest.approx(0.8)  # over what it should be
    busy = replace(rows.load.groups[0], counters=(("achieved_occupancy", 1.0),))
    vector = rows.vector(StepLoad(groups=(busy,), framework_s=0.0))
    assert value(vector, "achieved_occupancy") == pytest.approx(0.6 * 1.0)
    assert value(vector, "ipc") == pytest.approx(0.6)  # what is not known counts as the target's
    weights = [w for (group, _), w in zip(rows.keys, rows.weights, strict=True) if group == "counter"]
    assert sum(weights) == pytest.approx(1.0)


def test_a_fit_has_a_line_for_each_counter_and_for_power() -> None:
    wanted = target_of(on_a_gpu(achieved_occupancy=(0.5, 0.9)))
    lines = {line.name: line for line in characteristics(wanted, target_of(small_signature()))}
    assert lines["achieved_occupancy"].target == pytest.approx(0.6)
    assert lines["achieved_occupancy"].achieved is None
    assert (lines["power"].target, lines["power"].unit) == (pytest.approx(500.0), "W")
    on_cpu = target_of(small_signature())
    assert not {"power", "achieved_occupancy"} & {line.name for line in characteristics(on_cpu, on_cpu)}


def test_a_member_whose_gpu_was_too_hot_is_named() -> None:
    signature = on_a_gpu()
    (measurement,) = signature.measurements
    assert measurement.gpu is not None
    hot = replace(measurement.gpu, power=Power(energy_j_per_step=5.0, throttled=("sw_thermal",), missing={}))
    target = target_of(replace(signature, measurements=(replace(measurement, gpu=hot),)), name="cv/hot")
    assert target.throttled == ("cv/hot",)
