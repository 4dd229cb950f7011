"""Which nodes of a fleet may measure together: one environment, and one speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from statsnet.environment import differences, slug
from statsnet.errors import StatsNetError, UsageError, one_of
from statsnet.measure.control import Job
from statsnet.measure.engine import Asked, Engine, Fleet, LeftOut, Place, Pool
from statsnet.measure.errand import RunJob
from statsnet.measure.network_file import written
from statsnet.measure.reference_network import TimeReferenceNetwork
from statsnet.progress import Progress, Report, silent

ALIKE = 0.03
"""Times of nodes are pooled if their reference networks' steps differ by no more."""

LOOKING = "asking each node what it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The places of one environment; `name` is its slug, with the fingerprint where two have the same slug."""

    name: str
    places: tuple[Place, ...]


def kinds_of(fleet: Fleet) -> list[Kind]:
    """The kinds of places, those with most of them first.

    Raises StatsNetError where there are none, with what was left out as its cause.
    """
    if not fleet.places:
        raise StatsNetError(
            "no node of the fleet can measure",
            cause="; ".join(f"{each.name}: {each.why}" for each in fleet.left_out) or "it has no nodes",
            hint="; ".join(dict.fromkeys(each.hint for each in fleet.left_out)) or "start some: ray start --address",
        )
    groups: dict[str, list[Place]] = {}
    for place in fleet.places:
        groups.setdefault(place.fingerprint, []).append(place)
    slugs = [slug(places[0].environment) for places in groups.values()]
    kinds = [
        Kind(name=name if slugs.count(name) == 1 else f"{name}-{known}", places=tuple(places))
        for name, (known, places) in zip(slugs, groups.items(), strict=True)
    ]
    return sorted(kinds, key=lambda kind: (-len(kind.places), kind.name))


def of_one_kind(fleet: Fleet, wanted: str | None = None) -> tuple[Kind, tuple[LeftOut, ...]]:
    """The kind that is called `wanted`, else the one with most places; and everything that is left out.

    Raises UsageError for a name that no kind has, and as `kinds_of` does.
    """
    kinds = kinds_of(fleet)
    chosen = next((kind for kind in kinds if kind.name == wanted), None) if wanted else kinds[0]
    if chosen is None:
        raise UsageError(f"no node has the environment '{wanted}'", hint=one_of(str(wanted), [k.name for k in kinds]))
    others = [
        LeftOut(
            name=place.name,
            why=f"its environment is another ({'; '.join(_apart(chosen, place))})",
            hint=f"--environment {kind.name} measures on such nodes",
        )
        for kind in kinds
        if kind is not chosen
        for place in kind.places
    ]
    return chosen, (*fleet.left_out, *others)


def _apart(kind: Kind, place: Place) -> list[str]:
    """A field that only one of two knows is no difference, but their fingerprints differ."""
    return differences(kind.places[0].environment, place.environment) or ["one of them tells less of itself"]


def of_one_speed(
    engine: Engine, places: Sequence[Place], source: str, *, report: Report = silent
) -> tuple[tuple[Place, ...], tuple[LeftOut, ...]]:
    """The places of one environment that are equally fast, by the step of the network with this source; and the others.
    One place alone is not looked at, nor are GPUs: they keep their speed.

    Raises StatsNetError where no place could time that network.
    """
    if len(places) < 2 or not places[0].device.startswith("cpu"):
        return tuple(places), ()
    with written(source) as folder:
        look = RunJob.of(Job(TimeReferenceNetwork(folder=folder)))
    looks = [Asked(errand=look, label="the reference network", places=(place,)) for place in places]
    steps_s: dict[int, float] = {}
    left_out = []
    for done in engine.run(looks, report=report):
        if done.error is None and done.result is not None:
            steps_s[done.index] = done.result.latency_s
        elif done.error is not None:
            why = f"the reference network could not be timed there ({done.error.message})"
            left_out.append(LeftOut(name=places[done.index].name, why=why, hint=done.error.hint or "look at its logs"))
    kept = alike(steps_s)
    if not kept:
        raise StatsNetError(
            "no node could time the reference network",
            cause="; ".join(f"{each.name}: {each.why}" for each in left_out),
            hint="try one node by itself first: statsnet doctor",
        )
    for index in sorted(steps_s.keys() - kept):
        times_as_long = steps_s[index] / min(steps_s[i] for i in kept)
        left_out.append(_of_another_speed(places[index], times_as_long))
    return tuple(places[index] for index in sorted(kept)), tuple(left_out)


def _of_another_speed(place: Place, times_as_long: float) -> LeftOut:
    if times_as_long < 1:
        return LeftOut(
            name=place.name,
            why=f"it is faster than most nodes: its reference network takes {times_as_long:.3f} times as long as there",
            hint="look at the clocks and the cooling of the others, and at what else runs there",
        )
    return LeftOut(
        name=place.name,
        why=f"its reference network takes {times_as_long:.3f} times as long as on the other nodes",
        hint="stop what else runs there, and look at its clocks and cooling",
    )


def pool_of(
    engine: Engine,
    device: str,
    source: str,
    environment: str | None = None,
    *,
    note: Callable[[str], None],
    report: Report,
) -> Pool:
    """The places of one environment (as `of_one_kind`) and one speed, by the network with this source. `note` is told
    of each that is left out. Raises as both functions do."""
    report(Progress(stage=LOOKING))
    kind, others = of_one_kind(engine.find(device), environment)
    for each in others:
        note(str(each))
    places, slower = of_one_speed(engine, kind.places, source, report=report)
    for each in slower:
        note(str(each))
    return Pool(engine=engine, places=places)


def alike(steps_s: dict[int, float]) -> set[int]:
    """The most nodes whose steps lie within ALIKE of the fastest of them; of two sets as large, the faster."""
    order = sorted(steps_s, key=steps_s.__getitem__)
    sets = [{i for i in order if steps_s[first] <= steps_s[i] <= (1 + ALIKE) * steps_s[first]} for first in order]
    return max(sets, key=len, default=set())
