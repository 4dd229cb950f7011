"""Higher-order operators (cond, while_loop, scan, flex_attention): their parts are captured as what runs.

torch hands such an operator to a dispatch mode as a whole. What runs without the mode is its implementation in Python,
which calls ordinary operators: it is called with the mode on, so that these are seen one by one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch

_ASKS_FOR_MODES = "_get_current_dispatch_mode"
"""Implementations ask it whether a mode is on, which they do not expect of the ordinary case."""


def run_in_parts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], watched: AbstractContextManager[Any]) -> Any:
    """Call a higher-order operator so that the operators inside run within `watched`."""
    kernel = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    module = getattr(kernel, "__globals__", None)
    if module is None:  # compiled code and the like, which has no parts to see
        return func(*args, **kwargs)
    quiet = {_ASKS_FOR_MODES: lambda: None} if _ASKS_FOR_MODES in module else {}
    with patch.dict(module, quiet), watched:
        return kernel(*args, **kwargs)
