"""Optimizers by name, with the settings under which the reference models were published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from statsnet.errors import UsageError, WorkloadError, one_of
from statsnet.signatures.public_names import safe_optimizer
from statsnet.workloads.stepping import optimizers_in

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 1e-6
"""Small, so that thousands of steps on one batch stay finite. A step's time does not depend on it."""

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd_momentum": ("SGD", {"momentum": 0.9, "weight_decay": 1e-4}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {"weight_decay": 0.01}),
    "adagrad": ("Adagrad", {}),
    "rmsprop": ("RMSprop", {"momentum": 0.9}),
}
"""Name -> class in torch.optim and the settings that decide which operators run."""

OTHER_OPERATORS = (
    "nesterov", "amsgrad", "centered", "maximize", "fused", "foreach", "capturable", "differentiable"
)  # fmt: skip
"""Settings of torch's optimizers with which other operators run."""

TAKES_SPARSE = ("sgd", "adagrad")


def name_of(optimizer: Any) -> str:
    """The name in SETTINGS under which the same operators run; else that of the class, if a library publishes it; else
    "custom", also if it is set in another way. The group with the most parameters counts."""
    if not (type(optimizer).__module__.startswith("torch.optim") and hasattr(optimizer, "param_groups")):
        return "custom"  # a user's own, or a scheduler
    public = safe_optimizer(type(optimizer).__name__)
    set_to = max(optimizer.param_groups, key=lambda group: len(group["params"]))
    for name, (kind, settings) in SETTINGS.items():
        like = {"weight_decay": 0, "momentum": 0, **settings}
        same = all(bool(set_to.get(key)) == bool(value) for key, value in like.items())
        if type(optimizer).__name__ == kind and same and not any(set_to.get(key) for key in OTHER_OPERATORS):
            return name
    return "custom" if public in SETTINGS else public


def make_optimizer(
    optimizer: str | Callable[[Iterable[Any]], Any] | Any, parameters: list[Any], *, sparse: bool
) -> Any:
    """A torch optimizer from a name of `SETTINGS`, what a function of the parameters makes, or itself.

    Raises UsageError for an unknown name, or if the model has sparse gradients and the optimizer cannot take them;
    WorkloadError if the user's function fails.
    """
    import torch

    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    if isinstance(optimizer, str):
        if optimizer not in SETTINGS:
            raise UsageError(f"there is no optimizer '{optimizer}'", hint=one_of(optimizer, SETTINGS))
        if sparse and optimizer not in TAKES_SPARSE:
            raise UsageError(
                f"{optimizer} does not take sparse gradients",
                cause="the model has embeddings with sparse gradients",
                hint=f"--optimizer {' or '.join(TAKES_SPARSE)}, or --set sparse=false where it takes that",
            )
        if sparse:  # the default, set explicitly: else torch warns when an optimizer makes a sparse tensor
            torch.sparse.check_sparse_tensor_invariants.disable()
        kind, settings = SETTINGS[optimizer]
        named: torch.optim.Optimizer = getattr(torch.optim, kind)(parameters, lr=LEARNING_RATE, **settings)
        return named
    if not _is_function(optimizer):
        return optimizer
    try:
        return optimizer(parameters)
    except Exception as error:
        raise WorkloadError("the optimizer could not be made", cause=f"{type(error).__name__}: {error}") from error


def _is_function(optimizer: Any) -> bool:
    """Whether it makes an optimizer, rather than being one or several."""
    if isinstance(optimizer, list | tuple | dict):
        return False
    return isinstance(optimizer, type) or not callable(getattr(optimizer, "step", None))


@contextmanager
def parameters_kept(optimizer: Any, modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Where modules get new parameters meanwhile, optimizers that were made with the old ones step the new ones:
    torch's own among what `optimizer` holds."""
    optimizers = list(optimizers_in(optimizer, set()))
    if not optimizers:
        yield
        return
    before = [dict(module.named_parameters()) for module in modules]
    yield
    after = [dict(module.named_parameters()) for module in modules]
    new = {id(old): now[name] for then, now in zip(before, after, strict=True) for name, old in then.items()}
    for each in optimizers:
        for group in each.param_groups:
            group["params"][:] = [new.get(id(parameter), parameter) for parameter in group["params"]]
        for old in [parameter for parameter in each.state if id(parameter) in new]:
            each.state[new[id(old)]] = each.state.pop(old)
