"""`statsnet profile` of many workloads, or of what a mix needs: a folder of signatures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, options, output
from statsnet.environment import outputs
from statsnet.environment.launch import launched_together
from statsnet.errors import StatsNetError, UsageError, shown

if TYPE_CHECKING:
    from statsnet.measure.engine import Done, Engine, Place
    from statsnet.measure.timing_tasks import Model
    from statsnet.profiling.members import Member, Outcome
    from statsnet.signatures.model import Level, Signature

_OF_ONE_WORKLOAD = (
    "optimizer", "assignments", "setting", "json_path", "trace_path", "processes", "group_timeout_s",
)  # fmt: skip
_OF_NO_MIX = ("batch", "dtype", "preset")
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the workloads are profiled, and where they go."""

    mode: str
    folder: str
    device: str
    counters: str
    level: Level
    seed: int
    min_time_s: float | None
    engine: str
    environment: str | None


def are_many(targets: Sequence[str], engine: str) -> bool:
    """Whether their signatures go into a folder: several, a pattern, or whatever a fleet measures."""
    return len(targets) > 1 or engine != fleet.LOCAL or any(_is_pattern(target) for target in targets)


def _is_pattern(target: str) -> bool:
    """Of workloads' names; a factory's file may have such signs in its path."""
    is_own = ":" in target or target.endswith(".py") or Path(target).exists()
    return bool(_PATTERN & set(target)) and not is_own


def profile_mix(mix: str, wanted: Wanted) -> None:
    """Profile the members that are missing in the folder."""
    _check_options("--mix", wanted.device, _OF_NO_MIX + _OF_ONE_WORKLOAD)
    from statsnet.profiling.members import members_of
    from statsnet.signatures.mix_request import mix_requests
    from statsnet.synthesis.asked import asked_of

    requests = mix_requests(mix)
    wanted = replace(wanted, mode=asked_of(mix, mode=options.given_mode(wanted.mode)).mode)
    _profile(members_of(requests), wanted, "members", copies=True)
    given = f" --mode {wanted.mode}" if options.was_given("mode") else ""
    command = f"statsnet synthesize --mix {quote(mix)}{given} --profiles {quote(wanted.folder)}"
    click.echo(shown(f"\nall are there: {command}"))


def profile_many(
    targets: Sequence[str], wanted: Wanted, *, preset: str | None, batch: int | None, dtype: str | None
) -> None:
    """Profile the workloads that names and patterns stand for, except those that the folder has already."""
    _check_options("several workloads" if wanted.engine == fleet.LOCAL else "--engine", wanted.device, _OF_ONE_WORKLOAD)
    from statsnet.profiling.members import members_named
    from statsnet.signatures.mix_request import Selection

    members = members_named(targets, Selection(preset=preset, batch=batch, dtype=dtype))
    _profile(members, wanted, "workloads", copies=False)
    click.echo(shown(f"\nall are there: statsnet list profiles --profiles {quote(wanted.folder)}"))


def _profile(members: Sequence[Member], wanted: Wanted, what: str, *, copies: bool) -> None:
    """A line for each; those that fail are named at the end."""
    if not wanted.folder:
        raise UsageError("no output was given", cause="many signatures go into a folder", hint="-o DIR names one")
    if Path(wanted.folder).suffix == ".json":
        raise UsageError(
            f"'{wanted.folder}' names a file", cause="many signatures go into a folder", hint="-o DIR names one"
        )
    outputs.check_folder(Path(wanted.folder))
    failed = []
    told: dict[str, str] = {}
    try:
        for outcome in _outcomes(members, wanted, copies=copies):
            why = _once(outcome, told).replace("\n", "; ")
            click.echo(shown(f"{outcome.name}: {outcome.what}{', ' if outcome.what != 'profiled' else ' into '}{why}"))
            failed += [outcome.name] if outcome.what == "failed" else []
    except KeyboardInterrupt:
        click.echo(f"statsnet: the same command goes on with what is in '{wanted.folder}'", err=True)
        raise
    if failed:
        there = len(members) - len(failed)
        raise StatsNetError(
            f"{len(failed)} of {len(members)} {what} could not be profiled",
            cause=f"{', '.join(failed)}: the reason for each is printed above",
            hint="the same command tries these alone again, once their reasons are mended"
            + (f"; the other {there} are in '{wanted.folder}'" if there else ""),
        )


