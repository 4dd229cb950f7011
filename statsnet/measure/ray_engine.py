"""The nodes of a Ray cluster as places.

Ray carries errands to nodes and says when one is gone; what an errand does there is ray_worker.py's. A measurement of a
CPU takes all CPUs that its node offers to Ray, one of a GPU takes one GPU and its part of the CPUs: so Ray starts
nothing else beside it. Ray itself never repeats anything: this file does, and counts each errand once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import statsnet
from statsnet.environment import describe, machine_differences
from statsnet.errors import StatsNetError, UsageError, first_line
from statsnet.measure import ray_errors, ray_worker
from statsnet.measure.control import Job
from statsnet.measure.engine import Asked, Done, Fleet, LeftOut, Place
from statsnet.measure.errand import Errand, RunJob
from statsnet.measure.patience import PATIENCE
from statsnet.measure.ray_cluster import Node, RayCluster, Share
from statsnet.measure.ray_held import LOOK_LIMIT_S, HeldNodes, Sent
from statsnet.measure.task import Context, Task
from statsnet.progress import Progress, Report, silent
from statsnet.units import listed

R = TypeVar("R")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The errands of one run by their places in `asked`: those that wait, those that were sent, by Ray's reference, and
    those that have failed on one node and may succeed on another."""

    asked: Sequence[Asked[Any]]
    waiting: deque[int]
    running: dict[Any, Sent] = field(default_factory=dict)
    failed: dict[int, Done[Any]] = field(default_factory=dict)


