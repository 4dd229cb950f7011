"""C++ extensions and CUDA graphs inside of models: captured, named with their time, or refused with the way out."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from profiling_helpers import Calls, Record, call, event, flat, profiled
from torch._C._autograd import DeviceType

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.profiler_events import STEP_LABEL, StepEvents
from statsnet.profiling.step_notes import pauses_note
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.timeline import read_step
from statsnet.profiling.unseen import unseen_in

WIDTH, ROWS = 32, 8

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


LOOPS = """
void product(const float *a, const float *b, float *c, long rows, long depth, long columns) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            c[i * columns + j] = 0;
            for (long k = 0; k < depth; k++) c[i * columns + j] += a[i * depth + k] * b[k * columns + j];
        }
}
"""


@cache
def compiled() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loops.c").write_text(LOOPS)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", f"{folder}/loops.so", f"{folder}/loops.c"], check=True)
        return ctypes.CDLL(f"{folder}/loops.so").product


def by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The product as an extension computes it that works on the tensors' memory."""
    out = torch.empty(len(x), weight.shape[1])
    places = [ctypes.c_void_p(t.data_ptr()) for t in (x, weight, out)]
    compiled()(*places, *map(ctypes.c_long, (*x.shape, weight.shape[1])))
    return out


def in_loops() -> Any:
    return Calls(lambda self, x: by_hand(self.a(x), self.weight)), (torch.randn(256 * ROWS, WIDTH),)


@cache
def library() -> torch.library.Library:
    made = torch.library.Library("acme_secret", "DEF")
    made.define("fused(Tensor x, Tensor w) -> Tensor")
    made.impl("fused", by_hand, "CPU")
    return made


def in_a_library() -> Any:
    library()
    fused = torch.ops.acme_secret.fused
    return Calls(lambda self, x: fused(self.a(x), self.weight)), (torch.randn(256 * ROWS, WIDTH),)


needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")


@needs_compiler
def test_loops_of_an_extension_are_pauses_that_are_named() -> None:
    profile = profiled(in_loops)
    (note,) = [note for note in profile.notes if "pauses" in note]
    assert "C++ extension" in note and "torch.library" in note
    measurement = profile.signature.measurements[0]
    assert measurement.framework_time_s > measurement.operator_time_s


@needs_compiler
def test_a_registered_operator_of_an_extension_has_a_time_and_no_name() -> None:
    profile = profiled(in_a_library)
    times = dict(
        zip((c.op for c in profile.signature.clusters), profile.signature.measurements[0].cluster_time_s, strict=True)
    )
    own = times.pop("custom.opaque.default")
    assert own is not None and own > sum(t or 0.0 for t in times.values())
    assert not [note for note in profile.notes if "pauses" in note]
    assert "acme" not in str(profile.signature.to_dict())


def test_pauses_are_what_no_operator_covers() -> None:
    """Ranges of autograd and those with a name of one's own are no operators, what is in them may be."""
    records = flat(event(STEP_LABEL, 0, 2000, event("aten::mm", 100, 300, event("aten::copy_", 120, 130)),
                         event("mine", 350, 1000, event("aten::exp", 400, 500)),
                         event("autograd::engine::evaluate_function: MmBackward0", 1100, 1950,
                               event("MmBackward0", 1110, 1940, event("aten::mm", 1120, 1620)))))  # fmt: skip
    timeline = read_step(StepEvents.of(records), [call("aten.mm.default")], device="cpu")
    assert timeline.pauses_s == pytest.approx((500 + 320) * 1e-6)


@pytest.mark.parametrize(("pauses_s", "latency_s", "is_named"), [
    (0.25e-3, 4e-3, False), (0.25e-3, 2e-3, True), (3e-3, 100e-3, True), (1.5e-3, 100e-3, False),
])  # fmt: skip
def test_pauses_are_named_where_they_are_sure(pauses_s: float, latency_s: float, is_named: bool) -> None:
    traces = [
        StepTrace(device="cpu", calls=[], implementations=[], step_latency_s=[latency_s], pauses_s=p)
        for p in (0.0, pauses_s)
    ]
    assert bool(list(pauses_note(traces))) == is_named


@pytest.mark.parametrize(("graph_us", "is_refused"), [(60, True), (1, False)])
def test_a_cuda_graph_inside_a_model_is_refused_unless_it_is_short(graph_us: int, is_refused: bool) -> None:
    """As a GPU's profiler records it: an operator with its kernel, a graph's launch, kernels that no operator has."""
    on_cpu = flat(event(STEP_LABEL, 0, 100, event("aten::mm", 0, 10, correlation=1),
                        event("cudaGraphLaunch", 20, 25, correlation=2)))  # fmt: skip
    on_gpu = [
        Record("sgemm", 5, 15, device=DeviceType.CUDA, linked=1),
        Record("in the graph", 30, 30 + graph_us, device=DeviceType.CUDA, linked=99),
    ]
    unseen = unseen_in(StepEvents.of([*on_cpu, *on_gpu]), [call("aten.mm.default")], device="cuda")
    assert unseen.in_graphs_s == pytest.approx(graph_us * 1e-6)
    assert unseen.time_share == pytest.approx(graph_us / 100)
    if not is_refused:
        unseen.check()
        return
    with pytest.raises(MeasurementError) as caught:
        unseen.check()
    assert "CUDA graph of its own" in caught.value.cause and "--setting graphs=cuda" in caught.value.hint


def with_a_cuda_graph() -> Any:
    return Calls(lambda self, x: torch.cuda.CUDAGraph()), (torch.randn(ROWS, WIDTH),)


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this torch knows CUDA graphs")
def test_a_cuda_graph_where_torch_has_none() -> None:
    with pytest.raises(WorkloadError) as caught:
        profiled(with_a_cuda_graph)
    assert "CUDA graph" in caught.value.hint and "on a GPU" in caught.value.hint
