"""From a target ("resnet50", "file.py:factory", "package.module:factory") to a factory function."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from statsnet.errors import UsageError, WorkloadError, one_of
from statsnet.workloads.model_errors import describe, next_step
from statsnet.workloads.registry import Workload, get


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A factory, with its registry entry if it has one; `origin` is the file or module that it came from."""

    factory: Callable[..., Any]
    workload: Workload | None
    label: str
    origin: str


def resolve(target: str) -> Target:
    """Find the factory of a target.

    Raises UsageError where the name, file, module or attribute does not exist, and WorkloadError where
    importing the user's code fails.
    """
    if ":" not in target:
        if target.endswith(".py"):
            raise _no_factory(target)
        entry = get(target)
        if callable(entry.factory):
            return Target(factory=entry.factory, workload=entry, label=target, origin=_origin(entry.factory.__module__))
        module = _import(entry.factory.partition(":")[0])
        return _target(module, entry.factory.partition(":")[2], entry.full_name, entry)
    place, _, attribute = target.rpartition(":")
    module = _import_file(place) if _is_file(place) else _import(place)
    return _target(module, attribute, target, None)


def check_file(target: str) -> None:
    """Raises UsageError for a file that is not there, or without a factory: before a process is started to load it."""
    if ":" not in target and target.endswith(".py"):
        raise _no_factory(target)
    place, _, _ = target.rpartition(":")
    if _is_file(place) and not _file(place).is_file():
        raise _no_file(place)


def _no_factory(target: str) -> UsageError:
    return UsageError(
        f"'{target}' names a file but no factory", hint=f"{target}:make, where make() returns (model, args)"
    )


def _is_file(place: str) -> bool:
    return place.endswith(".py") or os.sep in place or "/" in place


def _file(path: str) -> Path:
    return Path(os.path.expanduser(path)).resolve()


def _no_file(path: str) -> UsageError:
    return UsageError(f"there is no file '{path}'", hint="give the path of a Python file, then :factory")


def _target(module: ModuleType, attribute: str, label: str, entry: Workload | None) -> Target:
    factory = _attribute(module, attribute)
    if cause := _no_function(factory):
        known = _factories(module)
        raise UsageError(
            f"'{label}' has no factory '{attribute}'",
            cause=cause,
            hint=one_of(attribute, known) if known else "define a function that returns (model, args)",
        )
    return Target(
        factory=factory,
        workload=entry or getattr(factory, "__statsnet_workload__", None),
        label=label,
        origin=getattr(module, "__file__", None) or "",
    )


def _attribute(module: ModuleType, path: str) -> Any:
    """`make`, or inside of a class `Zoo.tiny`; None if there is no such attribute."""
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _no_function(factory: Any) -> str:
    """Why an attribute is no factory; nothing if it may be one. Models and their classes can be called, too."""
    if factory is None:
        return "the module has no such attribute"
    if _is_model(factory):
        return f"it is a model{chr(39) + 's class' if isinstance(factory, type) else ''}, not a function"
    return "" if callable(factory) else f"it is of type {type(factory).__name__}, not a function"


def _is_model(value: Any) -> bool:
    return callable(getattr(value, "forward", None)) and hasattr(value, "state_dict")


def _factories(module: ModuleType) -> list[str]:
    """What the module defines that may be a factory: its functions, else its classes beside those of models."""
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__
    }
    functions = [name for name, value in own.items() if not isinstance(value, type) and not hasattr(value, "forward")]
    return functions or [name for name, value in own.items() if not hasattr(value, "forward")]


def _origin(module_name: str) -> str:
    return getattr(sys.modules.get(module_name), "__file__", None) or ""


def _import_file(path: str) -> ModuleType:
    file = _file(path)
    if not file.is_file():
        raise _no_file(path)
    # One name per file, so that two files called model.py do not collide and dataclasses find their module.
    name = f"statsnet_target_{hashlib.sha256(os.fsencode(file)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"'{path}' is not a Python file", hint="give a file whose name ends with .py")
    module = importlib.util.module_from_spec(spec)
    _search(str(file.parent))  # so that it can import its neighbours, as when it is run as a script
    sys.modules[name] = module
    try:
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            if (root := _root_of(error.name or "", file)) is None:
                raise
            _search(root)
            importlib.invalidate_caches()
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, ImportError) and "no known parent package" in str(error):
            return _import_of_package(file)
        raise _import_failed(path, error, str(file)) from error
    return module


def _root_of(missing: str, file: Path) -> str | None:
    """The folder that holds a package which was not found: one around the file, or the current one. A file of a package
    imports its neighbours by the package's name, and is run from the folder that the package is in."""
    first = missing.partition(".")[0]
    for folder in (*file.parents, *_current_folder()):
        is_around = folder / first in file.parents
        if first and (is_around or (folder / first / "__init__.py").is_file()) and str(folder) not in sys.path:
            return str(folder)
    return None


def _current_folder() -> list[Path]:
    try:
        return [Path.cwd()]
    except FileNotFoundError:  # somebody has removed it
        return []


def _import_of_package(file: Path) -> ModuleType:
    """A file that imports relatively, as a module of its package: of the outermost folder around it that has an
    __init__.py, else of the one that it lies in."""
    root = file.parent.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    package, *inner = file.relative_to(root).with_suffix("").parts
    _search(str(root))
    importlib.invalidate_caches()  # the folder may be new
    try:
        found = importlib.util.find_spec(package)
        if found is None or str(root / package) not in (found.submodule_search_locations or ()):
            raise ImportError(f"attempted relative import, and Python finds another module named {package}")
        return importlib.import_module(".".join([package, *inner]))
    except (Exception, SystemExit) as error:
        raise _import_failed(str(file), error, str(file)) from error


def _import(name: str) -> ModuleType:
    _search(os.getcwd())
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module '{name}'",
                cause=str(error),
                hint="run in the folder that holds it, install it, or give path/to/file.py:factory",
            ) from error
        raise _import_failed(name, error, "") from error


def _import_failed(label: str, error: BaseException, origin: str) -> WorkloadError:
    return WorkloadError(
        f"'{label}' could not be imported",
        cause=describe(error, origin),
        hint=next_step(error, f"make `python {label}` run first" if label.endswith(".py") else ""),
    )


def _search(folder: str) -> None:
    # Behind the standard library, so that a user's inspect.py or random.py does not shadow it, but before what is
    # installed: Python itself would find a user's files first, and some package there may be called as one of them.
    if folder not in sys.path:
        installed = (i for i, entry in enumerate(sys.path) if Path(entry).name in ("site-packages", "dist-packages"))
        sys.path.insert(next(installed, len(sys.path)), folder)
