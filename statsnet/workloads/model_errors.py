"""Errors in the user's code, and errors of torch that come from there: what happened, and what to do about it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

LIBRARIES = frozenset({"transformers", "diffusers", "monai", "torch_geometric"})
"""Optional libraries that the extra `statsnet[models]` brings."""

LONGEST_MESSAGE = 400
"""Of a longer message the first line is quoted."""


def describe(error: BaseException, origin: str) -> str:
    """`ValueError: message (file.py, line 12)`: the innermost frame in the user's own folder, else of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if origin and Path(frame.filename).parent == Path(origin).parent]
    text, first = _named(error), first_cause(error)
    if str(first) not in str(error):
        text += f"; it comes from {_named(first)}"
    if isinstance(error, SyntaxError) or not frames:
        return text
    frame = (own or list(frames))[-1]
    return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"


def first_cause(error: BaseException) -> BaseException:
    """What the error was raised from at first: itself, if from nothing."""
    return list(_causes(error))[-1]


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {_first_lines(str(error)) or 'no message'}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on: libraries say `could not import`, and why only in the first."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # an error may be raised from itself
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _first_lines(message: str) -> str:
    """The part of a message that says what happened: some of torch's go on for a page."""
    message = message.strip()
    if len(message) <= LONGEST_MESSAGE:
        return message
    first, *_, last = message.splitlines() * 2
    if "in the TorchScript interpreter" in first:  # then comes where it was, and what happened at the end
        first = last
    return first if len(first) <= LONGEST_MESSAGE else f"{first[:LONGEST_MESSAGE]} ..."


def next_step(error: BaseException, otherwise: str) -> str:
    """What to do about an error in the user's code: install a library, use less memory, use a real device, say how
    many processes there are, or else `otherwise`."""
    return next(filter(None, map(_known_step, _causes(error))), otherwise)


def _known_step(error: BaseException) -> str:
    return _missing_library(error) or next((step for fits, step in _STEPS if fits(error)), "")


def _missing_library(error: BaseException) -> str:
    # Some libraries raise an error of their own where a part of them needs another library.
    if "Import" not in type(error).__name__ and not isinstance(error, ModuleNotFoundError):
        return ""
    missing = re.search(r"No module named '(\w+)", str(error))
    if missing is None:
        return ""
    library = missing[1]
    return "pip install 'statsnet[models]'" if library in LIBRARIES else f"install '{library}' in this environment"


_Fits = Callable[[BaseException], bool]


def _is_a(kind: type[BaseException]) -> _Fits:
    return lambda error: isinstance(error, kind)


def _is_called(*names: str) -> _Fits:
    """For classes of torch that need not be imported."""
    return lambda error: type(error).__name__ in names


def _says(pattern: str) -> _Fits:
    return lambda error: re.search(pattern, str(error)) is not None


_LESS_MEMORY = "use a smaller --batch or preset, or --device meta to count without memory"

_STEPS: tuple[tuple[_Fits, str], ...] = (
    (
        _is_a(SystemExit),
        "leave out what ends the program, and give the arguments of a command line defaults: there are none here",
    ),
    (
        _says("attempted relative import"),
        "put an empty __init__.py into each folder of the package, or run in the folder above it and name the "
        "module: package.module:factory",
    ),
    (
        _is_a(RecursionError),
        "give lists in place of objects that are linked to each other or nested hundreds of times",
    ),
    (_is_called("NeedsMemoryError"), "use a smaller --batch or preset, or another operator in its place"),
    (_is_a(MemoryError), _LESS_MEMORY),
    (_says("allocate memory|out of memory"), _LESS_MEMORY),
    (
        _is_called("DataDependentOutputException", "DynamicOutputShapeException", "NeedsValuesError"),
        "the model reads the values of tensors: use a real device instead of meta",
    ),
    (
        _is_called("UnsupportedOperatorException"),
        "torch has no rule for this operator without data: use a real device instead of meta",
    ),
    (
        _says("_cuda_|compiled with CUDA|support for cuda|NVIDIA driver"),
        "there is no GPU here: build on the CPU where torch.cuda.is_available() is false",
    ),
    (
        _says("Cannot copy out of meta tensor"),
        "build the model and its inputs on a real device, with torch.device('cpu'), or count it with --device meta",
    ),
    (
        _says("Expected more than 1 value per channel"),
        "train it on a larger batch, or use --mode inference: batch normalization cannot learn from one value",
    ),
    (
        _says("does not support backward on CPU"),
        "train it on a GPU (--device cuda), use --mode inference, or put a function in its place that torch can "
        "differentiate on a CPU (flex_attention: scaled_dot_product_attention)",
    ),
    (
        _says("backward through the graph a second time"),
        "what the model keeps from step to step, such as a hidden state, holds the step before: detach() it",
    ),
    (_says("nference tensor"), "build the model and its inputs outside of torch.inference_mode()"),
    (
        _says("number of total steps is"),
        "give the scheduler more steps: a profile takes some hundred of them",
    ),
    (
        _says("process group has not been initialized"),
        "it is one of several processes: count it with --device meta --nproc N, or run it under torchrun",
    ),
    (
        _says("dummy base class"),  # torch's own words for a class that this build lacks
        "the model needs a CUDA graph or stream, and this torch has none: profile it on a GPU, or without them",
    ),
)
"""The first that fits counts."""
