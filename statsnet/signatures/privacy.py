"""The last line of defence: nothing is written to a signature but words from a known vocabulary.

A signature is shared by people who will not share the model. Names of modules, parameters, classes, files,
hosts and users, and values of tensors never enter one. The profiler takes care of that (`safe_op`,
`safe_kernel`); here every key and every string is checked once more, by its place.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from statsnet.environment import ALLOCATOR_LIBRARIES, ISA_FLAGS, SETTINGS, STEP_SETTINGS, TORCH_SETTINGS
from statsnet.environment.record import public_torch_version
from statsnet.errors import StatsNetError
from statsnet.signatures.categories import CATEGORIES
from statsnet.signatures.gpu import COUNTERS, POWER_FIELDS, THROTTLE_REASONS, WHY_MISSING
from statsnet.signatures.model import Mode, Phase, SignatureFile
from statsnet.signatures.operators import ITEM_SIZE, SAFE_STRINGS, EncodedGroup, EncodedTensor
from statsnet.signatures.vocabulary import (
    KERNEL_FAMILY_LIBRARIES,
    KERNEL_FAMILY_TAGS,
    KERNEL_LIBRARIES,
    KERNEL_NAMES,
    KERNEL_WORDS,
    OP_NAMESPACES,
    OP_WORDS,
    OPAQUE_KERNEL,
    OPAQUE_OP,
    OPS_WITH_EFFECTS,
    OPTIMIZERS,
    SHORT_KERNEL_WORDS,
    words,
)

Rule = Callable[[str], bool]


def safe_op(op: str) -> str:
    """The operator's name if it is of torch's or a public library's namespace and made of public words, else
    `custom.opaque.default`."""
    return op if may_be_read(op) else OPAQUE_OP


def may_be_read(op: str) -> bool:
    """Whether a file may name this operator: a public one that acts on tensors alone."""
    return _is_public_op(op) and op.split(".")[1] not in OPS_WITH_EFFECTS and op.split(".")[0] != "prim"


def safe_optimizer(name: str) -> str:
    """The optimizer's class as signatures spell it; `custom` if no library publishes it."""
    return name.lower() if _is_public_optimizer(name) else "custom"


def _is_public_optimizer(name: str) -> bool:
    return name.lower().replace("_", "") in OPTIMIZERS


def safe_kernel(name: str) -> str:
    """A kernel's name if it consists of public words, else `opaque`."""
    return name if _is_public_kernel(name, frozenset()) else OPAQUE_KERNEL


def _op_words(ops: Iterator[str]) -> frozenset[str]:
    """Words of operator names, which may stand in the names of kernels too."""
    return frozenset(word for op in ops if _is_public_op(op) for word in words(op))


def assert_clean(data: Mapping[str, Any]) -> None:
    """Raises StatsNetError for the first key or string of a signature that is not in the vocabulary."""
    rules = _rules(_op_words(cluster["op"] for cluster in data["counts"]["clusters"]))
    for place, text in _strings(data, ()):
        names = [p for p in place if isinstance(p, str)]
        rule = _argument_rule(names) if names[2:3] in (["args"], ["outputs"]) else rules.get(".".join(names))
        if rule is None or not rule(text):
            _refuse(place, text)


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
    return key in (*SETTINGS, *TORCH_SETTINGS, *STEP_SETTINGS, "library") or _matches(r"MALLOC_[A-Z_]{1,30}")(key)


def _argument_rule(names: list[str]) -> Rule:
    return ITEM_SIZE.__contains__ if names[-1] == "dtype" else SAFE_STRINGS.__contains__


def _rules(of_ops: frozenset[str]) -> dict[str, Rule]:
    def is_kernel(text: str) -> bool:
        return _is_public_kernel(text, of_ops)

    def is_kernel_class(text: str) -> bool:
        return all(_is_public_kernel(part, of_ops | _CLASS_WORDS) for part in text.split("|"))

    word = _matches(r"[a-z0-9][a-z0-9_.-]{0,59}")
    return _ENVIRONMENT_RULES | {
        "kind": {"statsnet.signature"}.__contains__,
        "id": _matches(r"sha256:[0-9a-f]{64}"),
        "level": {"full"}.__contains__,
        "workload.domain": word,
        "workload.name": word,
        "workload.preset": lambda text: not text or word(text),
        "mode": get_args(Mode).__contains__,
        "dtype": {*ITEM_SIZE, "mixed"}.__contains__,
        "optimizer": _is_public_optimizer,
        "counts.clusters.op": may_be_read,
        "counts.clusters.phase": get_args(Phase).__contains__,
        "counts.clusters.category": frozenset(CATEGORIES).__contains__,
        "measurements.kernels": is_kernel,
        "measurements.kernel_class": is_kernel_class,
        "measurements.source": {"profile", "replay", "recording"}.__contains__,
        "measurements.gpu.kernels.family": is_kernel,
        "measurements.gpu.power.throttled": THROTTLE_REASONS.__contains__,
        "measurements.gpu.counters.tool": _matches(r"ncu [0-9.]{1,30}"),
        **{f"measurements.gpu.power.missing.{name}": WHY_MISSING.__contains__ for name in POWER_FIELDS},
        **{f"measurements.gpu.counters.missing.{name}": WHY_MISSING.__contains__ for name in COUNTERS},
    }


