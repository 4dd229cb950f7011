"""Small recordings in the profiler's format, written for tests: no file of others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

CPU, GPU = 100, 0
BACKWARD_THREAD = 101
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "computeMajor": 9,
        "computeMinor": 0, "numSms": 132, "warpSize": 32}  # fmt: skip
MEMBERS = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")


def span(cat: str, name: str, ts: float | str, dur: float | str, *, tid: int = CPU, **args: Any) -> dict[str, Any]:
    """A range on the CPU, in microseconds."""
    return {"ph": "X", "cat": cat, "name": name, "pid": CPU, "tid": tid, "ts": ts, "dur": dur, "args": args}


def operator(
    name: str, ts: float, dur: float, dims: Any = None, types: Any = None, values: Any = None, *, tid: int = CPU
) -> dict[str, Any]:
    known = zip(MEMBERS, (dims, types, values), strict=False)
    return span("cpu_op", name, ts, dur, tid=tid, **{k: v for k, v in known if v is not None})


def launch(
    correlation: int, ts: float, kernel: str, start: float, dur: float, *, tid: int = CPU, stream: int = 7,
    cat: str = "kernel", call: str = "cudaLaunchKernel",
) -> list[dict[str, Any]]:  # fmt: skip
    """A launch on the CPU, and what it started on the GPU."""
    return [
        span("cuda_runtime", call, ts, 1, tid=tid, correlation=correlation),
        on_gpu(correlation, kernel, start, dur, stream=stream, cat=cat),
    ]


def on_gpu(
    correlation: int, kernel: str, start: float, dur: float, *, stream: int = 7, cat: str = "kernel"
) -> dict[str, Any]:
    args = {"device": 0, "stream": stream, "correlation": correlation}
    if cat == "kernel":
        args |= {"grid": [8, 1, 1], "block": [128, 1, 1]}
    return {"ph": "X", "cat": cat, "name": kernel, "pid": GPU, "tid": stream, "ts": start, "dur": dur, "args": args}


def step(number: int, ts: float, dur: float) -> dict[str, Any]:
    return span("user_annotation", f"ProfilerStep#{number}", ts, dur)


def write(path: Path, events: list[dict[str, Any]], **head: Any) -> Path:
    """A trace file, compressed if its name says so."""
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [H100], **head, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


LINEAR = [
    operator("aten::linear", 1010, 50, [[64, 128], [256, 128], [256]], ["float", "float", "float"], ["", "", ""]),
    operator("aten::t", 1012, 3, [[256, 128]], ["float"], [""]),
    operator("aten::addmm", 1020, 30, [[256], [64, 128], [128, 256], [], []],
             ["float", "float", "float", "Scalar", "Scalar"], ["", "", "", "1", "1"]),
]  # fmt: skip
"""A linear layer, 2 · 64 · 128 · 256 FLOPs, that launches nothing yet."""

FLOPS = 2 * 64 * 128 * 256


def training_step() -> list[dict[str, Any]]:
    """Two steps: the second one goes forward and, on a thread of its own, backward; then it updates the weight."""
    return [
        step(3, 100, 200),
        operator("aten::relu", 150, 20, [[8, 8]], ["float"], [""]),
        *launch(1, 160, "void at::native::vectorized_elementwise_kernel<4, relu>(int)", 170, 5),
        step(4, 1000, 900),
        *LINEAR,
        *launch(2, 1025, "Memset (Device)", 1031, 2, cat="gpu_memset", call="cudaMemsetAsync"),
        *launch(3, 1030, "ampere_sgemm_128x64_nn", 1035, 40),
        operator("autograd::engine::evaluate_function: AddmmBackward0", 1200, 60, tid=BACKWARD_THREAD),
        operator("AddmmBackward0", 1205, 50, tid=BACKWARD_THREAD),
        operator("aten::mm", 1210, 20, [[256, 64], [64, 128]], ["float", "float"], ["", ""], tid=BACKWARD_THREAD),
        *launch(4, 1215, "ampere_sgemm_128x64_tn", 1220, 40, tid=BACKWARD_THREAD),
        span("user_annotation", "Optimizer.step#AdamW.step", 1500, 100),
        operator("triton_poi_secret_fused_0", 1510, 20, [[64, 64]], ["float"], [""]),
        *launch(5, 1515, "triton_poi_secret_fused_0", 1950, 10, call="cuLaunchKernel"),
        on_gpu(99, "ampere_sgemm_128x64_nn", 1010, 400),  # launched before the recording began
        span("python_function", "models/secret_model.py(12): forward", 1000, 500),
        span("user_annotation", "customer_secret_range", 1600, 100),
        {"ph": "s", "id": 3, "pid": CPU, "tid": CPU, "ts": 1030, "cat": "ac2g", "name": "ac2g"},
    ]
