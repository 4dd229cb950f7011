"""Calling a factory with checked keyword arguments, and reading what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from statsnet.errors import StatsNetError, UsageError, WorkloadError, did_you_mean
from statsnet.workloads.hidden_operators import check_not_compiled, check_not_for_onednn
from statsnet.workloads.loading import Target
from statsnet.workloads.model_errors import describe, next_step

if TYPE_CHECKING:
    import torch

Value = bool | int | float | str
MOST_BATCHES = 64
"""So many are taken of a DataLoader, or of what else yields batches."""

Inputs = list[tuple[tuple[Any, ...], dict[str, Any]]]

RESULT_KEYS = ("model", "args", "kwargs", "inputs", "loss", "optimizer", "accumulation")
RETURN_HINT = (
    "return (model, args), (model, args, kwargs) or a dict with 'model' and 'args' or 'inputs', "
    "optionally 'kwargs', 'loss', 'optimizer' and 'accumulation'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a factory returned, in one form."""

    model: torch.nn.Module
    inputs: Inputs
    loss: Callable[[Any], Any] | None
    optimizer: Any
    accumulation: int = 1


def parse_value(text: str) -> Value:
    """`"8"` -> 8, `"0.5"` -> 0.5, `"true"` -> True, anything else stays text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def keyword_arguments(
    target: Target, preset: Mapping[str, int], batch: int | None, overrides: Mapping[str, Value]
) -> dict[str, Value]:
    """Preset, then batch, then overrides, as the factory takes them.

    Raises UsageError for a keyword that the factory does not take, a value of another type than its default, a
    batch below 1 or given twice, and a missing required argument.
    """
    signature = inspect.signature(target.factory)
    usual = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    accepted = {name: item for name, item in signature.parameters.items() if item.kind in usual}
    open_ended = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in signature.parameters.values())
    asked = {key: _value(key, value, accepted) for key, value in overrides.items()}
    if batch is not None:
        if asked.get("batch", batch) != batch:
            raise UsageError("the batch is given twice", cause=f"{batch} and {asked['batch']}")
        asked["batch"] = batch
    for key in asked:
        if key not in accepted and not open_ended:
            raise UsageError(
                f"'{target.label}' takes no argument '{key}'",
                cause=f"it takes {', '.join(accepted)}" if accepted else "its factory takes none",
                hint=did_you_mean(
                    key, accepted, otherwise="give its factory a keyword argument of that name, or leave it out"
                ),
            )
    keywords = {**preset, **asked}
    size = keywords.get("batch", 1)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(f"'{size}' is not a batch", hint="give a whole number of at least 1")
    _check_positional(target, signature)
    needed = [n for n, item in accepted.items() if item.default is inspect.Parameter.empty and n not in keywords]
    if needed:
        raise UsageError(
            f"the factory of '{target.label}' needs {', '.join(needed)}",
            hint=" ".join(f"--set {name}=..." for name in needed),
        )
    return keywords


def _check_positional(target: Target, signature: inspect.Signature) -> None:
    """Raises UsageError for a factory with arguments that cannot be given by name."""
    empty, only = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_ONLY
    if unnamed := [p.name for p in signature.parameters.values() if p.kind is only and p.default is empty]:
        raise UsageError(
            f"the factory of '{target.label}' takes {', '.join(unnamed)} by position only",
            cause="its arguments are given by name",
            hint="give them defaults, or leave out the / in its signature",
        )


def batch_of(target: Target, keywords: Mapping[str, Value]) -> int | None:
    """The factory's batch, given or default; None if it takes no batch."""
    parameter = inspect.signature(target.factory).parameters.get("batch")
    value = keywords.get("batch", parameter.default if parameter else None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def call(target: Target, keywords: Mapping[str, Value]) -> Made:
    """Call the factory. Raises WorkloadError if it fails or does not return what docs ask for."""
    with _users(target, f"the factory of '{target.label}' failed", "call the factory"):
        result = target.factory(**keywords)
    return _read(target, result)


@contextmanager
def _users(target: Target, failed: str, to_do: str) -> Iterator[None]:
    """Around code of the user's: what it raises becomes a WorkloadError, which says what failed and what to do."""
    try:
        yield
    except StatsNetError:
        raise
    except (Exception, SystemExit) as error:
        hint = next_step(error, f"{to_do} by itself in Python to see the whole trace")
        raise WorkloadError(failed, cause=describe(error, target.origin), hint=hint) from error


def _value(key: str, value: Value, accepted: Mapping[str, inspect.Parameter]) -> Value:
    default = accepted[key].default if key in accepted else None
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, tuple | list | Mapping | set | frozenset):
        raise UsageError(
            f"'{key}' cannot be set to '{value}'",
            cause=f"its default is {default!r}, and a value is text, a number, or true or false",
            hint=f"let the factory take text, and make the {type(default).__name__} of it",
        )
    parsed = parse_value(value)
    if isinstance(default, bool | int | float) and isinstance(parsed, str):
        raise UsageError(
            f"'{value}' is no value for '{key}'",
            cause=f"its default is {default}, so a number or true/false is expected",
        )
    return parsed


