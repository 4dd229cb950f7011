"""Can a member of a family of look-alikes be found again from its signature?

    python benchmarks/reidentification.py [--batches 8,6,12,16] [--families dlrm] [--held-out]

An attacker has the signatures of all 25 members of a family at level full, with a batch of 8, and one more signature of
one of them, at some level and some batch. The attacker brings the library to that level and takes the member whose
signature is nearest; of several that are equally near, any. Counted on fake tensors, so sizes, counts and what works in
lower precision under autocast tell members apart, but no times: the attack knows less than times would tell. Printed
per level: how often it finds the member, with a 95 % interval (Wilson), beside chance; and how many members have the
very same counts.

An attacker who can run all members with the same batch, software and settings does more: compares whole files. How
often this finds the member is printed, too: 1 ÷ the number of members whose counts are the same file.

The steps of level coarse were chosen with look_alikes.FAMILIES in sight; with --held-out, the families are others.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks import look_alikes
from benchmarks.console import parser, report, start
from statsnet.errors import StatsNetError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.autocast_shares import told_of_autocast
from statsnet.profiling.costs import cost_of
from statsnet.profiling.counting import phases_of
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.progress import Progress
from statsnet.signatures.levels import LEVELS, coarsen
from statsnet.signatures.model import Level, Signature
from statsnet.workloads import BuiltWorkload, Step

LIBRARY_BATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One signature that the attacker was given. `found` is the chance of naming the right member: 1 ÷ the number of
    nearest ones if it is among them, else 0. `alike` members of the library have the very same counts as it,
    and `twins` members, run with its batch, the very same file but for times."""

    family: str
    member: str
    batch: int
    level: str
    found: float
    alike: int
    twins: int


def options_of_attacks(text: str | None) -> argparse.ArgumentParser:
    """The options that attacks on families of look-alikes have in common."""
    options = parser(text)
    options.add_argument("--families", default=",".join(look_alikes.FAMILIES))
    options.add_argument("--held-out", action="store_true", help="look-alikes that no step was chosen with")
    return options


def main() -> None:
    options = options_of_attacks(__doc__)
    options.add_argument("--batches", default="8,6,12,16")
    rows = _all_trials(options.parse_args())
    for level in LEVELS:
        print(summed_up([row for row in rows if row.level == level]))


def _all_trials(chosen: argparse.Namespace) -> list[TrialRow]:
    batches = [int(text) for text in chosen.batches.split(",")]
    rows: list[TrialRow] = []
    for family in chosen.families.split(","):
        counted = {batch: family_of(family, batch, held_out=chosen.held_out) for batch in {LIBRARY_BATCH, *batches}}
        for level in LEVELS:
            library = {name: coarsen(s, level, cost_of) for name, s in counted[LIBRARY_BATCH].items()}
            for batch in batches:
                given = {name: coarsen(s, level, cost_of) for name, s in counted[batch].items()}
                rows += trials(family, level, batch, library, given)
    return rows


@dataclass(frozen=True, kw_only=True)
class _CountedUnderAutocast(ProfileWorkload):
    """What is measured is told of autocast, and what is only counted is not: here it is, too."""

    def _count(self, built: BuiltWorkload, step: Step) -> Profile:
        profile = super()._count(built, step)
        told = told_of_autocast(profile.signature, step, "cpu", phases_of(step))
        if all(cluster.autocast_share is None for cluster in told.clusters):  # as if the step had failed under autocast
            raise StatsNetError(f"autocast told nothing of {self.model.target}")
        return replace(profile, signature=told)


def family_of(family: str, batch: int, *, held_out: bool = False) -> dict[str, Signature]:
    depths, widths = (look_alikes.HELD_OUT if held_out else look_alikes.FAMILIES)[family]
    signatures = {}
    for depth in depths:
        report(Progress(stage=f"counting {family}, batch {batch}, depth {depth}"))
        for width in widths:
            overrides = {"layers": depth, "hidden": width}
            target = f"{look_alikes.__file__}:{family}"
            model = Model(target=target, mode="inference", batch=batch, overrides=overrides)
            task = _CountedUnderAutocast(model=model, device="meta")
            signatures[f"{depth}x{width}"] = task.run(Context()).signature
    return signatures


