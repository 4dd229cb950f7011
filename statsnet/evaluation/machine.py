"""What this machine can do, and what to change before it is measured."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from statsnet.environment import cache_dir, describe, file_text
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.environment.record import cores_to_run_on, usable_cores, usable_memory_bytes
from statsnet.errors import StatsNetError, first_line
from statsnet.units import format_bytes, plural

State = Literal["ok", "change", "absent", "unknown"]

EXTRAS = {
    "demo": ("transformers",),
    "models": ("transformers", "diffusers", "torch_geometric", "monai"),
    "onnx": ("onnx",),
    "pandas": ("pandas",),
    "pictures": ("matplotlib",),
    "report": ("plotly",),
    "runtimes": ("onnx", "onnxscript", "onnxruntime", "openvino"),
    "iree": ("iree",),
    "scenarios": ("mlcommons_loadgen", "mlperf_loadgen"),
    "cluster": ("ray",),
    "search": ("psycopg", "grpc"),
}
"""The modules that each extra of the package brings."""

LEAST_FREE_BYTES = 2 * 1024**3
"""With less room than this for the cache and temporary files, a synthesis may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `ok`: as it should be; `change`: measurements suffer, and `advice` says what to
    change; `absent`: not here, and `advice` what that would take; `unknown`: this machine does not tell."""

    name: str
    state: State
    value: str
    advice: str = ""


def findings() -> tuple[Finding, ...]:
    """Everything but the noise (evaluation/noise.py), which takes time. Nothing here fails: what cannot be found out is
    `unknown`."""
    return (
        *_software(),
        *_cores(),
        *_clock_speed(),
        _memory(),
        *_gpus(),
        _counters(),
        _compiler(),
        _cache(),
        *(_extra(name, modules) for name, modules in EXTRAS.items()),
    )


def _software() -> list[Finding]:
    if find_spec("torch") is None:
        return [
            Finding(
                name="torch",
                state="absent",
                value="not installed: files can be read, compared and mixed, nothing can be measured",
                advice="pip install torch",
            )
        ]
    here = describe()
    value = f"{here['torch']}, {here['cpu_capability']}, oneDNN {here['onednn'] or '–'}, MKL {here['mkl'] or '–'}"
    return [
        Finding(name="torch", state="ok", value=value),
        Finding(
            name="CPU", state="ok", value=f"{here['cpu_model']} ({' '.join(here['isa']) or 'no vector extensions'})"
        ),
        _threads(here["threads"]),
        *_settings(here["settings"]),
    ]


def _threads(threads: int) -> Finding:
    cores = usable_cores()
    if threads > cores:
        advice = f"OMP_NUM_THREADS={cores}, or --threads {cores}: threads that share a core wait for each other"
        return Finding(name="threads", state="change", value=f"{threads} on {cores} cores", advice=advice)
    return Finding(name="threads", state="ok", value=f"{threads} on {plural(cores, 'core')}")


def _settings(settings: dict[str, str]) -> list[Finding]:
    shown = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
    if not shown:
        return [Finding(name="settings", state="ok", value="none that change speed")]
    return [Finding(name="settings", state="ok", value=f"{shown} (recorded in every result)")]


def _load(cores: int) -> Finding:
    try:
        load = os.getloadavg()[0]
    except OSError as error:
        return Finding(name="load", state="unknown", value=first_line(error))
    busy = load > 0.5 * cores
    return Finding(
        name="load",
        state="change" if busy else "ok",
        value=f"{load:.1f} runnable threads in the last minute, on {plural(cores, 'core')}",
        advice="stop other programs" if busy else "",
    )


def _cores() -> list[Finding]:
    """How many the process may use, of how many; and whether these are a virtual machine's."""
    there = os.cpu_count() or 1
    allowed = len(cores_to_run_on())
    cores = usable_cores()
    made = [Finding(name="cores", state="ok", value=f"{allowed} of {there}")]
    if cores < allowed:
        value = f"CPU time for {cores} of {allowed} cores"
        advice = "all threads stop when a quota is used up: give the container whole cores (docker --cpuset-cpus)"
        made.append(Finding(name="quota", state="change", value=value, advice=advice))
    else:
        made.append(Finding(name="quota", state="ok", value="none"))
    made.append(_load(allowed))
    if re.search(r"^flags.*\bhypervisor\b", file_text("/proc/cpuinfo"), re.MULTILINE):
        advice = "neighbours change its speed: use more --processes, and compare machines only by medians of several"
        made.append(Finding(name="virtual machine", state="unknown", value="yes", advice=advice))
    return made


