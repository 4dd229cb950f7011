"""Suites without the members that another runtime cannot load, beside stand-ins that were made without them too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.ways.comparisons import Comparison
from statsnet.measure.rounds_log import RoundsLog
from statsnet.workloads.settings import RUNTIME, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A comparison, and the settings that it is for."""

    comparison: Comparison
    settings: tuple[Setting, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(setting.name for setting in self.settings)


def plans(
    log: RoundsLog,
    comparison: Comparison,
    settings: Sequence[Setting],
    remake: Callable[[str, Comparison], Comparison],
) -> Iterator[Plan]:
    """The comparison for the settings in which every member runs, and smaller ones for runtimes in which some do not.

    `remake` makes one for the text of a smaller mix; its name says who is missing. Where nothing is left, the
    comparison stays whole, and has failed.
    """
    by_members: dict[frozenset[str], list[Setting]] = defaultdict(list)
    for setting in settings:
        by_members[failing(log, comparison, setting) if RUNTIME in setting.in_process else frozenset()].append(setting)
    for names, those in by_members.items():
        left = [(weight, subject) for weight, subject in comparison.suite if subject.label not in names]
        if not names or not left:
            yield Plan(comparison=comparison, settings=tuple(those))
            continue
        total = sum(weight for weight, _ in left)
        mix = ",".join(f"{subject.label}:{weight / total!r}" for weight, subject in left)
        named = f"{comparison.mix} without {','.join(sorted(names))}"
        yield Plan(comparison=replace(remake(mix, comparison), mix=named), settings=tuple(those))


def failing(log: RoundsLog, comparison: Comparison, setting: Setting) -> frozenset[str]:
    """Members of the suite that do not run in a setting."""
    return frozenset(subject.label for _, subject in comparison.suite if log.failed(subject, setting) is not None)
