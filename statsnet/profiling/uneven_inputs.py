"""Processes of a loop that run out of inputs one after the other, as torch's Join lets them.

Join answers for a process that has no inputs left, but only the collectives of a model. One of our own would be taken
for one of the model's, and both processes would wait, or mix their messages. How many processes still have inputs is
told by what Join sends before each forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from statsnet.errors import UsageError
from statsnet.profiling.distributed import alone


class UnevenInputs:
    """`ended_elsewhere` once another process has run out of inputs."""

    def __init__(self) -> None:
        self.ended_elsewhere = False
        self._model: Any = None
        self._told: Any = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within, what Join sends is heard."""
        if alone():
            yield
            return
        from torch.distributed.algorithms.join import Join

        notify, leave = Join.notify_join_context, Join.__exit__

        def told(model: Any) -> Any:
            if (work := notify(model)) is not None:
                self._model, self._told = model, work
            return work

        def left(join: Join, *error: Any) -> Any:
            self._model = self._told = None
            return leave(join, *error)

        with patch.object(Join, "notify_join_context", staticmethod(told)), patch.object(Join, "__exit__", left):
            yield

    def look(self) -> bool:
        """At the end of a step: whether another process had no inputs for it."""
        if self._told is not None:
            self._told.wait()
            (having_inputs,) = self._told.result()
            self._told = None
            self.ended_elsewhere |= int(having_inputs) < dist.get_world_size(self._model.join_process_group)
        return self.ended_elsewhere

    def check_all_end(self, name: str) -> None:
        """Before processes tell each other what they have measured. Raises UsageError inside of a Join whose other
        processes go on: they do not listen."""
        if self._model is None:
            return
        going_on = torch.zeros(1, device=self._model.join_device)
        dist.all_reduce(going_on, group=self._model.join_process_group)
        if going_on:
            raise UsageError(
                f"'{name}' is profiled inside of Join",
                cause="this process has run out of inputs, and others go on",
                hint="with statsnet.profile(...) as p, Join([model]): Join belongs inside",
            )
