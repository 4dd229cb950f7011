"""Where things go: tables and JSON to stdout, progress to stderr, files whole or not at all."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from statsnet.environment import outputs
from statsnet.errors import StatsNetError, UsageError, shown
from statsnet.measure.patience import PATIENCE
from statsnet.progress import Progress
from statsnet.progress import Report as ReportProgress

if TYPE_CHECKING:
    from statsnet.reporting.tables import Report

PIPE_WIDTH = 200
STDOUT = "-"


def print_report(report: Report, *, stream: TextIO | None = None) -> None:
    """Tables to a stream (default: stdout), with an empty line between two of them."""
    from rich.console import Console

    from statsnet.reporting.narrow import fitted

    stream = stream or sys.stdout
    live = stream.isatty()
    width = None if live else PIPE_WIDTH
    console = Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        for number, part in enumerate(report):
            if number:
                console.print()
            console.print(fitted(part, console.width))
    lines = capture.get().splitlines()
    stream.write("\n".join(lines if live else [text.rstrip() for text in lines]) + "\n")


def print_json(data: Any) -> None:
    """JSON to stdout, in the canonical form of files."""
    from statsnet.signatures.canonical import canonical_json

    sys.stdout.write(canonical_json(data))


def deliver(
    data: Mapping[str, Any], json_path: str | None, report: Callable[[], Report], *, written: Path | None = None
) -> None:
    """Show what a command found: JSON on stdout (`-`), or tables there and JSON in a file if a path is given. Beside
    tables, what else was `written` is told."""
    if json_path == STDOUT:
        print_json(data)
        return
    try:
        if json_path is not None:
            save(json_path, data)
    except StatsNetError:  # such as of a full disk: hours of measuring are not to be lost with it
        print_report(report())
        raise
    print_report(report())
    for path in (json_path, written):
        if path is not None:
            print_written(path)


def save(path: str, data: Mapping[str, Any]) -> None:
    """Plain data as a file of StatsNet, checked, if it is one."""
    from statsnet.signatures.canonical import write_json_atomically
    from statsnet.signatures.storage import save_document

    write = save_document if "kind" in data else write_json_atomically
    write(path, data)


def print_notes(texts: Iterable[str]) -> None:
    """What could not be done, to stderr; each text once."""
    for text in dict.fromkeys(texts):
        print(f"statsnet: {shown(text)}", file=sys.stderr)


@contextmanager
def told_if_it_fails(notes: Sequence[str]) -> Iterator[None]:
    """What was noted until then often says why."""
    try:
        yield
    except BaseException:
        print_notes(notes)
        raise


def print_written(path: str | Path) -> None:
    print(f"\nwritten to {shown(str(path))}")


def check_file(path: str | Path | None, *, or_stdout: bool = False) -> None:
    """Find out before the work whether a file can be written there.

    Raises UsageError for a folder, a device or a folder without write permission, and for `-` unless that may stand
    for stdout.
    """
    if path is None or (or_stdout and str(path) == STDOUT):
        return
    if str(path) == STDOUT:
        raise UsageError("'-' is not a file", cause="this cannot go to stdout", hint="name a file")
    outputs.check_file(Path(path))


def check_signature_output(path: str | None, json_path: str | None) -> None:
    """Raises UsageError unless `-o FILE` or `--json` says where a signature goes, and where FILE is `-`."""
    if path is None and json_path is None:
        raise UsageError("no output was given", hint="-o FILE writes the signature, --json prints it")
    if path == STDOUT:
        raise UsageError("'-' is not a file", hint="--json prints the signature to stdout")


def check_pictures(folder: str | None) -> None:
    """Find out before the work whether pictures can be drawn, and written to a folder (None: none are asked for).

    Raises UsageError where the folder or the drawing library is missing, StatsNetError as check_folder does.
    """
    if folder is None:
        return
    outputs.check_folder(Path(folder))
    if find_spec("matplotlib") is None:
        raise UsageError(
            "no picture can be drawn",
            cause="matplotlib is not installed",
            hint="pip install 'statsnet[pictures]', or leave -o out",
        )


def write_pictures(folder: str, pictures: Mapping[str, str], *, say: bool) -> None:
    """Write SVGs by their file's name, and say where they are."""
    from statsnet.signatures.canonical import write_text_atomically

    for name, text in pictures.items():
        write_text_atomically(Path(folder, name), text)
    if say:
        print_written(folder)


