"""Shell completion: `statsnet completion bash`, and what a shell asks for when somebody presses Tab.

click does the work (https://click.palletsprojects.com/shell-completion): the script that a shell loads calls this
program again with a variable set. Names that only this program knows are offered here; where nothing is known of a
word, the shell offers files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from statsnet.cli import listing, options

PROGRAM, VARIABLE = "statsnet", "_STATSNET_COMPLETE"
SHELLS = {
    "bash": 'eval "$(statsnet completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(statsnet completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "statsnet completion fish | source  # in ~/.config/fish/config.fish",
}
"""By name: the line that switches it on, and where it goes."""


@click.command(short_help="Print a script that completes commands in a shell.")
@click.argument("shell", type=options.Choice(tuple(SHELLS)))
def completion(shell: str) -> None:
    """Print what SHELL loads, so that Tab completes commands, options and names of workloads, settings and devices.

    \b
    In ~/.bashrc:                     eval "$(statsnet completion bash)"
    In ~/.zshrc, after compinit:      eval "$(statsnet completion zsh)"
    In ~/.config/fish/config.fish:    statsnet completion fish | source

    Example: statsnet completion bash > ~/.local/share/bash-completion/completions/statsnet
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    made = kind(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE)
    # Not made.source(), which for bash asks the bash of this machine for its version.
    click.echo(made.source_template % made.source_vars())


def answer(group: click.Group) -> int | None:
    """Answer the shell that has set VARIABLE and return the exit code; None where none has."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        return None
    _offer_names(group)
    return shell_completion.shell_complete(group, {}, PROGRAM, VARIABLE, asked)


class _Named(click.types.StringParamType):
    """A text that completes to known names, or to files."""

    def __init__(self, names: Callable[[], Iterable[str]] | None) -> None:
        self._names = names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [name for name in self._names() if name.startswith(incomplete)] if self._names else []
        return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]


def _offer_names(group: click.Group) -> None:
    for command in group.commands.values():
        if isinstance(command, click.Group):
            _offer_names(command)
            continue
        for parameter in command.params:
            if type(parameter.type) is click.types.StringParamType:
                parameter.type = _Named(_NAMES.get(parameter.name or ""))


def _workloads() -> Iterator[str]:
    from statsnet.workloads import names

    yield from names()


def _settings() -> Iterator[str]:
    from statsnet.workloads.settings import all_settings

    yield from all_settings()


def _optimizers() -> Iterator[str]:
    from statsnet.workloads.optimizers import SETTINGS

    yield from SETTINGS


def _dtypes() -> Iterator[str]:
    from statsnet.workloads import DTYPES

    yield from DTYPES


def _formats() -> Iterator[str]:
    from statsnet.exports.registry import all_formats

    yield from all_formats()


_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "workloads": _workloads,
    "signatures": _workloads,
    "setting": _settings,
    "settings": _settings,
    "optimizer": _optimizers,
    "dtype": _dtypes,
    "device": lambda: ("cpu", "cuda"),
    "engine": lambda: ("local", "ray"),
    "format_": _formats,
    "kind": lambda: listing.KINDS,
}
"""By a parameter's name, what it completes to."""
