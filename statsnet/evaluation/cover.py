"""How well a mix or a proxy stands for a workload that was not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statsnet.environment import differences
from statsnet.errors import MeasurementError
from statsnet.signatures.comparison import CATEGORY_BAR, KERNEL_CLASS_BAR
from statsnet.signatures.documents import Fit
from statsnet.signatures.mix import Mix
from statsnet.signatures.statistics import total_variation
from statsnet.signatures.target import Target, target_of, target_of_mix

GROUPS = ("category", "kernel_class", "phase")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Shares of operator time by category, by kernel class and by phase, and the environment that they are from."""

    name: str
    shares: Mapping[str, Mapping[str, float]]
    environment: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Distances of a part of the mix to the new workload, each the total variation of shares of operator time."""

    name: str
    category: float
    kernel_class: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """`distances` by group, as total variations. `missing` holds the kernel classes of the new workload that nothing in
    the other has, with their shares of its operator time; `nearest` the members, the nearest first (empty for a
    proxy)."""

    name: str
    distances: Mapping[str, float]
    missing: Mapping[str, float]
    nearest: Sequence[Nearness]
    differences: Sequence[str]

    @property
    def missing_share(self) -> float:
        """Share of the new workload's operator time that nothing stands for."""
        return sum(self.missing.values())

    @property
    def verdict(self) -> str:
        if self.differences:
            return (
                "the two were measured in different environments: their kernel classes may differ for that reason alone"
            )
        near = self.distances["category"] <= CATEGORY_BAR and self.distances["kernel_class"] <= KERNEL_CLASS_BAR
        if near:
            return f"{self.name} stands for it: no distance is larger than a good proxy's to its own mix"
        if self.missing_share > KERNEL_CLASS_BAR:
            return f"nothing in {self.name} stands for {self.missing_share:.0%} of its operator time: add it to the mix"
        return f"all of its kernels are in {self.name}, but with other shares: change the weights, or add it"


def profile_of_target(name: str, target: Target) -> Profile:
    return Profile(
        name=name,
        shares={group: getattr(target, f"{group}_shares") for group in GROUPS},
        environment=dict(target.members[0].measurement.environment),
    )


def profile_of_fit(name: str, fit: Fit) -> Profile:
    """What a proxy achieved where it was made. Raises MeasurementError for a fit without shares."""
    shares = {
        group: {r.name: r.achieved for r in fit.characteristics if r.group == group and r.achieved} for group in GROUPS
    }
    if not shares["kernel_class"]:
        raise MeasurementError(
            f"the fit of '{name}' holds no shares of time",
            cause="that of a proxy for simulators has none",
            hint="name a proxy that was made without --macs, or the mix itself",
        )
    return Profile(name=name, shares=shares, environment=fit.environment)


def coverage_by_mix(name: str, mix: Mix, new: Target) -> Coverage:
    """Raises MeasurementError for a member that was never measured."""
    members = [profile_of_target(m.name, target_of(m.signature, m.measurement, name=m.name)) for m in mix.members]
    return coverage(profile_of_target(name, target_of_mix(mix)), new, members)


def coverage(there: Profile, new: Target, members: Sequence[Profile] = ()) -> Coverage:
    wanted = profile_of_target("new", new)
    classes = there.shares["kernel_class"]
    missing = {name: share for name, share in wanted.shares["kernel_class"].items() if not classes.get(name)}
    near = [
        Nearness(
            name=member.name,
            category=total_variation(wanted.shares["category"], member.shares["category"]),
            kernel_class=total_variation(wanted.shares["kernel_class"], member.shares["kernel_class"]),
        )
        for member in members
    ]
    return Coverage(
        name=there.name,
        distances={group: total_variation(wanted.shares[group], there.shares[group]) for group in GROUPS},
        missing=dict(sorted(missing.items(), key=lambda item: -item[1])),
        nearest=sorted(near, key=lambda each: (each.kernel_class + each.category, each.name)),
        differences=list(
            dict.fromkeys(
                text for known in (there, *members) for text in differences(known.environment, wanted.environment)
            )
        ),
    )
