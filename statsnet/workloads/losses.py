"""The loss of a training step for workloads without their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError
from statsnet.workloads.trees import all_tensors

if TYPE_CHECKING:
    import torch

DIRECTION_SEED = 20181203


def tensors_in(outputs: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists, mappings (also library outputs) and dataclasses, in order."""
    import torch

    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, Mapping):
        for value in outputs.values():
            yield from tensors_in(value)
    elif isinstance(outputs, tuple | list):
        for value in outputs:
            yield from tensors_in(value)
    elif is_dataclass(outputs) and not isinstance(outputs, type):
        for item in fields(outputs):
            yield from tensors_in(getattr(outputs, item.name))


def own_loss(outputs: Any) -> torch.Tensor | None:
    """The loss that a model returns itself, None if it returns none.

    A differentiable scalar is a loss, as are an entry or attribute `loss` and the first of a tuple. A dictionary's
    losses are added up: the scalars whose names hold `loss`, or all if it holds nothing else to differentiate. So are a
    tuple's, if it holds nothing else.
    """
    if _is_loss(outputs):
        return outputs  # type: ignore[no-any-return]
    named = _named(outputs)
    if _is_loss(named.get("loss")):
        return named["loss"]  # type: ignore[no-any-return]
    losses = [value for name, value in named.items() if "loss" in str(name).lower() and _is_loss(value)]
    if losses:
        return _sum(losses)
    if isinstance(outputs, tuple | list) and outputs and _is_loss(outputs[0]) and not all(map(_is_loss, outputs)):
        return outputs[0]  # type: ignore[no-any-return]
    found = [tensor for tensor in tensors_in(outputs) if tensor.requires_grad]
    return _sum(found) if found and all(_is_loss(tensor) for tensor in found) else None


def total_loss(result: Any) -> Any:
    """What a loss function gave as one scalar: its losses added up, if it gave several."""
    loss = own_loss(result)
    return result if loss is None else loss


def _is_loss(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.is_floating_point() and value.requires_grad


def _named(outputs: Any) -> dict[Any, Any]:
    """The entries of a mapping, or the fields of a dataclass or an object."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if hasattr(outputs, "_asdict"):
        return dict(outputs._asdict())
    return dict(getattr(outputs, "__dict__", {}))


def _is_called_loss(loss: torch.Tensor, outputs: Any) -> bool:
    return loss is outputs or loss is _named(outputs).get("loss")


def _parameters_behind(outputs: list[torch.Tensor]) -> set[int]:
    """The identities of all leaves that these depend on."""
    stack = [output.grad_fn or output for output in outputs]
    seen: set[Any] = set(stack)
    leaves: set[int] = set()
    while stack:
        node: Any = stack.pop()
        variable = getattr(node, "variable", None if hasattr(node, "next_functions") else node)
        if variable is not None:
            leaves.add(id(variable))
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
    return leaves


def _sum(losses: list[torch.Tensor]) -> torch.Tensor:
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total


class ProjectionLoss:
    """The loss that the model returns itself. Else every differentiable output is projected onto a fixed random
    direction, and the projections are added up; they are added to a loss that is not called `loss` and does not depend
    on all that the other outputs depend on, as the one for a codebook's use beside a reconstruction.

    The gradient at an output of n elements is the direction over sqrt(n): dense, different for every element
    and of norm about 1, so that no part of the backward pass can be skipped. Each shape has one direction;
    `prepare` makes those for some outputs ahead of time.
    """

    def __init__(self) -> None:
        self._directions: dict[tuple[Any, ...], torch.Tensor] = {}
        self._worked = False
        self._own_is_whole: bool | None = None

    def prepare(self, outputs: Any) -> None:
        """Make the directions that these outputs will need."""
        for output in self._outputs(outputs):
            self._direction(output)

    def __call__(self, outputs: Any) -> torch.Tensor:
        """Scalar loss. Raises WorkloadError where no output depends on a parameter."""
        own = own_loss(outputs)
        if own is not None:
            self._worked = True
            if self._own_is_whole is None:  # once: going through the graph takes long
                self._own_is_whole = _is_called_loss(own, outputs) or _parameters_behind([own]) >= _parameters_behind(
                    [output for output in self._outputs(outputs) if output.requires_grad]
                )
            if self._own_is_whole:
                return own
        total = own
        for output in self._outputs(outputs):
            if output.requires_grad and not (own is not None and _is_loss(output)):
                part = (output * self._direction(output)).sum()
                total = part if total is None else total + part
        if total is None and self._worked:
            raise WorkloadError(
                "the model cannot be trained in every step",
                cause="in this step none of its outputs depends on a parameter, though in others they do: all of its "
                "layers were dropped at random, or a higher-order operator (torch.cond, scan) uses parameters that it "
                "does not get as operands, which shows only while operators are seen",
                hint="let some layer always run, write such operators with Python's if, or use --mode inference",
            )
        if total is None:
            raise WorkloadError(
                "the model cannot be trained",
                cause="its outputs depend on no parameter: forward runs under torch.no_grad(), detaches what it "
                "returns, or has no parameter in its way"
                if self._outputs(outputs)
                else "none of its outputs is a floating point tensor",
                hint="return a loss from the factory, use --mode inference, or wrap your own loop in statsnet.profile",
            )
        self._worked = True
        return total

    def _outputs(self, outputs: Any) -> list[torch.Tensor]:
        """The outputs to project, complex ones as pairs of real numbers, nested ones as all their rows, sharded ones as
        this process's part, which moves nothing. Objects are looked into where there is nothing else: what a library's
        output holds beside its tensors, such as a cache, is no output of the model."""
        import torch

        found = list(tensors_in(outputs)) or list(all_tensors(outputs))
        parts = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in found]
        plain = [tensor.values() if tensor.is_nested else tensor for tensor in parts]
        real = [torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor for tensor in plain]
        return [tensor for tensor in real if tensor.is_floating_point()]

    def _direction(self, output: torch.Tensor) -> torch.Tensor:
        import torch

        key = (tuple(output.shape), output.dtype, output.device)
        if key not in self._directions:
            generator = torch.Generator().manual_seed(DIRECTION_SEED)
            # The device is said because a user may have set another default.
            direction = torch.randn(output.shape, generator=generator, device="cpu") / max(output.numel(), 1) ** 0.5
            self._directions[key] = direction.to(output.device, output.dtype)
        return self._directions[key]
