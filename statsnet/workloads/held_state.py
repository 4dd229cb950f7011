"""What a model holds beside its parameters: what its modules hold, and what their code keeps outside of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from statsnet.workloads.outside_state import Place, is_own_class, outside_places
from statsnet.workloads.snapshots import Snapshot
from statsnet.workloads.trees import attributes_of, is_data_parallel, parameters_of, state_of

if TYPE_CHECKING:
    import torch

NOT_THERE = object()
PLAIN = (int, float, str)
COUNTS = (int, str)
"""A whole number or a word may count steps. A fraction is a rate that decays, or a time."""

_OF_WRAPPERS = "__composable_api_state_key"
"""Under such names fully_shard and others of torch's wrappers keep the parameters that they hand out."""

MANY = 10_000
"""A container of more entries is a vocabulary or a data set, and is not looked through."""


class HeldState:
    """The places where a model and the functions beside it, such as a loss, hold what is not a parameter."""

    def __init__(self, model: torch.nn.Module, others: Iterable[Any]) -> None:
        self._model = model
        self._outside = outside_places(model, others)

    def snapshots(self) -> dict[Place, Snapshot]:
        """What each place holds now. Objects of classes of one's own may hold nothing yet."""
        return {place: _snapshot(value) for place, value in [*_of_modules(self._model), *self._values_outside()]}

    def state(self) -> dict[Place, list[Any]]:
        """What tells whether a step changed what is held: `same_state` compares that of a place."""
        seen = {id(parameter) for parameter in parameters_of(self._model)}  # recurrent layers keep lists of theirs
        there = [*_of_modules(self._model), *self._values_outside()]
        return {
            place: state_of(value, seen)
            for place, value in there
            if _may_change(value) or _is_users(value) or _holds_only(value, PLAIN)
        }

    def values(self) -> list[Any]:
        """What each place holds now, of whatever kind."""
        outside = map(_held_at, self._outside)
        return [*(value for _, value in _of_modules(self._model)), *outside]

    def _values_outside(self) -> list[tuple[Place, Any]]:
        there = [(place, _held_at(place)) for place in self._outside]
        return [(place, value) for place, value in there if _is_of_interest(value)]


def _held_at(place: Place) -> Any:
    try:
        return getattr(*place, NOT_THERE)
    except Exception:  # a descriptor of one's own
        return NOT_THERE


def _snapshot(value: Any) -> Snapshot:
    return Snapshot.of(value) if _may_change(value) or _is_users(value, empty=True) else Snapshot(value)


def is_count(value: Any) -> bool:
    """Whether it may count steps: a whole number, a word, or an object of a class of one's own that holds only such."""
    return _holds_only(value, COUNTS)


def _holds_only(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, kinds):
        return True
    is_own = not isinstance(value, type) and is_own_class(type(value))
    return is_own and all(isinstance(inner, kinds) for inner in (attributes_of(value) or {}).values())


def _is_of_interest(value: Any) -> bool:
    """Of what lies outside of modules: what people's own code may change from step to step."""
    if isinstance(value, list | dict | tuple | set | deque) and len(value) > MANY:
        return False
    return _may_change(value) or isinstance(value, PLAIN) or is_own_class(type(value))


def _may_change(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor | list | dict | tuple | set | deque | type(None))


def _of_modules(model: torch.nn.Module) -> list[tuple[Place, Any]]:
    """The attributes and buffers of each module, without those of every module."""
    import torch

    usual = vars(torch.nn.Module()).keys()
    found: list[tuple[Place, Any]] = []
    handed_out = _handed_out(model)
    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        torchs = _names_in_torch(type(module)) if is_data_parallel(module) else usual
        own = {n: value for n, value in vars(module).items() if n not in torchs and n not in usual}
        items = {**own, **module._buffers}.items()
        found += [((module, name), value) for name, value in items if not name.startswith(_OF_WRAPPERS)]
    return [(place, value) for place, value in found if place not in handed_out]


def _names_in_torch(kind: type) -> set[str]:
    """What torch's own part of a wrapper's class names."""
    theirs = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "torch"]
    codes = [f.__code__ for base in theirs for f in vars(base).values() if hasattr(f, "__code__")]
    return {name for code in codes for name in code.co_names}


def _handed_out(model: torch.nn.Module) -> set[Place]:
    """Where the older FullyShardedDataParallel puts parts of its flat parameters."""
    flat = [getattr(module, "_flat_param", None) for module in model.modules()]
    return {(info.module, info.param_name) for each in flat for info in getattr(each, "_param_infos", ())}


def _is_users(value: Any, *, empty: bool = False) -> bool:
    """Whether it is an object of a class outside of torch and the standard library that holds tensors or lists, or may
    come to (`empty`): a cache of one's own. Configurations and tokenizers hold plain values."""
    if type(value).__module__.partition(".")[0] in ("torch", "builtins", "collections", "functools", "typing"):
        return False
    try:
        inside = vars(value).values()
    except TypeError:
        return False
    import torch

    held = [v for v in inside if isinstance(v, torch.Tensor | list | dict)]
    small = [isinstance(v, torch.Tensor) or len(v) <= MANY for v in held]
    return all(small) if empty else any(small)
