"""What a measurement depends on besides the workload: device, software and settings. No host or user name.

A record is a plain dictionary (docs/formats.md lists its fields), so that it travels inside JSON files.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statsnet.errors import DeviceError

ALLOCATOR_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
}
"""glibc settings that stop the allocator from returning large blocks to the system, which would add page
faults to large workloads and not to their small proxy. They act only if set before the process starts."""

SETTINGS = (
    "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DYNAMIC",
    "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC",
    "OMP_SCHEDULE", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME",
    "TORCH_MKLDNN_ENABLED", "TORCH_MKLDNN_MATMUL_MIN_DIM", "LRU_CACHE_CAPACITY", "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_CUDNN_V8_API_DISABLED", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
"""Environment variables that change speed; only those that are set enter a record."""

TORCH_SETTINGS = {
    "float32_matmul_precision": "highest",
    "cudnn_benchmark": "False",
    "cudnn_allow_tf32": "True",
    "deterministic_algorithms": "False",
}
"""torch's own switches and their defaults; only those that differ enter a record."""

STEP_SETTINGS = ("mkldnn", "dtype", "layout", "precision", "compile", "graphs")
"""How a step was run other than as it stands: what `--setting` switches inside a process."""

ISA_FLAGS = frozenset(
    {"sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx_vnni_int8", "avx512f", "avx512bw", "avx512cd",
     "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
     "amx_fp16", "asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2", "svebf16", "sme"}
)  # fmt: skip
"""Instruction sets (as /proc/cpuinfo spells them) that libraries choose kernels by."""

ALLOCATOR_LIBRARIES = ("tcmalloc", "jemalloc", "mimalloc")

_WITHOUT_EFFECT = {"memory_bytes"}  # varies by some pages between boots; what fits runs as fast
_SHOWN_ELSEWHERE = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}  # their effect is in `threads`


def cache_dir() -> Path:
    """$STATSNET_CACHE, else statsnet/ in the user's cache directory."""
    chosen = os.environ.get("STATSNET_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "statsnet"


def describe(device: str = "cpu") -> dict[str, Any]:
    """The environment record of this process for `"cpu"`, `"cuda"` or `"cuda:N"`.

    Works without torch for the CPU (its fields are null then). Raises DeviceError for an unknown or absent
    device.
    """
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
        raise DeviceError(f"'{device}' is not a device", hint="use cpu, cuda or cuda:0")
    record: dict[str, Any] = {
        "device": kind,
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.machine()}",
        "cores": _usable_cores(),
        "allocator": _allocator(os.environ),
        "settings": _settings(os.environ),
        **_cpu(),
        **_torch(),
    }
    record["settings"] |= _torch_settings()
    if kind == "cuda":
        record |= _cuda(int(index or 0))
    return record


