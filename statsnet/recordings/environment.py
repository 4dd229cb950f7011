"""What a recording tells of the device and the software that it was made on, as an environment record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from statsnet.environment.record import public_torch_version, two_digits
from statsnet.recordings.chrome_trace import Recording
from statsnet.signatures.measurement import environment_without_details

UNKNOWN_CPU = "unknown CPU"


def environment_of(recording: Recording, device: Literal["cpu", "cuda"]) -> dict[str, Any]:
    """The environment record (docs/formats.md); what the recording does not tell is null."""
    head = recording.head
    record = {**environment_without_details(device, UNKNOWN_CPU), "torch": _torch_version(head)}
    if device == "cpu":
        return record
    gpu = _device_properties(recording)
    memory_bytes = _size(gpu.get("totalGlobalMem"))
    is_amd = (
        any(key.startswith(("hip_", "roctracer", "rocprofiler")) for key in head)
        or (_size(gpu.get("warpSize")) or 32) > 32
    )
    return record | {
        "device_name": _device_name(gpu, is_amd),
        "memory_bytes": memory_bytes and two_digits(memory_bytes),
        "cuda": _cuda_version(head.get("cuda_runtime_version")),
        "gpu": {
            "compute_capability": _compute_capability(gpu),
            "multiprocessors": _size(gpu.get("numSms")),
            "cudnn": None,
            "sm_clock_max_mhz": None,
            "memory_clock_max_mhz": None,
            "power_limit_w": None,
        },
    }


def _device_properties(recording: Recording) -> Mapping[str, Any]:
    """Those of the device that ran the most kernels. AMD's recorders count devices in their own way: then the first."""
    listed = recording.head.get("deviceProperties") or recording.head.get("computeProperties") or []
    known = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    used = max(recording.devices, key=lambda d: recording.devices[d], default=0)
    return next((d for d in known if d.get("id") == used), known[0] if known else {})


def _device_name(gpu: Mapping[str, Any], is_amd: bool) -> str:
    name = re.sub(r"[^A-Za-z0-9 ()+,._-]", " ", str(gpu.get("name") or "")).strip()[:100]
    return name or ("unknown AMD GPU" if is_amd else "unknown GPU")


def _compute_capability(gpu: Mapping[str, Any]) -> str | None:
    major, minor = _size(gpu.get("computeMajor")), _size(gpu.get("computeMinor"))
    return None if major is None else f"{major}.{minor or 0}"


def _torch_version(head: Mapping[str, Any]) -> str | None:
    """From a list of installed packages, which some recorders add."""
    metadata = head.get("metadata")
    places = (metadata, metadata.get("system")) if isinstance(metadata, dict) else ()
    for place in places:
        packages = place.get("pip_packages") if isinstance(place, dict) else None
        for package in packages if isinstance(packages, list) else ():
            name, _, version = str(package).partition("==")
            if name == "torch":
                return public_torch_version(version)
    return None


def _cuda_version(number: Any) -> str | None:
    """12040 -> 12.4."""
    if not isinstance(number, int) or not 1000 <= number < 1_000_000:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**62 else None
