"""Settings under which suite and proxy are both measured: `threads=1`, `onednn=sse41+mkl=compatible`.

A setting changes how one machine runs a step; fidelity checks use settings in place of other devices.
Libraries read most of them only at start, so that every setting gets its own process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from statsnet.environment import STEP_SETTINGS
from statsnet.errors import DeviceError, UsageError, did_you_mean

_ONEDNN_ISA = (
    "sse41", "avx", "avx2", "avx2_vnni", "avx2_vnni_2", "avx512_core", "avx512_core_vnni",
    "avx512_core_bf16", "avx512_core_fp16", "avx512_core_amx", "avx512_core_amx_fp16", "default",
)  # fmt: skip
_MKL_CBWR = ("compatible", "sse2", "sse3", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "avx512", "auto")

_ENVIRONMENT = {
    "onednn": ("ONEDNN_MAX_CPU_ISA", {name: name.upper() for name in _ONEDNN_ISA}),
    "mkl": ("MKL_CBWR", {name: name.upper() for name in _MKL_CBWR}),
    "aten": ("ATEN_CPU_CAPABILITY", {name: name for name in ("default", "avx2", "avx512")}),
}
"""Key -> environment variable, and the value for each word."""

RUNTIME = "runtime"
"""The key that names another runtime for the model (measure/runtimes.py)."""

_IN_PROCESS: dict[str, dict[str, Any]] = {
    "mkldnn": {"off": False, "on": True},
    "dtype": {"bfloat16": "bfloat16", "float16": "float16"},
    "precision": {"highest": "highest", "high": "high", "medium": "medium"},
    "layout": {"channels_last": "channels_last"},
    "compile": {"inductor": "inductor"},
    "graphs": {"cuda": "cuda"},
    RUNTIME: {name: name for name in ("onnxruntime", "openvino", "openvino-bf16", "iree")},
}
"""Key -> value for each word. These are switched inside the process."""

assert _IN_PROCESS.keys() == {*STEP_SETTINGS, RUNTIME}, "a signature may name these, but for the runtime"

GRAPHS = 8
"""Recordings of a step, each with different inputs: workloads and proxies cycle through as many."""

_KERNEL_PROFILE = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
"""Makes Inductor's C++ kernels visible to a profiler by name."""

_KEYS = ("threads", *_ENVIRONMENT, *_IN_PROCESS)
_MAX_THREADS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of a sweep. `env` is set before the process starts, `in_process` by `apply` inside it."""

    name: str
    env: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    in_process: dict[str, Any] = field(default_factory=dict)


BASELINE = Setting(name="baseline")
"""No setting changed."""


def with_threads(setting: Setting, threads: int | None) -> Setting:
    """The setting with this number of threads, unless it names one itself. Raises UsageError for a number that there
    cannot be."""
    if threads is None or setting.threads is not None:
        return setting
    threads = _thread_count(str(threads))
    return replace(setting, threads=threads, env={**thread_env(threads), **setting.env})


def unchanging(settings: Sequence[Setting], threads: int | None) -> list[str]:
    """A sentence on each setting that changes nothing where steps run in so many threads without one."""
    return [
        f"{setting.name} is how steps run here without a setting: its factors show noise alone"
        for setting in settings
        if setting.threads is not None
        and setting.threads == threads
        and not setting.in_process
        and setting.env == thread_env(setting.threads)
    ]


def parse_settings(text: str) -> list[Setting]:
    """`"threads=1,onednn=sse41+mkl=compatible"` -> two settings. Raises UsageError with near matches."""
    settings = [parse_setting(part.strip()) for part in text.split(",") if part.strip()]
    if not settings:
        raise UsageError("no setting was given", hint="for example --settings threads=1,onednn=sse41")
    names = [setting.name for setting in settings]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise UsageError(f"the setting '{min(repeated)}' is given twice")
    return settings


def parse_setting(text: str) -> Setting:
    """`"onednn=sse41+mkl=compatible"` -> one setting. Raises UsageError with near matches."""
    terms = [_term(term) for term in text.lower().split("+")]
    keys = [key for key, _ in terms]
    env: dict[str, str] = {}
    in_process: dict[str, Any] = {}
    threads: int | None = None
    for key, value in terms:
        if keys.count(key) > 1:
            raise UsageError(f"'{key}' stands twice in '{text}'", hint="put a comma between two settings")
        if key == "threads":
            threads = _thread_count(value)
            env |= thread_env(threads)
        elif key in _ENVIRONMENT:
            variable, words = _ENVIRONMENT[key]
            env[variable] = _lookup(key, value, words)
        elif key in _IN_PROCESS:
            in_process[key] = _lookup(key, value, _IN_PROCESS[key])
            env |= _KERNEL_PROFILE if key == "compile" else {}
        else:
            raise _unknown(f"'{key}' is not a setting", key, [*_KEYS, "channels_last"])
    if RUNTIME in in_process and len(in_process) > 1:
        other = next(key for key in in_process if key != RUNTIME)
        raise UsageError(
            f"'{text}' sets '{other}' for another runtime",
            cause=f"'{other}' is a switch of torch's",
            hint=f"{RUNTIME}={in_process[RUNTIME]}, with threads=N beside it if wanted",
        )
    name = "+".join(f"{key}={value}" for key, value in terms)
    return Setting(name=name, env=env, threads=threads, in_process=in_process)


def _term(text: str) -> tuple[str, str]:
    """`"threads = 1"` -> ("threads", "1"); the bare word `channels_last` is short for its layout."""
    key, _, value = text.partition("=")
    return ("layout", key.strip()) if key.strip() == "channels_last" else (key.strip(), value.strip())


def thread_env(threads: int) -> dict[str, str]:
    """Variables that the libraries' thread pools read at start."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


