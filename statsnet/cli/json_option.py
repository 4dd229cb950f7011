"""`--json [FILE]`: one meaning in every command.

`--json` alone prints JSON to stdout instead of tables. `--json FILE` writes it to FILE, besides the tables.

What follows `--json` is FILE only if it ends in `.json` or is `-`, which is stdout. So a command's own arguments can
follow: `statsnet run --json my-proxy`. `--json=FILE` takes any name.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from statsnet.cli import output
from statsnet.errors import StatsNetError, UsageError

_FLAG = "--json"
_ENDING = ".json"


class JsonCommand(click.Command):
    """A command with `--json [FILE]`; it hands `json_path` to its function: None, output.STDOUT or a path that can be
    written."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                [_FLAG, "json_path"],
                metavar="[FILE]",
                help="Print JSON instead of tables; with a FILE (*.json), write it there, besides the tables.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = self._parsed(ctx, args)
        if not ctx.resilient_parsing:  # as a shell's completion does
            output.check_file(ctx.params["json_path"], or_stdout=True)
        return rest

    def _parsed(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined, alone = _joined(args), _joined(args, takes_file=False)
        try:
            return super().parse_args(ctx, list(joined))
        except click.UsageError as error:
            if type(error) is click.UsageError and _FLAG in args:  # arguments that are too many
                raise UsageError(
                    error.message,
                    cause=f"what follows {_FLAG} is its FILE only if it ends in {_ENDING}",
                    hint=f"{_FLAG}=FILE takes any name",
                ) from error
            missing = isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument)
            if not missing or joined == alone:
                raise
        ctx.params.clear()
        return super().parse_args(ctx, alone)  # `show --json s.json` has nothing to show unless s.json is it


command = functools.partial(click.command, cls=JsonCommand)


def check_no_input(path: str | None, inputs: Iterable[str | Path | None]) -> None:
    """Raises UsageError if a file that a command reads would be written: `path`, that of `--json FILE` or `-o FILE`.
    An input may be a proxy's folder: none of its files may be written."""
    if path is None or path == output.STDOUT:
        return
    read = (file for each in inputs if each is not None for file in _files(Path(each)))
    if any(os.path.realpath(file) == os.path.realpath(path) for file in read):  # resolve() fails at a link to itself
        raise UsageError(
            f"'{path}' would be overwritten, but the command reads it",
            cause="the FILE of --json and -o is written",
            hint="name another file, or give --json last and alone to print to stdout",
        )


def check_replaces_none(path: str | None, kinds: Collection[str]) -> None:
    """Raises UsageError if a file of one of these kinds would be written over: `compare --json a.json b.json c.json`
    was meant to read a.json."""
    if path is None or path == output.STDOUT or not Path(path).is_file():
        return
    from statsnet.signatures.kinds import KINDS

    if (kind := kind_if_known(Path(path))) in kinds:
        raise UsageError(
            f"'{path}' is {KINDS[kind].title}, and would be overwritten",
            cause=f"what follows {_FLAG} is written, if it ends in {_ENDING}",
            hint=f"give {_FLAG} last and alone to print to stdout, or name another file",
        )


def kind_if_known(path: Path) -> str:
    """Empty for what is no file of StatsNet; whoever loads it says why."""
    from statsnet.signatures.storage import kind_of

    try:
        return kind_of(path)
    except StatsNetError:
        return ""


def _files(path: Path) -> list[Path]:
    """The files of an input: a file, or those of a proxy's folder."""
    if not (path / "spec.json").is_file():
        return [path]
    from statsnet.signatures.kinds import FILES, SEARCH_FILES

    return [path / name for name in (*FILES, *SEARCH_FILES)]


def _joined(args: Sequence[str], *, takes_file: bool = True) -> list[str]:
    """The arguments with `--json` and its FILE as one of them, as click wants it for an option with a value."""
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word == _FLAG:
            is_file = takes_file and bool(rest) and (rest[0] == output.STDOUT or rest[0].endswith(_ENDING))
            word = f"{_FLAG}={rest.pop(0) if is_file else output.STDOUT}"
        joined.append(word)
    return joined


def check_not_within(json_path: str | None, folder: Path) -> None:
    """Raises UsageError for a FILE in the folder that is being made."""
    if json_path in (None, output.STDOUT):
        return
    if Path(os.path.realpath(json_path)).is_relative_to(os.path.realpath(folder)):
        raise UsageError(
            "--json would write into the folder that is made", hint=f"name a file that is not in '{folder}'"
        )