def trials(
    family: str, level: Level, batch: int, library: dict[str, Signature], given: dict[str, Signature]
) -> list[TrialRow]:
    """The attack on each of the `given` signatures, by member."""
    features = {name: features_of(s) for name, s in library.items()}
    same = Counter(str(sorted(f.items())) for f in features.values())
    files = {name: replace(s, measurements=()).id for name, s in given.items()}
    twins = Counter(files.values())
    rows = []
    for name, signature in given.items():
        wanted = features_of(signature)
        distances = {other: distance(wanted, f) for other, f in features.items()}
        nearest = [other for other, d in distances.items() if d <= min(distances.values()) + 1e-9]
        rows.append(
            TrialRow(
                family=family, member=name, batch=batch, level=level,
                found=1 / len(nearest) if name in nearest else 0.0,
                alike=same[str(sorted(features[name].items()))],
                twins=twins[files[name]],
            )
        )  # fmt: skip
    return rows


def features_of(signature: Signature) -> dict[str, float]:
    """What the attack compares, as logarithms: calls and work by operator, the sizes of parameters (which no batch
    changes), and how many operators read tensors of each size."""
    sums: dict[str, float] = defaultdict(float)
    for cluster in signature.clusters:
        sums[f"lower {cluster.op}"] += cluster.autocast_share or 0.0
        sums[f"calls {cluster.op}"] += cluster.calls
        sums[f"flops {cluster.op}"] += cluster.calls * (cluster.flops or 0.0)
        sums[f"bytes {cluster.op}"] += cluster.calls * (cluster.bytes_moved or 0.0)
        for arg in cluster.args:
            if isinstance(arg, dict) and "shape" in arg:
                for n in arg["shape"]:
                    sums[f"size {n}"] += cluster.calls
    sums["parameters"] = float(signature.memory.parameter_count or 0)
    return {name: math.log(value) for name, value in sums.items() if value > 0}


def distance(a: dict[str, float], b: dict[str, float]) -> float:
    """Sum of differences of logarithms; 1 for what only one of them has. The number of parameters counts as much as all
    else, because it depends on no batch."""
    apart = sum(abs(a[n] - b[n]) if n in a and n in b else 1.0 for n in a.keys() | b.keys())
    return apart + len(a) * abs(a.get("parameters", 0.0) - b.get("parameters", 0.0))


def summed_up(rows: Sequence[TrialRow]) -> str:
    """One line for one level."""
    if not rows:
        return "no trials"
    chance = 1 / _members(rows)
    alike, twins = [r.alike for r in rows], [r.twins for r in rows]
    return (
        f"{rows[0].level}: chance {chance:.1%}, {len(rows)} trials; found {_rate([r.found for r in rows], chance)}; "
        f"same counts: {_range(alike)}; "
        f"whole files of the same batch: {_rate([1 / n for n in twins], chance)}; same file: {_range(twins)}"
    )


def _range(members: Sequence[int]) -> str:
    """How many members are alike, over all trials."""
    return f"{min(members)} to {max(members)} members, median {sorted(members)[len(members) // 2]}"


def _rate(found: Sequence[float], chance: float) -> str:
    """How often the member was found, with its interval."""
    rate = sum(found) / len(found)
    low, high = wilson(rate, len(found))
    return f"{rate:.1%} ({low:.1%} to {high:.1%}), {rate / chance:.2f} times as often as by chance"


def _members(rows: Sequence[TrialRow]) -> float:
    """Members of a family, the mean of the families."""
    families = defaultdict(set)
    for row in rows:
        families[row.family].add(row.member)
    return sum(map(len, families.values())) / len(families)


def wilson(rate: float, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927)."""
    z = 1.96
    middle = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * math.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    start(main)
