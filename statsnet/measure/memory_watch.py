"""Ends a measuring process that takes more memory than there was when it began (Linux only).

Sizes may come from a stranger's file. Beyond what is at hand the system swaps, which no measurement survives, or ends
any process it likes. A limit on addresses would not do: CUDA sets apart more of them than there is memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import MeasurementError
from statsnet.units import format_bytes


class MemoryWatch:
    """Of a process that has just begun, and of all that it will start. What it has now, it shares with the process that
    it was forked from."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._limit_bytes = resident_bytes(pid) + memory_at_hand_bytes()

    def look(self) -> None:
        """Raises MeasurementError if it has taken more than was at hand."""
        if (taken := resident_bytes(self._pid)) > self._limit_bytes:
            raise MeasurementError(
                f"a measuring process took more memory than there is: {format_bytes(taken)}",
                cause=f"{format_bytes(self._limit_bytes)} were at hand when it began, and the system would swap",
                hint="free memory, or use a smaller preset or batch, or a signature of a smaller size",
            )


def resident_bytes(pid: int) -> int:
    """Memory that a process and all that it has started take; 0 if it has ended, or on other systems than Linux."""
    if sys.platform != "linux":
        return 0
    with contextlib.suppress(OSError, IndexError, ValueError):
        own = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
        return own + sum(resident_bytes(child) for child in _children(pid))
    return 0


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # the thread has ended, or the kernel keeps no such list
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
            children += map(int, text.split())
    return children
