"""The nodes of a Ray cluster as places.

Ray carries errands to nodes and says when one is gone; what an errand does there is ray_worker.py's. A measurement of a
CPU takes all CPUs that its node offers to Ray, one of a GPU takes one GPU and its part of the CPUs: so Ray starts
nothing else beside it. Ray itself never repeats anything: this file does, and counts each errand once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import statsnet
from statsnet.environment import describe, machine_differences
from statsnet.errors import MeasurementError, StatsNetError, UsageError, first_line
from statsnet.measure import ray_worker
from statsnet.measure.control import Job
from statsnet.measure.engine import Asked, Done, Fleet, LeftOut, Place
from statsnet.measure.errand import Errand, RunJob
from statsnet.measure.patience import PATIENCE
from statsnet.measure.ray_cluster import Node, RayCluster, Share
from statsnet.measure.task import Context, Task
from statsnet.progress import Progress, Report, silent

R = TypeVar("R")

PROBE_LIMIT_S = 120.0
"""A node that has not described itself by then is busy, or has no worker to spare. Importing torch takes seconds."""

LOOK_S = 1.0
TRIES = 2
"""An errand whose worker is killed as often on nodes that go on is the cause itself: it takes too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A node as a measuring process finds it."""

    version: str
    environment: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Describe(Task[Description]):
    """Takes no times, so it waits for nobody."""

    on: str

    @property
    def measured_device(self) -> str:
        return "meta"

    def run(self, context: Context) -> Description:
        return Description(version=statsnet.__version__, environment=describe(self.on))


class RayEngine:
    """See `Engine`. `note` is told of nodes and workers that end."""

    def __init__(self, cluster: RayCluster, note: Callable[[str], None] = silent) -> None:
        self._cluster, self._note = cluster, note
        self._shares: dict[str, Share] = {}
        self._lost: set[str] = set()
        """Nodes that have ended."""

    def find(self, device: str | None) -> Fleet:
        if device not in (None, "cpu", "cuda"):
            raise UsageError(
                f"'{device}' is not a device of a fleet",
                cause="Ray says which GPU of its node a task gets",
                hint="use --device cpu or cuda",
            )
        left_out: list[LeftOut] = []
        probes: dict[Any, tuple[Node, str]] = {}
        for node in self._cluster.nodes():
            kind = device or ("cuda" if node.gpus else "cpu")
            if (missing := _missing(node, kind)) is not None:
                left_out.append(missing)
                continue
            share = Share(node=node.id, gpus=1 if kind == "cuda" else 0)
            probes[self._cluster.send(ray_worker.packed(_probe(kind)), share)] = node, kind
        places: list[Place] = []
        answered = self._cluster.wait([*probes], len(probes), PROBE_LIMIT_S) if probes else []
        for ref, (node, kind) in probes.items():
            found = self._described(ref, node, kind) if ref in answered else _silent_node(node)
            if isinstance(found, LeftOut):
                self._cluster.end([ref])
                left_out.append(found)
            else:
                places += self._places(node, kind, found)
        return Fleet(places=tuple(places), left_out=tuple(left_out))

    def _described(self, ref: Any, node: Node, kind: str) -> Description | LeftOut:
        try:
            found: Description = ray_worker.unpacked(self._cluster.get(ref)).value(_probe(kind))
        except StatsNetError as error:
            return LeftOut(name=node.name, why=f"{error.message} ({error.cause})", hint=error.hint)
        except self._cluster.errors.RayError as error:
            return _unusable(node, error)
        except ray_worker.OTHER_FORM as error:
            why = f"it answers in another form ({first_line(error)})"
            return LeftOut(name=node.name, why=why, hint="install the same version of StatsNet there")
        if found.version != statsnet.__version__:
            why = f"it has StatsNet {found.version}, and this command is {statsnet.__version__}"
            return LeftOut(name=node.name, why=why, hint="install the same version there")
        return found

    def _places(self, node: Node, kind: str, found: Description) -> Iterator[Place]:
        number = node.gpus if kind == "cuda" else 1
        for index in range(number):
            place = Place(
                id=f"{node.id}/{kind}/{index}",
                name=node.name if number == 1 else f"{node.name}, GPU {index + 1} of {number}",
                device=kind,
                environment=found.environment,
            )
            cpus = node.cpus if kind == "cpu" else float(int(node.cpus / number))
            self._shares[place.id] = Share(node=node.id, cpus=cpus, gpus=1 if kind == "cuda" else 0)
            yield place

    def run(self, asked: Sequence[Asked[R]], *, report: Report = silent) -> Generator[Done[R], None, None]:
        waiting, running = deque(range(len(asked))), dict[Any, tuple[int, Place]]()
        killed: Counter[int] = Counter()
        ended = 0
        try:
            while waiting or running:
                for index in [i for i in waiting if not any(self._is_there(p) for p in asked[i].places)]:
                    waiting.remove(index)
                    ended += 1
                    yield Done(index=index, error=_no_place(asked[index]))
                self._begin(asked, waiting, running)
                if not running:
                    continue
                report(Progress(stage=_stage(asked, [*running.values()]), done=ended / len(asked)))
                for ref in self._cluster.wait([*running], 1, LOOK_S):
                    index, place = running.pop(ref)
                    done = self._ended(ref, asked[index], index, place, killed)
                    if done is None:
                        waiting.appendleft(index)
                        continue
                    ended += 1
                    yield done
        finally:
            self._cluster.end([*running])

    def _is_there(self, place: Place) -> bool:
        return self._shares[place.id].node not in self._lost

    def _begin(self, asked: Sequence[Asked[Any]], waiting: deque[int], running: dict[Any, tuple[int, Place]]) -> None:
        """Send the errands that wait to the places that are free, in their order."""
        busy = {place.id for _, place in running.values()}
        for index in [*waiting]:
            free = (p for p in asked[index].places if p.id not in busy and self._is_there(p))
            if (place := next(free, None)) is not None:
                waiting.remove(index)
                busy.add(place.id)
                ref = self._cluster.send(ray_worker.packed(asked[index].errand), self._shares[place.id])
                running[ref] = index, place

    def _ended(self, ref: Any, asked: Asked[R], index: int, place: Place, killed: Counter[int]) -> Done[R] | None:
        """How an errand ended; None if it has to begin anew."""
        errors = self._cluster.errors
        try:
            message = self._cluster.get(ref)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            return Done(index=index, place=place, error=_no_room(asked.label, place, error))
        except errors.RayTaskError as error:
            return Done(index=index, place=place, error=_failed(asked.label, place, error))
        except errors.RayError as error:
            return self._interrupted(error, asked, index, place, killed)
        try:
            answer = ray_worker.unpacked(message)
            self._heard(answer, place)
            result: R = answer.value(asked.errand)
        except StatsNetError as error:
            return Done(index=index, place=place, error=error)
        except ray_worker.OTHER_FORM as error:
            return Done(index=index, place=place, error=_other_form(asked.label, place, error))
        for environment in asked.errand.environments(result):
            if changed := machine_differences(place.environment, environment):
                return Done(index=index, place=place, error=_other_device(asked.label, place, changed))
        return Done(index=index, place=place, result=result)

    def _interrupted(
        self, error: Exception, asked: Asked[R], index: int, place: Place, killed: Counter[int]
    ) -> Done[R] | None:
        """The worker has ended, or its whole node has."""
        node = self._shares[place.id].node
        if node in self._lost or not self._cluster.answers(node):
            if node not in self._lost:
                self._lost.add(node)
                self._note(f"{place.name} has ended while it measured {asked.label}: it is left out from now on")
            return None
        killed[index] += 1
        if killed[index] < TRIES:
            self._note(f"the worker on {place.name} was killed while it measured {asked.label}, which begins anew")
            return None
        return Done(
            index=index,
            place=place,
            error=MeasurementError(
                f"the workers that measured {asked.label} were killed {killed[index]} times",
                cause=first_line(error),
                hint="the node may lack memory for it: use a smaller preset or batch, or look into Ray's logs there",
            ),
        )

    def _heard(self, answer: ray_worker.Answer, place: Place) -> None:
        """What a command says at its end of waiting and of a disturbed machine counts all nodes."""
        for text in answer.notes:
            self._note(f"{place.name}: {text}")
        PATIENCE.spend(answer.waited_s)
        PATIENCE.measured += answer.measured
        PATIENCE.disturbed += answer.disturbed


def _probe(kind: str) -> Errand[Description]:
    return RunJob.of(Job(Describe(on=kind)))


def _missing(node: Node, kind: str) -> LeftOut | None:
    if kind == "cuda" and not node.gpus:
        return LeftOut(name=node.name, why="it offers no GPU to Ray", hint="start it with `ray start --num-gpus N`")
    if kind == "cpu" and node.cpus < 1:
        return LeftOut(name=node.name, why="it offers no CPU to Ray", hint="start it with `ray start --num-cpus N`")
    return None


def _silent_node(node: Node) -> LeftOut:
    return LeftOut(
        name=node.name,
        why=f"it did not describe itself within {PROBE_LIMIT_S:g} s",
        hint="others may use it: try again later, or look with `ray status`",
    )


def _unusable(node: Node, error: Exception) -> LeftOut:
    text = str(error)
    if "No module named 'statsnet" in text:
        wanted = f"pip install 'statsnet[cluster]=={statsnet.__version__}' there, and start the node again"
        return LeftOut(name=node.name, why="StatsNet is not installed there", hint=wanted)
    return LeftOut(name=node.name, why=f"it could not describe itself ({_last_line(error)})", hint="look at its logs")


def _stage(asked: Sequence[Asked[Any]], running: Sequence[tuple[int, Place]]) -> str:
    shown = [f"{asked[index].label} on {place.name}" for index, place in running[:2]]
    return ", ".join([*shown, *([f"{len(running) - 2} more"] if len(running) > 2 else [])])


def _no_place(asked: Asked[Any]) -> MeasurementError:
    return MeasurementError(
        f"no node is left that could measure {asked.label}",
        cause=f"ended: {', '.join(place.name for place in asked.places)}" if asked.places else "none was found",
        hint="start the nodes again; the same command goes on with what there is",
    )


def _no_room(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"the result of {label} could not leave {place.name}",
        cause=f"Ray's object store there is full ({_last_line(error)})",
        hint="`ray memory` shows what fills it; free it, and the same command measures this one again",
    )


def _failed(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"{place.name} could not measure {label}",
        cause=_last_line(error),
        hint="install there what the workload needs, in the same versions as here",
    )


def _other_form(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"the result of {label} on {place.name} has another form",
        cause=first_line(error),
        hint="install the same version of StatsNet there",
    )


def _other_device(label: str, place: Place, changed: Sequence[str]) -> MeasurementError:
    """Ray chooses which GPU of its node a measurement gets, and one of them has described itself for all."""
    return MeasurementError(
        f"{label} was measured on another device than {place.name} has described",
        cause="; ".join(changed),
        hint="where a node's GPUs differ, start one for each kind: CUDA_VISIBLE_DEVICES=0 ray start --num-gpus 1",
    )


def _last_line(error: Exception) -> str:
    """Ray's errors quote a traceback, which ends with what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
