"""A class of a library, built and called by its parameters' names: what a name means is the same everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from statsnet.errors import WorkloadError

DOES_NOT_RUN = "does not run by itself"
MOST_PARAMETERS = 80_000_000

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model, and what it is called with: what a factory returns."""


def arguments(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Of the known values, those that the function takes. Raises WorkloadError if it needs another."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if missing := [p.name for p in named if p.default is p.empty and p.name not in known and p.name != "self"]:
        raise WorkloadError(f"nothing is known for {', '.join(missing)}")
    return {p.name: known[p.name] for p in named if p.name in known}


def does_not_run(name: str, cause: str) -> WorkloadError:
    """The error of a class that is no case."""
    return WorkloadError(f"'{name}' {DOES_NOT_RUN}", cause=cause)


def reason_of(error: BaseException) -> str:
    """An error as part of one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"


def first_that_runs(
    name: str,
    models: Iterable[Callable[[], nn.Module]],
    inputs: Callable[[nn.Module], Iterable[Mapping[str, Any]]],
) -> Made:
    """The first of the models, with the first inputs that it runs on.

    A model with more than MOST_PARAMETERS is passed over before it takes memory. Raises WorkloadError with all reasons.
    """
    reasons: list[str] = []
    for make in models:
        failed: list[BaseException] = []
        try:
            model = _small_enough(make)
            for given in inputs(model):
                try:
                    with torch.no_grad():
                        model(**given)
                    return model, (), dict(given)
                except Exception as error:
                    failed.append(error)
        except (Exception, SystemExit) as error:  # a library may end the program for another one that it lacks
            failed.append(error)
        # The first inputs are the likeliest, so their error says most.
        reasons.append(reason_of(failed[0] if failed else ValueError("no inputs are known")))
    raise does_not_run(name, "; ".join(dict.fromkeys(reasons)))


def _small_enough(make: Callable[[], nn.Module]) -> nn.Module:
    try:
        with torch.device("meta"):
            count = sum(p.numel() for p in make().parameters())
    except Exception:
        count = 0  # it reads values while it is built
    if count > MOST_PARAMETERS:
        raise WorkloadError(f"it has {count / 1e6:.0f} million parameters")
    model = make().eval()
    if not isinstance(model, nn.Module) or sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise WorkloadError("it is no model, or too large")
    return model
