"""Counters joined to the clusters that launched their kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.errors import MeasurementError
from statsnet.measure.ncu import CountedKernel
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import assign_to_clusters, by_place

TOOL = "ncu 2025.3"


def launch(cluster: int | None, family: str, time_s: float, weight: float = 1.0) -> Launch:
    return Launch(cluster=cluster, family=family, time_s=time_s, weight=weight)


def counted(name: str, **values: float | None) -> CountedKernel:
    return CountedKernel(name=name, values=dict(values))


def test_a_mean_is_over_time_and_bytes_are_added_up() -> None:
    counters = assign_to_clusters(
        [
            launch(0, "gemm", 3e-6), launch(0, "reduce_kernel", 1e-6), launch(None, "fill", 9e-6),
            launch(1, "relu", 1e-6),
        ],
        [
            counted("gemm", achieved_occupancy=0.2, dram_bytes=100.0),
            counted("void reduce_kernel<512>(float)", achieved_occupancy=0.6, dram_bytes=20.0),
            counted("fill", achieved_occupancy=1.0, dram_bytes=5.0),
            counted("relu", achieved_occupancy=None, dram_bytes=7.0),
        ],
        clusters=3,
        tool=TOOL,
    )  # fmt: skip
    assert counters.clusters["achieved_occupancy"] == (pytest.approx(0.3), None, None)
    assert counters.clusters["dram_bytes"] == (120.0, 7.0, None)
    assert counters.missing["ipc"] == "not_supported"
    assert by_place(counters, 3) == [
        {"achieved_occupancy": pytest.approx(0.3), "dram_bytes": 120.0}, {"dram_bytes": 7.0}, {},
    ]  # fmt: skip


def test_steps_of_several_shapes_weigh_by_how_often_they_occur() -> None:
    counters = assign_to_clusters(
        [launch(0, "gemm", 1e-6, 0.75), launch(0, "gemm", 3e-6, 0.25)],
        [counted("gemm", ipc=1.0, dram_bytes=8.0), counted("gemm", ipc=2.0, dram_bytes=4.0)],
        clusters=1,
        tool=TOOL,
    )
    assert counters.clusters["ipc"] == (pytest.approx(1.5),)
    assert counters.clusters["dram_bytes"] == (pytest.approx(7.0),)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["gemm", "relu"], "3 were timed and 2 counted; number 3 was sum and then none"),
        (["gemm", "sum", "relu"], "number 2 was relu and then sum"),
        (["gemm", "relu", "sum", "sum"], "number 4 was none and then sum"),
    ],
)
def test_other_kernels_than_were_timed_are_refused_not_shifted(names: list[str], said: str) -> None:
    launches = [launch(i, family, 1e-6) for i, family in enumerate(["gemm", "relu", "sum"])]
    with pytest.raises(MeasurementError) as error:
        assign_to_clusters(launches, [counted(name, ipc=1.0) for name in names], clusters=3, tool=TOOL)
    assert said in error.value.cause


kernels = st.lists(st.tuples(st.floats(1e-7, 1e-2), st.floats(0, 1)), min_size=1, max_size=20)


@given(kernels)
def test_a_mean_lies_between_its_kernels(samples: list[tuple[float, float]]) -> None:
    launches = [launch(0, "k", time_s) for time_s, _ in samples]
    counters = assign_to_clusters(launches, [counted("k", l2_hit_rate=v) for _, v in samples], clusters=1, tool=TOOL)
    (mean,) = counters.clusters["l2_hit_rate"]
    values = [value for _, value in samples]
    assert mean is not None
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
