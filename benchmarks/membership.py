"""Was it in the aggregate? Aggregates of look-alikes, and an attacker who asks of two models which one is a member.

    python benchmarks/membership.py [--families dlrm] [--fleets 100] [--members 5]

For each fleet, some members of a family are drawn and aggregated, each with a random part of the steps. The attacker
has the aggregate, and the signatures of two look-alikes at its level, of which one is a member; batch, software and
settings are the same. Guessing is right every other time. Two attacks:

presence        the one whose clusters of operators have the nearest ones in the aggregate
decomposition   the one that makes the larger part, if the aggregate's calls are made of the family's signatures as
                nearly as they can be (non-negative least squares); what has the very same calls shares its part

Counted on fake tensors, so there are no times: the attacks know less than times would tell. Printed per level: how
often each attack is right, with a 95 % interval (Wilson), beside chance. Where both look-alikes fit alike, it counts
as half.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks.console import start
from benchmarks.reidentification import LIBRARY_BATCH, family_of, options_of_attacks, wilson
from statsnet.profiling.costs import cost_of
from statsnet.signatures.aggregation import sum_of_steps
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.levels import LEVELS, coarsen
from statsnet.signatures.model import Cluster, Level, Signature

CHANCE = 0.5

OTHER, NO_OPERATOR = 0.1, 100.0
"""Distances: of a cluster that is not the same, apart from its work; of one whose operator is not there."""

Clusters = Mapping[str, float]
"""Calls by what a cluster is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One fleet at one level. For each attack: 1 if it named the member, 0.5 if both look-alikes fit alike, else 0."""

    family: str
    level: str
    fleet: int
    members: int
    presence: float
    decomposition: float


def main() -> None:
    options = options_of_attacks(__doc__)
    options.add_argument("--fleets", type=int, default=100, help="for each family (default %(default)s)")
    options.add_argument("--members", type=int, default=5, help="of a fleet (default %(default)s)")
    options.add_argument("--seed", type=int, default=0)
    rows = _all_fleets(options.parse_args())
    for level in LEVELS:
        print(summed_up([row for row in rows if row.level == level]))


def _all_fleets(chosen: argparse.Namespace) -> list[FleetRow]:
    rows: list[FleetRow] = []
    for family in chosen.families.split(","):
        counted = family_of(family, LIBRARY_BATCH, held_out=chosen.held_out)
        for level in LEVELS:
            library = {name: coarsen(s, level, cost_of) for name, s in counted.items()}
            generator = np.random.default_rng(chosen.seed)  # the same fleets at each level
            rows += fleets(family, level, library, chosen.fleets, chosen.members, generator)
    return rows


def fleets(
    family: str,
    level: Level,
    library: Mapping[str, Signature],
    number: int,
    members: int,
    generator: np.random.Generator,
) -> list[FleetRow]:
    """So many fleets of so many members of a library, attacked. Raises ValueError where no look-alike is left out."""
    if members >= len(library):
        raise ValueError(f"a fleet of {members} leaves none of {len(library)} look-alikes out")
    names = sorted(library)
    calls = {name: calls_of(library[name]) for name in names}
    rows = []
    for fleet in range(number):
        drawn = generator.permutation(names).tolist()
        inside, outside = drawn[:members], drawn[members:]
        parts = generator.uniform(0.5, 1.5, members)
        aggregate = sum_of_steps([library[n] for n in inside], (parts / parts.sum()).tolist())
        pair = inside[0], outside[0]
        near = [-distance(library[name], aggregate) for name in pair]
        share = parts_of(calls_of(aggregate), calls)
        rows.append(
            FleetRow(
                family=family, level=level, fleet=fleet, members=members,
                presence=_right(*near),
                decomposition=_right(*(share[name] for name in pair)),
            )
        )  # fmt: skip
    return rows


def _right(member: float, other: float) -> float:
    """Whether the larger score is the member's."""
    return 0.5 if math.isclose(member, other, rel_tol=1e-6, abs_tol=1e-9) else float(member > other)


def distance(signature: Signature, aggregate: Signature) -> float:
    """How far a signature's clusters are from the nearest ones of an aggregate, on average: octaves of FLOPs and
    bytes."""
    there: dict[tuple[str, str], list[Cluster]] = defaultdict(list)
    for cluster in aggregate.clusters:
        there[cluster.op, cluster.phase].append(cluster)
    nearest = [
        min((_apart(cluster, other) for other in there[cluster.op, cluster.phase]), default=NO_OPERATOR)
        for cluster in signature.clusters
    ]
    return math.fsum(nearest) / max(len(nearest), 1)


def _apart(a: Cluster, b: Cluster) -> float:
    if (a.args, a.outputs) == (b.args, b.outputs):
        return 0.0
    pairs = ((a.flops, b.flops), (a.bytes_moved, b.bytes_moved))
    return OTHER + sum(abs(math.log2(1 + (x or 0.0)) - math.log2(1 + (y or 0.0))) for x, y in pairs)


def calls_of(signature: Signature) -> Clusters:
    """Calls by operator, phase, arguments and results."""
    calls: dict[str, float] = defaultdict(float)
    for cluster in signature.clusters:
        calls[canonical_json([cluster.op, cluster.phase, cluster.args, cluster.outputs])] += cluster.calls
    return calls


def parts_of(aggregate: Clusters, library: Mapping[str, Clusters]) -> dict[str, float]:
    """The part of each look-alike in an aggregate, by non-negative least squares over calls relative to the largest of
    their kind; those with the very same calls have equal parts."""
    names = list(library)
    rows = sorted({key for calls in library.values() for key in calls})
    columns = np.array([[library[name].get(key, 0.0) for name in names] for key in rows])
    largest = columns.max(axis=1)
    found, _ = nnls(columns / largest[:, None], np.array([aggregate.get(key, 0.0) for key in rows]) / largest)
    same = [canonical_json(dict(library[name])) for name in names]
    sums: Counter[str] = Counter()
    for text, part in zip(same, found, strict=True):
        sums[text] += float(part)  # type: ignore[assignment]
    alike = Counter(same)
    return {name: sums[text] / alike[text] for name, text in zip(names, same, strict=True)}


def summed_up(rows: Sequence[FleetRow]) -> str:
    """One line for one level."""
    if not rows:
        return "no fleets"
    attacks = {"presence": [r.presence for r in rows], "decomposition": [r.decomposition for r in rows]}
    found = "; ".join(f"{name} right in {_rate(right)}" for name, right in attacks.items())
    return f"{rows[0].level}: chance {CHANCE:.0%}, {len(rows)} fleets of {rows[0].members}; {found}"


def _rate(right: Sequence[float]) -> str:
    rate = sum(right) / len(right)
    low, high = wilson(rate, len(right))
    return f"{rate:.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    start(main)
