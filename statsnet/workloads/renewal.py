"""What a step changes of its inputs and of its model's own state, put back before the next step.

A step that appends to a cache, pops a batch or lets a state decay would otherwise be another step each time. Where the
state makes each n-th step another one, it goes on from step to step and is put back after `lap` steps. Whether
steps change their inputs shows when each input is first used, and what they change of the state in the first two steps:
nothing is copied afterwards if they change nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError
from statsnet.workloads.building import BuiltWorkload
from statsnet.workloads.calling import Inputs
from statsnet.workloads.tree_copies import copied
from statsnet.workloads.trees import (
    all_tensors,
    holds_iterator,
    is_data_parallel,
    is_small,
    parameters_of,
    same_state,
    state_of,
)

if TYPE_CHECKING:
    import torch

Place = tuple["torch.nn.Module", str]
"""A module, and the name of an attribute or a buffer of its own."""


class Renewal:
    """The inputs of a workload's steps as they were built, and the model's state as it was before the first step."""

    def __init__(self, built: BuiltWorkload) -> None:
        self._built = built
        self._steps = 0
        self._changes_inputs = False
        self._not_used = set(range(len(built.inputs)))
        self._watched: tuple[Inputs, list[Any]] | None = None
        self._states: list[dict[Place, list[Any]]] = []
        self._structure = _as_built(built.whole)
        small = [tensor for tensor in all_tensors([*self._structure.values()]) if is_small(tensor)]
        with _unseen():
            self._values = dict(zip(map(id, small), self._copied(small), strict=True))
        self._kept: list[_Kept] = []
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
        """Whether steps change what the model holds beside its parameters."""
        return bool(self._kept)

    @property
    def is_settled(self) -> bool:
        """Whether the state that is put back is not that which the model was built with."""
        return self._settled

    def start_again(self) -> None:
        """Put the state back before the next step."""
        self._in_lap = self.lap

    def settle(self) -> None:
        """From now on the state is put back to what it is now."""
        with _unseen():
            self._look()
            self._kept = [kept.as_it_is() for kept in self._kept]
            self._settled = True

    def batches(self, index: int) -> Inputs:
        """What the step of this number runs on. To be called before each step, outside of its time."""
        with _unseen():
            return self._batches(index)

    def _batches(self, index: int) -> Inputs:
        self._look()
        self._steps += 1
        if self._in_lap >= self.lap:
            self._in_lap = 0
            for kept in self._kept:
                kept.put_back()
        self._in_lap += 1
        batches, places = self._built.inputs_of(index), set(self._built.places_of(index))
        if not self._changes_inputs and self._not_used.isdisjoint(places):
            return batches
        self._not_used -= places
        batches = self._copied(batches)
        if not self._changes_inputs:
            self._watched = (batches, state_of(batches))
        return batches

    def _look(self) -> None:
        """Look at what the step before changed."""
        if self._watched is not None:
            batches, before = self._watched
            self._watched = None
            self._changes_inputs = not same_state(before, state_of(batches))
        if self._steps > 2 or len(self._states) > 2:
            return
        self._states.append(_state(self._built.whole))
        if len(self._states) == 3:
            _, first, second = self._states
            # What only the first step sets up, such as a table of positions, stays.
            changed = [place for place, state in second.items() if not same_state(first.get(place, []), state)]
            as_built = self._structure, self._values
            self._kept = [_Kept.of(place, *as_built, first, second) for place in changed if _matters(place)]
            self._states, self._structure, self._values = [{}] * 3, {}, {}

    def _copied(self, inputs: Any) -> Any:
        with self._built.fake_mode or contextlib.nullcontext():
            return copied(inputs)


def _unseen() -> contextlib.AbstractContextManager[Any]:
    """Within it, nobody who watches a step sees an operator: copying and comparing are no part of it."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


_NOT_THERE = object()


