"""Files of other tools are refused with the tool's name and a way to a file that can be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from recording_files import training_step, write

from statsnet.errors import FileFormatError
from statsnet.recordings.kinds import kind_of
from statsnet.recordings.kineto import read_kineto

SQLITE = b"SQLite format 3\0" + bytes(80)
XLA_TRACE = {
    "displayTimeUnit": "ns",
    "metadata": {"highres-ticks": True},
    "traceEvents": [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "X", "pid": 1, "tid": 14, "ts": 1.5, "dur": 2, "name": "loop_fusion"},
    ],
}
FILES: dict[str, tuple[bytes, str, str]] = {
    "report.nsys-rep": (b"\x01\x02", "report of Nsight Systems", "torch.profiler"),
    "report.ncu-rep": (b"NVR\0", "report of Nsight Compute", "--ncu"),
    "report.sqlite": (SQLITE + b"CREATE TABLE StringIds", "database of Nsight Systems", "torch.profiler"),
    "rocpd.db": (SQLITE + b"CREATE TABLE rocpd_string", "database of AMD's rocprof", "torch.profiler"),
    "sum.csv": (b"Processing [r.sqlite] with [x]...\nTime (%),Total Time (ns),Instances\n", "Nsight Systems", "torch"),
    "sum.txt": (b" ** CUDA GPU Kernel Summary:\n\n Time (%)  Total Time (ns)  Instances\n", "Nsight Systems", "torch"),
    "kernels.csv": (b"Start (ns),Duration (ns),CorrId,GrdX\n", "table of Nsight Systems", "torch.profiler"),
    "report.json": (b'{"Type":79,"CudaEvent":{"startNs":"1"}}\n{"Type":79}', "export of Nsight Systems", "torch"),
    "ncu.csv": (b'==PROF== Connected\n"ID","Process ID","Process Name"\n', "table of Nsight Compute", "--ncu"),
    "results.json": (b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "recording of AMD's rocprof", "torch.profiler"),
    "kernel_trace.csv": (b'"Kind","Agent_Id","Queue_Id"\n', "table of AMD's rocprof", "torch.profiler"),
    "host.xplane.pb": (b"\n\x90\x4e\x08\x01\x12\x09/host:CPU\x1a", "profile of XLA's profiler", "ONNX"),
    "trace.json": (json.dumps(XLA_TRACE).encode(), "trace of XLA's profiler, which JAX and TensorFlow use", "ONNX"),
    "timeline.json": (b'{"traceEvents": [{"cat": "Op", "ph": "X", "ts": 1, "dur": 2}]}', "of TensorFlow", "ONNX"),
    "ort.json": (b'[{"cat" : "Session", "pid" : 1, "ts" : 1, "dur" : 2, "ph" : "X"}]', "of ONNX Runtime", "ONNX model"),
    "rank0.et": (b"\x07\x0a\x050.0.4\x10\x08\x01", "Chakra in protobuf", "ExecutionTraceObserver"),
    "trace.pftrace": (b"\n\x11\x40\x80\xe0\x01\x50\x01\x0a", "as Perfetto has them", "torch.profiler"),
    "memory.json": (b"[[0, 10], [[0, 512], [0, 1024]]]", "timeline of memory", "export_chrome_trace"),
    "snapshot.pickle": (b"\x80\x04\x95\x10", "a pickle", "torch.profiler"),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_tool_is_named(name: str, packed: bool, tmp_path: Path) -> None:
    content, what, way = FILES[name]
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FileFormatError) as refused:
        _read(path)
    assert what in refused.value.message and way in str(refused.value.hint)


def _read(path: Path) -> None:
    """As the command does."""
    kind_of(path)
    read_kineto(path)


def test_a_trace_of_torch_that_holds_others_words_is_read(tmp_path: Path) -> None:
    """As one that HTA has added counters to, and one with stacks and ranges of other libraries."""
    added = [
        {"ph": "M", "pid": 7, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "C", "pid": 0, "ts": 1000, "name": "Queue Length", "args": {"stream 7": 3}},
        {"ph": "s", "id": 3, "pid": 100, "tid": 100, "ts": 1030, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 1035, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "X", "pid": 100, "tid": 100, "ts": 1000, "dur": 9, "cat": "Node", "name": "torch/nn/modules(1): call"},
    ]
    plain = write(tmp_path / "plain.json", training_step())
    path = write(tmp_path / "rank0.1732.pt.trace.json.gz", [*added, *training_step()])
    assert kind_of(path) == "chrome_trace"
    assert read_kineto(path).signature == read_kineto(plain).signature