def _clock_speed() -> list[Finding]:
    """Governor, turbo and hyper-threading, where the kernel shows them: a virtual machine seldom does."""
    system = Path("/sys/devices/system/cpu")
    governors = {file_text(str(path)).strip() for path in system.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    if not governors:
        made = [Finding(name="governor", state="unknown", value="not shown here, as in most virtual machines")]
    elif governors == {"performance"}:
        made = [Finding(name="governor", state="ok", value="performance")]
    else:
        advice = (
            "sudo cpupower frequency-set -g performance: with others, the clock follows the load of the moment before"
        )
        made = [Finding(name="governor", state="change", value=", ".join(sorted(governors)), advice=advice)]
    no_turbo, boost = (
        file_text("/sys/devices/system/cpu/intel_pstate/no_turbo").strip(),
        file_text(f"{system}/cpufreq/boost").strip(),
    )
    if no_turbo or boost:
        is_on = no_turbo == "0" if no_turbo else boost == "1"
        value = "on: the clock depends on temperature and on how many cores work" if is_on else "off"
        made.append(Finding(name="turbo", state="ok", value=value))
    if (smt := file_text(f"{system}/smt/active").strip()) == "1":
        value = "on: two threads may share a core"
        advice = "bind threads to cores: OMP_PROC_BIND=close OMP_PLACES=cores"
        made.append(Finding(name="hyper-threading", state="unknown", value=value, advice=advice))
    elif smt:
        made.append(Finding(name="hyper-threading", state="ok", value="off"))
    return made


def _memory() -> Finding:
    value = f"{format_bytes(usable_memory_bytes())}, {format_bytes(memory_at_hand_bytes())} of it free"
    return Finding(name="memory", state="ok", value=value)


def _gpus() -> list[Finding]:
    """Each GPU, and whether NVML gives its energy, clocks and the reasons for lower clocks."""
    if find_spec("torch") is None:
        return []
    import torch

    if not torch.cuda.is_available():
        cause = "torch finds no usable one" if torch.version.cuda else "torch was built without CUDA"
        advice = "check nvidia-smi" if torch.version.cuda else "install a torch with CUDA where there is an NVIDIA GPU"
        return [Finding(name="GPU", state="absent", value=f"none: {cause}", advice=advice)]
    made = []
    for number in range(torch.cuda.device_count()):
        here = describe(f"cuda:{number}")
        gpu = here["gpu"]
        value = f"{here['device_name']}, {format_bytes(here['memory_bytes'])}, driver {here['driver'] or 'unknown'}"
        made.append(Finding(name=f"cuda:{number}", state="ok", value=value))
        limits = f"{gpu['power_limit_w'] or '–'} W, SM clock up to {gpu['sm_clock_max_mhz'] or '–'} MHz"
        made.append(_power(f"cuda:{number}", limits))
    return made


def _power(device: str, limits: str) -> Finding:
    from statsnet.measure.gpu_power import Meter

    with Meter(device) as meter:
        pass
    missing = meter.record(1).missing
    if not missing:
        return Finding(name=f"{device} power", state="ok", value=f"energy and clocks are read ({limits})")
    reasons = "; ".join(f"no {name}: {why}" for name, why in sorted(missing.items()))
    return Finding(name=f"{device} power", state="unknown", value=f"{reasons} ({limits})")


def _counters() -> Finding:
    from statsnet.measure.ncu import find_ncu

    path = find_ncu()
    if path is None:
        advice = "install Nsight Compute for --counters ncu"
        return Finding(
            name="GPU counters", state="absent", value="Nsight Compute (ncu) is not installed", advice=advice
        )
    if re.search(r"RmProfilingAdminOnly:\s*1", file_text("/proc/driver/nvidia/params")) and os.geteuid() != 0:
        advice = "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, or run as root"
        return Finding(name="GPU counters", state="change", value="the driver gives them to root only", advice=advice)
    return Finding(name="GPU counters", state="ok", value="Nsight Compute is installed")


def _compiler() -> Finding:
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return Finding(name="C++ compiler", state="ok", value="for --setting compile=inductor")
    return Finding(name="C++ compiler", state="absent", value="none", advice="apt install g++, for compile=inductor")


def _cache() -> Finding:
    folder = None
    try:
        folder = cache_dir()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free_bytes = shutil.disk_usage(there).free
    except (OSError, StatsNetError) as error:
        where = f"{folder}: " if folder else ""
        return Finding(name="cache", state="unknown", value=f"{where}{first_line(error)}")
    value = f"{folder}, {format_bytes(free_bytes)} free"
    if not os.access(there, os.W_OK):
        advice = "STATSNET_CACHE names another folder"
        return Finding(name="cache", state="change", value=f"{value}, cannot be written to", advice=advice)
    if free_bytes < LEAST_FREE_BYTES:
        return Finding(name="cache", state="change", value=value, advice="make room, or set STATSNET_CACHE")
    return Finding(name="cache", state="ok", value=value)


def _extra(name: str, modules: Sequence[str]) -> Finding:
    missing = [module for module in modules if find_spec(module) is None]
    if not missing:
        return Finding(name=f"extra '{name}'", state="ok", value="installed")
    advice = f"pip install 'statsnet[{name}]'"
    return Finding(name=f"extra '{name}'", state="absent", value=f"without {', '.join(missing)}", advice=advice)
