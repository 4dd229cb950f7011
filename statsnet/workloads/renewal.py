"""What a step changes of its inputs and of its model's own state, put back before the next step.

A step that appends to a cache, pops a batch or lets a state decay would otherwise be another step each time. Where the
state makes each n-th step another one, it goes on from step to step and is put back after `lap` steps. Whole numbers
and words, which mostly count steps, go on too, but where steps then grow without an end (`puts_counts_back`). Whether
steps change their inputs shows when each input is first used, and what they change of the state in the first two steps:
nothing is copied afterwards if they change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError
from statsnet.workloads.building import BuiltWorkload
from statsnet.workloads.calling import Inputs
from statsnet.workloads.held_state import NOT_THERE, HeldState, is_count
from statsnet.workloads.outside_state import Place
from statsnet.workloads.snapshots import Snapshot, TensorContent
from statsnet.workloads.tree_copies import copied
from statsnet.workloads.trees import all_tensors, holds_iterator, is_small, same_state, state_of

if TYPE_CHECKING:
    import torch


class Renewal:
    """The inputs of a workload's steps as they were built, and the model's state as it was before the first step."""

    def __init__(self, built: BuiltWorkload) -> None:
        self._built = built
        self._steps = 0
        self._changes_inputs = False
        self._not_used = set(range(len(built.inputs)))
        self._watched: tuple[Inputs, list[Any]] | None = None
        self._asking = [tensor for tensor in all_tensors(built.inputs) if tensor.requires_grad]
        self._held = HeldState(built.whole, [built.loss, built.optimizer])
        self._states: list[dict[Place, list[Any]]] = []
        self._as_built = self._held.snapshots()
        small = [tensor for then in self._as_built.values() for tensor in then.tensors if is_small(tensor)]
        with _unseen():
            self._values = dict(zip(map(id, small), self._copied(small), strict=True))
        self._kept: list[_Kept] = []
        self._counts: list[_Kept] = []
        self.puts_counts_back = False
        self.lap = 1
        self._in_lap = 0
        self._settled = False
        if holds_iterator(built.inputs):
            raise WorkloadError(
                f"an input of '{built.label}' is an iterator",
                cause="a step uses it up, and the next has nothing left",
                hint="give a list of what it yields",
            )

    @property
    def changes_inputs(self) -> bool:
        """Whether steps change their inputs, so that each gets a copy."""
        return self._changes_inputs

    @property
    def changes_state(self) -> bool:
        """Whether steps change what the model holds beside its parameters, whole numbers and words aside."""
        return bool(self._kept)

    @property
    def is_settled(self) -> bool:
        """Whether the state that is put back is not that which the model was built with."""
        return self._settled

    @property
    def counts_steps(self) -> bool:
        """Whether steps change whole numbers or words that the model holds."""
        return bool(self._counts)

    def held_values(self) -> list[Any]:
        """What the model holds now beside its parameters, and its code outside of it."""
        return self._held.values()

    @contextlib.contextmanager
    def being_built(self) -> Iterator[None]:
        """What is changed meanwhile was built so: an optimizer may put itself where a loss finds it."""
        before = self._held.state()
        yield
        now = self._held.snapshots()
        for place, state in self._held.state().items():
            if not same_state(before.get(place, []), state):
                self._as_built[place] = now[place]

    def start_again(self) -> None:
        """Put the state back before the next step."""
        self._in_lap = self.lap

    def settle(self) -> None:
        """From now on the state is put back to what it is now."""
        with _unseen():
            self.look()
            self._kept = [kept.as_it_is() for kept in self._kept]
            self._counts = [kept.as_it_is() for kept in self._counts]
            self._settled = True

    def batches(self, index: int) -> Inputs:
        """What the step of this number runs on. To be called before each step, outside of its time."""
        with _unseen():
            return self._batches(index)

    def _batches(self, index: int) -> Inputs:
        self.look()
        self._steps += 1
        if self._in_lap >= self.lap:
            self._in_lap = 0
            for kept in [*self._kept, *(self._counts if self.puts_counts_back else [])]:
                kept.put_back()
        self._in_lap += 1
        for tensor in self._asking:  # a new batch has no gradient that a step could add to
            tensor.grad = None
        batches, places = self._built.inputs_of(index), set(self._built.places_of(index))
        if not self._changes_inputs and self._not_used.isdisjoint(places):
            return batches
        self._not_used -= places
        batches = self._copied(batches)
        if not self._changes_inputs:
            self._watched = (batches, state_of(batches))
        return batches

    def has_changed(self) -> bool:
        """Whether the first step has changed what the model holds. To be asked before the second."""
        (before,) = self._states
        after = self._held.state()
        return any(_matters(place) and not same_state(before.get(place, []), now) for place, now in after.items())

    def look(self) -> None:
        """Look at what the step before changed."""
        if self._watched is not None:
            batches, before = self._watched
            self._watched = None
            self._changes_inputs = not same_state(before, state_of(batches))
        if len(self._states) > min(self._steps, 2):
            return
        self._states.append(self._held.state())
        if len(self._states) == 3:
            _, first, second = self._states
            # What only the first step sets up, such as a table of positions, stays.
            changed = [place for place, state in second.items() if not same_state(first.get(place, []), state)]
            kept = [self._keep(place, first, second) for place in changed if _matters(place)]
            self._counts = [each for each in kept if is_count(getattr(*each.place, None))]
            self._kept = [each for each in kept if each not in self._counts]
            self._states, self._as_built, self._values = [{}] * 3, {}, {}

    def _keep(self, place: Place, first: dict[Place, list[Any]], second: dict[Place, list[Any]]) -> _Kept:
        then = self._as_built.get(place, Snapshot(NOT_THERE))
        versions = {id(t): v for t, v in _versions(first.get(place, []))}
        in_place = [t for t, v in _versions(second[place]) if versions.get(id(t), v) != v]
        held = set(map(id, then.tensors))
        before = [(t, self._values.get(id(t), t)) for t in in_place if id(t) in held]
        # What the first step has resized stays so.
        return _Kept(
            place, then, [TensorContent(t, (b if b.shape == t.shape else t).detach().clone()) for t, b in before]
        )

    def _copied(self, inputs: Any) -> Any:
        with self._built.fake_mode or contextlib.nullcontext():
            return copied(inputs)


def _unseen() -> contextlib.AbstractContextManager[Any]:
    """Within it, nobody who watches a step sees an operator: copying and comparing are no part of it."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A place that steps change: what it held, and the values of the tensors that are changed in place: as built if
    they are small, else as they were when that showed."""

    place: Place
    then: Snapshot
    contents: list[TensorContent]

    def as_it_is(self) -> _Kept:
        """The same place, with what it holds now."""
        now = Snapshot.of(getattr(*self.place, NOT_THERE))
        return _Kept(self.place, now, [TensorContent(t, t.detach().clone()) for t in now.tensors])

    def put_back(self) -> None:
        for each in self.contents:
            each.put_back()
        holder, name = self.place
        value = self.then.put_back()
        if value is not NOT_THERE:
            setattr(holder, name, value)
        elif name in vars(holder) or name in getattr(holder, "_buffers", ()):  # not where only its class has one
            delattr(holder, name)


def _versions(state: list[Any]) -> list[tuple[torch.Tensor, Any]]:
    return [entry for entry in state if isinstance(entry, tuple)]


def _matters(place: Place) -> bool:
    """Running statistics of a normalization change no step's work."""
    import torch

    return not isinstance(place[0], torch.nn.modules.batchnorm._NormBase)
