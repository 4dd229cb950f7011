"""What models with two opposed networks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def frozen(*networks: nn.Module) -> Iterator[None]:
    """Gradients pass through these networks but do not reach their parameters.

    As where a generator is trained against a critic: the backward pass has no weight gradients of the critic.
    """
    for network in networks:
        network.requires_grad_(False)
    try:
        yield
    finally:
        for network in networks:
            network.requires_grad_(True)
