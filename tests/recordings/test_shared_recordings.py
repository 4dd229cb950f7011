"""Recordings that others made of real GPUs, against figures worked out from the files by another program.

The folder is named by STATSNET_SHARED_DATA; nothing of it is kept here.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError
from statsnet.measure.device_kernels import busy_s
from statsnet.recordings.chrome_trace import Recording, read_chrome_trace
from statsnet.recordings.kineto import choose_step, events_of, import_recording, read_kineto
from statsnet.signatures.model import Signature
from statsnet.signatures.operators import is_tensor

FOLDER = os.environ.get("STATSNET_SHARED_DATA", "")
TRACES = Path(FOLDER) / "traces"
pytestmark = pytest.mark.skipif(not (FOLDER and TRACES.is_dir()), reason="STATSNET_SHARED_DATA names no recordings")

FIGURES: dict[str, Any] = json.loads((TRACES / "FIGURES.json").read_text()) if FOLDER and TRACES.is_dir() else {}
NAMES = sorted(path.name for path in (TRACES / "kineto").glob("*.gz")) if FOLDER else []
PAIRS = ("bert-small-uncased", "nsfw_image_detection", "qwen1.5-0.5b-chat", "timesformer-base-finetuned-k400")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
GRAPHS = (
    ("vllm-decode-graph", "vllm-decode-graph-capture", 421),  # just read, by the test before
    ("sglang-qwen3-8b-decode-graph", "sglang-qwen3-8b-graph-capture", 544),
)
REPORTS = {
    "bert-small-uncased": "gaunernst_bert-small-uncased__1016001",
    "nsfw_image_detection": "Falconsai_nsfw_image_detection__1016002",
    "qwen1.5-0.5b-chat": "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "timesformer-base-finetuned-k400": "facebook_timesformer-base-finetuned-k400__1016002",
}


@functools.lru_cache(maxsize=4)
def recording_of(name: str) -> Recording:
    return read_chrome_trace(TRACES / "kineto" / name)


@functools.lru_cache(maxsize=40)
def signature_of(name: str) -> Signature:
    return import_recording(recording_of(name), name).signature


def product_flops(signature: Signature) -> float:
    """2 · m · n · k of all matrix products, without biases."""
    total = 0.0
    for cluster in signature.clusters:
        if cluster.op.split(".")[1] in PRODUCTS:
            first = cluster.op.startswith(("aten.addmm", "aten.baddbmm"))  # after what is added
            *batch, m, k = cluster.args[first]["shape"]
            total += cluster.calls * 2 * m * k * cluster.args[first + 1]["shape"][-1] * (batch[0] if batch else 1)
    return total


def time_of(signature: Signature, *operators: str) -> float:
    times = signature.measurements[0].cluster_time_s
    return sum(t or 0.0 for c, t in zip(signature.clusters, times, strict=True) if c.op.split(".")[1] in operators)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_s_step(name: str) -> None:
    recording, figures = recording_of(name), FIGURES[name]
    operators = list(recording.operators)
    assert len(operators) == figures["cpu_ops"]
    assert sum(each.arguments is not None for each in operators) == figures["cpu_ops_with_dims"]
    steps = figures["steps"] or [{
        "kernels_launched": figures["kernels"] - figures["kernels_without_launch"],
        "kernel_us_launched": None, "kernel_us_union_launched": None,
    }]  # fmt: skip
    chosen = choose_step(recording, name, None)
    launched = [k for k in events_of(recording, chosen).on_device if not k.is_copy]
    expected = next((s for s in steps if s.get("name") == chosen.name), steps[0])
    assert len(launched) == expected["kernels_launched"]
    if expected["kernel_us_launched"] is not None:
        assert sum(k.elapsed_s for k in launched) * 1e6 == pytest.approx(expected["kernel_us_launched"], abs=0.01)
        assert expected["kernel_us_launched"] == max(s["kernel_us_launched"] for s in steps)
        # Timestamps read as doubles round to 0.25 µs, which makes their union too long.
        assert busy_s(launched) * 1e6 <= expected["kernel_us_union_launched"] * (1 + 1e-5)
    if operators:
        check_work_and_time(name, chosen.name)


def check_work_and_time(name: str, step: str) -> None:
    """The work of the step, and how much of its kernels' time operators have."""
    signature, figures = signature_of(name), FIGURES[name]
    measurement = signature.measurements[0]
    steps = figures["steps"]
    optimizer_ran = any(cluster.phase == "optimizer" for cluster in signature.clusters)
    assert signature.mode == ("training" if figures["backward_ops"] or optimizer_ran else "inference")
    if figures["cpu_ops_with_dims"]:
        expected = next((s["gemm_flops"] for s in steps if s["name"] == step), figures["gemm_flops"])
        assert product_flops(signature) == expected
    if figures["kernels"]:
        assert measurement.gpu is not None
        placed = sum(k.time_s for k in measurement.gpu.kernels if k.cluster is not None)
        total = sum(k.time_s for k in measurement.gpu.kernels)
        assert placed == pytest.approx(measurement.operator_time_s, rel=1e-6)
        assert placed >= 0.9 * total
    else:
        assert measurement.gpu is None


