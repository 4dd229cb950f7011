"""What changed when a proxy was made anew: its mix, its fit, and how well it stands for what was added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statsnet.environment import differences
from statsnet.evaluation.cover import GROUPS, Coverage, coverage, profile_of_fit
from statsnet.proxy.spec import Proxy
from statsnet.signatures.computing import computing
from statsnet.signatures.conversion import plain
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.statistics import total_variation
from statsnet.signatures.target import target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """A member's weight in the old mix and in the new one; None where it is not in it."""

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """How well the old proxy (None: its fit is not known) and the new one stand for a workload that was added."""

    name: str
    before: Coverage | None
    after: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """An old proxy and the new one in `folder`. Without a fit.json, the old fit is None."""

    folder: str
    before: ProxySpec
    after: ProxySpec
    old_fit: Fit | None
    new_fit: Fit
    added: tuple[Added, ...]

    @property
    def members(self) -> list[MemberChange]:
        """The members of both mixes, the largest change first."""
        old, new = ({m.name: m.weight for m in spec.mix} for spec in (self.before, self.after))
        changes = [MemberChange(name=n, before=old.get(n), after=new.get(n)) for n in dict.fromkeys([*new, *old])]
        return sorted(changes, key=lambda c: (-abs((c.after or 0.0) - (c.before or 0.0)), c.name))

    @property
    def mix_moved(self) -> Mapping[str, float]:
        """Total variation between what was asked of the two, by group; empty where the old fit is not known."""
        if self.old_fit is None:
            return {}
        sides = [self.old_fit, self.new_fit]
        return {group: total_variation(*(_asked(fit, group) for fit in sides)) for group in GROUPS}

    @property
    def differences(self) -> list[str]:
        """How the environments differ in which the two were made."""
        return differences(self.before.reference_environment, self.after.reference_environment)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, the new proxy under the keys of `synthesize --json`."""
        return {
            "folder": self.folder,
            "spec": plain(self.after),
            "fit": plain(self.new_fit),
            "before": {"id": self.before.id, "summary": plain(self.old_fit.summary) if self.old_fit else None},
            "members": [asdict(change) for change in self.members],
            "mix_moved": dict(self.mix_moved),
            "added": [asdict(added) for added in self.added],
            "differences": self.differences,
        }


def updated(folder: str, before: ProxySpec, old_fit: Fit | None, made: Proxy) -> Updated:
    """Compare a proxy with the one that takes its place."""
    old, fit = {m.name for m in before.mix}, made.fit()
    there = profile_of_fit("the old proxy", old_fit) if old_fit and _has_shares(old_fit) else None
    here = profile_of_fit("the new proxy", fit)
    added = []
    for member in made.target.members:
        if member.name not in old:
            target = computing(target_of(member.signature, member.measurement, name=member.name))
            stands = coverage(there, target) if there else None
            added.append(Added(name=member.name, before=stands, after=coverage(here, target)))
    return Updated(folder=folder, before=before, after=made.spec, old_fit=old_fit, new_fit=fit, added=tuple(added))


def _has_shares(fit: Fit) -> bool:
    return any(row.group == "kernel_class" and row.achieved for row in fit.characteristics)


def _asked(fit: Fit, group: str) -> dict[str, float]:
    return {row.name: row.target for row in fit.characteristics if row.group == group and row.target}
