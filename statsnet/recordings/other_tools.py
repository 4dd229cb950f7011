"""Recordings of other tools: which tool made a file, and how to come by one that can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from statsnet.errors import FileFormatError
from statsnet.signatures.gzipped import open_unpacked, reading

HOW = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True)"

LOOKED_AT = 1 << 20
"""Bytes, or characters. Files say at their beginning what they are; a database lists its tables there."""

_KERNELS_ALONE = "it has kernels, and nothing that says what they computed"
_RECORD = f"record the step with torch.profiler instead: {HOW}"
_TO_ONNX = "export the model to ONNX, as tf2onnx does, and import that: it has shapes and no times"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTool:
    """`begins` fits the beginning of its files, or their names end with `suffix`. With `is_trace`, a file of torch's
    profiler may hold the same words: then it is this tool's only if it has no operators of torch."""

    what: str
    cause: str
    hint: str
    begins: re.Pattern[bytes] | None = None
    suffix: str = ""
    is_trace: bool = False

    def made(self, name: str, begin: bytes) -> bool:
        """Whether a file of this name, with these first bytes, is this tool's."""
        fits = self.begins is not None and self.begins.search(begin) is not None
        return fits or (self.suffix != "" and name.endswith(self.suffix))


_NSYS = "of Nsight Systems"
_ROCPROF = "of AMD's rocprof"
_XLA = "of XLA's profiler, which JAX and TensorFlow use"
_NOT_OF_TORCH = "its operators are not torch's"

TOOLS = (
    OtherTool(what=f"a report {_NSYS}", suffix=".nsys-rep", cause=_KERNELS_ALONE, hint=_RECORD),
    OtherTool(what=f"a report {_NSYS}", suffix=".qdrep", cause=_KERNELS_ALONE, hint=_RECORD),
    OtherTool(
        what=f"a database {_NSYS}",
        begins=re.compile(rb"\ASQLite format 3\0.*?(?:CUPTI_ACTIVITY|TARGET_INFO|StringIds)", re.DOTALL),
        cause=_KERNELS_ALONE, hint=_RECORD,
    ),
    OtherTool(
        what=f"a table {_NSYS}",
        begins=re.compile(
            rb'^ ?"?(?:Time ?\(%\)"?[ ,;\t]+"?Total Time|Start ?\(ns\)"?[ ,;\t]+"?Duration)', re.MULTILINE
        ),
        cause=_KERNELS_ALONE, hint=_RECORD,
    ),
    OtherTool(
        what=f"an export {_NSYS}",
        begins=re.compile(
            rb'\A(?!.*"traceEvents").*?"(?:CudaEvent|NvtxEvent|TraceProcessEvent)"\s*:\s*\{', re.DOTALL
        ),
        cause=_KERNELS_ALONE, hint=_RECORD,
    ),
    OtherTool(
        what="a report of Nsight Compute", suffix=".ncu-rep", cause="it has counters of kernels alone",
        hint="write it as a table (ncu --import REPORT --csv --page raw), and give that with --ncu",
    ),
    OtherTool(
        what="a table of Nsight Compute", begins=re.compile(rb'^"?ID"?[,;\t]"?Process ID"?[,;\t]', re.MULTILINE),
        cause="it has counters of kernels alone", hint="give it with --ncu, beside the recording of the same step",
    ),
    OtherTool(
        what=f"a database {_ROCPROF}", begins=re.compile(rb"\ASQLite format 3\0.*?rocpd_", re.DOTALL),
        cause=_KERNELS_ALONE, hint=_RECORD,
    ),
    OtherTool(
        what=f"a recording {_ROCPROF}", begins=re.compile(rb'\A\s*\{\s*"rocprofiler-sdk-tool"'), cause=_KERNELS_ALONE,
        hint=_RECORD,
    ),
    OtherTool(
        what=f"a table {_ROCPROF}",
        begins=re.compile(rb'\A"?(?:Kind"?,"?Agent_Id|Name"?,"?Calls"?,"?TotalDurationNs|Index"?,"?KernelName)'),
        cause=_KERNELS_ALONE, hint=_RECORD,
    ),
    OtherTool(
        what=f"a profile {_XLA}",
        begins=re.compile(rb"\A\x0a.{1,12}?\x12.(?:/host:|/device:|Task Environment)", re.DOTALL),
        cause=_NOT_OF_TORCH, hint=_TO_ONNX,
    ),
    OtherTool(
        what=f"a trace {_XLA}", begins=re.compile(rb'"name"\s*:\s*"/(?:host|device):'), cause=_NOT_OF_TORCH,
        hint=_TO_ONNX, is_trace=True,
    ),
    OtherTool(
        what="a timeline of TensorFlow", begins=re.compile(rb'"cat"\s*:\s*"Op"'), cause=_NOT_OF_TORCH, hint=_TO_ONNX,
        is_trace=True,
    ),
    OtherTool(
        what="a profile of ONNX Runtime", begins=re.compile(rb'"cat"\s*:\s*"(?:Node|Session)"'), cause=_NOT_OF_TORCH,
        hint="import the ONNX model that it ran: it has shapes and no times", is_trace=True,
    ),
    OtherTool(
        what="an execution trace of Chakra in protobuf",
        begins=re.compile(rb"\A.{1,2}\x0a[\x03-\x10]\d+\.\d+", re.DOTALL),
        cause="that is what chakra_converter writes for simulators, without torch's shapes",
        hint="give the execution trace from which it was made: the JSON file of torch's ExecutionTraceObserver",
    ),
    OtherTool(
        what="a trace in protobuf, as Perfetto has them",
        begins=re.compile(rb"\A\x0a(?=.{0,64}[\x00-\x08\x0e-\x1f])", re.DOTALL),
        cause="recordings are read as JSON, in the format of torch's profiler", hint=_RECORD,
    ),
    OtherTool(
        what="a timeline of memory", begins=re.compile(rb"\A\s*\[\s*\["),
        cause="export_memory_timeline writes sizes of memory alone",
        hint="export the same recording with export_chrome_trace('trace.json.gz')",
    ),
    OtherTool(
        what="a pickle, as torch's snapshots of memory are", begins=re.compile(rb"\A\x80[\x02-\x05]"),
        cause="it may run code when it is read, and has no operators", hint=_RECORD,
    ),
)  # fmt: skip


def refuse_other_tool(path: Path, *, without_operators: bool = False) -> None:
    """Raise FileFormatError, with the tool's name, for a file of a tool that StatsNet knows and does not read; for one
    that torch's profiler may also have written only if it was found to be `without_operators`. Raises it for a file
    that cannot be read, too."""
    with reading(path), open_unpacked(path) as stream:
        begin = stream.read(LOOKED_AT)
    name = path.name.removesuffix(".gz")
    tool = next((t for t in TOOLS if (without_operators or not t.is_trace) and t.made(name, begin)), None)
    if tool is not None:
        raise FileFormatError(f"'{path}' is {tool.what}", cause=tool.cause, hint=tool.hint)
