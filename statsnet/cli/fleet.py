"""`--engine`: where measurements run, and what a command says of the nodes of a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from statsnet.cli import output
from statsnet.environment import outputs
from statsnet.errors import UsageError, did_you_mean
from statsnet.measure.at_hand import require_device
from statsnet.progress import Progress, Report, silent

if TYPE_CHECKING:
    from statsnet.measure.engine import Asked, Done, Engine, Fleet, Place, Pool

R = TypeVar("R")

LOCAL, RAY = "local", "ray"

option = click.option(
    "--engine", default=LOCAL, show_default=True, metavar="local|ray[://HOST:PORT]",
    help="Where to measure: on this machine, or on the nodes of a Ray cluster, several at once.",
)  # fmt: skip
environment = click.option(
    "--environment", metavar="NAME",
    help="With --engine ray: measure on the nodes of this environment (default: the one that most nodes have).",
)  # fmt: skip


def check(engine: str, environment: str | None = None) -> None:
    """Raises UsageError for what is no engine."""
    name, separator, address = engine.partition("://")
    if engine not in (LOCAL, RAY) and name != RAY:
        raise UsageError(
            f"'{engine}' is not an engine",
            hint=did_you_mean(name, (LOCAL, RAY), otherwise="use local, ray or ray://HOST:PORT"),
        )
    host, _, port = address.rpartition(":")
    if separator and not (host and port.isdecimal()):
        raise UsageError(
            f"'{engine}' has no host and port",
            hint="for example --engine ray://head:10001; --engine ray takes the cluster in RAY_ADDRESS or of this host",
        )
    if environment is not None and engine == LOCAL:
        raise UsageError(
            "--environment was given without --engine ray",
            cause="this machine has one environment",
            hint="leave it out, or give --engine ray",
        )


@contextmanager
def opened(engine: str, device: str | None) -> Iterator[Engine]:
    """The engine that is called so. Raises what its connecting raises; and for this machine, as require_device does."""
    check(engine)
    if engine == LOCAL:
        from statsnet.measure.engine import LocalEngine

        if device is not None:
            require_device(device)
        yield LocalEngine()
        return
    from statsnet.measure.ray_cluster import connected
    from statsnet.measure.ray_engine import RayEngine

    with connected(engine) as cluster:
        yield RayEngine(cluster, _note)


def _note(text: str) -> None:
    output.print_notes([text])


def found(engine: Engine, device: str | None) -> Fleet:
    """As `Engine.find`, and says so: on a fleet it may take minutes."""
    from statsnet.measure.engine import LocalEngine
    from statsnet.measure.fleet import LOOKING

    if isinstance(engine, LocalEngine):
        return engine.find(device)
    with output.progress() as show:
        show(Progress(stage=LOOKING))
        return engine.find(device)


def of_one_speed(engine: Engine, places: Sequence[Place], mode: str) -> Sequence[Place]:
    """The places whose times may be pooled; the others are named."""
    from statsnet.measure import fleet
    from statsnet.synthesis.bench.machine_speed import reference_network

    with output.progress() as show:
        kept, left_out = fleet.of_one_speed(engine, places, reference_network(mode, "float32"), report=show)
    output.print_notes(map(str, left_out))
    return kept


@contextmanager
def pooled(engine: str, device: str, environment: str | None, mode: str) -> Iterator[Pool | None]:
    """The nodes of one environment and one speed; those that are left out are named. None: this machine."""
    if engine == LOCAL:
        yield None
        return
    from statsnet.measure.fleet import pool_of
    from statsnet.synthesis.bench.machine_speed import reference_network

    with opened(engine, device) as nodes:
        source = reference_network(mode, "float32")
        with output.progress() as show:
            pool = pool_of(nodes, device, source, environment, note=_note, report=show)
        yield pool


def shown(engine: Engine, asked: Sequence[Asked[R]]) -> Iterator[Done[R]]:
    """How each errand ended, with progress on stderr in between: never while the caller prints."""
    showing: Report = silent

    def report(progress: Progress) -> None:
        showing(progress)

    with closing(engine.run(asked, report=report)) as ended:
        while True:
            with output.progress() as show:
                showing = show
                done = next(ended, None)
            showing = silent
            if done is None:
                return
            yield done


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """On which nodes proxies run, on which of their devices (None: each node's own), and the folder that keeps their
    results."""

    engine: str
    device: str | None
    environment: str | None
    everywhere: bool
    folder: str | None

    def check(self) -> None:
        """Raises UsageError for options that do not go together, StatsNetError for a folder that cannot be made."""
        check(self.engine, self.environment)
        if self.everywhere and self.engine == LOCAL:
            raise UsageError(
                "--everywhere was given without --engine ray",
                cause="this machine is one kind of node",
                hint="leave it out, or give --engine ray",
            )
        if self.everywhere and self.environment is not None:
            raise UsageError("--everywhere and --environment were both given", hint="leave out one of them")
        if self.folder is not None:
            outputs.check_folder(Path(self.folder))
