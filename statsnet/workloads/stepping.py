"""One step of whatever optimizes a model: anything with `step`, several of them, and their schedulers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError
from statsnet.workloads.tree_copies import copied
from statsnet.workloads.trees import all_tensors

if TYPE_CHECKING:
    import torch

STEP_HINT = "return an object with step(), or a list of such objects; zero_grad() is called where there is one"


class Stepper:
    """The optimizers and schedulers of a workload behind one interface.

    `made` is one object with `step`, or a list, tuple or dictionary of them. What has `zero_grad` or takes a closure
    is an optimizer; anything else is a scheduler, and steps after the optimizers. Gradients that no optimizer clears
    are cleared here. Raises WorkloadError for anything without `step`, and for several optimizers that need a closure.
    """

    def __init__(self, made: Any, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        parts = list(_flat(made))
        if not parts or any(not callable(getattr(part, "step", None)) for part in parts):
            odd = next((type(part).__name__ for part in parts if not callable(getattr(part, "step", None))), "nothing")
            raise WorkloadError("the optimizer could not be made", cause=f"{odd} has no step()", hint=STEP_HINT)
        self._schedulers = [part for part in parts if _is_scheduler(part)] if len(parts) > 1 else []
        if len(self._schedulers) == len(parts):  # nothing but step(): then they are optimizers
            self._schedulers = []
        self._optimizers = [part for part in parts if not any(part is other for other in self._schedulers)]
        self._asking: list[Any] = []
        self._closures = [part for part in self._optimizers if len(_required(part.step)) == 1]
        if self._closures and len(self._optimizers) > 1:
            raise WorkloadError(
                f"{type(self._closures[0]).__name__} needs a closure and is not the only optimizer",
                cause="each would run the step's forward and backward again, and the others do not know of it",
                hint="train with that optimizer alone, or leave it out",
            )

    @property
    def parts(self) -> list[Any]:
        """All that steps."""
        return [*self._optimizers, *self._schedulers]

    @property
    def only_optimizer(self) -> Any | None:
        """None if there are several."""
        return self._optimizers[0] if len(self._optimizers) == 1 else None

    @property
    def needs_closure(self) -> bool:
        """Whether the optimizer itself runs forward and backward, as LBFGS does."""
        return bool(self._closures)

    def zero_grad(self) -> None:
        """Clear the gradients, so that backward allocates them anew, where the optimizer allows it."""
        for part in self._optimizers:
            clear = getattr(part, "zero_grad", None)
            if callable(clear):
                clear(**({"set_to_none": True} if _takes(clear, "set_to_none") else {}))
        if not any(callable(getattr(part, "zero_grad", None)) for part in self._optimizers):
            for parameter in self._parameters:
                parameter.grad = None

    def step(
        self,
        closure: Callable[[], torch.Tensor] | None = None,
        loss: torch.Tensor | None = None,
        again: Callable[[], torch.Tensor] | None = None,
    ) -> Any:
        """Step the optimizers, then the schedulers; one that asks for a metric gets the loss. Gives what the optimizer
        gives: after a closure, a loss. An optimizer that has gradients and will not step without a closure (SAM) gets
        `again`."""
        result = None
        for part in self._optimizers:
            given = again if any(part is asking for asking in self._asking) else closure
            try:
                result = part.step(given) if given is not None else part.step()
            except Exception as error:
                if given is not None or again is None or "closure" not in str(error):
                    raise
                self._asking.append(part)
                result = part.step(again)
        for part in self._schedulers:
            if _required(part.step):
                part.step(loss.detach() if loss is not None else result)
            else:
                part.step()
        return result

    def state(self) -> list[torch.Tensor] | None:
        """The tensors that the optimizers keep, each once; None if no state can be found."""
        import torch

        keeping = [part for part in self._optimizers if isinstance(part, torch.optim.Optimizer)]
        found: list[Any] = [optimizer.state for optimizer in keeping]
        for part in self._optimizers:
            if not isinstance(part, torch.optim.Optimizer):
                inner = list(optimizers_in(part, set()))
                found += [optimizer.state for optimizer in inner] or [vars(part) if hasattr(part, "__dict__") else {}]
                keeping += inner
        own = {id(tensor) for parameter in self._parameters for tensor in (parameter, parameter.grad)}
        groups = {id(t) for optimizer in keeping for group in optimizer.param_groups for t in group["params"]}
        tensors = [t for t in all_tensors(found) if id(t) not in own | groups]
        return tensors if tensors or keeping else None

    def kept(self) -> Callable[[], None]:
        """What puts the parameters and the states of torch's optimizers back to what they are now."""
        import torch

        optimizers = [inner for part in self._optimizers for inner in optimizers_in(part, set())]
        states = [copied(optimizer.state) for optimizer in optimizers]
        values = [parameter.detach().clone() for parameter in self._parameters]

        def put_back() -> None:
            with torch.no_grad():
                for parameter, value in zip(self._parameters, values, strict=True):
                    parameter.copy_(value)
            for optimizer, state in zip(optimizers, states, strict=True):
                optimizer.state = copied(state)

        return put_back


def _flat(made: Any) -> Iterator[Any]:
    if isinstance(made, Mapping):
        made = list(made.values())
    if isinstance(made, list | tuple):
        for part in made:
            yield from _flat(part)
    elif made is not None and not isinstance(made, str | int | float | bool):  # options beside a scheduler
        yield made


def _is_scheduler(part: Any) -> bool:
    import torch

    known = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    return isinstance(part, known) or not (
        isinstance(part, torch.optim.Optimizer)
        or callable(getattr(part, "zero_grad", None))
        or _takes(part.step, "closure")
        or hasattr(part, "param_groups")
    )


def _required(function: Callable[..., Any]) -> list[str]:
    """Names of the arguments that a call must give. (A step that a scheduler has wrapped shows its `self` too.)"""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    return [name for name in needed if name != "self"]


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters


def optimizers_in(value: Any, seen: set[int]) -> Iterator[torch.optim.Optimizer]:
    """torch's optimizers among an object's attributes, in their lists and in what those hold."""
    import torch

    if id(value) in seen or isinstance(value, torch.Tensor | torch.nn.Module | str | int | float | type(None)):
        return
    seen.add(id(value))
    if isinstance(value, torch.optim.Optimizer):
        yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple | set):
        inside = value
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not inspect.isroutine(value):
        inside = vars(value).values()
    for part in list(inside):
        yield from optimizers_in(part, seen)
