"""What is to change in the mix of a proxy that is there: members added, with their shares, and members removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from statsnet.errors import UsageError, did_you_mean
from statsnet.signatures.documents import SpecMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What is added, as a mix names a member, and its share of the new mix."""

    name: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MixChange:
    """`removed` are members' names, with their domain or without it."""

    added: tuple[Addition, ...] = ()
    removed: tuple[str, ...] = ()

    def staying(self, mix: Sequence[SpecMember]) -> list[tuple[SpecMember, float]]:
        """The members that stay, each with its new weight: what is added leaves them the rest, in the proportions of
        their weights. Raises UsageError for a name that is no member, and if nothing is left for any."""
        gone = {_member_named(name, mix) for name in self.removed}
        stay = [m for m in mix if m.name not in gone]
        left = 1.0 - math.fsum(a.share for a in self.added)
        if not stay:
            raise UsageError(
                "no member of the proxy's mix stays", hint="statsnet synthesize makes a proxy of other workloads alone"
            )
        if left <= 0:
            raise UsageError(
                f"what is added takes {1.0 - left:.0%} of the mix, and nothing is left for its members",
                hint="give shares whose sum is below 1",
            )
        whole = math.fsum(m.weight for m in stay)
        return [(m, left * m.weight / whole) for m in stay]


def parse_addition(text: str) -> Addition:
    """`"new.json:0.1"` -> new.json with a tenth of the mix. Raises UsageError."""
    name, colon, share = (part.strip() for part in text.rpartition(":"))
    try:
        value = float(share)
    except ValueError:
        value = math.nan
    if not colon or not name or not 0 < value < 1:
        raise UsageError(
            f"'{text}' does not say what is added, and with which share",
            cause="NAME:SHARE is expected, with a share of the new mix between 0 and 1",
            hint=f"--add {name or text or 'new.json'}:0.1",
        )
    return Addition(name=name, share=value)


def _member_named(name: str, mix: Sequence[SpecMember]) -> str:
    """The full name of a member."""
    names = [m.name for m in mix]
    meant = [name] if name in names else [n for n in names if n.rpartition("/")[2] == name]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UsageError(f"'{name}' stands for several members", cause=", ".join(meant), hint=f"--remove {meant[0]}")
    known = [*names, *(n.rpartition("/")[2] for n in names)]
    hint = did_you_mean(name, known, otherwise="statsnet show PROXY lists them")
    raise UsageError(f"'{name}' is no member of the proxy's mix", hint=hint)