def _read(target: Target, result: Any) -> Made:
    import torch

    made = _as_mapping(target, result)
    model = made.get("model")
    if not isinstance(model, torch.nn.Module):
        raise _bad_result(target, _no_module(model))
    check_not_compiled(target, model)
    check_not_for_onednn(target, model)
    loss, optimizer = made.get("loss"), made.get("optimizer")
    if loss is not None and not callable(loss):
        raise _bad_result(target, f"its loss is a {type(loss).__name__}, not a function of the outputs")
    if not (optimizer is None or isinstance(optimizer, str | list | tuple | dict) or _steps(optimizer)):
        raise _bad_result(target, "its optimizer is no name, no function of the parameters, and has no step()")
    accumulation = made.get("accumulation") or 1
    if isinstance(accumulation, bool) or not isinstance(accumulation, int) or accumulation < 1:
        raise _bad_result(target, "its accumulation is not a number of batches")
    with _users(target, f"the inputs of '{target.label}' could not be read", "go through the loader or generator"):
        inputs = _inputs(target, made)
    return Made(model=model, inputs=inputs, loss=loss, optimizer=optimizer, accumulation=accumulation)


def _no_module(model: Any) -> str:
    import torch

    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        return f"its model is the class {model.__name__}: call it, {model.__name__}(...)"
    if isinstance(getattr(model, "graph_module", None), torch.nn.Module):
        return "its model is an exported program: return its module()"
    if inspect.isroutine(model):
        return "its model is a function: call it in the forward of a torch.nn.Module"
    return f"its model is a {type(model).__name__}, not a torch.nn.Module"


def _steps(optimizer: Any) -> bool:
    return callable(optimizer) or callable(getattr(optimizer, "step", None))


def _as_mapping(target: Target, result: Any) -> dict[str, Any]:
    import torch

    if isinstance(result, torch.nn.Module):
        raise _bad_result(target, "it returned a model without inputs")
    if isinstance(result, Mapping):
        unknown = sorted(str(key) for key in result if key not in RESULT_KEYS)
        if unknown:
            raise _bad_result(target, f"unknown keys: {', '.join(unknown)}")
        return dict(result)
    if hasattr(result, "model") and any(hasattr(result, key) for key in ("args", "kwargs", "inputs")):
        return {key: getattr(result, key, None) for key in RESULT_KEYS}
    if isinstance(result, tuple | list) and len(result) in (2, 3):
        return dict(zip(RESULT_KEYS, result, strict=False))
    size = f" of {len(result)}" if isinstance(result, tuple | list) else ""
    raise _bad_result(
        target, "it returned nothing" if result is None else f"it returned a {type(result).__name__}{size}"
    )