QUIET_S = 60.0
"""A log that says nothing for longer looks like a program that hangs."""

SHOWN_S, NOTED_S = 1.0, 5.0
"""Waiting for quiet moments is shown if it took longer: on the live line, and at the end."""


@contextmanager
def progress() -> Iterator[ReportProgress]:
    """A function that shows progress on stderr.

    On a terminal that is one live line with an estimate; elsewhere a plain line for each new stage, and every
    QUIET_S what is being done. At the end, a note says how much of it was waiting for quiet moments.
    """
    before_s, measured, disturbed = PATIENCE.spent_s, PATIENCE.measured, PATIENCE.disturbed
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _live_line(before_s) as show:
            yield show
    else:
        yield _plain_lines()
    if PATIENCE.spent_s - before_s > NOTED_S:
        print_notes([f"{_waited(PATIENCE.spent_s - before_s)} (never with STATSNET_PATIENCE_S=0)"])
    measured, disturbed = PATIENCE.measured - measured, PATIENCE.disturbed - disturbed
    if measured >= FEWEST_COUNTED and disturbed > DISTURBED_SHARE * measured:
        print_notes(
            [
                f"the machine was disturbed in {disturbed} of {measured} measurements, so times may be far off: stop "
                "other programs and measure again, or allow more waiting with STATSNET_PATIENCE_S=120"
            ]
        )


FEWEST_COUNTED, DISTURBED_SHARE = 5, 0.5
"""A disturbed machine is spoken of if so many measurements were made and more than this share of them was disturbed."""


def _waited(seconds: float) -> str:
    return f"waited {_rounded(seconds)} for quiet moments" if seconds > SHOWN_S else ""


def _plain_lines() -> ReportProgress:
    seen: set[str] = set()
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        stage = shown(progress.stage)
        kind = re.sub(r"\d+", "#", stage)  # `block 3 of 40` and `block 4 of 40` are one stage
        if stage and (kind not in seen or time.monotonic() > last + QUIET_S):
            seen.add(kind)
            last = time.monotonic()
            print(f"{stage} ({_of_all(progress)})" if progress.of_all else stage, file=sys.stderr, flush=True)

    return show


@contextmanager
def _live_line(before_s: float) -> Iterator[ReportProgress]:
    """`before_s` was spent on waiting before."""
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(file=sys.stderr, markup=False, highlight=False)
    estimate = _Estimate()
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=24),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("{task.fields[estimate]}", markup=False),
        rich_progress.TextColumn("{task.fields[waited]}", markup=False),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0, estimate="", waited="")

        def show(progress: Progress) -> None:
            text = estimate.text(progress)
            bar.update(
                task,
                description=shown(progress.stage),
                completed=progress.done,
                estimate=text,
                waited=_waited(PATIENCE.spent_s - before_s),
            )

        yield show


class _Estimate:
    """How far the whole command is, where it says so; else the time left that is reported, or what the present stage's
    speed says."""

    def __init__(self) -> None:
        self._stage = ""
        self._begin = 0.0

    def text(self, progress: Progress) -> str:
        if progress.of_all:
            return _of_all(progress)
        stage, done = re.sub(r"\d+", "#", progress.stage), progress.done
        if stage != self._stage:
            self._stage, self._begin = stage, time.monotonic()
        remaining = progress.remaining_s
        if remaining is None and done > 0.02:
            remaining = (time.monotonic() - self._begin) * (1 - done) / done
        return "" if remaining is None else f"about {_rounded(remaining)} left"


def _of_all(progress: Progress) -> str:
    """`42%, about 3 min left`."""
    left = "" if progress.remaining_s is None else f", about {_rounded(progress.remaining_s)} left"
    return f"{progress.done:.0%}{left}"


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
