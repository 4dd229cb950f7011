"""Communication hooks of DistributedDataParallel whose first steps are other steps than all later ones."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from statsnet.errors import MeasurementError

_BEGINS = {"start_powerSGD_iter": 0, "start_localSGD_iter": 1}
"""Of a hook's state: the number of first steps that sum whole gradients of all processes. It counts steps in `iter`,
until it is as large (1), or without end (0)."""


def wrappers() -> list[Any]:
    """All wrappers of this process, for a loop whose model is not known."""
    return [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]


def check_hooks_have_begun(modules: Iterable[Any]) -> None:
    """Raises MeasurementError if the steps so far came before the one from which on a hook does its work. One that has
    not run yet belongs to other steps. Torch keeps hooks under a private name; without it nothing is checked."""
    for state in (state for module in modules for _, state in getattr(module, "_comm_hooks", ())):
        for name, stops in _BEGINS.items():
            begins, done = getattr(state, name, None), getattr(state, "iter", None)
            if isinstance(begins, int) and isinstance(done, int) and 0 < done <= begins - stops:
                raise MeasurementError(
                    "the steps that were profiled are not like later ones",
                    cause=f"the first {begins} steps sum whole gradients, and then a communication hook does something "
                    f"else ({name}); {done} were made",
                    hint=f"profile with {name}=2; or without the hook, if these first steps are meant",
                )
