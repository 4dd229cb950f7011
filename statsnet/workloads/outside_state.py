"""What a model's code keeps outside of its modules: in globals of its files, in classes, closures and functions, whose
defaults may be lists that grow.

Only names that the code itself reads or writes are looked at, and only code of people's own: libraries keep tables that
are no state of a step.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Place = tuple[Any, str]
"""A module, class, function, file or closure's Cell, and the name of an attribute of its own."""

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_HERE = str(Path(__file__).parents[1])


class Cell:
    """What a function finds in one place of its closure, as an attribute."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    @property
    def contents(self) -> Any:
        return self._cell.cell_contents

    @contents.setter
    def contents(self, value: Any) -> None:
        self._cell.cell_contents = value


def outside_places(model: torch.nn.Module, others: Iterable[Any]) -> list[Place]:
    """Where the code of a model's modules, of the functions that they hold, and of `others` (a loss) keeps values."""
    search = _Search()
    for module in model.modules():
        held = [*vars(module).values(), *module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        search.follow(type(module))
        for value in held:
            if isinstance(value, FunctionType | MethodType | partial):
                search.follow(value)
    for other in others:
        search.follow(other)
    return [*search.places]


def is_own_class(kind: type) -> bool:
    """Whether a class is of people's own, not of a library."""
    return _is_own(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


class _Search:
    """Follows names from function to function."""

    def __init__(self) -> None:
        self.places: dict[Place, None] = {}
        self._cells: dict[int, Cell] = {}
        self._seen: set[int] = set()

    def follow(self, value: Any) -> None:
        """Look at what a value's code names, if it is code of people's own."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if id(value) not in self._seen:
                self._seen.add(id(value))
                waiting += self._named_by(value)

    def _named_by(self, value: Any) -> list[Any]:
        if isinstance(value, MethodType | staticmethod | classmethod):
            return [value.__func__]
        if isinstance(value, partial):
            return [value.func]
        if isinstance(value, property):
            return [value.fget]
        if isinstance(value, FunctionType):
            wrapped = [value.__wrapped__] if hasattr(value, "__wrapped__") else []
            return [*wrapped, *self._of_function(value)] if _is_own(value.__code__.co_filename) else wrapped
        if isinstance(value, type):
            return [found for kind in value.__mro__ if is_own_class(kind) for found in self._of_class(kind)]
        if inspect.isbuiltin(value) or isinstance(value, ModuleType):
            return []
        if hasattr(value, "__wrapped__"):  # functools.cache
            return [value.__wrapped__]
        return [type(value)] if is_own_class(type(value)) else []

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        cells = [cell for cell in function.__closure__ or () if _is_filled(cell)]
        names = _names(function.__code__)
        file = sys.modules.get(function.__module__ or "")
        places: list[Place] = [(self._cells.setdefault(id(cell), Cell(cell)), "contents") for cell in cells]
        if file is not None and vars(file) is function.__globals__:
            places += [(file, name) for name in names if name in vars(file)]
        defaults = [name for name in ("__defaults__", "__kwdefaults__") if getattr(function, name)]
        places += [(function, name) for name in (*vars(function), *defaults)]
        for holder, name in places:
            value = getattr(holder, name)
            self.places[holder, name] = None
            yield value
            if isinstance(value, ModuleType) and _is_own(getattr(value, "__file__", None) or ""):
                for inner in names & vars(value).keys():  # `cache.rows` names both
                    self.places[value, inner] = None
                    yield vars(value)[inner]

    def _of_class(self, kind: type) -> Iterator[Any]:
        for name, value in vars(kind).items():
            if not name.startswith("__"):
                self.places[kind, name] = None
            if isinstance(value, FunctionType | staticmethod | classmethod | property):
                yield value


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _is_filled(cell: CellType) -> bool:
    try:
        return bool(cell.cell_contents is not cell)
    except ValueError:  # what it is to hold is not made yet
        return False


@cache
def _is_own(path: str) -> bool:
    """Whether a file is people's own."""
    return path.endswith(".py") and not path.startswith((*_LIBRARIES, _HERE))
