"""The last line of defence: nothing is written to a signature but words from a known vocabulary.

A signature is shared by people who will not share the model. Names of modules, parameters, classes, files,
hosts and users, and values of tensors never enter one. The profiler takes care of that
(`public_names.py`); here every key and every string is checked once more, by its place.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from statsnet.environment import (
    ALLOCATOR_LIBRARIES,
    ALLOCATOR_VARIABLES,
    ISA_FLAGS,
    SETTINGS,
    STEP_SETTINGS,
    TORCH_SETTINGS,
)
from statsnet.environment.record import is_known_value, public_torch_version, public_version
from statsnet.errors import StatsNetError
from statsnet.signatures.categories import CATEGORIES
from statsnet.signatures.collectives import BACKENDS
from statsnet.signatures.gpu import COUNTERS, POWER_FIELDS, THROTTLE_REASONS, WHY_MISSING
from statsnet.signatures.model import Level, Mode, Phase, SignatureFile
from statsnet.signatures.operators import ITEM_SIZE, SAFE_STRINGS, EncodedGroup, EncodedTensor
from statsnet.signatures.public_names import is_kernel_class, is_public_kernel, is_public_op, is_public_optimizer
from statsnet.signatures.vocabulary import OPAQUE_KERNEL

Rule = Callable[[str], bool]


def assert_clean(data: Mapping[str, Any]) -> None:
    """Raises StatsNetError for the first key or string of a signature that is not in the vocabulary."""
    rules = _rules(frozenset(cluster["op"] for cluster in data["counts"]["clusters"]))
    for place, text in _strings(data, ()):
        names = [p for p in place if isinstance(p, str)]
        rule = _argument_rule(names) if names[2:3] in (["args"], ["outputs"]) else rules.get(".".join(names))
        if rule is None or not rule(text):
            _refuse(place, text)
    for i, measurement in enumerate(data["measurements"]):
        for j, kernel in enumerate((measurement.get("gpu") or {}).get("kernels", ())):
            if kernel["family"] == OPAQUE_KERNEL and (kernel["grid"] or kernel["block"]):
                _refuse(("measurements", i, "gpu", "kernels", j), "a grid or block of an opaque kernel")


def _refuse(place: tuple[str | int, ...], text: str) -> None:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".")
    raise StatsNetError(
        "the signature holds a text that must not be shared",
        cause=f"{where} says {text[:60]!r}, which is not in the vocabulary",
        hint="nothing was written; please report it with the name of the public library it comes from",
    )


def _strings(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every string with its place; keys are checked on the way."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        free = place[-1:] in (("allocator",), ("settings",))
        for key, child in value.items():
            if not (_is_setting(key) if free else key in _known_keys()):
                _refuse(place, key)
            yield from _strings(child, place if free else (*place, key))
    elif isinstance(value, (list, tuple)):
        for i, child in enumerate(value):
            yield from _strings(child, (*place, i))


@functools.cache
def _known_keys() -> frozenset[str]:
    """Every key that the types of a signature name."""
    _, schemas = msgspec.json.schema_components((SignatureFile, EncodedTensor, EncodedGroup))
    named = {key for schema in schemas.values() for key in schema.get("properties", {})}
    return frozenset({*named, *COUNTERS, *POWER_FIELDS})


def _is_setting(key: str) -> bool:
    return key in (*SETTINGS, *TORCH_SETTINGS, *STEP_SETTINGS, *ALLOCATOR_VARIABLES, "library")


def _argument_rule(names: list[str]) -> Rule:
    return ITEM_SIZE.__contains__ if names[-1] == "dtype" else SAFE_STRINGS.__contains__


def _rules(ops: frozenset[str]) -> dict[str, Rule]:
    word = _matches(r"[a-z0-9][a-z0-9_.-]{0,59}")
    return _ENVIRONMENT_RULES | {
        "kind": {"statsnet.signature"}.__contains__,
        "id": _matches(r"sha256:[0-9a-f]{64}"),
        "measurements.reference.network": _matches(r"sha256:[0-9a-f]{64}"),
        "level": get_args(Level).__contains__,
        "workload.domain": word,
        "workload.name": word,
        "workload.preset": lambda text: not text or word(text),
        "mode": get_args(Mode).__contains__,
        "dtype": {*ITEM_SIZE, "mixed"}.__contains__,
        "optimizer": is_public_optimizer,
        "counts.clusters.op": is_public_op,
        "counts.clusters.phase": get_args(Phase).__contains__,
        "counts.clusters.category": frozenset(CATEGORIES).__contains__,
        "measurements.kernels": is_public_kernel,
        "measurements.kernel_class": lambda text: is_kernel_class(text, ops),
        "measurements.source": {"profile", "replay", "recording"}.__contains__,
        "measurements.collectives.backend": frozenset(BACKENDS).__contains__,
        "measurements.gpu.kernels.family": is_public_kernel,
        "measurements.gpu.power.throttled": THROTTLE_REASONS.__contains__,
        "measurements.gpu.counters.tool": _matches(r"ncu [0-9.]{1,30}"),
        **{f"measurements.gpu.power.missing.{name}": WHY_MISSING.__contains__ for name in POWER_FIELDS},
        **{f"measurements.gpu.counters.missing.{name}": WHY_MISSING.__contains__ for name in COUNTERS},
    }


def _matches(pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _is_version(text: str) -> bool:
    return public_version(text) == text


_DEVICE_NAME = _matches(r"[A-Za-z0-9 ()+,._-]{1,100}(@ [0-9.]+ ?[GM]Hz[a-z0-9 ]*)?")
STEP_VALUES = frozenset(
    {"high", "highest", "medium", "bfloat16", "float16", "float32", "float64", "channels_last", "inductor", "aot_eager",
     "eager", "cudagraphs", "onnxruntime", "openvino", "iree", "max_autotune", "reduce_overhead"}
)  # fmt: skip
"""Values of settings of torch, and of a step (workloads/settings.py)."""

_ENVIRONMENT_RULES: dict[str, Rule] = {
    f"measurements.environment.{name}": rule
    for name, rule in {
        "device": {"cpu", "cuda"}.__contains__,
        "device_name": _DEVICE_NAME,
        "cpu_model": _DEVICE_NAME,
        "cpu_capability": _matches(r"[A-Za-z0-9_ ]{1,20}"),
        "isa": ISA_FLAGS.__contains__,
        "torch": lambda text: public_torch_version(text) == text,
        "python": _is_version,
        "os": _matches(r"(Linux|Darwin|Windows|FreeBSD) [A-Za-z0-9_]{1,20}"),
        "mkl": _is_version,
        "onednn": _is_version,
        "cuda": _is_version,
        "driver": _is_version,
        "allocator": lambda text: text.isdigit() or text in ALLOCATOR_LIBRARIES,
        "settings": lambda text: text == "other" or is_known_value(text) or text in STEP_VALUES,
        "gpu.compute_capability": _is_version,
        "gpu.cudnn": _is_version,
    }.items()
}
