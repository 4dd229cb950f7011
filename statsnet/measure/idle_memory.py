"""Whether memory stays at hand while nobody uses it.

The host of a virtual machine may take memory away that the guest does not touch for a moment, or watch which pages it
touches. The guest sees neither: its next access takes longer. On one such machine a page that had not been touched for
a second took 44 to 70 µs by the clock, 7 to 20 of the processor's time, and 3 a moment later. Small products took as
long as ever there, so no probe of quiet_machine.py saw anything; steps that read much memory took two to six times as
long as the day before. Waiting does not help: whoever measures must be told. Where it is so, filling the memory takes
some 100 ms, else 5.
"""

from __future__ import annotations

import contextlib
import mmap
import time

from statsnet.measure.patience import patience_limit_s

BYTES = 2**25
"""Hosts hand memory out in pieces of 2 MiB, if they can: this is several of them."""

BETWEEN_BYTES = 11 * mmap.PAGESIZE
"""From one place to the next that is looked at: no page is fetched along with the one before."""

PLACES = range(0, BYTES, BETWEEN_BYTES)
FEWEST_PLACES = 500
"""Where pages are larger, a single pause would count too much."""

SLOW_PAGE_S = 3e-6
"""To read one number of a page takes well under 1 µs, even if it is in no cache and its address is not known."""


class IdleMemory:
    """Memory that is touched once, and not again until `page_s` looks at it. Nobody looks on a GPU, or with
    STATSNET_PATIENCE_S=0, or where pages are large."""

    def __init__(self, device: str = "cpu") -> None:
        matters = device.partition(":")[0] == "cpu" and patience_limit_s() != 0 and len(PLACES) >= FEWEST_PLACES
        self._memory = mmap.mmap(-1, BYTES) if matters else None
        if self._memory is None:
            return
        with contextlib.suppress(AttributeError, OSError):  # not every system has large pages
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)  # one would stand for hundreds of small ones
        for place in range(0, BYTES, mmap.PAGESIZE):
            self._memory[place] = 1

    def page_s(self) -> float | None:
        """Seconds of this thread to reach a page again, on average. Pauses in which others run do not count."""
        if self._memory is None:
            return None
        begin = time.thread_time()
        sum(self._memory[place] for place in PLACES)
        return (time.thread_time() - begin) / len(PLACES)


def slow_memory(page_s: float | None) -> list[str]:
    """What to say of a machine on which reaching a page took so long; nothing if that is usual, or not known."""
    if page_s is None or page_s <= SLOW_PAGE_S:
        return []
    return [
        f"memory that was not used for a moment takes {page_s * 1e6:.0f} µs a page to reach, usual is less than 1: the "
        "system, or the host of this virtual machine, takes it away. Steps that read much memory take several times as "
        "long, from one minute to the next: free memory, or measure on another machine"
    ]
