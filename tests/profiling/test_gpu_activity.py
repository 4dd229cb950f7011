"""What ran on a GPU in a step, as a signature keeps it.

The records are written from torch's and CUPTI's documentation, not recorded on a GPU.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiling_helpers import Record, call, event, flat
from torch._C._autograd import DeviceType

from statsnet.measure.device_kernels import Kernel, busy_s, gaps_s
from statsnet.measure.profiler_events import STEP_LABEL, StepEvents
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.gpu_activity import launches_of
from statsnet.profiling.step_trace import StepTrace, placed_kernels
from statsnet.profiling.timeline import read_step
from statsnet.signatures.conversion import plain
from statsnet.signatures.gpu import COUNTERS, GpuActivity, Power
from statsnet.signatures.model import Signature

US = 1e-6
MEMORY = {
    "parameter_count": 0, "parameter_bytes": 0, "buffer_bytes": 0, "input_bytes": 0,
    "activation_bytes": None, "peak_bytes": None,
}  # fmt: skip
TENSOR = {"shape": [4, 4], "dtype": "float32"}
H200 = {"device": "cuda", "device_name": "NVIDIA H200"}

RECORDS = [
    *flat(
        event(
            STEP_LABEL, 0, 100,
            event("aten::mm", 10, 20, event("cudaLaunchKernel", 12, 14, thread=77, correlation=90, linked=2),
                  correlation=2),
            event("aten::relu", 25, 30, event("aten::clamp_min", 26, 29, correlation=4), correlation=3),
        )
    ),
    event("ampere_sgemm_128x64_nn", 15, 45, linked=2, device=DeviceType.CUDA,
          metadata='"stream": 7, "grid": [80, 2, 1], "block": [128, 1, 1], "warps per SM": 4.8'),
    event("Memcpy DtoD (Device -> Device)", 47, 49, linked=2, device=DeviceType.CUDA, metadata='"bytes": 64'),
    event("void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)", 60, 64, linked=4, stream=13,
          device=DeviceType.CUDA, metadata='"grid": [3, 1, 1], "block": [256, 1, 1]'),
    event("customers_own_secret_kernel", 70, 71, device=DeviceType.CUDA),
]  # fmt: skip


def trace_of(records: list[Record]) -> StepTrace:
    calls = [
        call("aten.mm.default", args=[TENSOR, TENSOR], outputs=[TENSOR]),
        call("aten.relu.default", args=[TENSOR], outputs=[TENSOR]),
    ]
    timeline = read_step(StepEvents.of(records), calls, device="cuda")
    for one, time_s in zip(calls, timeline.op_time_s, strict=True):
        one.time_s = time_s
    return StepTrace(
        device="cuda",
        calls=calls,
        implementations=["cublas:gemm:f32:nn", "aten:vectorized_elementwise"],
        step_latency_s=[100 * US],
        profiled_latency_s=[100 * US],
        kernels_launched=4,
        on_device=placed_kernels(timeline),
    )


def signature_of(traces: list[StepTrace], shares: list[float] | None = None, power: Power | None = None) -> Signature:
    return build_signature(
        traces, mode="inference", dtype="float32", memory=dict(MEMORY), environment=dict(H200), shares=shares,
        power=power,
    )  # fmt: skip


def activity(signature: Signature) -> GpuActivity:
    gpu = signature.measurements[0].gpu
    assert gpu is not None
    return gpu


def test_kernels_are_joined_to_the_clusters_that_launched_them() -> None:
    signature = signature_of([trace_of(RECORDS)])
    gpu = activity(signature)
    assert [signature.clusters[k.cluster].op if k.cluster is not None else None for k in gpu.kernels] == [
        "aten.relu.default", "aten.mm.default", "aten.mm.default", None,
    ]  # fmt: skip
    relu, first, copy, own = gpu.kernels
    assert (first.family, first.grid, first.block) == ("cublas:gemm:f32:nn", (80, 2, 1), (128, 1, 1))
    assert (copy.grid, copy.block) == (None, None)
    assert relu.time_s == pytest.approx(4 * US)
    assert (own.family, own.grid, own.block) == ("opaque", None, None), "it may be a customer's"


def test_busy_time_streams_and_pauses() -> None:
    gpu = activity(signature_of([trace_of(RECORDS)]))
    assert gpu.busy_time_s == pytest.approx((30 + 2 + 4 + 1) * US)
    assert gpu.streams == 2
    assert gpu.duration_log2_us == ((0, 1.0), (1, 1.0), (2, 1.0), (4, 1.0))  # 1, 2, 4 and 30 µs
    assert gpu.gap_log2_us == ((1, 1.0), (2, 1.0), (3, 1.0))  # 2, 6 and 11 µs


def test_steps_of_several_shapes_count_by_how_often_they_occur() -> None:
    gpu = activity(signature_of([trace_of(RECORDS), trace_of(RECORDS[:6])], shares=[3.0, 1.0]))
    launches = {k.family: k.launches for k in gpu.kernels}
    assert launches["cublas:gemm:f32:nn"] == pytest.approx(1.0)
    assert launches["opaque"] == pytest.approx(0.75)
    assert gpu.busy_time_s == pytest.approx(0.75 * 37 * US + 0.25 * 30 * US)


def test_it_is_the_same_after_writing_and_reading() -> None:
    power = Power(energy_j_per_step=2.5, power_w=600.0, throttled=("power_cap",), missing={"clocks": "not_supported"})
    signature = signature_of([trace_of(RECORDS)], power=power)
    assert Signature.from_dict(signature.to_dict()) == signature
    assert activity(signature).power.throttled == ("power_cap",)
    assert activity(signature).counters.missing == dict.fromkeys(COUNTERS, "off")


def test_a_step_on_a_cpu_has_none() -> None:
    trace = trace_of(RECORDS)
    trace.on_device = []
    measurement = signature_of([trace]).measurements[0]
    assert measurement.gpu is None
    assert "gpu" not in plain(measurement)


def test_launches_are_in_order_and_without_copies() -> None:
    trace = trace_of(RECORDS)
    signature_of([trace])
    launches = launches_of([trace], [1.0])
    assert [(x.cluster, x.family) for x in launches] == [
        (1, "cublas:gemm:f32:nn"), (0, "aten:vectorized_elementwise"), (None, "opaque"),
    ]  # fmt: skip


intervals = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 100)).map(lambda t: Kernel("k", t[0], t[0] + t[1])),
    min_size=1,
)


@given(intervals)
def test_busy_time_and_pauses_make_up_the_whole_span(kernels: list[Kernel]) -> None:
    span = max(k.end_ns for k in kernels) - min(k.start_ns for k in kernels)
    assert busy_s(kernels) + sum(gaps_s(kernels)) == pytest.approx(span * 1e-9)
    assert all(gap > 0 for gap in gaps_s(kernels))
