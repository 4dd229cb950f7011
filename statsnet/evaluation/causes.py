"""Why a class of kernels adds to a proxy's error, and what to do about it, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from statsnet.evaluation.error_parts import ADDED, BETWEEN, ClassError
from statsnet.units import format_duration

Cause = Literal[
    "noise",
    "between operators",
    "added by the setting",
    "no candidate",
    "left out",
    "not in the suite",
    "another pace",
    "share",
    "block size",
    "other shapes",
]

FEW = 0.1
"""A side has next to nothing of a class if its share is below this part of the other's."""

LIKE = 2.0
"""Calls within this factor of each other's time are of like size."""

_LARGER = "a longer --budget or a lower --compression, which make room for larger blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known beside the times. `lacking` says of the kernel classes that the proxy lacked when it was made
    whether a candidate had them (fit.json). `as_made` is the share of the suite's step in each class if its members
    still had the weights of then; `moved` names the member whose pace changed most, None if all kept theirs."""

    lacking: Mapping[str, bool] = field(default_factory=dict)
    as_made: Mapping[str, float] = field(default_factory=dict)
    moved: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """`says` is what was found, `do` the next step."""

    cause: Cause
    says: str
    do: str


def advice_on(row: ClassError, noise: float | None, known: Known) -> Advice:
    """The likeliest cause of a class's error. `noise` is how far the error differs between rounds, None for one."""
    if noise is not None and abs(row.error) <= noise:
        return Advice(
            cause="noise",
            says=f"it differs by {noise:.1%} from round to round, as much as it is large",
            do="a quiet machine, or more --rounds",
        )
    if row.name == BETWEEN:
        return _between(row)
    if row.name.startswith(ADDED):
        return Advice(
            cause="added by the setting",
            says=f"the setting adds operators that take {row.proxy.there:.1%} of the proxy's step and "
            f"{row.suite.there:.1%} of the suite's; small calls need as many of them as large ones",
            do=_LARGER,
        )
    if row.proxy.here < FEW * row.suite.here:
        return _lacking(row, known)
    if row.suite.here < FEW * row.proxy.here:
        return Advice(
            cause="not in the suite",
            says=f"the proxy spends {row.proxy.here:.1%} of its step in it and the suite hardly anything: blocks for "
            "other classes bring it along",
            do="--effort thorough, which has more blocks to choose from; the table of blocks says which they are now",
        )
    if abs(row.by_share) >= abs(row.by_factor):
        return _share(row, known)
    return _factor(row)


def _between(row: ClassError) -> Advice:
    more = row.proxy.here > row.suite.here
    return Advice(
        cause="between operators",
        says=f"{row.proxy.here:.1%} of the proxy's step lies between operators, of the suite's {row.suite.here:.1%}, "
        "and it does not change as kernels do",
        do=_LARGER if more else "to profile the members again on a quiet machine, for their steps have pauses",
    )


def _lacking(row: ClassError, known: Known) -> Advice:
    says = f"the suite spends {row.suite.here:.1%} of its step in it, the proxy {row.proxy.here:.1%}"
    if known.lacking.get(row.name) is False:
        return Advice(
            cause="no candidate",
            says=f"{says}: no block had such an operator when the proxy was made",
            do="--effort thorough, which measures more blocks, or a block kind of your own (CONTRIBUTING.md); a larger "
            "proxy alone does not help",
        )
    return Advice(
        cause="left out",
        says=f"{says}: there was no room for it" if row.name in known.lacking else says,
        do="a longer --budget, or --effort thorough",
    )


def _share(row: ClassError, known: Known) -> Advice:
    asked = known.as_made.get(row.name, row.suite.here)
    if known.moved and abs(row.proxy.here - asked) < abs(row.proxy.here - row.suite.here) / 2:
        return Advice(
            cause="another pace",
            says=f"the proxy has the {asked:.1%} that were asked for; now they are {row.suite.here:.1%}, since "
            f"{known.moved} runs at another pace beside the others than when the proxy was made",
            do="statsnet update PROXY, which makes it anew with the paces of now",
        )
    return Advice(
        cause="share",
        says=f"the proxy spends {row.proxy.here:.1%} of its step in it, the suite {row.suite.here:.1%}",
        do="to make the proxy anew with a longer --budget or with --effort thorough",
    )


def _factor(row: ClassError) -> Advice:
    factors = f"{row.proxy.factor or 0.0:.3g} and not {row.suite.factor or 0.0:.3g} times as long"
    own_s, suite_s = row.proxy.call_s, row.suite.call_s
    if own_s and suite_s and suite_s > LIKE * own_s:
        return Advice(
            cause="block size",
            says=f"its operators take {factors}; a call takes {format_duration(own_s)}, in the suite "
            f"{format_duration(suite_s)}, and the fixed part of a call does not change",
            do=_LARGER,
        )
    sizes = f" (a call {format_duration(own_s)}, in the suite {format_duration(suite_s)})" if own_s and suite_s else ""
    return Advice(
        cause="other shapes",
        says=f"its operators take {factors}, though its calls are no shorter{sizes}: the shapes differ",
        do="--effort thorough or a longer --budget, which bring blocks of nearer shapes; the table of blocks says "
        "which they are now",
    )
