"""Where errands run: on this machine, or on the nodes of a fleet.

An engine finds places, a device of one machine each, and sends errands to them. Whoever measures knows no more of it
than what is here. `LocalEngine` is this machine; ray_engine.py has the nodes of a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from statsnet.environment import fingerprint
from statsnet.errors import StatsNetError
from statsnet.measure import process
from statsnet.measure.errand import Errand
from statsnet.progress import Progress, Report, silent

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device that measures one errand at a time. `name` is for messages, and enters no file; `environment` is the
    record that a measuring process has there."""

    id: str
    name: str
    device: str
    environment: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """Equal for places whose times may be compared."""
        return fingerprint(self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A node that measures nothing: why, and what would change that."""

    name: str
    why: str
    hint: str

    def __str__(self) -> str:
        return f"{self.name} is left out: {self.why}; {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything that an engine found."""

    places: tuple[Place, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[R_co]):
    """An errand, what messages call it, and the places that it may go to: one of them runs it."""

    errand: Errand[R_co]
    label: str
    places: Sequence[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[R_co]):
    """How the errand with this number ended: with a result, or with the error that says why there is none. `place` is
    where it ran; None if it never began."""

    index: int
    place: Place | None = None
    result: R_co | None = None
    error: StatsNetError | None = None


class Engine(Protocol):
    """Sends errands to places."""

    def find(self, device: str | None) -> Fleet:
        """The places that have a device, `cpu` or `cuda`; None: each node's own, its GPUs or else its CPU.

        Raises DeviceError if this machine was meant and lacks it. Nodes of a fleet that lack it are left out.
        """

    def run(self, asked: Sequence[Asked[R]], *, report: Report = silent) -> Generator[Done[R], None, None]:
        """Run each errand once, and yield how each ended, as soon as it has: in no particular order, none twice.

        A place runs one errand at a time, and holds its device's lock meanwhile. An errand whose place is lost begins
        anew at another of its places; it ends with an error where none is left. One that fails for a reason of its
        place may be tried at another. Closing the generator ends what runs.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Places of one environment and one speed, whose times may be pooled."""

    engine: Engine
    places: Sequence[Place]

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.places[0].environment

    def run(
        self, errands: Sequence[tuple[str, Errand[R]]], *, report: Report = silent
    ) -> Generator[Done[R], None, None]:
        """Each errand, with its label, on one of the places; as `Engine.run`. An error names its place. Raises
        StatsNetError once no place is left: that is no fault of what was to be measured."""
        asked = [Asked(errand=errand, label=label, places=self.places) for label, errand in errands]
        with closing(self.engine.run(asked, report=report)) as ended:
            for done in ended:
                if done.error is None:
                    yield done
                elif done.place is None:
                    raise StatsNetError(done.error.message, cause=done.error.cause, hint=done.error.hint)
                else:
                    yield replace(done, error=_named(done.error, done.place))

    def results(self, errands: Sequence[tuple[str, Errand[R]]], *, report: Report = silent) -> list[R]:
        """In the errands' order. Raises the first error, which ends what still runs."""
        results: dict[int, Any] = {}
        with closing(self.run(errands, report=report)) as ended:
            for done in ended:
                if done.error is not None:
                    raise done.error
                results[done.index] = done.result
        return [results[index] for index in sorted(results)]


def _named(error: StatsNetError, place: Place) -> StatsNetError:
    if place.name in error.message:
        return error
    return type(error)(f"{place.name}: {error.message}", cause=error.cause, hint=error.hint)


class LocalEngine:
    """This machine: errands run one after the other."""

    def find(self, device: str | None) -> Fleet:
        if device is None:
            import torch

            device = "cuda" if torch.cuda.is_available() else "cpu"
        here = process.measuring_environment(device)
        return Fleet(places=(Place(id="here", name="this machine", device=device, environment=here),))

    def run(self, asked: Sequence[Asked[R]], *, report: Report = silent) -> Generator[Done[R], None, None]:
        for index, each in enumerate(asked):
            place = each.places[0]
            report(Progress(stage=each.label, done=index / len(asked)))
            try:
                result = each.errand.run(report)
            except StatsNetError as error:
                yield Done(index=index, place=place, error=error)
            else:
                yield Done(index=index, place=place, result=result)
