"""The program `statsnet`: its commands, and what happens when one fails."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import click

from statsnet import __version__
from statsnet.cli import (
    aggregate,
    audit,
    cache,
    characterize,
    compare,
    completion,
    cover,
    device,
    doctor,
    explain,
    export,
    import_recording,
    listing,
    map,
    output,
    profile,
    report,
    run,
    show,
    synthesize,
    update,
    validate,
)
from statsnet.errors import StatsNetError, did_you_mean, shown
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.patience import PATIENCE
from statsnet.measure.rank_errors import to_tell

INTERRUPTED, BROKEN_PIPE = (128 + s for s in (signal.SIGINT, signal.SIGPIPE))
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Requests to end, the second from a terminal that was closed."""

_DEBUG = "STATSNET_DEBUG"

_NOT_OURS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.ELOOP}
)
"""What a file system refuses wherever it is met; no bug of this program."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: statsnet synthesize --mix recsys:0.5,cv:0.5\n\nThen statsnet run with the folder it names.",
)
@click.version_option(__version__, message="statsnet %(version)s")
def statsnet() -> None:
    """One small network that stands for a weighted set of AI models on any device.

    Profile workloads into signatures, mix signatures into one small proxy network, run the proxy on
    any device: its time changes by about the same factor as that of the models it stands for.
    """


for command in (
    profile.profile,
    import_recording.import_,
    synthesize.synthesize,
    run.run,
    validate.validate,
    explain.explain,
    compare.compare,
    report.report,
    cover.cover,
    update.update,
    listing.list_,
    show.show,
    audit.audit,
    audit.coarsen,
    aggregate.aggregate,
    characterize.characterize,
    map.map_,
    device.device,
    export.export,
    cache.cache,
    doctor.doctor,
    completion.completion,
):
    statsnet.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of this process) and return its exit code.

    0: done; 1: it failed; 2: the request itself is wrong; 130, 143 and 129: ended by Ctrl-C,
    SIGTERM or a closed terminal.
    """
    _prepare_streams()
    PATIENCE.restart()
    LOCKS.tell = lambda text: output.print_notes([text])
    heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores one
    previous = {number: signal.signal(number, _terminate) for number in heeded}
    try:
        if (answered := completion.answer(statsnet)) is not None:
            return answered
        given = sys.argv[1:] if arguments is None else arguments
        # Not statsnet.main(), which has an exit code of its own for a broken pipe.
        with statsnet.make_context("statsnet", list(given)) as context, LOCKS.command():
            statsnet.invoke(context)
        sys.stdout.flush()
        return 0
    except (KeyboardInterrupt, click.Abort):
        click.echo("statsnet: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except click.exceptions.NoArgsIsHelpError as nothing:
        click.echo(nothing.format_message(), err=True)
        return nothing.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        return _report(error)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _report(error: Exception) -> int:
    """Say what failed, why, and what to do next, on stderr; returns the exit code."""
    code, text = 1, ""
    if isinstance(error, StatsNetError):
        code = error.exit_code
        if (told := to_tell(error)) is None:
            return code
        text = str(told)
    elif isinstance(error, click.ClickException):
        code, text = error.exit_code, _usage_text(error)
    elif isinstance(error, OSError) and error.errno in _NOT_OURS:
        where = f"'{error.filename}'" if error.filename is not None else "a file"
        text = f"{where} cannot be read or written\ncause: {(error.strerror or str(error)).lower()}"
    else:
        text = f"unexpected {type(error).__name__}: {error}\nthis is a bug in StatsNet; please report it"
        text += "" if _debugging() else f"\ntry: {_DEBUG}=1 shows where it happened"
    click.echo(f"statsnet: {shown(text)}", err=True)
    if _debugging():
        traceback.print_exception(error)
    return code


def _usage_text(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "statsnet"
    if isinstance(error, click.exceptions.NoSuchCommand):
        group = context.command if context else statsnet
        known = group.commands if isinstance(group, click.Group) else ()
        hint = did_you_mean(error.command_name, known, otherwise=f"{path} --help")
        return f"there is no command '{error.command_name}'\ntry: {hint}"
    return f"{error.format_message()}\ntry: {path} --help"


def _debugging() -> bool:
    return os.environ.get(_DEBUG, "") not in ("", "0")


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # so that child processes end and temporary files go


def _prepare_streams() -> None:
    """A character that the terminal's encoding lacks is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