class RayEngine:
    """See `Engine`. `note` is told of nodes and workers that end."""

    def __init__(self, cluster: RayCluster, note: Callable[[str], None] = silent) -> None:
        self._cluster, self._note = cluster, note
        self._shares: dict[str, Share] = {}
        self._held = HeldNodes(cluster, note)
        self._numbers = count()
        self._lost: dict[str, LeftOut] = {}
        """Nodes that have ended, or could not measure what another node could."""

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
            if (why := self._lost.get(node.id) or ray_errors.missing(node, kind)) is not None:
                left_out.append(why)
                continue
            share = Share(node=node.id, gpus=1 if kind == "cuda" else 0)
            probes[self._cluster.send(ray_worker.packed(_probe(kind)), share)] = node, kind
        places: list[Place] = []
        answered = self._cluster.wait([*probes], len(probes), ray_errors.PROBE_LIMIT_S) if probes else []
        asked = self._cluster.ask({node.id for ref, (node, _) in probes.items() if ref not in answered})
        at_work = self._cluster.told(asked, LOOK_LIMIT_S)
        self._cluster.end([*asked])
        for ref, (node, kind) in probes.items():
            if ref in answered:
                found = self._described(ref, node, kind)
            else:
                found = ray_errors.silent_node(node, at_work.get(node.id))
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
            return ray_errors.unusable(node, error)
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
        work = _Work(asked=asked, waiting=deque(range(len(asked))))
        waiting, running, failed = work.waiting, work.running, work.failed
        killed, ended = Counter[int](), 0
        try:
            while waiting or running:
                self._take_back(work)
                for index in [i for i in waiting if not self._open(asked[i], failed.get(i))]:
                    waiting.remove(index)
                    ended += 1
                    no_place: Done[R] = Done(index=index, error=self._no_place(asked[index]))
                    yield failed.pop(index, no_place)
                self._begin(work)
                if not running:
                    continue
                report(Progress(stage=_stage(asked, [*running.values()]), done=ended / len(asked)))
                answered = self._cluster.wait([*running], 1, LOOK_S)
                for ref in answered:
                    sent = running.pop(ref)
                    index, place = sent.index, sent.place
                    done = self._ended(ref, asked[index], index, place, killed)
                    if done is None:
                        waiting.appendleft(index)
                    elif index not in failed and done.error is not None and ray_errors.may_be_of_node(done.error):
                        failed[index] = done
                        waiting.appendleft(index)
                    else:
                        self._learn(asked[index].label, failed.pop(index, None), done)
                        ended += 1
                        yield done
        finally:
            self._cluster.end([*running])
            self._held.end()

    def _node(self, place: Place) -> str:
        return self._shares[place.id].node

    def _open(self, asked: Asked[Any], failure: Done[Any] | None) -> list[Place]:
        """The places that an errand may still go to: not to the node where it has failed."""
        there = [place for place in asked.places if self._node(place) not in self._lost]
        if failure is None or failure.place is None:
            return there
        return [place for place in there if self._node(place) != self._node(failure.place)]

    def _no_place(self, asked: Asked[Any]) -> StatsNetError:
        nodes = dict.fromkeys(map(self._node, asked.places))
        return ray_errors.no_place(asked.label, [self._lost[node] for node in nodes if node in self._lost])

    def _begin(self, work: _Work) -> None:
        """Send the errands that wait to the places that are free, in their order. A node where one has failed gets none
        that is new until another node has shown whose fault it was."""
        busy = {sent.place.id for sent in work.running.values()}
        suspected = {self._node(failure.place) for failure in work.failed.values() if failure.place is not None}
        for index in [*work.waiting]:
            failure = work.failed.get(index)
            free = (p for p in self._not_held(self._open(work.asked[index], failure)) if p.id not in busy)
            if (place := next((p for p in free if failure or self._node(p) not in suspected), None)) is not None:
                work.waiting.remove(index)
                busy.add(place.id)
                sent = Sent(index=index, place=place, node=self._node(place), name=f"run_errand-{next(self._numbers)}")
                ref = self._cluster.send(ray_worker.packed(work.asked[index].errand), self._shares[place.id], sent.name)
                work.running[ref] = sent

    def _not_held(self, places: Sequence[Place]) -> Sequence[Place]:
        """Those that no other job of Ray holds; all of them if others hold all."""
        return [place for place in places if self._node(place) not in self._held.nodes] or places

    def _take_back(self, work: _Work) -> None:
        """Let what waits at a node that another job holds wait for any node again, unless all are held. A node for
        which it has waited too long is left out. What has begun or ended there is left alone."""
        self._held.look(work.running.values())
        some_free = {share.node for share in self._shares.values()} - self._lost.keys() - self._held.nodes
        for ref, sent in [*work.running.items()]:
            if sent.node not in self._held.nodes or sent.has_begun or self._cluster.wait([ref], 1, 0.0):
                continue
            if some_free and sent.node not in self._lost and (held := self._held.too_long(sent.node)):
                self._lost[sent.node] = ray_errors.held_too_long(sent.place, held)
                self._note(str(self._lost[sent.node]))
            if sent.place not in self._not_held(self._open(work.asked[sent.index], work.failed.get(sent.index))):
                self._cluster.end([ref])
                work.waiting.appendleft(work.running.pop(ref).index)

    def _learn(self, label: str, failure: Done[Any] | None, done: Done[Any]) -> None:
        """Leave out the node where an errand has failed that another node could do."""
        if failure is None or failure.place is None or failure.error is None or done.place is None or done.error:
            return
        left_out = ray_errors.left_out_after(failure.place, label, failure.error, done.place)
        self._lost[self._node(failure.place)] = left_out
        self._note(str(left_out))

    def _ended(self, ref: Any, asked: Asked[R], index: int, place: Place, killed: Counter[int]) -> Done[R] | None:
        """How an errand ended; None if it has to begin anew."""
        errors = self._cluster.errors
        try:
            message = self._cluster.get(ref)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            return Done(index=index, place=place, error=ray_errors.no_room(asked.label, place, error))
        except errors.RayTaskError as error:
            return Done(index=index, place=place, error=ray_errors.failed(asked.label, place, error))
        except errors.RayError as error:
            return self._interrupted(error, asked, index, place, killed)
        try:
            answer = ray_worker.unpacked(message)
            self._heard(answer, place)
            result: R = answer.value(asked.errand)
        except StatsNetError as error:
            return Done(index=index, place=place, error=error)
        except ray_worker.OTHER_FORM as error:
            return Done(index=index, place=place, error=ray_errors.other_form(asked.label, place, error))
        for environment in asked.errand.environments(result):
            if changed := machine_differences(place.environment, environment):
                return Done(index=index, place=place, error=ray_errors.other_device(asked.label, place, changed))
        return Done(index=index, place=place, result=result)

    def _interrupted(
        self, error: Exception, asked: Asked[R], index: int, place: Place, killed: Counter[int]
    ) -> Done[R] | None:
        """The worker has ended, or its whole node has."""
        node = self._node(place)
        if node in self._lost or not self._cluster.answers(node):
            if node not in self._lost:
                self._lost[node] = ray_errors.ended(place, asked.label)
                self._note(str(self._lost[node]))
            return None
        killed[index] += 1
        if killed[index] < TRIES:
            self._note(f"the worker on {place.name} was killed while it measured {asked.label}, which begins anew")
            return None
        return Done(index=index, place=place, error=ray_errors.killed_again(asked.label, killed[index], error))

    def _heard(self, answer: ray_worker.Answer, place: Place) -> None:
        """What a command says at its end of waiting and of a disturbed machine counts all nodes."""
        for text in answer.notes:
            self._note(f"{place.name}: {text}")
        PATIENCE.spend(answer.waited_s)
        PATIENCE.measured += answer.measured
        PATIENCE.disturbed += answer.disturbed


def _probe(kind: str) -> Errand[Description]:
    return RunJob.of(Job(Describe(on=kind)))


def _stage(asked: Sequence[Asked[Any]], running: Sequence[Sent]) -> str:
    return listed([f"{asked[sent.index].label} on {sent.place.name}" for sent in running], 2)
