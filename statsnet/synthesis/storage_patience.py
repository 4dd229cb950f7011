"""How long a search waits for its storage: a database that is started again must not cost a design."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from statsnet.deadline import NEVER, Clock, Deadline
from statsnet.synthesis.storage_errors import StorageErrors, is_failure, may_pass
from statsnet.units import format_duration

T = TypeVar("T")

LONGEST_PAUSE_S = 15.0


@dataclass(slots=True, kw_only=True)
class StoragePatience:
    """Calls a storage again that fails, for `limit_s` from the first failure and the length of a last call. The
    pauses between begin with `pause_s` and double. `note` is told of each time that the storage is away."""

    errors: StorageErrors
    limit_s: float
    pause_s: float
    clock: Clock
    sleep: Callable[[float], None]
    note: Callable[[str], None]
    _failed: threading.Event = field(default_factory=threading.Event)

    def call(self, function: Callable[[], T], *, opening: bool = False) -> T:
        """What the function returns, which may be called several times. Raises as `StorageErrors.told` does."""
        limit, pause_s = NEVER, 0.0
        with self.errors.told(opening=opening):
            while True:
                try:
                    return function()
                except Exception as error:
                    self.saw(error)
                    if not may_pass(error) or limit.passed:
                        raise
                    if not pause_s:
                        limit = Deadline.after(self.limit_s, self.clock)
                        self.note(self._away(error))
                pause_s = min(2 * pause_s or self.pause_s, LONGEST_PAUSE_S)
                self.sleep(min(pause_s, limit.left_s))

    def saw(self, error: Exception) -> None:
        """Remember that the storage was away."""
        if is_failure(error):
            self._failed.set()

    def was_away(self) -> bool:
        """Whether it was, since this was asked last."""
        failed = self._failed.is_set()
        self._failed.clear()
        return failed

    def _away(self, error: Exception) -> str:
        cause, limit = self.errors.cause_of(error), format_duration(self.limit_s)
        return f"the search's storage '{self.errors.shown}' does not answer ({cause}); it is asked again for {limit}"
