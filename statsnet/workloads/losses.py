"""The loss of a training step for workloads without their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from statsnet.errors import WorkloadError

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


class ProjectionLoss:
    """Projects every differentiable output onto a fixed random direction and adds the projections up.

    The gradient at an output of n elements is the direction over sqrt(n): dense, different for every element
    and of norm about 1, so that no part of the backward pass can be skipped. Each shape has one direction;
    `prepare` makes those for some outputs ahead of time.
    """

    def __init__(self) -> None:
        self._directions: dict[tuple[Any, ...], torch.Tensor] = {}

    def prepare(self, outputs: Any) -> None:
        """Make the directions that these outputs will need."""
        for output in tensors_in(outputs):
            if output.is_floating_point():
                self._direction(output)

    def __call__(self, outputs: Any) -> torch.Tensor:
        """Scalar loss. Raises WorkloadError where no output depends on a parameter."""
        total: torch.Tensor | None = None
        for output in tensors_in(outputs):
            if output.is_floating_point() and output.requires_grad:
                part = (output * self._direction(output)).sum()
                total = part if total is None else total + part
        if total is None:
            raise WorkloadError(
                "the model cannot be trained",
                cause="none of its outputs is a floating point tensor that depends on a parameter",
                hint="return a loss from the factory, or use --mode inference",
            )
        return total

    def _direction(self, output: torch.Tensor) -> torch.Tensor:
        import torch

        key = (tuple(output.shape), output.dtype, output.device)
        if key not in self._directions:
            generator = torch.Generator().manual_seed(DIRECTION_SEED)
            direction = torch.randn(output.shape, generator=generator) / max(output.numel(), 1) ** 0.5
            self._directions[key] = direction.to(output.device, output.dtype)
        return self._directions[key]
