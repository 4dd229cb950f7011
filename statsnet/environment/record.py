"""What a measurement depends on besides the workload: device, software and settings. No host name, user name or path.

Pasted into every generated network, together with measure/timing.py: it needs torch and the standard library only.
"""

import contextlib
import ctypes
import functools
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Without these, glibc returns large blocks to the system, and every step faults their pages in again. A small
# proxy has no such blocks. They act only if they are set before the process starts.
ALLOCATOR_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
}
ALLOCATOR_LIBRARIES = ("tcmalloc", "jemalloc", "mimalloc")
# What glibc reads (mallopt(3)). Anybody may set others, whose names can say anything.
ALLOCATOR_VARIABLES = (
    "MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_CHECK_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_PERTURB_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_",
)  # fmt: skip
# Environment variables that change speed; only those that are set enter a record.
CPU_SETTINGS = (
    "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DYNAMIC",
    "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC",
    "OMP_SCHEDULE", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME",
    "TORCH_MKLDNN_ENABLED", "TORCH_MKLDNN_MATMUL_MIN_DIM", "LRU_CACHE_CAPACITY",
)  # fmt: skip
BINDING = frozenset({"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})  # with these, libgomp binds threads to cores
# Those that matter to a GPU alone. Libraries of models set some when they are imported.
GPU_SETTINGS = (
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_CUDNN_V8_API_DISABLED", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
# Words that their values may be made of, beside numbers; any other value is recorded as `other`, since it can hold
# anything.
SETTING_WORDS = frozenset({
    "true", "false", "yes", "no", "on", "off", "default", "all", "none", "auto", "dynamic", "static", "guided",
    "active", "passive", "close", "spread", "master", "primary", "threads", "cores", "sockets", "ll", "caches", "numa",
    "domains", "strict", "any", "bf16", "f16", "tf32", "compatible", "branch", "prefer", "ymm", "hints", "compact",
    "scatter", "balanced", "explicit", "disabled", "logical", "physical", "fine", "core", "tile", "verbose",
    "noverbose", "granularity", "respect", "norespect", "warnings", "nowarnings", "reset", "noreset", "expandable",
    "segments", "max", "split", "size", "mb", "backend", "native", "cudamallocasync", "garbage", "collection",
    "threshold", "roundup", "power2", "divisions", "pinned", "use", "cuda", "host", "register", "infinite", "e1",
    "sse2", "sse3", "ssse3", "sse4", "sse41", "sse42", "avx", "avx2", "avx512", "avx10", "vnni", "amx", "fp16", "int8",
    "vsx", "zvector", "sve", "sve2",
})  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# torch's own switches and their defaults; only those that differ enter a record.
TORCH_SETTINGS = {
    "float32_matmul_precision": "highest",
    "cudnn_benchmark": "False",
    "cudnn_allow_tf32": "True",
    "deterministic_algorithms": "False",
}
# Instruction sets (as /proc/cpuinfo spells them) that libraries choose kernels by.
ISA_FLAGS = frozenset({
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx_vnni_int8", "avx512f", "avx512bw", "avx512cd",
    "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
    "amx_fp16", "asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2", "svebf16", "sme",
})  # fmt: skip


def describe(device: str = "cpu") -> dict[str, Any]:
    """The environment record of this process for "cpu", "cuda" or "cuda:N", a device that torch can use."""
    import torch  # not above: signatures are read without it

    kind, _, index = device.partition(":")
    versions = dict(re.findall(r"(Library Version|MKL-DNN|oneDNN) v?([\d.]+)", torch.__config__.show()))
    switches = {
        "float32_matmul_precision": _switch(torch.get_float32_matmul_precision),
        "cudnn_benchmark": str(torch.backends.cudnn.benchmark),
        "cudnn_allow_tf32": _switch(lambda: torch.backends.cudnn.allow_tf32),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }
    record = describe_machine() | {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "torch": public_torch_version(torch.__version__),
        "mkl": versions.get("Library Version"),
        "onednn": versions.get("MKL-DNN") or versions.get("oneDNN"),
    }
    record["settings"] |= {k: v for k, v in switches.items() if v != TORCH_SETTINGS[k]}
    if kind != "cuda":
        return record
    record["settings"] |= _variables(GPU_SETTINGS)
    return record | _gpu(int(index or 0))


def _switch(read: Callable[[], object]) -> str:
    """torch refuses to tell what was set by its newer functions (`torch.backends.fp32_precision`)."""
    try:
        return str(read())
    except RuntimeError:
        return "other"


def public_torch_version(version: str) -> str | None:
    """A version of torch without a local part that says anything but the device: `2.9.0+cu128`, but `2.9.0` of
    `2.9.0+acme.7`, as whoever builds torch may put a name there. None for what is no version."""
    number = r"\d{1,9}(?:\.\d{1,9}){0,4}(?:(?:a|b|rc|\.dev|\.post)\d{1,9}){0,3}"
    device = r"cu\d{1,5}|rocm[\d.]{1,9}|cpu|xpu"
    match = re.fullmatch(rf"({number})(\+(?:{device}))?(?:\+.*)?", version)
    return match[1] + (match[2] or "") if match else None


def public_version(version: str) -> str | None:
    """The number that a version begins with: `3.12.3` of `3.12.3+acme.7`, as a builder may have put a name there. None
    for what is no version."""
    match = re.match(r"\d{1,9}(?:\.\d{1,9}){0,4}(?:(?:a|b|rc)\d{1,9})?(?![A-Za-z0-9.])", version)
    return match[0] if match else None


_NUMBERS = ("cpu family", "model", "stepping")
_NUMBERS_OF_ARM = ("CPU implementer", "CPU variant", "CPU part", "CPU revision")
"""Keys of /proc/cpuinfo; there, ARM's processors have no name."""


@functools.cache
def _apples_name() -> str:
    """`Apple M2`; nothing on other systems."""
    if platform.system() != "Darwin":
        return ""
    asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
    with contextlib.suppress(OSError):
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def _public_name(name: str) -> str:
    """A device's name as a file may hold it: of letters, digits and some signs, with at most a clock behind an "@"."""
    name, _, clock = re.sub(r"[^A-Za-z0-9 ()+,._@-]", " ", name).partition("@")
    clock = clock if re.fullmatch(r" ?[0-9.]+ ?[GM]Hz", clock) else ""
    name = " ".join(name.split())[:60] or "unknown"
    return name + (f" @ {clock.strip()}" if clock else "")


def describe_machine() -> dict[str, Any]:
    """The part of a record that needs no torch; its device is the CPU."""
    # Fields of the first core. Family, model and stepping tell apart what virtual machines name alike.
    cpu = dict(re.findall(r"^(.*?)\s*: *(.*?) *$", file_text("/proc/cpuinfo").split("\n\n")[0], re.MULTILINE))
    name = _public_name(cpu.get("model name") or _apples_name() or platform.processor() or platform.machine())
    numbers = [f"{key.split()[-1]} {cpu[key]}" for key in (*_NUMBERS, *_NUMBERS_OF_ARM) if key in cpu]
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    variables = sorted(os.environ.items())
    allocator = {k: v for k, v in variables if k in ALLOCATOR_VARIABLES and re.fullmatch(r"[0-9]+", v)}
    for library in ALLOCATOR_LIBRARIES:
        if library in os.environ.get("LD_PRELOAD", ""):
            allocator["library"] = library
    return {
        "device": "cpu",
        "device_name": name,
        "cpu_model": " ".join([name, *numbers]),
        "isa": sorted(ISA_FLAGS.intersection(flags)),
        "cores": usable_cores(),
        "memory_bytes": two_digits(usable_memory_bytes()),
        "os": f"{platform.system()} {platform.machine()}",
        "python": public_version(platform.python_version()),
        "cuda": None,
        "driver": None,
        "allocator": allocator,
        "settings": _variables(CPU_SETTINGS),
    }


def _variables(names: tuple[str, ...]) -> dict[str, str]:
    """Those of the environment that are set, without values that could say anything."""
    found = {k: v for k, v in sorted(os.environ.items()) if v and k in names}
    return {k: v if is_known_value(v) else "other" for k, v in found.items()}


def is_known_value(text: str) -> bool:
    """Whether a setting's value is made of SETTING_WORDS and numbers alone."""
    if not re.fullmatch(r"[A-Za-z0-9_=,.:;{}()+\- ]{1,80}", text):
        return False
    parts = re.findall(r"[A-Za-z0-9.]+", text.lower())
    return all(part in SETTING_WORDS or re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", part) for part in parts)


def two_digits(size: int) -> int:
    """A size in whole GiB with two digits: the exact one tells a machine apart from all others of its kind. Less than
    one GiB is given as 1."""
    gib = max(1, round(size / 2**30))
    return int(float(f"{gib:.2g}")) << 30


def usable_cores() -> int:
    """Cores that this process may use: in a container or under taskset, these can be fewer than the machine has. Of a
    quota of 2.5 cores two count, because all threads stop when it is used up."""
    quotas = [quota for folder in _cgroups("cpu") if (quota := _cpu_quota(folder)) is not None]
    return max(1, min(len(cores_to_run_on()), *map(int, quotas), 1 << 20))


def quota_env() -> dict[str, str]:
    """Variables that hold libraries to as many threads as a container's quota of CPU time allows, since they see all
    cores of the machine. Empty without such a quota, and if the user has chosen."""
    chosen = os.environ.get("OMP_NUM_THREADS") or os.environ.get("MKL_NUM_THREADS")
    cores = usable_cores()
    return {} if chosen or cores == len(cores_to_run_on()) else dict.fromkeys(THREAD_VARIABLES, str(cores))


def usable_memory_bytes() -> int:
    """Memory of the machine, or of the container if that has less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder in _cgroups("memory"):
        texts = (file_text(f"{folder}/{name}").strip() for name in ("memory.max", "memory.limit_in_bytes"))
        sizes += [int(text) for text in texts if text.isdecimal() and int(text) > 0]
    return min(sizes)


def cores_to_run_on() -> set[int]:
    """Numbers of the cores that this process may run on. With OMP_PROC_BIND, the thread that loads libgomp is held to
    the first of libgomp's places: then these tell the others."""
    if not hasattr(os, "sched_getaffinity"):
        return set(range(os.cpu_count() or 1))
    own = os.sched_getaffinity(0)
    return own if BINDING.isdisjoint(os.environ) else own | _openmp_places()


def _openmp_places() -> set[int]:
    found: set[int] = set()
    for path in sorted(set(re.findall(r"/.*/libgomp\S*\.so\S*$", file_text("/proc/self/maps"), re.MULTILINE))):
        with contextlib.suppress(OSError, AttributeError):
            openmp = ctypes.CDLL(path)
            for place in range(openmp.omp_get_num_places()):
                cores = (ctypes.c_int * openmp.omp_get_place_num_procs(place))()
                openmp.omp_get_place_proc_ids(place, cores)
                found.update(cores)
    return found


@contextlib.contextmanager
def on_all_cores() -> Iterator[None]:
    """Programs that this thread starts meanwhile may run on all cores of the process."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cores_to_run_on())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, own)


def _cpu_quota(folder: str) -> float | None:
    """Cores' worth of CPU time that a control group gets, of version 2 or 1; None without a limit."""
    version_1 = " ".join(file_text(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    for text in (file_text(f"{folder}/cpu.max"), version_1):
        if limit := re.fullmatch(r"(\d+) ([1-9]\d*)", text.strip()):  # else "max 100000" or "-1 100000"
            return int(limit[1]) / int(limit[2])
    return None


def _cgroups(controller: str) -> list[str]:
    """Folders of the control groups that hold this process, and limit what the `controller` (cpu, memory) counts:
    its own, and all around it that can be seen from here (man 7 cgroups)."""
    groups = re.findall(r"^\d+:(.*?):(/.*)$", file_text("/proc/self/cgroup"), re.MULTILINE)
    mount = r"^\d+ \d+ \S+ (/\S*) (/\S*) .*?- (cgroup2?) \S+ (\S+)$"
    folders = []
    for root, place, kind, options in re.findall(mount, file_text("/proc/self/mountinfo"), re.MULTILINE):
        for controllers, path in groups:
            of_mount = controllers == "" if kind == "cgroup2" else controller in controllers.split(",")
            if not of_mount or (kind == "cgroup" and controller not in options.split(",")):
                continue
            inner = Path(path).relative_to(root) if Path(path).is_relative_to(root) and ".." not in path else Path()
            folders += [f"{place}/{part}" for part in (inner, *inner.parents)]
    return folders


def _gpu(index: int) -> dict[str, Any]:
    import torch  # not above: signatures are read without it

    gpu = torch.cuda.get_device_properties(index)
    cudnn: Any = torch.backends.cudnn
    uuid = str(getattr(gpu, "uuid", "")).removeprefix("GPU-")
    limits = _nvml(f"GPU-{uuid}")  # NVML may number GPUs unlike CUDA
    loaded = re.search(r"Kernel Module.*? (\d+\.[\d.]+)", file_text("/proc/driver/nvidia/version"))
    return {
        "device": "cuda",
        "device_name": _public_name(gpu.name),
        "memory_bytes": two_digits(gpu.total_memory),
        "cuda": public_version(torch.version.cuda or ""),
        "driver": public_version(limits.pop("driver") or (loaded[1] if loaded else "")),
        "gpu": {
            "compute_capability": f"{gpu.major}.{gpu.minor}",
            "multiprocessors": gpu.multi_processor_count,
            "cudnn": str(cudnn.version() or "") or None,
            **limits,
        },
    }


def _nvml(uuid: str) -> dict[str, Any]:
    """Driver, clock limits and power limit of a GPU; None for what NVML or its package does not tell."""
    details: dict[str, Any] = dict.fromkeys(["driver", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w"])
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package nvidia-ml-py, or no driver library
        return details
    try:
        details["driver"] = str(pynvml.nvmlSystemGetDriverVersion())
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        details["sm_clock_max_mhz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
        details["memory_clock_max_mhz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)
        details["power_limit_w"] = round(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
    except pynvml.NVMLError:  # a virtual GPU does not tell everything
        pass
    finally:
        pynvml.nvmlShutdown()
    return details


def file_text(path: str) -> str:
    """A file's text; empty where there is no such file."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
