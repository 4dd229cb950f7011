"""Where torch traces a function on tensors without data in the midst of a step.

The derivative of a higher-order operator (torch.cond, while_loop, scan, flex_attention) is traced anew in every step.
That is time of the step, but its operators compute nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any
from unittest.mock import patch

Traces = Callable[..., Any]

_PACKAGE = "torch._higher_order_ops"
_TRACES = ("materialize_as_graph", "create_fw_bw_graph")
"""Functions that do so. Modules hold them by these names."""
_PARTITIONER = "HopGraphMinCutPartitioner"
_PARTITIONS = "create_partitioned_graph"


@cache
def _tracing_modules() -> tuple[str, ...]:
    """Their names. All that are imported may be thousands, and a capture looks for these."""
    if (spec := find_spec(_PACKAGE)) is None:
        return ()
    return _PACKAGE, *(f"{_PACKAGE}.{each.name}" for each in iter_modules(spec.submodule_search_locations))


@contextmanager
def tracing_wrapped(wrap: Callable[[Traces], Traces]) -> Iterator[None]:
    """Within it, torch calls what `wrap` makes of each function that traces. Nothing is changed where this torch traces
    in another way, or has traced nothing yet."""
    with ExitStack() as stack:
        for module in map(sys.modules.get, _tracing_modules()):
            if module is None:
                continue
            for function in _TRACES:
                if (traces := vars(module).get(function)) is not None:
                    stack.enter_context(patch.object(module, function, wrap(traces)))
        partitioner = getattr(sys.modules.get(f"{_PACKAGE}.partitioner"), _PARTITIONER, None)
        if hasattr(partitioner, _PARTITIONS):
            wrapped = wrap(getattr(partitioner, _PARTITIONS))
            stack.enter_context(patch.object(partitioner, _PARTITIONS, wrapped))
        yield
