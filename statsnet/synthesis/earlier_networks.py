"""How blocks' times changed from alone to in place in networks that were measured earlier, maybe for other mixes: what
a mix's first network is made with, until its own networks tell."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.synthesis.bench.bench import Bench
from statsnet.synthesis.costs.corrections import Sums, corrections_of

MOST_NETWORKS = 20
"""The newest ones count. A command measures up to six."""

DIGITS = 4
"""So that what is kept in the cache is what was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierNetwork:
    """`network` is the digest of its source."""

    network: str
    sums: Sums


def usual_corrections(bench: Bench) -> dict[str, float]:
    """See `corrections_of`; of all networks that are kept of this device, mode and dtype. None of a device that is not
    here: its times are computed."""
    corrections = corrections_of(each.sums for each in _kept(bench)) if bench.can_time_members else {}
    return {name: round(ratio, DIGITS) for name, ratio in corrections.items()}


def keep_sums(bench: Bench, network: str, sums: Sums) -> None:
    """Keep what a network tells that is measured for the first time."""
    known = _kept(bench)
    if bench.can_time_members and all(each.network != network for each in known):
        bench.setup.cache.put(_key(bench), [*known, EarlierNetwork(network=network, sums=sums)][-MOST_NETWORKS:])


def _kept(bench: Bench) -> list[EarlierNetwork]:
    return bench.setup.cache.get(_key(bench), list[EarlierNetwork]) or []


def _key(bench: Bench) -> str:
    return bench.setup.key(earlier_networks=True)