def _thread_count(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= _MAX_THREADS:
        raise UsageError(
            f"'{value}' is not a number of threads",
            cause=f"1 to {_MAX_THREADS} is expected",
            hint="threads=1",
        )
    return int(value)


def _lookup(key: str, value: str, words: Mapping[str, Any]) -> Any:
    if value not in words:
        raise _unknown(f"'{value}' is not a value of the setting '{key}'", value, list(words))
    return words[value]


def _unknown(message: str, word: str, known: Sequence[str]) -> UsageError:
    return UsageError(message, cause=f"known are {', '.join(known)}", hint=did_you_mean(word, known, most=3))


def all_settings() -> list[str]:
    """Every setting of one term, as it is spelled; of numbers of threads, one."""
    words = {"threads": ("1",), **{key: tuple(known) for key, (_, known) in _ENVIRONMENT.items()}, **_IN_PROCESS}
    return [f"{key}={word}" for key, known in words.items() for word in known]


def apply(setting: Setting) -> None:
    """Switch threads, oneDNN and matmul precision in this process. Call it before anything is built."""
    if setting.threads is None and not setting.in_process:
        return
    import torch

    if setting.threads is not None:
        torch.set_num_threads(setting.threads)
    if "mkldnn" in setting.in_process:
        torch._C._set_mkldnn_enabled(setting.in_process["mkldnn"])
    if "precision" in setting.in_process:
        torch.set_float32_matmul_precision(setting.in_process["precision"])


def convert_module(setting: Setting, module: Any) -> Any:
    """The module in the setting's memory format (convolutions pass on the format of their weights), and compiled if the
    setting says so."""
    if setting.in_process.get("layout") == "channels_last":
        _to_channels_last(module)
    if "compile" in setting.in_process:
        from statsnet.workloads.grouped_products import let_graphs_hold_them

        let_graphs_hold_them()
        module.compile(backend=setting.in_process["compile"])
    return module


def _to_channels_last(module: Any) -> None:
    """`Module.to` takes one format for tensors of four and of five axes, which have different ones."""
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.dim() in formats:
            tensor.data = tensor.data.contiguous(memory_format=formats[tensor.dim()])


def wrap_step(setting: Setting, step: Callable[[], Any], device: str) -> Callable[[], Any]:
    """The step under autocast if the setting names a dtype, and recorded as CUDA graphs if it asks for them. Workloads
    and proxies are treated alike."""

    def autocast_step() -> Any:
        with autocast(setting, device):
            return step()

    wrapped = autocast_step if "dtype" in setting.in_process else step
    return graphed(wrapped, device, GRAPHS) if "graphs" in setting.in_process else wrapped


def autocast(setting: Setting, device: str) -> AbstractContextManager[Any]:
    """torch's autocast for the operators inside, if the setting names a dtype."""
    if "dtype" not in setting.in_process:
        return nullcontext()
    import torch

    return torch.autocast(device.partition(":")[0], dtype=getattr(torch, setting.in_process["dtype"]))


def record(setting: Setting) -> dict[str, str]:
    """The switches inside the process, spelled as in an environment record's `settings`."""
    return {key: str(value) for key, value in setting.in_process.items()}


WARM_UPS = 3
"""Runs on a side stream before recording, as torch requires: in them libraries choose their kernels."""


def graphed(step: Callable[[], Any], device: str, count: int) -> Callable[[], None]:
    """A step that launches `count` recordings of `step` in turn; each has the inputs of its own turn.

    Source: the notes on CUDA graphs in torch's documentation. A step that waits for the device, or an optimizer that
    keeps its counters on the host, cannot be recorded; torch raises an error. Raises DeviceError without a GPU.
    """
    if not device.startswith("cuda"):
        raise DeviceError("CUDA graphs need a GPU", hint="give --device cuda, or leave out graphs=cuda")
    import torch

    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graphs: list[Any] = []
        for _ in range(count):
            graph = torch.cuda.CUDAGraph()
            # They are launched one after the other, so that they can share their memory.
            with torch.cuda.graph(graph, pool=graphs[0].pool() if graphs else None):
                step()
            graphs.append(graph)
    turn = itertools.cycle(graphs)
    return lambda: next(turn).replay()
