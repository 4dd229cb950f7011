"""What a synthesis will spend its time on: guesses from counts, before anything was measured."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.synthesis.effort import Effort

PROFILING, BLOCKS, TIMING = "members profiled", "blocks measured", "members timed"
SOLVING, NETWORKS, CONFIRMING, SEARCH = "solving", "networks measured", "confirming", "search over designs"
"""Names of the stages."""

PROFILE_S = 8.0
"""A model is built, its calls are captured, and it is timed bare and profiled."""

START_S = 3.0
"""The first process of a kind imports what it needs."""

BLOCK_S, FEWEST_BLOCKS = 0.05, 20
"""What a block takes in a process, and how many are measured in any case: a network of fewer stands for little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long solving takes, and each process that measures a network."""

    solve_s: float = 4.0
    process_s: float = 4.0

    def ahead(self, rounds: float, effort: Effort) -> dict[str, float]:
        """What is expected of so many rounds, and the confirmation after them."""
        return {
            SOLVING: rounds * self.solve_s,
            NETWORKS: rounds * effort.round_processes * self.process_s,
            CONFIRMING: (effort.confirming or (0,))[0] * self.process_s,
        }


FIRST_NETWORK_S = Pace().solve_s + Pace().process_s
"""To solve once, and to measure the network in one process."""


def blocks_in_time(left_s: float, effort: Effort) -> float:
    """How many blocks can be measured, at least a few, if this time is left for them and for a first network."""
    process_s = (left_s - FIRST_NETWORK_S) / effort.block_processes
    return max((process_s - START_S) / BLOCK_S, FEWEST_BLOCKS)


def likely_rounds(measured: int, effort: Effort) -> float:
    """How many rounds are to come if they go on after so many: at least one, until half of those that may be left out
    are done."""
    return max((effort.least_rounds + effort.rounds) / 2 - measured, 1.0)


def expected_stages_s(*, foreign: int, members: int, candidates: int, effort: Effort) -> dict[str, float]:
    """Of a whole synthesis: so many members have no measurement from here, so many are timed again, and so many
    candidates are measured at most."""
    return {
        PROFILING: foreign * PROFILE_S,
        BLOCKS: effort.block_processes * (START_S + candidates * BLOCK_S),
        TIMING: min(effort.retimed_s, 10.0 * members),
        **Pace().ahead(likely_rounds(0, effort), effort),
    }
