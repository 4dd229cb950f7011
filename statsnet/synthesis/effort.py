"""How much is measured for one proxy: `--effort`."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.signatures.documents import EffortName


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The numbers that decide how long a synthesis takes and how good its proxy becomes."""

    name: EffortName
    rounds: int
    """Most networks that are solved for, built and measured."""
    least_rounds: int
    """From this round on, they stop when the fit is good; or when a round gained little, and no scope promises more or
    categories and kernel classes meet their bars."""
    free_rounds: int
    """At most so many rounds choose from all candidates; later ones change the best network a little."""
    round_processes: int
    """Processes that measure each network. Half a second of one process differs from the next half second as much as
    from another process, so one that measures for longer tells more than two. Of three, two outvote one that was
    disturbed."""
    confirming: tuple[int, ...]
    """New processes that measure the finished network; the next number if its step time differs from its round's, or
    some operators took much longer than there."""
    candidates: int
    """Most candidates that are measured, where they are chosen by what they promise."""
    candidates_in_order: int
    """The same on a GPU, where they are taken in their order."""
    block_processes: int
    """Processes that measure the blocks one by one; the fastest counts."""
    profiled_s: float
    """How long the steps of a member from elsewhere that is the whole mix are profiled; others by their share, within
    limits."""
    retimed_s: float
    """How long timing members again may take in all. If it is not enough for all of them, the rest follows these."""
    network_s: float
    """How long a network's steps are measured in each process, unless they are known earlier."""


QUICK = Effort(
    name="quick",
    rounds=1,
    least_rounds=1,
    free_rounds=1,
    round_processes=1,
    confirming=(),
    candidates=80,
    candidates_in_order=120,
    block_processes=1,
    profiled_s=4.0,
    retimed_s=8.0,
    network_s=1.0,
)

NORMAL = Effort(
    name="normal",
    rounds=6,
    least_rounds=2,
    free_rounds=2,
    round_processes=1,
    confirming=(2, 4),
    candidates=240,
    candidates_in_order=360,
    block_processes=1,
    profiled_s=12.0,
    retimed_s=20.0,
    network_s=2.0,
)

THOROUGH = Effort(
    name="thorough",
    rounds=6,
    least_rounds=6,
    free_rounds=2,
    round_processes=3,
    confirming=(3, 5, 7),
    candidates=360,
    candidates_in_order=360,
    block_processes=2,
    profiled_s=120.0,
    retimed_s=600.0,
    network_s=2.0,
)

EFFORTS: dict[str, Effort] = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH)}
