"""`statsnet profile --mix`: the signatures that a mix needs of this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import options, output
from statsnet.errors import StatsNetError, UsageError, shown
from statsnet.measure.at_hand import require_device

if TYPE_CHECKING:
    from statsnet.measure.timing_tasks import Model
    from statsnet.signatures.model import Level, Signature

_OF_ONE_WORKLOAD = (
    "batch", "dtype", "preset", "optimizer", "assignments", "setting", "processes", "json_path", "trace_path",
)  # fmt: skip


def profile_mix(
    mix: str, *, mode: str, folder: str, device: str, counters: str, level: Level, seed: int, min_time_s: float | None,
) -> None:  # fmt: skip
    """Profile the members that are missing in the folder, a line each; those that fail are named at the end."""
    _check_options(device)
    from statsnet.signatures.mix import mix_requests
    from statsnet.synthesis.asked import asked_of

    requests = mix_requests(mix)
    mode = asked_of(mix, mode=options.given_mode(mode)).mode
    output.check_folder(Path(folder))
    require_device(device)
    from statsnet.measure.process import measuring_environment
    from statsnet.profiling.costs import cost_of
    from statsnet.profiling.members import members_of, profile_members, profiled_signature
    from statsnet.profiling.tasks import ProfileWorkload
    from statsnet.signatures.levels import coarsen
    from statsnet.synthesis.machine_speed import beside_reference

    def measure(model: Model) -> Signature:
        task = ProfileWorkload(model=replace(model, seed=seed), device=device, **options.given(min_time_s=min_time_s))
        with beside_reference(task) as task, output.progress() as show:
            signature, notes = profiled_signature(task, counters, report=show)
        output.print_notes(notes)
        return coarsen(signature, level, cost_of)

    members, failed = members_of(requests), []
    try:
        for outcome in profile_members(members, mode, Path(folder), measuring_environment(device), measure):
            why = outcome.why.replace("\n", "; ")
            said = f"{outcome.name}: {outcome.what}{', ' if outcome.what != 'profiled' else ' into '}{why}"
            click.echo(shown(said))
            failed += [outcome.name] if outcome.what == "failed" else []
    except KeyboardInterrupt:
        click.echo(f"statsnet: the same command goes on with what is in '{folder}'", err=True)
        raise
    if failed:
        raise StatsNetError(
            f"{len(failed)} of {len(members)} members could not be profiled",
            cause=f"{', '.join(failed)}: the reason for each is printed above",
            hint="the same command tries these alone again",
        )
    given = f" --mode {mode}" if options.was_given("mode") else ""
    click.echo(shown(f"\nall are there: statsnet synthesize --mix {mix}{given} --profiles {folder}"))


def _check_options(device: str) -> None:
    if option := options.first_given(*_OF_ONE_WORKLOAD):
        raise UsageError(
            f"{option} and --mix were both given",
            cause=f"{option} is for one workload",
            hint="preset, batch and dtype of each member stand in the mix's file",
        )
    if device == "meta" or "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError(
            f"--mix was given {'for counting' if device == 'meta' else 'under torchrun'}",
            cause="a proxy is made of signatures that were timed in one process",
            hint="profile the members one by one",
        )
