"""Higher-order operators (cond, while_loop, scan, flex_attention): their parts are captured as what runs.

torch hands such an operator to a dispatch mode as a whole. What runs without the mode is its implementation in Python,
which calls ordinary operators: it is called with the mode on, so that these are seen one by one.

With gradients, torch first compiles the call, so that weights that its parts read become operands and get gradients.
It does not compile while a mode is on. So the mode is off there, and on again when the compiled graph runs; and off
where torch traces the derivative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

import torch
from torch._C import DispatchKey
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from statsnet.measure.tracing import Traces, tracing_wrapped

_ASKS_FOR_MODES = "_get_current_dispatch_mode"
"""Implementations ask it whether a mode is on, which they do not expect of the ordinary case."""

_ENVIRONMENT = "setup_compilation_env"
"""In it torch compiles a higher-order operator; it gives the backend."""
_COMPILING = ("torch._higher_order_ops.utils", "torch.nn.attention.flex_attention")
_OF_MODES = (DispatchKey.Python, DispatchKey.PythonTLSSnapshot)

_watching: list[AbstractContextManager[Any]] = []
"""The mode that captures now, if any: compiled graphs stay for later captures, and are watched by theirs."""


def run_in_parts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], watched: AbstractContextManager[Any]) -> Any:
    """Call a higher-order operator so that the operators inside run within `watched`."""
    kernel = func.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    function = kernel.func if isinstance(kernel, partial) else kernel
    module = getattr(function, "__globals__", None)
    if module is None:  # compiled code and the like, which has no parts to see
        return func(*args, **kwargs)
    quiet = {_ASKS_FOR_MODES: lambda: None} if _ASKS_FOR_MODES in module else {}
    with patch.dict(module, quiet), watched:
        return kernel(*args, **kwargs)


@contextmanager
def derivatives_seen(mode: AbstractContextManager[Any]) -> Iterator[None]:
    """Within it, `mode` also sees higher-order operators that are differentiated."""
    with ExitStack() as stack:
        for name in _COMPILING:
            if (compiling := getattr(module := sys.modules.get(name), _ENVIRONMENT, None)) is not None:
                stack.enter_context(patch.object(module, _ENVIRONMENT, _watched(compiling)))
        _watching.append(mode)
        stack.callback(_watching.pop)
        with tracing_wrapped(_unwatched):
            yield


def _watched(compiling: Callable[[], AbstractContextManager[Any]]) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def environment() -> Iterator[Any]:
        if not torch.is_grad_enabled():
            with compiling() as backend:
                yield backend
            return
        with _disable_current_modes(), torch.compiler.set_stance("default"), compiling():
            yield _graph_that_is_watched

    return environment


def _graph_that_is_watched(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        with _watching[-1]:
            return graph(*inputs)

    return run


def _unwatched(traces: Traces) -> Traces:
    """A function that traces, while no mode of ours is on; nor do the keys of one hold that was on when they were
    noted. Those that torch itself traces with stay: without them a tensor of a size that varies is made for real."""

    @wraps(traces)
    def trace(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_of_torch, _get_current_dispatch_mode_stack())):
            with _only_modes_of_torch():
                return traces(*args, **kwargs)
        with _disable_current_modes():
            return traces(*map(_without_modes, args), **{key: _without_modes(each) for key, each in kwargs.items()})

    return trace


def _is_of_torch(mode: Any) -> bool:
    """Whether it is one of the modes that torch traces with: for tensors without data, for example."""
    return getattr(mode, "_mode_key", None) is not None


@contextmanager
def _only_modes_of_torch() -> Iterator[None]:
    # Those of torch lie below all others.
    others = [_pop_mode() for mode in _get_current_dispatch_mode_stack() if not _is_of_torch(mode)]
    try:
        yield
    finally:
        for mode in reversed(others):
            _push_mode(mode)


def _without_modes(value: Any) -> Any:
    if isinstance(value, torch._C.DispatchKeySet):
        for key in _OF_MODES:
            value = value.remove(key)
    return value
