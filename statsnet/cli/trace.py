"""`--trace FILE` of `profile` and `run`: a recording of some steps, to be looked at in Perfetto or speedscope."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import output
from statsnet.environment.launch import launched_together
from statsnet.errors import UsageError
from statsnet.units import format_duration, plural

if TYPE_CHECKING:
    from statsnet.measure.control import Control
    from statsnet.profiling.step_recording import Form, Recorded, RecordingTask

option = click.option(
    "--trace", "trace_path", metavar="FILE",
    help="Record three steps, too: for ui.perfetto.dev (*.json, *.json.gz), or what Python did, for speedscope.app "
    "(*.speedscope.json).",
)  # fmt: skip

OF_A_MODEL = "it holds names of your model, its files and this machine, so it stays in the house: share the signature"
OF_A_PROXY = "it names this machine and its files, so it stays in the house: share the result"


def check(path: str | None, *others: str | None) -> None:
    """Find out before the work whether a recording can be made and written there; `others` are written as well. Raises
    UsageError, or StatsNetError as check_folder does."""
    if path is None:
        return
    output.check_file(path)
    if form_of(path) is None:
        raise UsageError(
            f"'{path}' is no name for a recording",
            cause="its end says what it is to hold",
            hint="*.json or *.json.gz for Perfetto, *.speedscope.json for speedscope",
        )
    if any(other is not None and os.path.realpath(other) == os.path.realpath(path) for other in others):
        raise UsageError(f"'{path}' was given twice", cause="two files are to be written", hint="name another one")
    if launched_together():
        raise UsageError(
            "--trace was given under torchrun", cause="a recording is of one process", hint="leave out --trace"
        )


def form_of(path: str) -> Form | None:
    """What a file of this name is to hold; None if its name tells nothing."""
    name = Path(path).name.lower()
    if name.endswith(".speedscope.json"):
        return "speedscope"
    return "perfetto" if name.endswith((".json", ".json.gz")) else None


def write(path: str, task: RecordingTask, control: Control, warning: str) -> None:
    """Record into the file, and say on stderr what it holds."""
    from statsnet.profiling.step_recording import record_into

    with output.progress() as show:
        recorded = record_into(path, replace(task, form=form_of(path) or "perfetto"), control, report=show)
    output.print_notes([f"{path}: {_described(recorded)}; {warning}"])


def _described(recorded: Recorded) -> str:
    steps = recorded.steps
    took = f"{plural(steps.count, 'step')} of {format_duration(steps.step_s)}, slowed by the recording"
    if recorded.python_share is not None:
        return f"{took}, {recorded.python_share:.0%} of it in Python: open it at https://www.speedscope.app"
    kernels = f" and {steps.kernels / steps.count:.4g} kernels" if steps.kernels else ""
    return (
        f"{took}, {steps.operators / steps.count:.4g} operator events{kernels} each: open it at https://ui.perfetto.dev"
    )
