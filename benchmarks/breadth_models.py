"""Factories of benchmarks/breadth.py: torch's modules and functional operators with torch's own test inputs.

What does not run by itself is no case: it raises `does_not_run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.drawn.by_name import does_not_run, reason_of
from statsnet.workloads.tree_copies import map_tensors


def module_names() -> list[str]:
    """torch.nn's modules, from torch's own list of test inputs (it needs the package expecttest)."""
    from torch.testing._internal.common_modules import module_db

    return sorted({info.name for info in module_db})


def torch_module(name: str = "nn.Linear") -> Any:
    """A module of torch.nn with the first of torch's own test inputs."""
    from torch.testing._internal.common_modules import module_db

    info = next(info for info in module_db if info.name == name)
    failure = "no inputs"
    for entry in info.module_inputs_func(info, torch.device("cpu"), torch.float32, requires_grad=False, training=True):
        try:
            made = entry.constructor_input
            model = info.module_cls(*made.args, **made.kwargs)
            forward = entry.forward_input
            if forward is not None:
                with torch.no_grad():
                    model(*forward.args, **forward.kwargs)
                return model, forward.args, forward.kwargs
        except Exception as error:
            failure = reason_of(error)
    raise does_not_run(name, failure)


class Operator(nn.Module):
    """One functional operator; `scale` gives training a parameter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, first: Any, *args: Any, **kwargs: Any) -> Any:
        scaled = map_tensors(first, lambda t: t * self.scale if t.is_floating_point() else t)
        return self.function(scaled, *args, **kwargs)


def operator_names() -> list[str]:
    """Operators of OpInfo's list that take float32 (it needs the package expecttest)."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted({_named(info) for info in op_db if torch.float32 in info.dtypes})


def _named(info: Any) -> str:
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else str(info.name)


def torch_operator(name: str = "nn.functional.linear") -> Any:
    """An operator with the largest of OpInfo's first samples."""
    from torch.testing._internal.common_methods_invocations import op_db

    info = next(info for info in op_db if _named(info) == name)
    try:
        samples = [s for s, _ in zip(info.sample_inputs("cpu", torch.float32), range(8), strict=False)]
        sample = max(samples, key=lambda s: s.input.numel() if isinstance(s.input, torch.Tensor) else 0)
        model = Operator(info.op)
        with torch.no_grad():
            model(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        raise does_not_run(name, reason_of(error)) from error
    return model, (sample.input, *sample.args), dict(sample.kwargs)