def fingerprint(env: Mapping[str, Any]) -> str:
    """Twelve hex digits of the parts of a record that decide speed: equal means comparable.

    Left out: total memory, Python's patch level, and thread variables (their effect is in `threads`).
    """
    text = json.dumps(_deciding(env), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def slug(env: Mapping[str, Any]) -> str:
    """Folder name such as `cpu-amd-epyc-f26m2-2t-torch2.13`; settings other than the defaults are appended."""
    name = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*$|\b\d+-core\b", " ", str(env["device_name"]).lower())
    parts = [str(env["device"]), name]
    if env["device"] == "cpu":
        # Virtual machines often name all generations alike; family and model tell them apart.
        if numbers := re.search(r"family (\d+) model (\d+)", str(env.get("cpu_model"))):
            parts.append(f"f{numbers[1]}m{numbers[2]}")
        parts.append(f"{env.get('threads')}t")
    parts.append("torch" + ".".join(str(env.get("torch") or "none").split(".")[:2]))
    parts += [f"{k}.{v}" for k, v in sorted(_deciding(env).get("settings", {}).items())]
    text = re.sub(r"[^a-z0-9._]+", "-", "-".join(parts).lower()).strip("-.")
    return text if len(text) <= 100 else f"{text[:87]}-{fingerprint(env)}"


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """What makes two environments incomparable, a line each: `threads: 2 against 8`; empty if comparable."""
    left, right = _flat(_deciding(a)), _flat(_deciding(b))
    return [
        f"{key}: {_shown(left.get(key))} against {_shown(right.get(key))}"
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]


def _deciding(env: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in env.items() if k not in _WITHOUT_EFFECT and v not in (None, {}, [])}
    if "python" in kept:
        kept["python"] = ".".join(str(kept["python"]).split(".")[:2])
    if settings := {k: v for k, v in kept.pop("settings", {}).items() if k not in _SHOWN_ELSEWHERE}:
        kept["settings"] = settings
    return kept


def _flat(env: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in env.items():
        if isinstance(value, Mapping):
            flat.update({f"{key}.{k}": v for k, v in value.items()})
        else:
            flat[key] = value
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return "not set" if value is None else str(value)


def _usable_cores() -> int:
    """Cores this process may run on (a container or taskset can leave it fewer than the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _allocator(variables: Mapping[str, str]) -> dict[str, str]:
    found = {k: v for k, v in sorted(variables.items()) if re.fullmatch(r"MALLOC_[A-Z_]+", k) and v.isdigit()}
    # A preloaded library is named, its path is not kept.
    for library in ALLOCATOR_LIBRARIES:
        if library in variables.get("LD_PRELOAD", ""):
            found["library"] = library
    return found


def _settings(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: _harmless(variables[name]) for name in SETTINGS if variables.get(name)}


def _harmless(value: str) -> str:
    """A setting's value; free text and paths, which no known setting needs, are replaced."""
    return value if re.fullmatch(r"[A-Za-z0-9_=,.:;{}()+\- ]{1,80}", value) else "other"


def _cpu() -> dict[str, Any]:
    fields = _cpuinfo("/proc/cpuinfo")
    name = fields.get("model name") or platform.processor() or platform.machine()
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    numbers = [
        f"{key.split()[-1]} {fields[key]}" for key in ("cpu family", "model", "stepping") if key in fields
    ]
    return {
        "device_name": name,
        "cpu_model": " ".join([name, *numbers]),  # the numbers tell apart what virtual machines name alike
        "isa": sorted(ISA_FLAGS.intersection(flags)),
        "memory_bytes": _memory_bytes(),
    }


def _cpuinfo(path: str) -> dict[str, str]:
    """Fields of the first processor; empty where there is no such file (not Linux)."""
    try:
        first = Path(path).read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _torch() -> dict[str, Any]:
    """Versions and threads as torch sees them; all null where torch is not installed."""
    fields: dict[str, Any] = dict.fromkeys(
        ("cpu_capability", "threads", "interop_threads", "torch", "mkl", "onednn", "cuda", "driver")
    )
    try:
        import torch
    except ImportError:
        return fields
    build = torch.__config__.show()
    fields.update(
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
        torch=str(torch.__version__),
        mkl=_found(r"Math Kernel Library Version ([\d.]+)", build),
        onednn=_found(r"(?:MKL-DNN|oneDNN) v([\d.]+)", build),
    )
    return fields


def _torch_settings() -> dict[str, str]:
    """torch's switches that are not at their defaults."""
    try:
        import torch
    except ImportError:
        return {}
    now = {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": str(torch.backends.cudnn.benchmark),
        "cudnn_allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }
    return {name: value for name, value in now.items() if value != TORCH_SETTINGS[name]}


def select(device: str) -> str:
    """Make `cuda:N` the current device, `cuda` the first. Returns the kind of device: what follows need not know N."""
    kind, _, index = device.partition(":")
    if kind == "cuda":
        import torch

        torch.cuda.set_device(int(index or 0))
    return kind


def _cuda(index: int) -> dict[str, Any]:
    """Fields of a GPU. Raises DeviceError if it is not there."""
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            "no GPU can be used", cause="torch is not installed", hint="install torch"
        ) from error
    if not torch.cuda.is_available() or index >= torch.cuda.device_count():
        raise DeviceError(f"there is no device cuda:{index}", hint="use --device cpu, or check nvidia-smi")
    properties = torch.cuda.get_device_properties(index)
    cudnn: int | None = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    driver, limits = _nvml(str(getattr(properties, "uuid", "")))
    return {
        "device_name": properties.name,
        "memory_bytes": properties.total_memory,
        "cuda": torch.version.cuda,
        "driver": driver,
        "gpu": {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "cudnn": str(cudnn) if cudnn else None,
            **limits,
        },
    }


def _nvml(uuid: str) -> tuple[str | None, dict[str, int | None]]:
    """Driver, and clock and power limits of the GPU with this UUID (NVML may number GPUs unlike CUDA)."""
    limits: dict[str, int | None] = dict.fromkeys(
        ("sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w")
    )
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, or no driver library: what was not read stays null
        return None, limits
    driver = None
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        limits["sm_clock_max_mhz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
        limits["memory_clock_max_mhz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)
        limits["power_limit_w"] = round(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
    except pynvml.NVMLError:  # a virtual GPU does not tell everything
        pass
    finally:
        pynvml.nvmlShutdown()
    return driver, limits


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None