def _once(outcome: Outcome, told: dict[str, str]) -> str:
    """Why something failed. Cause and remedy are `told` once, as of nodes that are gone, then by whom they were."""
    why, _, more = outcome.why.partition("\n")
    first = told.setdefault(more, outcome.name)
    return outcome.why if not more or first == outcome.name else f"{why}, for the same cause as {first}"


def _outcomes(members: Sequence[Member], wanted: Wanted, *, copies: bool) -> Iterator[Outcome]:
    from statsnet.measure.fleet import of_one_kind
    from statsnet.profiling.members import profile_members

    with fleet.opened(wanted.engine, wanted.device) as engine:
        kind, left_out = of_one_kind(fleet.found(engine, wanted.device), wanted.environment)
        output.print_notes(map(str, left_out))

        def measure(models: Sequence[Model]) -> Iterator[Done[Signature]]:
            return _measured(engine, kind.places, models, wanted)

        here = kind.places[0].environment
        yield from profile_members(members, wanted.mode, Path(wanted.folder), here, measure, copies=copies)


def _measured(
    engine: Engine, places: Sequence[Place], models: Sequence[Model], wanted: Wanted
) -> Iterator[Done[Signature]]:
    """Signatures at the level that was asked for, as they come."""
    from statsnet.measure.engine import Asked, Done
    from statsnet.profiling.costs import cost_of
    from statsnet.profiling.members import ProfileErrand
    from statsnet.profiling.tasks import ProfileWorkload
    from statsnet.signatures.levels import coarsen
    from statsnet.synthesis.bench.machine_speed import reference_beside

    asked = []
    places = fleet.of_one_speed(engine, places, wanted.mode)
    for model in models:
        task = ProfileWorkload(
            model=replace(model, seed=wanted.seed), device=wanted.device, **options.given(min_time_s=wanted.min_time_s)
        )
        errand = ProfileErrand(task=task, counters=wanted.counters, reference_source=reference_beside(task))
        asked.append(Asked(errand=errand, label=model.target, places=places))
    for done in fleet.shown(engine, asked):
        if done.result is None:
            yield Done(index=done.index, place=done.place, error=done.error)
            continue
        output.print_notes(_with_names(done.result.notes, done.place, models[done.index], wanted.engine))
        signature = coarsen(done.result.signature, wanted.level, cost_of)
        yield Done(index=done.index, place=done.place, result=signature)


def _with_names(notes: Iterable[str], place: Place | None, model: Model, engine: str) -> list[str]:
    if engine == fleet.LOCAL or place is None:
        return list(notes)
    return [f"{model.target} on {place.name}: {note}" for note in notes]


def _check_options(what: str, device: str, of_one: Sequence[str]) -> None:
    if option := options.first_given(*of_one):
        raise UsageError(
            f"{option} and {what} were both given",
            cause=f"{option} is for one workload",
            hint="preset, batch and dtype of each member stand in the mix's file"
            if what == "--mix"
            else f"profile the workload that needs {option} alone, with -o FILE",
        )
    if device == "meta" or launched_together():
        raise UsageError(
            f"{what} {'was' if what.startswith('-') else 'were'} given "
            f"{'for counting' if device == 'meta' else 'under torchrun'}",
            cause="a folder of profiles holds signatures that were timed in one process",
            hint=f"profile the {'members' if what == '--mix' else 'workloads'} one by one",
        )
