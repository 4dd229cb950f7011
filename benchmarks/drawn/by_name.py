"""A class of a library, built and called by its parameters' names: what a name means is the same everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from statsnet.errors import WorkloadError

DOES_NOT_RUN = "does not run by itself"


def arguments(function: Callable[..., Any], known: Mapping[str, Any], all_needed: bool = True) -> dict[str, Any]:
    """Of the known values, those that the function takes. Raises WorkloadError if it needs another, unless that is
    given elsewhere."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in known and p.name != "self"]
    if missing and all_needed:
        raise WorkloadError(f"nothing is known for {', '.join(missing)}")
    return {p.name: known[p.name] for p in named if p.name in known}


def does_not_run(name: str, cause: str) -> WorkloadError:
    """The error of a class that is no case."""
    return WorkloadError(f"'{name}' {DOES_NOT_RUN}", cause=cause)


def reason_of(error: BaseException) -> str:
    """An error as part of one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
