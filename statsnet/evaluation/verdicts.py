"""A factor in words: what a buyer may conclude, and nothing that the samples do not show."""

from __future__ import annotations

import math

from statsnet.signatures.intervals import Interval

TIGHT = 1.5
"""An interval whose upper bound is this many times its lower one, or less, is given as `±`; a wider one by its
bounds."""

HOPELESS = 30.0
"""An interval wider than this, as a factor, says nothing: more processes are needed."""

UNKNOWN = "whether that is more than noise cannot be told from one process"


def verdict(factor: Interval, *, why: str = "") -> str:
    """`1.42 ± 0.02 times faster`, `no difference shown (0.98 to 1.03 times as long)`, and what lies between.

    `factor` is T_b / T_a with all that is known of it, `why` what makes its interval wide.
    """
    because = f": {why}" if why else ""
    if factor.low is None or factor.high is None:
        if f"{factor.value:.3g}" == "1":
            return f"no difference seen, but whether there is one cannot be told from one process{because}"
        return f"{_times(factor.value)}, but {UNKNOWN}{because}"
    if not (factor.low > 0 and math.isfinite(factor.high)) or factor.high / factor.low > HOPELESS:
        return f"no difference shown: the processes differ too much to tell any factor{because}"
    if not factor.significant:
        return f"no difference shown ({factor.low:.3g} to {factor.high:.3g} times as long){because}"
    return f"{_with_bounds(factor.value, factor.low, factor.high)}{because}"


def _with_bounds(value: float, low: float, high: float) -> str:
    """`1.52 ± 0.03 times faster`: the larger time against the smaller; or `1.2 to 8.4 times faster` of a wide
    interval."""
    is_slower = value > 1
    if not is_slower:
        value, low, high = 1 / value, 1 / high, 1 / low
    word = "slower" if is_slower else "faster"
    if high > TIGHT * low:
        return f"{low:.3g} to {high:.3g} times {word}"
    return f"{_rounded(value, max(high - value, value - low))} times {word}"


def _times(factor: float) -> str:
    return f"{factor:.3g} times slower" if factor > 1 else f"{1 / factor:.3g} times faster"


def _rounded(value: float, half: float) -> str:
    """Both with as many decimals as `half` justifies: one digit of it, two if the first is 1."""
    if half < 5e-5 * value:
        return f"{value:.5g}"
    place = math.floor(math.log10(half))
    decimals = max(0, -place + (half / 10**place < 2))
    return f"{value:.{decimals}f} ± {half:.{decimals}f}"
