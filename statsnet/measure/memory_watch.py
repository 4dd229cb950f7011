"""Ends a measuring process that takes more memory than there is (Linux only).

Sizes may come from a stranger's file. Beyond what is at hand the system swaps, which no measurement survives, or ends
any process it likes. A limit on addresses would not do: CUDA sets apart more of them than there is memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
from pathlib import Path

from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import MeasurementError
from statsnet.units import format_bytes

SCARCE_BYTES, SCARCE_SHARE = 256 << 20, 0.05
"""Memory is short while less than this is at hand, or than this share of what was at hand at first."""


class MemoryWatch:
    """Of a process that has just begun, and of all that it will start. It is ended if it has taken more than was at
    hand when it began, and memory is short now: others may have freed theirs since."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        at_hand = memory_at_hand_bytes()
        self._limit_bytes = taken_bytes(pid) + at_hand
        self._scarce_bytes = max(SCARCE_BYTES, int(SCARCE_SHARE * at_hand))

    def look(self) -> None:
        """Raises MeasurementError if it has taken more than there is."""
        if memory_at_hand_bytes() > self._scarce_bytes:  # first, for what a process has taken is slower to count
            return
        if (taken := taken_bytes(self._pid)) > self._limit_bytes:
            raise MeasurementError(
                f"a measuring process took more memory than there is: {format_bytes(taken)}",
                cause=f"{format_bytes(self._limit_bytes)} were at hand when it began, and the system would swap",
                hint="free memory, or use a smaller preset or batch, or a signature of a smaller size",
            )


def taken_bytes(pid: int) -> int:
    """Memory that a process and all that it has started take, swapped or not; 0 if it has ended, or on other systems
    than Linux. Of a page that n processes share, each counts 1/n."""
    if sys.platform != "linux":
        return 0
    with contextlib.suppress(OSError, IndexError, ValueError):
        return _own_bytes(pid) + sum(map(taken_bytes, _children(pid)))
    return 0


def _own_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):  # the kernel keeps no such list, or not for us
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        if shares := re.findall(r"^(?:Pss|SwapPss): +(\d+) kB$", text, re.MULTILINE):
            return sum(map(int, shares)) * 1024
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # the thread has ended, or the kernel keeps no such list
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
            children += map(int, text.split())
    return children