def _inputs(target: Target, made: Mapping[str, Any]) -> Inputs:
    if made.get("inputs") is None:
        args, kwargs = made.get("args"), {} if made.get("kwargs") is None else made["kwargs"]
        if not isinstance(kwargs, Mapping):
            what = f"its kwargs are a {type(kwargs).__name__}, not a dictionary (labels are for its loss)"
            raise _bad_result(target, what)
        if args is None and not kwargs:
            raise _bad_result(target, "it gives the model no input")
        if _is_loader(args) and kwargs:
            raise _bad_result(target, "it gives a loader as args, and kwargs: put these into the loader's batches")
        entries: list[Any] = _entries(args) if _is_loader(args) else [(() if args is None else args, kwargs)]
    elif made.get("args") is not None or made.get("kwargs") not in (None, {}):
        raise _bad_result(target, "it gives both 'inputs' and 'args' or 'kwargs'")
    else:
        entries = _entries(made["inputs"])
    if not entries:
        raise _bad_result(target, "its list of inputs is empty")
    pairs = [_pair(entry) for entry in entries]
    _check_first(target, made, pairs[0])
    return [_as_taken(made["model"], *pair) for pair in pairs]


def _is_loader(value: Any) -> bool:
    import torch

    return isinstance(value, torch.utils.data.DataLoader)


def _entries(inputs: Any) -> list[Any]:
    """An entry for each step: all of a list, the first MOST_BATCHES of what else yields batches. A tensor, a dictionary
    or an object is that of one step, though some can be gone through: by rows, by names."""
    import torch

    if _is_sequence(inputs):
        return list(inputs)
    is_one = isinstance(inputs, torch.Tensor | str | bytes) or any(map(partial(hasattr, inputs), _OF_ONE_STEP))
    yields = isinstance(inputs, Iterable) or hasattr(inputs, "__getitem__")
    return list(islice(inputs, MOST_BATCHES)) if yields and not is_one else [inputs]


_OF_ONE_STEP = ("keys", "__array__", "_fields")
"""Attributes of dictionaries, arrays, and named tuples."""


def _pair(entry: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of one step."""
    is_pair = isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[1], Mapping)
    args, kwargs = entry if is_pair and _is_sequence(entry) else (entry, {})
    if args is None or isinstance(args, Mapping):
        return (), {**(args or {}), **kwargs}
    return (tuple(args) if _is_sequence(args) else (args,)), dict(kwargs)


def _as_taken(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as the model takes them: a dictionary that is not its keywords is one argument."""
    if not args and _misfit(model, (), kwargs) and not _misfit(model, (kwargs,), {}):
        return (kwargs,), {}
    return args, kwargs


def _misfit(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Why a model does not take these arguments; nothing if it does, or if its signature does not tell."""
    if model._forward_pre_hooks:  # they may change the arguments
        return ""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _check_first(target: Target, made: Mapping[str, Any], pair: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Raise WorkloadError if the model does not take the first input."""
    model, inputs = made["model"], made.get("inputs")
    cause = _misfit(model, *_as_taken(model, *pair))
    if not cause:
        return
    hint = "return (model, args) so that model(*args) runs; a batch that is one argument of it is ((batch,), {})"
    if _is_loader(inputs) or _is_loader(made.get("args")):
        hint = "a loader's batch holds the arguments of one step: leave out labels, or let forward() take them"
    if (
        isinstance(inputs, tuple | list)
        and not any(map(_is_sequence, inputs))
        and not _misfit(model, tuple(inputs), {})
    ):
        hint = "'inputs' has an entry for each step: give the arguments of one step as 'args'"
    raise WorkloadError(f"the model of '{target.label}' does not take its inputs", cause=cause, hint=hint)


def _is_sequence(value: Any) -> bool:
    """Whether it holds arguments: a named tuple, such as a packed sequence, is one argument."""
    return isinstance(value, tuple | list) and not hasattr(value, "_fields")


def _bad_result(target: Target, cause: str) -> WorkloadError:
    return WorkloadError(f"the factory of '{target.label}' does not return a workload", cause=cause, hint=RETURN_HINT)