def _matches(pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


_VERSION = _matches(r"[0-9][A-Za-z0-9.+_-]{0,39}")
_DEVICE_NAME = _matches(r"[A-Za-z0-9 ()+,._-]{1,100}(@ [0-9.]+ ?[GM]Hz[a-z0-9 ]*)?")
_SETTING = _matches(r"[A-Za-z0-9_=,.:;{}()+\- ]{1,80}")

_ENVIRONMENT_RULES: dict[str, Rule] = {
    f"measurements.environment.{name}": rule
    for name, rule in {
        "device": {"cpu", "cuda"}.__contains__,
        "device_name": _DEVICE_NAME,
        "cpu_model": _DEVICE_NAME,
        "cpu_capability": _matches(r"[A-Za-z0-9_ ]{1,20}"),
        "isa": ISA_FLAGS.__contains__,
        "torch": lambda text: public_torch_version(text) == text,
        "python": _VERSION,
        "os": _matches(r"(Linux|Darwin|Windows|FreeBSD) [A-Za-z0-9_]{1,20}"),
        "mkl": _VERSION,
        "onednn": _VERSION,
        "cuda": _VERSION,
        "driver": _VERSION,
        "allocator": lambda text: text.isdigit() or text in ALLOCATOR_LIBRARIES,
        "settings": _SETTING,
        "gpu.compute_capability": _VERSION,
        "gpu.cudnn": _VERSION,
    }.items()
}


@functools.lru_cache(maxsize=4096)
def _is_public_op(op: str) -> bool:
    """Whether this is `namespace.name.overload`, all of it known: anybody may register operators in any namespace."""
    if op == OPAQUE_OP:
        return True
    match = re.fullmatch(r"([a-z0-9_]+)\.([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)", op)
    if match is None or match[1] not in OP_NAMESPACES or not words(match[2]):
        return False
    return all(w in OP_WORDS or w in KERNEL_WORDS or w in SHORT_KERNEL_WORDS for w in words(f"{match[2]}_{match[3]}"))


_CLASS_WORDS = frozenset(
    ["n", "t", "nn", "nt", "tn", "tt", *(w for name in (*ITEM_SIZE, *CATEGORIES) for w in words(name))]
)
"""What kernel classes hold besides kernels: dtypes, categories and the orders of a product's operands."""


def _is_public_kernel(text: str, more: frozenset[str]) -> bool:
    """Names joined by `+`: each a family, from a library's log, or made of known words and numbers."""
    return all(_is_family(part) or _is_public_name(part, more) for part in text.split("+"))


def _is_family(text: str) -> bool:
    """`library:kernel`, then tags, as `profiling.kernel_families` makes them."""
    library, *kernel = text.split(":")
    if library not in KERNEL_FAMILY_LIBRARIES or not 1 <= len(kernel) <= 3:
        return False
    known = all(word in KERNEL_WORDS or word in SHORT_KERNEL_WORDS for word in kernel[0].split("_"))
    return known and all(tag in KERNEL_FAMILY_TAGS for tag in kernel[1:])


def _is_public_name(name: str, more: frozenset[str]) -> bool:
    if name in KERNEL_NAMES or re.fullmatch(rf"({'|'.join(KERNEL_LIBRARIES)}):[a-z0-9_:.]{{1,100}}", name):
        return True
    parts = words(name)
    telling = [w for w in parts if w in more or w in KERNEL_WORDS]
    known = all(w in more or w in KERNEL_WORDS or w in SHORT_KERNEL_WORDS for w in parts)
    return re.fullmatch(r"[A-Za-z0-9_:.-]{1,200}", name) is not None and bool(telling) and known
