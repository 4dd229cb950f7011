"""The first model of a library's class that runs, as it is or changed as its errors ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from benchmarks.drawn.by_name import does_not_run, reason_of
from benchmarks.drawn.refitting import MOST_S, refitted
from statsnet.errors import WorkloadError

MOST_PARAMETERS = 80_000_000

MOST_CHANGES = 16
"""Models built from one that failed, each with another change."""

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model, and what it is called with: what a factory returns."""

Inputs = Callable[[nn.Module], Iterable[Mapping[str, Any]]]
"""Gives a model what it may take, the likeliest first."""

Mend = Callable[[Any, str], Iterable[Callable[[], nn.Module]]]
"""Makes models from one that failed, each with a change that this error asks for."""


def first_that_runs(
    name: str,
    models: Iterable[Callable[[], nn.Module]],
    inputs: Inputs,
    refit: int | None = None,
    mend: Mend | None = None,
) -> Made:
    """The first of the models, with the first inputs that it runs on.

    If none does and `refit` is given, which is the batch, each is given a batch of one. Then models are changed as
    their errors ask, by `mend`, at last inputs are guessed and changed for each model (refitting.py). A model with more
    than MOST_PARAMETERS is passed over before it takes memory. Raises WorkloadError with all reasons.

    Numbers next to zero count as zero from here on: weights that nobody trained make such ones of everything after some
    layers, with which a processor computes up to a hundred times slower.
    """
    torch.set_flush_denormal(True)
    failed: list[_Trial] = []
    for make in models:
        trial = _tried(make, inputs)
        if trial.model is not None and trial.runs:
            return trial.model, (), dict(trial.given[-1])
        if refit is None:
            trial.model = None  # it takes memory
        failed.append(trial)
    built = [trial for trial in failed if trial.model is not None]
    if refit is not None and (found := _alone(built, refit) or _mended(built, inputs, mend) or _refitted(built, refit)):
        return found
    reasons = [reason_of(trial.error or ValueError("no inputs are known")) for trial in failed]
    raise does_not_run(name, "; ".join(dict.fromkeys(reasons)))


@dataclass(slots=True)
class _Trial:
    """A model, what it was given, and whether it runs on the last of these; `error` is the first of its errors: the
    first inputs are the likeliest, so their error says most."""

    model: nn.Module | None = None
    given: list[Mapping[str, Any]] = field(default_factory=list)
    runs: bool = False
    errors: dict[str, Exception | SystemExit] = field(default_factory=dict)

    @property
    def error(self) -> BaseException | None:
        return next(iter(self.errors.values()), None)

    def failed_by(self, error: Exception | SystemExit) -> None:
        self.errors.setdefault(str(error), error.with_traceback(None))  # which would keep tensors


def _tried(make: Callable[[], nn.Module], inputs: Inputs) -> _Trial:
    trial = _Trial()
    try:
        trial.model = _small_enough(make)
        for given in inputs(trial.model):
            trial.given.append(given)
            try:
                with torch.no_grad():
                    trial.model(**given)
                trial.runs = True
                break
            except Exception as error:
                trial.failed_by(error)
    except (Exception, SystemExit) as error:  # a library may end the program for another one that it lacks
        trial.failed_by(error)
    return trial


def _alone(trials: Sequence[_Trial], batch: int) -> Made | None:
    """The first model that runs on a batch of one."""
    begin_s = time.process_time()
    for trial in trials:
        for given in trial.given:
            one = {name: _first_of(value, batch) for name, value in given.items()}
            if time.process_time() - begin_s < MOST_S and _runs(trial.model, one):
                return trial.model, (), one  # type: ignore[return-value]
    return None


def _first_of(value: Any, batch: int) -> Any:
    return value[:1].clone() if isinstance(value, torch.Tensor) and value.dim() and len(value) == batch else value


def _runs(model: Any, given: Mapping[str, Any]) -> bool:
    try:
        with torch.no_grad():
            model(**given)
    except Exception:
        return False
    return True


def _mended(trials: Sequence[_Trial], inputs: Inputs, mend: Mend | None) -> Made | None:
    """The first model that runs after some changes, each of which an error of the one before asks for."""
    if mend is None:
        return None
    begin_s = time.process_time()
    for trial in trials:
        waiting, seen, tries = [_changes(trial, mend)], set(trial.errors), 0
        while waiting and tries < MOST_CHANGES and time.process_time() - begin_s < MOST_S:
            make = next(waiting[-1], None)
            if make is None:
                waiting.pop()
                continue
            tries += 1
            changed = _tried(make, inputs)
            if changed.model is not None and changed.runs:
                return changed.model, (), dict(changed.given[-1])
            if changed.model is not None and not changed.errors.keys() <= seen:
                waiting.append(_changes(changed, mend))
            seen.update(changed.errors)
    return None


def _changes(trial: _Trial, mend: Mend) -> Iterator[Callable[[], nn.Module]]:
    for error in [*trial.errors]:
        yield from mend(trial.model, error)


def _refitted(trials: Sequence[_Trial], batch: int) -> Made | None:
    for trial in trials:
        if trial.model is not None and (found := refitted(trial.model, trial.given, batch)) is not None:
            return trial.model, (), found
    return None


def _small_enough(make: Callable[[], nn.Module]) -> nn.Module:
    try:
        with torch.device("meta"):
            count = sum(p.numel() for p in make().parameters())
    except Exception:  # it reads values while it is built
        with _at_most(MOST_PARAMETERS):
            model = make()
    else:
        if count > MOST_PARAMETERS:
            raise WorkloadError(f"it has {count / 1e6:.0f} million parameters")
        model = make()
    if not isinstance(model, nn.Module) or sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise WorkloadError("it is no model, or too large")
    return model.eval()


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Raises WorkloadError once modules have registered more parameters, so that a model takes no more memory."""
    left, register = count, nn.Module.register_parameter

    def counted(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        nonlocal left
        left -= 0 if param is None or is_lazy(param) else param.numel()
        if left < 0:
            raise WorkloadError(f"it has over {count / 1e6:.0f} million parameters")
        register(self, name, param)

    nn.Module.register_parameter = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
