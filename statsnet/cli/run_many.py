"""`statsnet run` of several proxies, or on a fleet: a result for each, and one table that compares them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, output
from statsnet.environment import machine_differences
from statsnet.errors import StatsNetError, shown
from statsnet.evaluation.run_proxy import OF_SIMULATORS, WITHOUT_COLLECTIVES, RunOptions, TimeProxy, proxy_result
from statsnet.evaluation.standings import NamedResult, listed
from statsnet.measure.engine import Asked, Done, Engine
from statsnet.measure.fleet import Kind, kinds_of, of_one_kind
from statsnet.proxy.folder import open_proxy
from statsnet.reporting.standings import standings_report
from statsnet.signatures.storage import load_result, save
from statsnet.workloads.settings import BASELINE, with_threads

if TYPE_CHECKING:
    from statsnet.measure.timing_tasks import TimedStep
    from statsnet.proxy.folder import ProxyFolder
    from statsnet.signatures.results import Result

ROUNDING = 1e-6
"""Of times in a file, which have nine digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A proxy on one kind of node. `path` is where its result is kept."""

    name: str
    proxy: ProxyFolder
    kind: Kind
    path: Path | None

    def kept(self) -> Result | None:
        """Raises StatsNetError where the file is not a result of running this proxy."""
        if self.path is None or not self.path.is_file():
            return None
        result = load_result(self.path)
        if result.subject.id != self.proxy.subject_id or result.processes is None:
            raise StatsNetError(
                f"'{self.path}' is the result of {'validate' if result.processes is None else 'another proxy'}",
                hint="choose another folder with -o, or delete it",
            )
        return result

    def lacks(self, result: Result, wanted: RunOptions) -> str | None:
        """Why this result is not what was asked for; None if it is. A process has always timed for the least time, or
        until the most was over."""
        if changed := machine_differences(result.environment, self.kind.places[0].environment):
            return f"comes from another environment ({'; '.join(changed)})"
        processes = result.processes or ()
        if len(processes) < wanted.processes:
            return f"has {len(processes)} of {wanted.processes} processes"
        briefest_s = min(sum(timing.latency_s) for timing in processes)
        limits = (wanted.limits.min_time_s, wanted.limits.max_time_s)
        least_s = min((limit for limit in limits if limit is not None), default=0.0)
        if briefest_s < (1 - ROUNDING) * least_s:
            return f"was timed for {briefest_s:.3g} s, and {least_s:g} s are asked for"
        return None


def run_many(proxies: Sequence[str], wanted: RunOptions, where: fleet.Where, json_path: str | None) -> None:
    """Time each proxy on one node of each kind, and compare. What fails is named, and loses nothing else."""
    opened = dict(zip(_labels(proxies), (open_proxy(name, trust=wanted.trust) for name in proxies), strict=True))
    output.print_notes(note for each in opened.values() for note in each.notes)
    if any(each.spec.simulation is not None for each in opened.values() if each.is_generated):
        output.print_notes([OF_SIMULATORS])
    if any(each.spec.collectives for each in opened.values() if each.is_generated):
        output.print_notes([WITHOUT_COLLECTIVES])
    with fleet.opened(where.engine, where.device) as engine:
        found = fleet.found(engine, where.device)
        if where.everywhere:
            kinds, left_out = kinds_of(found), found.left_out
        else:
            kind, left_out = of_one_kind(found, where.environment)
            kinds = [kind]
        output.print_notes(map(str, left_out))
        runs = list(_runs(opened, kinds, wanted, where.folder))
        results, failed = _results(engine, runs, wanted)
    if results:
        table = listed([NamedResult(name=run.name, result=results[run.name]) for run in runs if run.name in results])
        output.deliver(table.to_dict(), json_path, lambda: standings_report(table))
    if failed:
        kept = f"; the other {len(results)} are in '{where.folder}'" if where.folder and results else ""
        raise StatsNetError(
            f"{len(failed)} of {len(runs)} runs failed",
            cause=f"{', '.join(failed)}: the reason for each is printed above",
            hint=f"the same command tries {'these alone' if where.folder else 'all of them'} again{kept}",
        )


def _labels(proxies: Sequence[str]) -> list[str]:
    """A name for each folder, none twice: the end of its path that no other of them has, most often the last folder."""
    paths = [Path(os.path.realpath(name)).parts for name in proxies]
    labels: list[str] = []
    for path in paths:
        length = next(n for n in range(1, len(path) + 1) if sum(p[-n:] == path[-n:] for p in paths) == 1)
        label = path[-1] if length == 1 else re.sub(r"[^\w.-]+", "-", "-".join(path[-length:])).strip("-.")
        others = (label, *(f"{label}-{number}" for number in range(2, len(paths) + 1)))
        labels.append(next(each for each in others if each not in labels))
    return labels


def _runs(
    opened: dict[str, ProxyFolder], kinds: Sequence[Kind], wanted: RunOptions, folder: str | None
) -> Iterator[_Run]:
    ending = _ending(wanted)
    for label, proxy in opened.items():
        for kind in kinds:
            name = kind.name if len(opened) == 1 else label if len(kinds) == 1 else f"{label} on {kind.name}"
            path = None if folder is None else Path(folder, kind.name, f"{label}{ending}.json")
            yield _Run(name=name, proxy=proxy, kind=kind, path=path)


def _ending(wanted: RunOptions) -> str:
    """Each setting and number of threads has a file of its own."""
    setting = with_threads(wanted.setting, wanted.threads)
    parts = [] if wanted.setting == BASELINE else [setting.name]
    if setting.threads != wanted.setting.threads:
        parts.append(f"threads={setting.threads}")
    return "." + re.sub(r"[^\w.-]+", "-", "+".join(parts)) if parts else ""


def _results(engine: Engine, runs: Sequence[_Run], wanted: RunOptions) -> tuple[dict[str, Result], list[str]]:
    """By the names of the runs; and those that failed. A result is written as soon as it is there."""
    results: dict[str, Result] = {}
    failed: list[str] = []
    missing: list[_Run] = []
    for run in runs:
        try:
            kept = run.kept()
        except StatsNetError as error:
            _say(run, "failed", str(error))
            failed.append(run.name)
            continue
        if kept is None:
            missing.append(run)
        elif lack := run.lacks(kept, wanted):
            _say(run, "measured again", f"'{run.path}' {lack}")
            missing.append(run)
        else:
            _say(run, "kept", f"'{run.path}' has its result")
            results[run.name] = kept
    asked: list[Asked[tuple[TimedStep, ...]]] = [
        Asked(
            errand=TimeProxy.of(run.proxy, replace(wanted, device=run.kind.places[0].device)),
            label=run.name,
            places=run.kind.places,
        )
        for run in missing
    ]
    for done in fleet.shown(engine, asked):
        run = missing[done.index]
        try:
            results[run.name] = _saved(run, done)
        except StatsNetError as error:
            _say(run, "failed", str(error))
            failed.append(run.name)
    return results, failed


def _saved(run: _Run, done: Done[tuple[TimedStep, ...]]) -> Result:
    if done.result is None:
        assert done.error is not None
        raise done.error
    result = proxy_result(run.proxy, done.result)
    if run.path is not None:
        save(run.path, result)
    return result


def _say(run: _Run, what: str, why: str) -> None:
    """To stderr: stdout is for the table, or its JSON."""
    text = why.replace("\n", "; ")
    click.echo(shown(f"{run.name}: {what}, {text}"), err=True)