@dataclass(frozen=True, slots=True)
class _Kept:
    """An attribute that steps change: what it held (_NOT_THERE: it is made in a step), and the values of the tensors
    that are changed in place: as built if they are small, else as they were when that showed."""

    place: Place
    value: Any
    contents: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def of(
        cls,
        place: Place,
        structure: dict[Place, Any],
        values: dict[int, torch.Tensor],
        first: dict[Place, list[Any]],
        second: dict[Place, list[Any]],
    ) -> _Kept:
        value = structure.get(place, _NOT_THERE)
        versions = {id(t): v for t, v in _versions(first.get(place, []))}
        in_place = [t for t, v in _versions(second[place]) if versions.get(id(t), v) != v]
        held = {id(tensor) for tensor in all_tensors(value)}
        before = [(t, values.get(id(t), t)) for t in in_place if id(t) in held]
        # What the first step has resized stays so.
        return cls(place, value, [(t, (b if b.shape == t.shape else t).detach().clone()) for t, b in before])

    def as_it_is(self) -> _Kept:
        """The same place, with what it holds now."""
        module, name = self.place
        value = copied(getattr(module, name, _NOT_THERE), lambda t: t)
        return _Kept(self.place, value, [(t, t.detach().clone()) for t in all_tensors(value)])

    def put_back(self) -> None:
        import torch

        module, name = self.place
        for tensor, content in self.contents:
            with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
                if tensor.shape == content.shape:
                    tensor.copy_(content)
                else:  # a step has resized it
                    tensor.data = content.clone()
        if self.value is not _NOT_THERE:
            setattr(module, name, copied(self.value, lambda t: t))
        elif name in vars(module) or name in getattr(module, "_buffers", ()):  # not where only its class has one
            delattr(module, name)


def _versions(state: list[Any]) -> list[tuple[torch.Tensor, Any]]:
    return [entry for entry in state if isinstance(entry, tuple)]


_OF_WRAPPERS = "__composable_api_state_key"
"""Under such names fully_shard and others of torch's wrappers keep the parameters that they hand out."""


def _held(model: torch.nn.Module) -> list[tuple[Place, Any]]:
    """What each module holds of its own that may hold tensors, parameters and modules aside."""
    import torch

    containers = (torch.Tensor, list, dict, tuple, set, type(None))
    return [(place, value) for place, value in _own(model) if isinstance(value, containers) or _is_users(value)]


def _as_built(model: torch.nn.Module) -> dict[Place, Any]:
    """All that modules hold of their own, and copies of what steps may change inside: containers, and objects of
    classes of one's own, which may hold nothing yet."""
    import torch

    own = dict(_own(model))
    kinds = (torch.Tensor, list, dict, tuple, set)
    inside = {place: value for place, value in own.items() if isinstance(value, kinds) or _is_users(value, empty=True)}
    return own | copied(inside, lambda t: t)  # type: ignore[no-any-return]


def _own(model: torch.nn.Module) -> list[tuple[Place, Any]]:
    """The attributes and buffers of each module, without those of every module."""
    import torch

    usual = vars(torch.nn.Module()).keys()
    found: list[tuple[Place, Any]] = []
    handed_out = _handed_out(model)
    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        own = {} if is_data_parallel(module) else {n: value for n, value in vars(module).items() if n not in usual}
        items = {**own, **module._buffers}.items()
        found += [((module, name), value) for name, value in items if not name.startswith(_OF_WRAPPERS)]
    return [(place, value) for place, value in found if place not in handed_out]


def _handed_out(model: torch.nn.Module) -> set[Place]:
    """Where the older FullyShardedDataParallel puts parts of its flat parameters."""
    flat = [getattr(module, "_flat_param", None) for module in model.modules()]
    return {(info.module, info.param_name) for each in flat for info in getattr(each, "_param_infos", ())}


def _is_users(value: Any, *, empty: bool = False) -> bool:
    """Whether it is an object of a class outside of torch and the standard library that holds tensors or lists, or may
    come to (`empty`): a cache of one's own. Configurations and tokenizers hold plain values."""
    if type(value).__module__.partition(".")[0] in ("torch", "builtins", "collections", "functools", "typing"):
        return type(value).__name__ == "deque"
    try:
        inside = vars(value).values()
    except TypeError:
        return False
    import torch

    held = [v for v in inside if isinstance(v, torch.Tensor | list | dict)]
    small = [isinstance(v, torch.Tensor) or _is_small(v) for v in held]
    return all(small) if empty else any(small)


MANY = 10_000
"""A container of more entries is a vocabulary or a data set, and is not looked through."""


def _is_small(container: Any) -> bool:
    return len(container) <= MANY


def _state(model: torch.nn.Module) -> dict[Place, list[Any]]:
    seen = {id(parameter) for parameter in parameters_of(model)}  # recurrent layers keep lists of theirs
    return {place: state_of(value, seen) for place, value in _held(model)}


def _matters(place: Place) -> bool:
    """Running statistics of a normalization change no step's work."""
    import torch

    module, _ = place
    return not isinstance(module, torch.nn.modules.batchnorm._NormBase)