@pytest.mark.parametrize(("replay", "capture", "kernels"), GRAPHS)
def test_a_graph_s_kernels_get_operators(replay: str, capture: str, kernels: int) -> None:
    recorded, captured = (f"tracelens-mi300-{name}.json.gz" for name in (replay, capture))
    found = import_recording(recording_of(recorded), recorded, capture=recording_of(captured))
    assert f"{kernels} of {kernels} kernels of graphs have operators, from their capture" in found.notes
    shaped = [c for c in found.signature.clusters if any(is_tensor(a) for a in c.args)]
    assert sum(c.calls for c in shaped) > 0.95 * found.signature.calls_per_step


def test_kernels_alone_are_no_workload() -> None:
    with pytest.raises(FileFormatError, match="holds no operators"):
        signature_of("tracelens-mi210-gpu-only.json.gz")


@pytest.mark.parametrize("model", PAIRS)
def test_a_model_has_the_same_work_on_two_devices(model: str) -> None:
    h100, mi300 = (signature_of(f"tracelens-{device}-{model}.json.gz") for device in ("h100", "mi300"))
    assert product_flops(h100) == product_flops(mi300) > 0
    assert h100.dtype == mi300.dtype == "bfloat16"


def test_kernels_of_an_earlier_step_are_left_out() -> None:
    measurement = signature_of("tracelens-h100-qwen1.5-0.5b-chat.json.gz").measurements[0]
    assert measurement.gpu is not None
    assert measurement.gpu.busy_time_s * 1e3 == pytest.approx(31.903, rel=1e-3)  # as TraceLens says


@pytest.mark.parametrize("model", PAIRS)
@pytest.mark.parametrize("device", ["h100", "mi300"])
def test_another_tool_finds_the_same_times(device: str, model: str) -> None:
    signature = signature_of(f"tracelens-{device}-{model}.json.gz")
    products = reported_s(f"{device}-{REPORTS[model]}", "GEMM.csv")
    assert time_of(signature, *PRODUCTS) == pytest.approx(products, rel=0.01)
    assert time_of(signature, "convolution") == pytest.approx(
        reported_s(f"{device}-{REPORTS[model]}", "CONV_fwd.csv"), rel=0.01
    )


def reported_s(folder: str, table: str) -> float:
    """Seconds of all operators in a report's table; 0 if it has none."""
    with tarfile.open(TRACES / "expected" / "tracelens-perf-reports.tar.gz") as reports:
        try:
            file = reports.extractfile(f"./{folder}/{table}")
        except KeyError:
            return 0.0
        assert file is not None
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        return sum(float(row["Kernel Time (µs)_sum"]) for row in rows) * 1e-6


def joined(recording: str, trace: str) -> tuple[Signature, str]:
    found = read_kineto(
        TRACES / "kineto" / f"{recording}.json.gz", execution_trace=TRACES / "et" / f"{trace}-et.json.gz"
    )
    return found.signature, found.notes[0]


def flops_of(signature: Signature, operator: str) -> tuple[float, float]:
    """Calls and FLOPs of an operator."""
    rows = [c for c in signature.clusters if c.op.split(".")[1] == operator]
    return sum(c.calls for c in rows), sum(c.calls * (c.flops or 0.0) for c in rows)


def test_shapes_and_numbers_of_an_execution_trace_join_recordings() -> None:
    dlrm, said = joined("param-v100-dlrm-8rank-rank0", "param-dlrm-8rank-rank0")
    assert product_flops(dlrm) == 60_487_168
    assert "from the execution trace" in said
    linear, _ = joined("param-2080ti-linear-training", "param-linear")
    assert flops_of(linear, "mm") == (40 * 41, 40 * 44_023_414_784)
    assert product_flops(linear) == 40 * (22_548_578_304 + 44_023_414_784)


def test_a_resnet_s_recording_has_the_work_of_its_execution_trace() -> None:
    signature, _ = joined("kineto-v100-resnet50-training", "param-resnet50-ddp1")
    calls, flops = flops_of(signature, "convolution")
    assert (calls, flops) == (53, pytest.approx(261_576_720_384))
    assert sum(t is not None for t in signature.measurements[0].cluster_time_s) == len(signature.clusters)
