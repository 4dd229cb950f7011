"""The known workloads: metadata only, no torch.

Built-in workloads register themselves when the package `reference_workloads` is imported, those of third parties when
the module of their entry point (group `statsnet.workloads`) is imported. Both happen on first use.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from statsnet.errors import UsageError

ENTRY_POINT_GROUP = "statsnet.workloads"
BUILTIN_PACKAGE = "reference_workloads"
DEFAULT_PRESET = "small"

SUITES = (
    "AI Matrix", "AIBench", "MLPerf", "DeepBench", "DNNMark", "Fathom", "TBD", "DAWNBench", "convnet-benchmarks",
    "TensorFlow benchmarks", "HPC workload analysis",
)  # fmt: skip
"""Published suites; workloads' tags use these names."""

Factory = Callable[..., Any]
FactoryT = TypeVar("FactoryT", bound=Factory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is known about a model before it is built.

    `factory` is a function or its address "package.module:function"; presets are keyword arguments for it.
    `parameters` and `flops` are the published figures (None if there is none); `flops` counts a
    forward pass with 2 per multiply-add, for the input that the keywords in `sample` make.
    """

    name: str
    domain: str
    title: str
    source: str
    factory: str | Factory
    parameters: int | None = None
    flops: float | None = None
    sample: Mapping[str, int] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    optimizer: str = "sgd"
    tags: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.domain}/{self.name}"

    @property
    def address(self) -> str:
        """Where the factory is: "package.module:function"."""
        if isinstance(self.factory, str):
            return self.factory
        return f"{self.factory.__module__}:{self.factory.__qualname__}"

    @property
    def suites(self) -> tuple[str, ...]:
        """The published suites that measure it."""
        return tuple(suite for suite in SUITES if suite in self.tags)

    @property
    def builtin(self) -> bool:
        """Whether it ships with StatsNet, so that its name may stand in a signature."""
        return self.address.startswith(f"{BUILTIN_PACKAGE}.")


_workloads: dict[str, Workload] = {}
_failed: dict[str, str] = {}
_loaded = False


def register(factory: str | Factory, **metadata: Any) -> Workload:
    """Add a workload; `metadata` are the fields of `Workload`.

    Give the factory as "package.module:function" where its module imports torch, so that listing does not.
    Raises UsageError where another factory has the name already.
    """
    entry = Workload(factory=factory, **metadata)
    if not entry.name or not entry.domain or "/" in entry.name + entry.domain or ":" in entry.name:
        raise UsageError(
            f"'{entry.full_name}' is not a workload name",
            hint="give a name and a domain without '/' and ':'",
        )
    known = _workloads.get(entry.full_name)
    if known is not None and known.address != entry.address:
        raise UsageError(
            f"two workloads are named {entry.full_name}",
            cause=f"{known.address} and {entry.address}",
            hint="rename one of them",
        )
    _workloads[entry.full_name] = entry
    return entry


def workload(**metadata: Any) -> Callable[[FactoryT], FactoryT]:
    """Decorator: register the function below as a workload; `metadata` are the fields of `Workload`."""

    def add(factory: FactoryT) -> FactoryT:
        factory.__statsnet_workload__ = register(factory, **metadata)  # type: ignore[attr-defined]
        return factory

    return add


def names(pattern: str = "*") -> list[str]:
    """Full names ("cv/resnet50") that match a shell pattern ("cv/*", "resnet*"), sorted."""
    return [entry.full_name for entry in all_workloads(pattern)]


def all_workloads(pattern: str = "*") -> list[Workload]:
    """Registered workloads whose full or short name matches the shell pattern, sorted by full name."""
    _load()
    return [
        entry
        for full_name, entry in sorted(_workloads.items())
        if fnmatch.fnmatchcase(full_name, pattern) or fnmatch.fnmatchcase(entry.name, pattern)
    ]


def domains() -> list[str]:
    """Domains with at least one workload, sorted."""
    return sorted({entry.domain for entry in all_workloads()})


def in_domain(domain: str) -> list[Workload]:
    """The workloads of one domain. Raises UsageError where there are none."""
    entries = [entry for entry in all_workloads() if entry.domain == domain]
    if not entries:
        raise UsageError(
            f"there is no domain '{domain}'",
            hint=_near(domain, domains()) or f"one of {', '.join(domains())}",
        )
    return entries


def get(name: str) -> Workload:
    """The workload called "resnet50" or "cv/resnet50".

    Raises UsageError for an unknown name (the hint has near matches) or one that several domains have.
    """
    _load()
    if name in _workloads:
        return _workloads[name]
    entries = [entry for entry in _workloads.values() if entry.name == name]
    if len(entries) == 1:
        return entries[0]
    if entries:
        raise UsageError(
            f"'{name}' names several workloads",
            hint=" or ".join(sorted(entry.full_name for entry in entries)),
        )
    hint = _near(name, [*_workloads, *(entry.name for entry in _workloads.values())])
    raise UsageError(
        f"there is no workload '{name}'",
        hint=hint or "`statsnet list` shows those there are; a model of your own is path/to/file.py:factory",
    )


def failed_extensions() -> dict[str, str]:
    """Entry points that could not be imported, with the reason; they never stop the others."""
    _load()
    return dict(_failed)


def _near(name: str, candidates: list[str]) -> str:
    """`did you mean ...` with full names, or an empty string."""
    wanted = name.lower().replace("-", "_")
    close = difflib.get_close_matches(wanted, candidates, n=4, cutoff=0.55)
    close += [candidate for candidate in candidates if wanted and wanted in candidate]
    full = [next((n for n in _workloads if n.endswith(f"/{c}")), c) for c in close]
    return f"did you mean {' or '.join(list(dict.fromkeys(full))[:3])}?" if full else ""


def _load() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True  # first, since the modules imported below come back here
    try:
        importlib.import_module(BUILTIN_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != BUILTIN_PACKAGE:
            raise
        _failed[BUILTIN_PACKAGE] = "the package of reference workloads is not installed"
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            entry_point.load()
        except Exception as error:  # a broken extension must not take the command line down
            _failed[entry_point.name] = f"{type(error).__name__}: {error}"
