"""How long a GPU waits for the host's launches while a block runs again and again.

The profiler cannot tell: recording each launch slows the host down several times. And a block alone always waits for
its first launch, which in a network comes while the kernels of the blocks before are running.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

IN_A_ROW = 8
TRIALS = 5


def wait_per_use_s(use: Callable[[], object], busy_s: float, timed: Callable[[Callable[[], object]], float]) -> float:
    """Seconds of one use in which no kernel runs, where many uses follow one another; `busy_s` is what its kernels
    take. `timed` runs a step and returns its seconds, from an idle device to an idle device.

    With a host that needs h for a use and kernels that need g, n uses take s + n max(h, g): the first launch's latency
    s cancels out between a row of uses and a single one.
    """

    def row() -> None:
        for _ in range(IN_A_ROW):
            use()

    use()
    per_use_s = [(timed(row) - timed(use)) / (IN_A_ROW - 1) for _ in range(TRIALS)]
    return max(median(per_use_s) - busy_s, 0.0)
