"""What the benchmarks' command lines share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from statsnet.errors import StatsNetError
from statsnet.measure.device_lock import LOCKS
from statsnet.progress import Progress
from statsnet.units import parse_duration_s


def parser(doc: str | None) -> argparse.ArgumentParser:
    """For a program with this docstring, which begins with the question that the program answers."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def duration(text: str) -> float:
    """An option's TIME in seconds, as `20min`."""
    try:
        return parse_duration_s(text)
    except StatsNetError as error:
        raise argparse.ArgumentTypeError(error.message) from error


_SAID: list[str] = []


def report(progress: Progress) -> None:
    """What is being done and, if known, how long the rest takes, to stderr; once, though it is said again."""
    left = "" if progress.remaining_s is None else f", {progress.remaining_s / 60:.0f} min left"
    if _SAID[-1:] != [text := f"{progress.stage}{left}"]:
        _SAID[:] = [text]
        print(text, file=sys.stderr, flush=True)


@contextmanager
def left_out_if_it_fails(name: str, failed: list[str]) -> Iterator[None]:
    """An error in the block is told and ends the block alone, so that other subjects go on; `failed` gets its name."""
    try:
        yield
    except StatsNetError as error:
        print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
        failed.append(name)


def start(main: Callable[[], int | None]) -> None:
    """Run a program and exit. An error that its user can act on is printed without a traceback."""
    LOCKS.tell = lambda text: print(text, file=sys.stderr, flush=True)
    try:
        code = main()
    except StatsNetError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    sys.exit(code)


def percent(share: float) -> str:
    """With its sign."""
    return f"{100 * share:+.1f} %".replace("-", "−")


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A line for each of `lines`, whose cells stand below the header's."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *lines))
