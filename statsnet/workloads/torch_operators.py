"""torch's operators by the names that signatures give them."""

from __future__ import annotations

from typing import Any

import torch


def overload(op: str) -> Any:
    """`aten.add.Tensor` -> torch.ops.aten.add.Tensor. Raises AttributeError for an unknown one."""
    namespace, name, variant = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), variant)


def find_overload(op: str) -> Any:
    """As `overload`; None for what this torch does not know."""
    try:
        return overload(op)
    except (AttributeError, RuntimeError, ValueError):
        return None
