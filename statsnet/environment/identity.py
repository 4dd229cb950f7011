"""Which environments are comparable: the fingerprint, the folder name and the differences of records."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_WITHOUT_EFFECT = {"memory_bytes"}  # varies by some pages between boots; a step that fits is as fast
_SHOWN_ELSEWHERE = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}  # their effect is in `threads`
_NEVER_UNKNOWN = (
    "settings.",
    "allocator.",
    "isa",
    "mkl",
    "onednn",
)  # absent: not set, or torch was built without it

_OF_SETTINGS = {"threads", "cpu_capability", "settings"}


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
    """What makes two environments incomparable, a line each: `threads: 2 against 8`; empty if comparable.

    A field that only one of them knows is no difference: without nvidia-ml-py, a GPU does not tell its clock limits.
    """
    left, right = _flat(_deciding(a)), _flat(_deciding(b))
    pairs = {key: (left.get(key), right.get(key)) for key in sorted({*left, *right})}
    return [
        f"{key}: {_shown(x)} against {_shown(y)}"
        for key, (x, y) in pairs.items()
        if x != y and (key.startswith(_NEVER_UNKNOWN) or None not in (x, y))
    ]


def machine_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """As `differences`, but for what a setting changes: empty if both are of one kind of machine."""
    left, right = ({k: v for k, v in env.items() if k not in _OF_SETTINGS} for env in (a, b))
    return differences(left, right)


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
