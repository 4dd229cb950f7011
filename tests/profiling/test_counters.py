"""Counters joined to the clusters that launched their kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.errors import MeasurementError
from statsnet.measure.ncu_csv import CountedKernel
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import assign_to_clusters, by_place
from statsnet.profiling.kernel_families import kernel_family

TOOL = "ncu 2025.3"
GEMM, RELU, SUM, FILL = "ampere_sgemm_64x32_nn", "elementwise_kernel", "reduce_kernel", "customers_own_kernel"


def launch(cluster: int | None, name: str, time_s: float, weight: float = 1.0) -> Launch:
    return Launch(cluster=cluster, family=kernel_family(name), time_s=time_s, weight=weight)


def counted(name: str, **values: float | None) -> CountedKernel:
    return CountedKernel(name=name, values=dict(values))


def test_a_mean_is_over_time_and_bytes_are_added_up() -> None:
    counters = assign_to_clusters(
        [
            launch(0, GEMM, 3e-6), launch(0, SUM, 1e-6), launch(None, FILL, 9e-6),
            launch(1, RELU, 1e-6),
        ],
        [
            counted(GEMM, achieved_occupancy=0.2, dram_bytes=100.0),
            counted("void at::native::reduce_kernel<512>(int)", achieved_occupancy=0.6, dram_bytes=20.0),
            counted(FILL, achieved_occupancy=1.0, dram_bytes=5.0),
            counted(RELU, achieved_occupancy=None, dram_bytes=7.0),
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
        [launch(0, GEMM, 1e-6, 0.75), launch(0, GEMM, 3e-6, 0.25)],
        [counted(GEMM, ipc=1.0, dram_bytes=8.0), counted(GEMM, ipc=2.0, dram_bytes=4.0)],
        clusters=1,
        tool=TOOL,
    )
    assert counters.clusters["ipc"] == (pytest.approx(1.5),)
    assert counters.clusters["dram_bytes"] == (pytest.approx(7.0),)


def test_bytes_of_a_kernel_without_a_value_are_taken_to_be_like_the_others() -> None:
    counters = assign_to_clusters(
        [launch(0, GEMM, 3e-6), launch(0, SUM, 1e-6), launch(1, RELU, 1e-6)],
        [counted(GEMM, dram_bytes=90.0), counted(SUM, dram_bytes=None), counted(RELU, dram_bytes=None)],
        clusters=2,
        tool=TOOL,
    )
    assert counters.clusters["dram_bytes"] == (pytest.approx(120.0), None)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([GEMM, RELU], "3 were timed and 2 counted; number 3 was aten:reduce where it was timed and none where"),
        ([GEMM, SUM, RELU], "number 2 was aten:elementwise where it was timed and aten:reduce"),
        ([GEMM, RELU, SUM, SUM], "number 4 was none where it was timed and aten:reduce"),
    ],
)
def test_other_kernels_than_were_timed_are_refused_not_shifted(names: list[str], said: str) -> None:
    launches = [launch(i, family, 1e-6) for i, family in enumerate([GEMM, RELU, SUM])]
    with pytest.raises(MeasurementError) as error:
        assign_to_clusters(launches, [counted(name, ipc=1.0) for name in names], clusters=3, tool=TOOL)
    assert said in error.value.cause


kernels = st.lists(st.tuples(st.floats(1e-7, 1e-2), st.floats(0, 1)), min_size=1, max_size=20)


@given(kernels)
def test_a_mean_lies_between_its_kernels(samples: list[tuple[float, float]]) -> None:
    launches = [launch(0, GEMM, time_s) for time_s, _ in samples]
    counters = assign_to_clusters(launches, [counted(GEMM, l2_hit_rate=v) for _, v in samples], clusters=1, tool=TOOL)
    (mean,) = counters.clusters["l2_hit_rate"]
    values = [value for _, value in samples]
    assert mean is not None
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
