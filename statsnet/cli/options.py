"""Options that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from statsnet.errors import UsageError, did_you_mean
from statsnet.signatures.database import MODES
from statsnet.signatures.gpu import COUNTING
from statsnet.signatures.levels import DEFAULT_LEVEL, LEVELS
from statsnet.units import parse_duration_s

T = TypeVar("T")


class Whole(click.IntRange):
    """A whole number in a range, called so in messages, too."""

    name = "whole number"


class Choice(click.Choice[str]):
    """One of some words; a mistyped one is told the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not (hint := did_you_mean(str(value), self.choices)):
                raise
            raise UsageError(error.format_message().rstrip("."), hint=hint) from error


mode = click.option("--mode", type=Choice(MODES), default="inference", show_default=True, help="What a step does.")
MIX = "NAME:WEIGHT,...|FILE"
MIX_HELP = "Domains, workloads or signature files; or a YAML file that lists them."
profiles = click.option(
    "--profiles", metavar="DIR", help="Folder of signatures (default: those that come with StatsNet)."
)
environment = click.option(
    "--environment", metavar="NAME", help="Folder of the profiles (default: the one with most of them)."
)
seed = click.option("--seed", type=Whole(0, 2**31 - 1), default=0, show_default=True, help="Of weights and inputs.")
level = click.option(
    "--level", type=Choice(LEVELS), default=DEFAULT_LEVEL, show_default=True,
    help="How much the file tells: full is for use inside; coarse hides exact sizes.",
)  # fmt: skip
trust = click.option(
    "--trust", is_flag=True, help="Run the folder's network.py whatever it holds, not the network in spec.json."
)


def sandbox(command: Callable[..., T]) -> Callable[..., T]:
    """`--sandbox`, of each command that runs what a file describes: all processes in which it measures are in one."""

    @click.option(
        "--sandbox", "in_sandbox", is_flag=True,
        help="Run what is measured without a network and with nothing to write to (needs bubblewrap).",
    )  # fmt: skip
    @functools.wraps(command)
    def shut_in(*args: Any, in_sandbox: bool, **kwargs: Any) -> T:
        from statsnet.measure.sandbox import sandboxed

        with sandboxed(in_sandbox):
            return command(*args, **kwargs)

    return shut_in


def device(*, meta: bool = False, recorded: bool = False) -> Callable[[Any], Any]:
    """`--device`; with `meta`, counting on fake tensors is one of the choices, with `recorded` a device elsewhere."""
    extra = ", or meta to count without allocating or timing anything" if meta else ""
    extra += ", or recorded:NAME, a device that is not here (statsnet device list)" if recorded else ""
    return click.option(
        "--device", default="cpu", show_default=True, metavar="NAME", help=f"cpu, cuda or cuda:N{extra}."
    )


class Duration(click.ParamType[float]):
    """`10ms` as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else parse_duration_s(str(value))


counters = click.option(
    "--counters",
    type=Choice(COUNTING),
    default="auto",
    show_default=True,
    help="Hardware counters of a GPU: where Nsight Compute gives them, or an error, or none.",
)


def min_time(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--min-time",
        "min_time_s",
        type=Duration(),
        metavar="TIME",
        help=f"Shortest time that a measurement takes in each process (default {default}).",
    )


max_time = click.option(
    "--max-time",
    "max_time_s",
    type=Duration(),
    metavar="TIME",
    help="Longest time that a measurement takes in each process (default 20s).",
)


models = click.option(
    "--model", "models", multiple=True, metavar="MEMBER=FILE.py:factory",
    help="Run this model for a member that is not registered; MEMBER is its name, or the file of its signature. Its "
    "operators are checked against the signature's. May be repeated.",
)  # fmt: skip


def check_profiles(folder: str | None) -> None:
    """Raises UsageError for a folder of profiles that is not there, where a command shows all that it holds."""
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"there is no folder '{folder}'", hint="give the folder that holds the signatures")


def was_given(name: str) -> bool:
    """Whether this option of the running command stands on the command line; otherwise it has its default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def first_given(*names: str) -> str | None:
    """Of these parameters of the running command, the first that stands on the command line: as it is written there."""
    context = click.get_current_context()
    written = {
        each.name: (each.secondary_opts if context.params.get(str(each.name)) is False else each.opts)
        for each in context.command.params
    }
    return next((written[name][0] for name in names if was_given(name)), None)


def given_mode(mode: str) -> str | None:
    """The mode, if it stands on the command line: a signature file has its own."""
    return mode if was_given("mode") else None


def given(**values: Any) -> dict[str, Any]:
    """Those that were given on the command line."""
    return {key: value for key, value in values.items() if value is not None}
